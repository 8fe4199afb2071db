"""Steps and edges between a few nodes, against networkx."""

import networkx
import numpy as np
import pytest

from nodewise import Graph
from nodewise.explaining import neighbourhood
from nodewise.explaining.neighbourhood import edges_among, hops_from


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    hub = np.stack([np.zeros(150, int), np.arange(1, 151)])  # longer than the lists that are looked up in it
    return Graph.from_edges(np.concatenate([hub, rng.integers(0, 400, (2, 500))], 1), 400)


@pytest.mark.parametrize("entries", [1 << 22, 7])
def test_hops_go_through_the_nodes_found_and_no_others(graph, entries, monkeypatch):
    monkeypatch.setattr(neighbourhood, "ENTRIES", entries)
    found = np.sort(np.random.default_rng(1).choice(400, 120, replace=False))
    plain = networkx.from_scipy_sparse_array(graph.to_scipy()).subgraph(found.tolist())
    for node in found[:5]:
        steps = networkx.single_source_shortest_path_length(plain, node)
        assert hops_from(graph, node, found, np.ones(120, bool)).tolist() == [steps.get(v, -1) for v in found]


def test_hops_end_once_those_wanted_are_known(graph):
    found = np.arange(400)
    wanted = np.isin(found, [0])
    hops = hops_from(graph, int(graph.indices[graph.indptr[0] + 1]), found, wanted)
    assert hops[0] == 1
    assert hops.max() == 1


def test_edges_are_those_of_the_induced_graph(graph):
    nodes = np.random.default_rng(2).permutation(400)[:60]
    nodes[0] = 0
    nodes = np.unique(nodes)[::-1].copy()
    plain = graph.to_scipy()[nodes][:, nodes]
    assert set(edges_among(graph, nodes)) == {(a, b) for a, b in zip(*plain.nonzero(), strict=True) if a < b}
