"""Components against scipy's."""

import numpy as np
from hypothesis import given
from scipy.sparse.csgraph import connected_components

from nodewise.graph import synthetic
from nodewise.graph.components import component_sizes
from oracles import graphs


def oracle(graph):
    _, member = connected_components(graph.to_scipy(), directed=False)
    return sorted(np.bincount(member).tolist())


@given(graphs(max_nodes=20))
def test_components_are_those_of_scipy(graph):
    assert sorted(component_sizes(graph.indptr, graph.indices).tolist()) == oracle(graph)
    assert sorted(component_sizes(graph.indptr, graph.indices.astype(np.uint64)).tolist()) == oracle(graph)


def test_components_of_a_sparse_random_graph():
    graph = synthetic.dcsbm(20_000, avg_degree=1.2, classes=3, seed=0)
    assert sorted(component_sizes(graph.indptr, graph.indices).tolist()) == oracle(graph)
