"""GBP: what it estimates, how far off it may be, and that it is right in the mean."""

import numpy as np
import pytest
import scipy.sparse as sp
from dense_oracles import all_rows, pagerank, propagation, weighted_graph

from nodewise.graph import synthetic
from nodewise.lab.rivals.gbp import GBP


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(150, avg_degree=6, classes=2, features=20, seed=4)


def exact_sum(graph, alpha, r):
    """``alpha (I - (1 - alpha) D^(r-1) A D^-r)^-1 X``, the closed form of the sum."""
    return pagerank(propagation(graph, 1 - r, r), alpha) @ graph.features


def bound(graph, r_max, r):
    """``d^r r_max |D^-r x|_1``: the most that the pushes leave, for each node and column."""
    degrees = graph.degrees[:, None]
    return degrees**r * r_max * np.abs(graph.features * degrees**-r).sum(0)


@pytest.mark.parametrize("r", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("alpha", [0.1, 0.6])
def test_it_is_within_its_bound_of_the_exact_sum(graph, alpha, r):
    truth = exact_sum(graph, alpha, r)
    for r_max in (1e-2, 1e-3, 1e-5):
        error = np.abs(all_rows(GBP(alpha=alpha, r=r, r_max=r_max), graph) - truth)
        assert (error <= bound(graph, r_max, r) + 1e-5).all()
    assert error.max() < 1e-3


def test_walks_come_nearer_than_their_bound(graph):
    """Hoeffding: one of the entries is beyond this with a chance below 1e-6."""
    r_max, walks = 1e-2, 400
    model = GBP(r_max=r_max, walks=walks)
    error = np.abs(all_rows(model, graph) - exact_sum(graph, model.alpha, model.r))
    allowed = bound(graph, r_max, model.r) * np.sqrt(2 * np.log(2 * error.size / 1e-6) / walks)
    assert (error <= allowed + 1e-5).all()
    assert allowed.max() < 0.35 * bound(graph, r_max, model.r).max()


def test_it_is_right_in_the_mean(graph):
    """The mean over seeds is within six standard errors everywhere: a false alarm in fewer than 1e-5 of runs."""
    truth = exact_sum(graph, 0.1, 0.5)
    found = np.stack([all_rows(GBP(r_max=0.02, walks=8, seed=seed), graph) for seed in range(200)])
    spread = found.std(0) / np.sqrt(found.shape[0])
    assert spread.max() > 1e-3  # there is something to be wrong about
    assert (np.abs(found.mean(0) - truth) <= 6 * spread + 1e-4).all()


def test_weighted_edges_count_in_pushes_and_in_walks():
    graph = weighted_graph()
    truth = exact_sum(graph, 0.2, 0.5)
    assert np.allclose(all_rows(GBP(alpha=0.2, r_max=1e-6), graph), truth, atol=1e-4)
    walked = all_rows(GBP(alpha=0.2, r_max=10.0, walks=20_000), graph)  # nothing is pushed
    assert np.allclose(walked, truth, atol=0.15)


def test_a_row_depends_on_nothing_else_that_is_asked(graph):
    model = GBP(r_max=1e-2, threads=1)
    rows = all_rows(model, graph)
    assert np.array_equal(model.rows(graph, np.array([9, 4, 9])), rows[[9, 4, 9]])
    assert np.array_equal(all_rows(GBP(r_max=1e-2, threads=2, memory=40_000), graph), rows)
    sparse = graph.replace(features=sp.csr_matrix(graph.features))
    assert np.allclose(all_rows(model, sparse), rows, atol=1e-6)
