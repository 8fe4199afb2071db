"""AGP: what it estimates, that it is right in the mean, and how much it varies."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from dense_oracles import all_rows, propagation, weighted_graph

from nodewise import Graph
from nodewise.graph import synthetic
from nodewise.lab.rivals.agp import AGP


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(150, avg_degree=6, classes=2, features=6, seed=4)


def exact_sum(graph, model, features=None):
    matrix = propagation(graph, model.a, model.b)
    rows = np.asarray(graph.features if features is None else features, np.float64)
    total = np.zeros_like(rows)
    for weight in model.hop_weights():
        total += weight * rows
        rows = matrix @ rows
    return total


def test_weights_are_those_of_pagerank_and_of_the_heat_kernel():
    ppr, heat = AGP(alpha=0.2, hops=8).hop_weights(), AGP(weights="heat", t=2.0, hops=8).hop_weights()
    assert np.allclose(ppr[:8], [0.2 * 0.8**l for l in range(8)])
    assert np.allclose(heat[:8], [math.exp(-2) * 2**l / math.factorial(l) for l in range(8)])
    assert np.isclose(ppr.sum(), 1)
    assert np.isclose(heat.sum(), 1)


@pytest.mark.parametrize("shape", [{}, {"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 0.0}, {"weights": "heat", "t": 4.0}])
def test_pushes_alone_are_exact(graph, shape):
    model = AGP(epsilon=1e-12, **shape)
    assert np.allclose(all_rows(model, graph), exact_sum(graph, model), atol=1e-4)


@pytest.mark.parametrize("shape", [{}, {"a": 0.8, "b": 0.2, "weights": "heat"}])
@pytest.mark.parametrize("epsilon", [1e-2, 3e-4])
def test_it_is_right_in_the_mean_and_varies_no_more_than_its_bound(graph, shape, epsilon):
    """The mean over seeds is within six standard errors everywhere: a false alarm in fewer than 1e-5 of runs."""
    models = [AGP(epsilon=epsilon, hops=10, seed=seed, **shape) for seed in range(300)]
    found = np.stack([all_rows(model, graph) for model in models])
    spread = found.std(0) / np.sqrt(len(models))
    assert spread.max() > 1e-4  # something is drawn
    assert (np.abs(found.mean(0) - exact_sum(graph, models[0])) <= 6 * spread + 1e-4).all()
    sizes = np.abs(graph.features).sum(0)
    bound = 10 * 11 / 2 * epsilon * sizes * exact_sum(graph, models[0], np.abs(graph.features))
    assert (found.var(0) <= bound).all()


def test_neighbours_are_drawn_apart_from_each_other(graph):
    """In a star the centre's shares are drawn for each leaf by itself: their number is binomial, not all or none."""
    leaves = np.arange(1, 101)
    star = Graph.from_edges(np.stack([np.zeros(100, int), leaves]), 101, np.eye(101, 1, dtype=np.float32))
    model = AGP(a=0.0, b=1.0, hops=1, alpha=0.5, epsilon=0.02)  # of 1/2, each of 101 gets 1/202, or 0.02 in 1 of 4
    counts = [int((all_rows(model.set_params(seed=s), star)[1:] > 0).sum()) for s in range(400)]
    expected, deviation = 100 * 0.5 / 101 / 0.02, math.sqrt(100 * 0.2475 * 0.7525)
    assert abs(np.mean(counts) - expected) < 6 * deviation / math.sqrt(400)
    assert 0.7 < np.std(counts) / deviation < 1.3  # of 400 draws: ten standard errors


def test_weighted_edges_count():
    weighted = weighted_graph()
    found = np.stack([all_rows(AGP(epsilon=5e-3, seed=seed), weighted) for seed in range(200)])
    error = np.abs(found.mean(0) - exact_sum(weighted, AGP()))
    assert (error <= 6 * found.std(0) / np.sqrt(200) + 1e-4).all()


def test_a_row_depends_on_nothing_else_that_is_asked(graph):
    model = AGP(threads=1)
    rows = all_rows(model, graph)
    assert np.array_equal(model.rows(graph, np.array([9, 4, 9])), rows[[9, 4, 9]])
    assert np.array_equal(all_rows(AGP(threads=2, memory=20_000), graph), rows)
    sparse = graph.replace(features=sp.csr_matrix(graph.features))
    assert np.array_equal(all_rows(model, sparse), rows)
