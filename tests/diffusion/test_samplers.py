"""Samplers against NDM, with stated false-alarm rates.

A small graph is copied side by side: a target in each copy draws from a stream of its own, so one call gives tens of
thousands of independent draws.
"""

import math

import numpy as np
import pytest

from nodewise import Graph, diffuse, ghd
from nodewise.diffusion.walks import Sampling, number_of_walks, walk
from oracles import copies_of, dense_weights

COPIES = 20_000
FALSE_ALARM = 1e-6
OMEGA, RHO, LENGTH, EPSILON = 1.3, 0.4, 4, 0.6
SAMPLERS = ("walks", "stratified")


def small_graphs():
    rng = np.random.default_rng(3)
    star = np.array([[0] * 9, range(1, 10)])
    mixed = np.concatenate([star, rng.integers(0, 10, (2, 6))], axis=1)
    return {
        "star": Graph.from_edges(star),
        "mixed": Graph.from_edges(mixed),
        "weighted": Graph.from_edges(mixed, edge_weight=rng.uniform(0.1, 5, mixed.shape[1])),
        "two islands": Graph.from_edges(np.array([[0, 1, 2, 4], [1, 2, 0, 5]]), num_nodes=7),
    }


def draws(graph, node, engine, **more):
    """The weights of ``node``, one row a copy: ``(COPIES, num_nodes)``."""
    many = copies_of(graph, COPIES)
    n = graph.num_nodes
    how = dict(omega=OMEGA, rho=RHO, epsilon=EPSILON, length=LENGTH, engine=engine, first_k=False, **more)
    matrix = diffuse(many, node + n * np.arange(COPIES), **how).matrix.tocoo()
    rows = np.zeros((COPIES, n))
    rows[matrix.row, matrix.col % n] = matrix.data
    return rows


def expected(graph, node):
    return dense_weights(graph, [node], [LENGTH], ghd(OMEGA, RHO, LENGTH))[0]


@pytest.mark.parametrize("engine", SAMPLERS)
@pytest.mark.parametrize("name", small_graphs())
@pytest.mark.parametrize("node", [0, 1])
def test_samplers_are_unbiased(name, node, engine):
    """Empirical Bernstein bound (Maurer and Pontil 2009) for means of terms in [0, 1], with a union over entries:
    each case fails by chance less than once in 10^6 runs."""
    graph = small_graphs()[name]
    rows = draws(graph, node, engine, seed=1)
    log = math.log(4 * graph.num_nodes / FALSE_ALARM)
    bound = np.sqrt(2 * rows.var(0, ddof=1) * log / COPIES) + 7 * log / (3 * (COPIES - 1))
    error = np.abs(rows.mean(0) - expected(graph, node))
    assert np.all(error <= bound)
    assert bound.max() < 0.02  # a bias of two hundredths of the weight would show


@pytest.mark.parametrize("name", small_graphs())
def test_stratified_walks_have_the_smaller_error_at_equal_theta(name):
    """Mean L1 error over 20,000 draws each; their standard errors are under 1% of the means, and the margin asked for
    is 10%: a false alarm is beyond ten standard deviations."""
    graph = small_graphs()[name]
    target = expected(graph, 0)
    independent, together = (np.abs(draws(graph, 0, e, seed=2) - target).sum(1) for e in SAMPLERS)
    for errors in (independent, together):
        assert errors.std() / math.sqrt(COPIES) < 0.01 * errors.mean()
    assert together.mean() < 0.9 * independent.mean()


def test_draws_of_different_nodes_are_independent():
    """Correlation between neighbouring copies: under independence 4.9 standard deviations is once in 10^6 runs."""
    rows = draws(small_graphs()["mixed"], 0, "walks", seed=4)[:, 0]
    correlation = np.corrcoef(rows[:-1], rows[1:])[0, 1]
    assert abs(correlation) * math.sqrt(COPIES) < 4.9


def test_lemma_4_2_holds():
    """Important neighbours are underestimated by the factor eta with probability at most delta.

    If the lemma's bound were met with equality, failures among the copies would be binomial(20,000, delta); more than
    mean + 5 standard deviations would be seen less than once in 10^6 runs.
    """
    graph, node, eta, delta, epsilon, copies = small_graphs()["mixed"], 1, 1.2, 0.3, 0.02, 2000
    theta = number_of_walks(epsilon, eta, delta)
    hops = ghd(OMEGA, RHO, LENGTH)
    many, n = copies_of(graph, copies), graph.num_nodes
    adjacency = graph.to_scipy().toarray()
    transition = adjacency / adjacency.sum(1, keepdims=True)
    failed, important_pairs = np.zeros(copies, bool), 0
    for hop in range(LENGTH + 1):
        one_hop = np.zeros(LENGTH + 1)
        one_hop[hop] = hops[hop]  # the same walks, seen at one hop only
        how = Sampling(one_hop, theta, 10**9, "theta", 7, 2)
        weights = walk(many, node + n * np.arange(copies), np.full(copies, LENGTH), how).weights
        estimate = np.zeros((copies, n))
        estimate[np.repeat(np.arange(copies), np.diff(weights.indptr)), weights.nodes % n] = weights.values
        truth = hops[hop] * np.linalg.matrix_power(transition, hop)[node]
        important = truth >= epsilon
        important_pairs += important.sum()
        failed |= (estimate[:, important] <= truth[important] / eta).any(1)
    assert important_pairs > 5
    assert failed.mean() <= delta + 5 * math.sqrt(delta * (1 - delta) / copies)
