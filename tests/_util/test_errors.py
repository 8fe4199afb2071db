"""What a warning points at."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

from nodewise import NIGCN, NodewiseWarning, import_graph
from nodewise.graph import synthetic


def line_of(told):
    [one] = [warning for warning in told if warning.category is NodewiseWarning]
    return linecache.getline(one.filename, one.lineno).strip()


def test_a_warning_points_at_the_line_of_the_user_that_led_to_it():
    graph = synthetic.dcsbm(200, avg_degree=6, classes=2, features=8, seed=0)
    one_class, other = (np.flatnonzero(graph.labels == label)[:5] for label in (0, 1))
    with pytest.warns(NodewiseWarning, match="no training node") as told:
        NIGCN(omega=1.0, rho=0.5, tau=1.0, epochs=1).fit(graph, one_class, other)  # here
    assert line_of(told).endswith("# here")


def test_however_deep_it_was_found(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,year\n0,1,1999\n")
    with pytest.warns(NodewiseWarning, match="taken as the weight") as told:
        import_graph(tmp_path / "edges.csv")  # here
    assert line_of(told).endswith("# here")
