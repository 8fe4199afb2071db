"""NDLS: how many hops each node takes, and what is averaged over them."""

import numpy as np
import pytest
import scipy.sparse as sp

from nodewise.diffusion.exact import Task
from nodewise.graph import synthetic
from nodewise.lab.rivals.ndls import NDLS, smoothing_hops


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(120, avg_degree=5, classes=2, features=70, signal=3.0, seed=4)


def brute_force(graph, features, epsilon, most):
    """K(v) and the mean row of each node, one node at a time."""
    adjacency = sp.csr_matrix((np.ones(graph.indices.size), graph.indices, graph.indptr)).toarray()
    walk = adjacency / adjacency.sum(1, keepdims=True)
    stationary = adjacency.sum(1) / adjacency.sum() @ features
    powers = [features]
    for _ in range(most):
        powers.append(walk @ powers[-1])
    hops, rows = [], []
    for v in range(graph.num_nodes):
        near = [k for k in range(most + 1) if np.linalg.norm(stationary - powers[k][v]) < epsilon]
        hops.append(near[0] if near else most)
        rows.append(np.mean([powers[k][v] for k in range(hops[-1] + 1)], axis=0))
    return np.array(hops), np.array(rows)


@pytest.mark.parametrize("norm", ["none", "l1"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_hops_and_rows_are_those_of_brute_force(graph, norm, kind):
    features = np.asarray(graph.features, np.float64)
    if norm == "l1":
        features = features / np.abs(features).sum(1, keepdims=True)
    distance = np.linalg.norm(features - features.mean(0), axis=1).mean()
    given = graph.replace(features=kind(graph.features))
    nodes = np.array([5, 80, 5, 33, *range(90, 120)])
    for epsilon in (0.1 * distance, 0.3 * distance, 2.0 * distance):
        hops, rows = brute_force(graph, features, epsilon, 12)
        scales = None if norm == "none" else (1 / np.abs(graph.features).sum(1)).astype(np.float32)
        for threads in (1, 2):
            task = Task(given, nodes, nodes, np.ones(13), threads, 1 << 30, scales)
            assert np.array_equal(smoothing_hops(task, given.features, epsilon), hops[nodes])
        model = NDLS(epsilon=epsilon, hops=12, feature_norm=norm)
        assert np.allclose(model.rows(given, nodes), rows[nodes], atol=1e-5)
    assert len(set(brute_force(graph, features, 0.3 * distance, 12)[0])) > 2  # nodes differ in what they take


def test_probabilities_are_smoothed_in_the_same_way(graph):
    train, val = np.arange(40), np.arange(40, 60)
    plain = NDLS(label_hops=0, epochs=5).fit(graph, train, val)
    both = NDLS(label_hops=7, label_epsilon=0.02, epochs=5).fit(graph, train, val)
    expected = brute_force(graph, plain.predict_proba(graph).astype(np.float64), 0.02, 7)[1]
    assert np.allclose(both.predict_proba(graph, [3, 99]), expected[[3, 99]], atol=1e-5)
    assert both.val_f1_ == both.score(graph, val)
