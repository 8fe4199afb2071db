"""GraphSAGE: the sampler's draws against chance, and the layers against dense means."""

from itertools import combinations

import numpy as np
import pytest
from dense_oracles import small_graph
from scipy.stats import chi2

from nodewise.lab.rivals.graphsage import GraphSAGE
from nodewise.lab.rivals.kernels.subgraphs import sample_entries

FALSE_ALARM = 1e-6


@pytest.mark.parametrize(("degree", "most"), [(6, 3), (7, 1), (5, 4), (300, 2)])
def test_every_set_of_neighbours_is_equally_likely(degree, most):
    """Chi-square over all sets of that size; fails by chance once in 10^6 runs."""
    draws = 60_000 if degree < 10 else 900_000
    starts, entries = sample_entries(np.array([0, 4, 4 + degree]), np.ones(draws, np.int64), most, 11)
    assert np.array_equal(np.diff(starts), np.full(draws, most))
    chosen = np.sort(entries.reshape(draws, most) - 4, axis=1)
    sets = {s: i for i, s in enumerate(combinations(range(degree), most))}
    code = np.zeros(degree**most, np.int64)
    powers = degree ** np.arange(most)[::-1]
    for s, i in sets.items():
        code[np.dot(s, powers)] = i + 1
    which = code[chosen @ powers] - 1
    assert which.min() >= 0  # within the row, and no neighbour twice
    counts = np.bincount(which, minlength=len(sets))
    expected = draws / len(sets)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, len(sets) - 1)


def test_short_rows_are_taken_whole_and_seeds_differ():
    indptr = np.array([0, 3, 3, 103])
    starts, entries = sample_entries(indptr, np.array([0, 1, 2]), 5, 1)
    assert starts.tolist() == [0, 3, 3, 8]
    assert entries[:3].tolist() == [0, 1, 2]
    assert not np.array_equal(entries, sample_entries(indptr, np.array([0, 1, 2]), 5, 2)[1])


def dense_scores(graph, network):
    adjacency = graph.to_scipy().toarray()
    np.fill_diagonal(adjacency, 0)
    mean = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1e-12)
    out = graph.features
    for layer in network.maps:
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        half = weight.shape[1] // 2
        joined, both = np.hstack([out, mean @ out]), np.vstack([weight[:, :half], weight[:, half:]])
        has_neighbours = adjacency.any(1, keepdims=True)
        out = np.maximum(joined @ both + bias[:half] + bias[half:] * has_neighbours, 0)  # W [h, mean], Algorithm 1
        out = out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
    return out @ network.classifier.weight.detach().numpy() + network.classifier.bias.detach().numpy()


@pytest.mark.parametrize("weighted", [False, True])
def test_enough_neighbours_give_the_dense_means(weighted):
    graph = small_graph(7, 30, 70, weighted)
    model = GraphSAGE(epochs=3, hidden=8, fanout=100, further=100).fit(graph, np.arange(20))
    nodes, network = np.array([4, 29, 0]), model.networks_
    expected = dense_scores(graph, network)[nodes]
    view = model._view(graph, nodes)
    assert np.allclose(model._out(network, view, nodes).detach().numpy(), expected, atol=1e-4)
    sampled = view.made_by(model._samplers(view, np.random.default_rng(0)), nodes)
    assert np.allclose(network(*sampled).detach().numpy(), expected, atol=1e-4)


def test_few_neighbours_are_means_of_that_many():
    graph = small_graph(7, 30, 70)
    view = GraphSAGE()._view(graph, np.arange(3))
    rows = view.sampled(2, 5, np.arange(30))
    exact = view.adjacency
    assert np.diff(rows.indptr).max() == 2
    assert np.array_equal(np.diff(rows.indptr), np.minimum(np.diff(exact.indptr), 2))
    assert np.allclose(rows.sum(1).ravel()[0, :29], 1)
    assert (exact.toarray()[rows.toarray() > 0] > 0).all()
