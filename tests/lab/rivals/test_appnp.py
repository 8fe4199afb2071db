"""APPNP: its spreading against the closed form, its gradient, and what is dropped."""

import numpy as np
import pytest
import torch
from dense_oracles import pagerank, propagation, weighted_graph

from nodewise.graph import synthetic
from nodewise.lab.rivals.appnp import APPNP, Pagerank


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(90, avg_degree=5, classes=3, features=8, seed=4)


@pytest.mark.parametrize("alpha", [0.1, 0.4])
def test_spreading_nears_the_closed_form_as_fast_as_it_must(graph, alpha):
    """``|Z_K - Z_inf|_2 <= 2 (1 - alpha)^K |H|_2``, since no eigenvalue of S is beyond 1."""
    scores = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
    S = propagation(graph)
    limit = pagerank(S, alpha) @ scores.numpy()
    iterated = scores.numpy()
    for hops in range(1, 60):
        found = Pagerank(graph, alpha, hops, 2).spread(scores).numpy()
        iterated = (1 - alpha) * S @ iterated + alpha * scores.numpy()
        assert np.allclose(found, iterated, atol=1e-5)
        allowed = 2 * (1 - alpha) ** hops * np.linalg.norm(scores.numpy(), axis=0)
        assert (np.linalg.norm(found - limit, axis=0) <= allowed + 1e-4).all()


def test_weighted_edges_count():
    weighted = weighted_graph()
    scores = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    found = Pagerank(weighted, 0.2, 1, 1).spread(torch.from_numpy(scores)).numpy()
    assert np.allclose(found, 0.8 * propagation(weighted) @ scores + 0.2 * scores, atol=1e-5)


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_the_gradient_is_that_of_a_linear_map(graph, drop):
    """``<g, T h> = <T' g, h>`` for the same dropped entries."""
    spreading = Pagerank(graph, 0.1, 6, 2)
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(90, 3, generator=generator).requires_grad_()
    towards = torch.randn(90, 3, generator=generator)
    torch.manual_seed(5)
    out = (spreading.spread(rows, drop) * towards).sum()
    out.backward()
    assert torch.allclose((rows.grad * rows).sum(), out, rtol=1e-4)
    assert rows.grad.abs().min() > 0


def test_entries_are_dropped_one_by_one_and_the_mean_is_kept(graph):
    """Of one hop: the mean over draws is within six standard errors, and half of the entries are gone."""
    spreading, ones = Pagerank(graph, 0.5, 1, 1), torch.eye(90)
    torch.manual_seed(0)
    draws = torch.stack([spreading.spread(ones, 0.5) for _ in range(400)]).numpy()
    whole = spreading.spread(ones).numpy()
    spread = draws.std(0) / np.sqrt(400)
    assert (np.abs(draws.mean(0) - whole) <= 6 * spread + 1e-6).all()
    entries = (propagation(graph) > 0) & ~np.eye(90, dtype=bool)
    assert abs((draws[:, entries] == 0).mean() - 0.5) < 0.02
    one_way = (draws[0] == 0) & entries
    assert (one_way != one_way.T).any()  # an edge's two directions are dropped apart


def test_only_the_first_layer_is_held_back(graph):
    train = np.arange(40)
    free, held = (APPNP(weight_decay=w, epochs=100, dropout=0.0).fit(graph, train) for w in (0.0, 1.0))
    sizes = [[float(p.detach().norm()) for p in m.networks_.parameters()] for m in (free, held)]
    assert sizes[1][0] < 0.5 * sizes[0][0]
    assert APPNP(weight_decay=1.0)._config().weight_decay == 0
