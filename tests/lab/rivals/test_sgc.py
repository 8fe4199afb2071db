"""SGC: its rows are the K-th power of the symmetric adjacency times the features."""

import numpy as np
import pytest
import scipy.sparse as sp

from nodewise import Graph, InputError
from nodewise.graph import synthetic
from nodewise.lab.rivals.sgc import SGC


def all_rows(model, graph):
    return model.rows(graph, np.arange(graph.num_nodes))


def symmetric(graph):
    weights = np.ones(graph.indices.size) if graph.edge_weight is None else graph.edge_weight
    adjacency = sp.csr_matrix((weights, graph.indices, graph.indptr), shape=[graph.num_nodes] * 2).toarray()
    root = np.sqrt(adjacency.sum(1))
    return adjacency / root[:, None] / root


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_rows_are_a_power_of_the_adjacency_times_the_features(hops):
    graph = synthetic.dcsbm(80, avg_degree=6, classes=2, features=5, seed=1)
    nodes = np.array([7, 3, 7, 60])
    expected = np.linalg.matrix_power(symmetric(graph), hops) @ graph.features
    assert np.allclose(SGC(hops=hops).rows(graph, nodes), expected[nodes], atol=1e-5)


def test_edge_weights_and_feature_norms_count():
    rng = np.random.default_rng(0)
    matrix = sp.random(30, 30, 0.1, random_state=1)
    graph = Graph.from_scipy(matrix + matrix.T, rng.random((30, 4), np.float32))
    features = graph.features / graph.features.sum(1, keepdims=True)
    expected = np.linalg.matrix_power(symmetric(graph), 2) @ features
    assert np.allclose(all_rows(SGC(feature_norm="l1"), graph), expected, atol=1e-5)


def test_blocks_of_columns_make_the_same_rows():
    graph = synthetic.dcsbm(200, avg_degree=6, classes=2, features=12, seed=1)
    assert len(SGC(memory=10_000).blocks(graph)) > 1
    assert np.allclose(all_rows(SGC(memory=10_000), graph), all_rows(SGC(), graph), atol=1e-6)


def test_hops_are_checked():
    graph = synthetic.dcsbm(30, avg_degree=6, classes=2, features=5, seed=1)
    with pytest.raises(InputError, match="hops=-1"):
        SGC(hops=-1).fit(graph, range(10))
