"""SGC: its rows are the K-th power of the symmetric adjacency times the features."""

import numpy as np
import pytest
from dense_oracles import all_rows, propagation, weighted_graph

from nodewise.graph import synthetic
from nodewise.lab.rivals.sgc import SGC


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_rows_are_a_power_of_the_adjacency_times_the_features(hops):
    graph = synthetic.dcsbm(80, avg_degree=6, classes=2, features=5, seed=1)
    nodes = np.array([7, 3, 7, 60])
    expected = np.linalg.matrix_power(propagation(graph), hops) @ graph.features
    assert np.allclose(SGC(hops=hops).rows(graph, nodes), expected[nodes], atol=1e-5)


def test_edge_weights_and_feature_norms_count():
    graph = weighted_graph()
    features = graph.features / np.abs(graph.features).sum(1, keepdims=True)
    expected = np.linalg.matrix_power(propagation(graph), 2) @ features
    assert np.allclose(all_rows(SGC(feature_norm="l1"), graph), expected, atol=1e-5)


def test_blocks_of_columns_make_the_same_rows():
    graph = synthetic.dcsbm(200, avg_degree=6, classes=2, features=12, seed=1)
    assert len(SGC(memory=10_000).blocks(graph)) > 1
    assert np.allclose(all_rows(SGC(memory=10_000), graph), all_rows(SGC(), graph), atol=1e-6)
