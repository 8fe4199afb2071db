"""FastGCN: what the sampled products are in the mean, and what is sampled."""

import math

import numpy as np
import pytest
from dense_oracles import propagation, small_graph

from nodewise.lab.rivals.fastgcn import column_importance, sampled_rows
from nodewise.lab.rivals.matrix import symmetric_adjacency

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("weighted", [False, True])
def test_importance_is_the_squared_length_of_columns(weighted):
    graph = small_graph(8, 25, 60, weighted)
    lengths = np.linalg.norm(propagation(graph), axis=0) ** 2
    assert np.allclose(column_importance(symmetric_adjacency(graph)), lengths / lengths.sum())


@pytest.mark.parametrize("weighted", [False, True])
def test_sampled_products_are_right_in_the_mean(weighted):
    """Empirical Bernstein bound (Maurer and Pontil 2009), with a union over the entries: a false alarm is rarer than
    one in 10^6 runs. The range of the terms is that of a draw in which all samples fall on one column."""
    graph, targets, samples, draws = small_graph(8, 25, 60, weighted), np.arange(5), 3, 6000
    matrix, dense = symmetric_adjacency(graph), propagation(graph)
    q = column_importance(matrix)
    rng = np.random.default_rng(1)
    H = np.random.default_rng(2).standard_normal((graph.num_nodes, 2))
    found = np.array([sampled_rows(matrix, q, samples, rng, targets) @ H for _ in range(draws)])
    near = np.flatnonzero(dense[targets].any(0))
    assert near.size > samples
    terms = dense[targets][:, near, None] * H[near] / (q[near] / q[near].sum())[None, :, None]
    span = terms.max(1) - np.minimum(terms.min(1), 0)
    log = math.log(4 * found[0].size / FALSE_ALARM)
    bound = np.sqrt(2 * found.var(0, ddof=1) * log / draws) + 7 * log * span / (3 * (draws - 1))
    error = np.abs(found.mean(0) - dense[targets] @ H)
    assert np.all(error <= bound)
    assert bound.max() < 0.25 * np.abs(terms).max()
    assert found.std(0).max() > 0.1  # it does sample


def test_enough_samples_give_exact_rows():
    graph = small_graph(8, 25, 60)
    matrix = symmetric_adjacency(graph)
    rows = sampled_rows(matrix, column_importance(matrix), 25, np.random.default_rng(0), np.arange(5))
    assert np.allclose(rows.toarray(), propagation(graph)[:5])
