"""The Python of docs/learning.md, run on a small graph in place of the one that it names."""

import re
from pathlib import Path

import numpy as np

import nodewise as nw

PAGE = Path(__file__).parents[2] / "docs" / "learning.md"


def test_the_examples_run(monkeypatch, capsys):
    """Each continues where the one before ended, as a reader would type them."""
    graph = nw.synthetic.dcsbm(400, avg_degree=10, classes=3, homophily=0.9, features=16, signal=2.0, seed=0)
    monkeypatch.setattr(nw, "load", lambda name: graph)
    monkeypatch.setattr(nw.NIGCN.__init__, "__kwdefaults__", {**nw.NIGCN.__init__.__kwdefaults__, "epochs": 10})
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 2
    place: dict = {}
    for block in blocks:
        exec(block, place)
    said = capsys.readouterr().out
    assert "estimator__teach" in said
    assert np.mean(place["sets"].sum(1)) >= 0.9
