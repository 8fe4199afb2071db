"""Small graphs with names."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from nodewise import Graph
from nodewise.cli import main

settings.register_profile(
    "nodewise", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("nodewise")


@pytest.fixture
def star():
    return Graph.from_edges(np.array([[0, 0, 0, 0], [1, 2, 3, 4]]))


@pytest.fixture
def path():
    return Graph.from_edges(np.array([[0, 1, 2, 3], [1, 2, 3, 4]]))


@pytest.fixture
def two_islands():
    return Graph.from_edges(np.array([[0, 1, 2, 4], [1, 2, 0, 5]]), num_nodes=7)


@pytest.fixture
def weighted_triangle():
    return Graph.from_edges(np.array([[0, 1, 2], [1, 2, 0]]), edge_weight=np.array([1.0, 2.0, 5.0]))


@pytest.fixture
def lollipop():
    """A clique with a tail: degrees and depths that differ."""
    clique = [(a, b) for a in range(5) for b in range(a)]
    return Graph.from_edges(np.array([*clique, (4, 5), (5, 6), (6, 7)]).T)


@pytest.fixture
def data_dir():
    """The folder of real graphs, where there is one."""
    folder = os.environ.get("NODEWISE_DATA")
    if not folder:
        pytest.skip("NODEWISE_DATA is not set")
    return Path(folder)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run ``nodewise ARGS``; returns the exit code, stdout and stderr."""
    logger = logging.getLogger("nodewise")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["nodewise", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call
