"""Our Adam against torch's."""

import subprocess
import sys

import torch

from nodewise.learn.adam import Adam


def test_it_takes_the_steps_that_torchs_adam_takes():
    torch.manual_seed(0)
    data = torch.randn(20, 8)
    ours, theirs = torch.nn.Linear(8, 3), torch.nn.Linear(8, 3)
    theirs.load_state_dict(ours.state_dict())
    optimizers = (
        (ours, Adam(ours.parameters(), 0.03, 0.01)),
        (theirs, torch.optim.Adam(theirs.parameters(), lr=0.03, weight_decay=0.01)),
    )
    for _ in range(50):
        for model, optimizer in optimizers:
            model.zero_grad()
            model(data).square().sum().backward()
            optimizer.step()
        assert torch.allclose(ours.weight, theirs.weight, rtol=1e-5, atol=1e-6)
        assert torch.allclose(ours.bias, theirs.bias, rtol=1e-5, atol=1e-6)


def test_training_does_not_load_torchs_compiler():
    """It would add more than a second to every run of the command line."""
    code = (
        "import sys, nodewise as nw; g = nw.synthetic.dcsbm(200, 5, 2, features=4);"
        "nw.NIGCN(epochs=3).fit(g, range(20), range(20, 50)); print('torch._dynamo' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"
