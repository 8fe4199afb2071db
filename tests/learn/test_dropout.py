"""Fast dropout: the right share, the mean kept, no pattern between draws."""

import numpy as np
import pytest
import torch

from nodewise.learn.heads import LEVELS, dropout


@pytest.mark.parametrize("share", [0.1, 0.5, 0.85])
def test_the_share_is_dropped_and_the_mean_kept(share):
    torch.manual_seed(0)
    count = 1_000_000
    out = dropout(torch.ones(count), share)
    # Five standard errors: a false alarm in 2 million runs.
    assert float((out == 0).double().mean()) == pytest.approx(share, abs=5 * (share * (1 - share) / count) ** 0.5)
    assert set(np.unique(out.numpy())) == {np.float32(0), np.float32(LEVELS / (LEVELS - round(share * LEVELS)))}


def test_draws_differ_and_a_seed_repeats_them():
    numbers = torch.arange(1.0, 4097.0).reshape(64, 64)
    torch.manual_seed(1)
    first, second = dropout(numbers, 0.5), dropout(numbers, 0.5)
    torch.manual_seed(1)
    assert torch.equal(dropout(numbers, 0.5), first)
    agree = float(((first == 0) == (second == 0)).double().mean())
    assert agree == pytest.approx(0.5, abs=5 * (0.25 / 4096) ** 0.5)


def test_the_gradient_is_that_of_the_mask():
    numbers = torch.ones(1000, requires_grad=True)
    torch.manual_seed(2)
    out = dropout(numbers, 0.5)
    out.sum().backward()
    assert torch.equal(numbers.grad, out.detach())
