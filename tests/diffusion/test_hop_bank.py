"""Hop banks: against powers of the dense matrix, and against the same walks with their hops summed."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from nodewise import Graph, InputError, diffuse, ghd
from nodewise.diffusion import exact
from nodewise.diffusion.ghd import last_hop
from nodewise.graph import synthetic
from oracles import dense_weights, graphs

ENGINES = ("exact", "walks", "stratified")


def dense_hops(d):
    """``P^l[u]`` for every target and hop, zero beyond the target's length: ``(targets, hops, nodes)``."""
    one_hop = np.eye(d.hops)
    return np.stack([dense_weights(d.graph, d.nodes, d.lengths, one_hop[hop]) for hop in range(d.hops)], axis=1)


@pytest.fixture(scope="module")
def crowd():
    return synthetic.dcsbm(600, avg_degree=8, classes=4, features=20, seed=5)


@given(graphs(features=True), st.floats(0.2, 2))
def test_the_exact_bank_is_the_powers_of_the_matrix(g, tau):
    d = diffuse(g, np.arange(g.num_nodes), tau=tau, engine="exact", per_hop=True)
    expected = dense_hops(d)
    assert d.hops == d.lengths.max() + 1
    assert np.allclose(d.matrix.toarray().reshape(expected.shape), expected, atol=1e-5)
    for side in (exact.by_features, exact.by_targets):
        for features in (g.features, sp.csr_matrix(g.features)):
            assert np.allclose(side(d._task(), features), expected @ g.features, atol=1e-5)


@given(graphs(features=True), st.sampled_from(ENGINES), st.integers(0, 2**40))
def test_the_bank_mixed_by_ghd_is_the_diffusion(g, engine, seed):
    """The walks are the same whether their hops are summed or not, so this holds draw by draw.

    Not beyond the hops that have weight at all, where walks whose hops are summed end.
    """
    how = dict(tau=1.5, max_hops=9, epsilon=0.3, engine=engine, seed=seed, first_k=False)
    assert last_hop(0.9, 0.5) > 9
    mixed = diffuse(g, np.arange(g.num_nodes), omega=0.9, rho=0.5, **how)
    bank = diffuse(g, np.arange(g.num_nodes), **how, per_hop=True)
    shares = ghd(0.9, 0.5, bank.hops - 1)
    assert np.allclose(np.einsum("l,ulf->uf", shares, bank.apply(g.features)), mixed.apply(g.features), atol=1e-5)


def test_walks_that_first_k_stops_are_the_same_walks(crowd):
    how = dict(length=5, epsilon=0.1, engine="walks", seed=3)
    mixed, bank = diffuse(crowd, range(40), **how), diffuse(crowd, range(40), **how, per_hop=True)
    assert np.array_equal(mixed.walks, bank.walks)
    assert mixed.walks.max() < 2_000  # of more that were due
    shares = ghd(1.15, 0.1, 5)
    assert np.allclose(
        np.einsum("l,ulf->uf", shares, bank.apply(crowd.features)), mixed.apply(crowd.features), atol=1e-5
    )


def test_first_k_bounds_the_nodes_of_all_hops_together():
    """In a wide star walkers return to the centre, and four times as many as at first visit more than K nodes."""
    star = Graph.from_edges(np.stack([np.zeros(2000, int), np.arange(1, 2001)]))
    bank = diffuse(star, [0], length=5, engine="stratified", seed=3, epsilon=0.09, per_hop=True)
    assert np.count_nonzero(bank.matrix.getnnz(0)) == 124
    assert bank.matrix.sum() < 0.99 * bank.hops


def test_hops_beyond_a_targets_own_length_are_zero(lollipop):
    d = diffuse(lollipop, np.arange(8), tau=2.0, engine="exact", per_hop=True)
    bank = d.apply(np.ones((8, 1), np.float32))
    assert len(set(d.lengths.tolist())) > 1
    assert np.allclose(bank[:, :, 0], np.arange(d.hops) <= d.lengths[:, None])


@pytest.mark.parametrize("engine", ENGINES)
def test_max_hops_bounds_the_bank_and_the_walks(crowd, engine):
    deep = diffuse(crowd, range(20), tau=2.0, engine=engine, per_hop=True, first_k=False)
    short = diffuse(crowd, range(20), tau=2.0, engine=engine, per_hop=True, max_hops=2, first_k=False)
    assert deep.hops > 3 == short.hops
    assert short.lengths.max() == 2
    if engine == "exact":
        assert np.array_equal(short.apply(crowd.features), deep.apply(crowd.features)[:, :3])
    assert diffuse(crowd, range(20), length=5, max_hops=0, engine=engine).matrix.nnz == 20


@pytest.mark.parametrize("engine", ENGINES)
def test_half_precision_takes_half_the_memory_and_is_close(crowd, engine):
    d = diffuse(crowd, range(30), engine=engine, per_hop=True, max_hops=4)
    whole, half = d.apply(crowd.features), d.apply(crowd.features, dtype="float16")
    assert whole.shape == (30, 5, 20)
    assert half.nbytes == whole.nbytes // 2
    assert np.allclose(half, whole, rtol=1e-3, atol=1e-3)


def test_a_bank_in_shared_blocks_is_the_same(crowd, monkeypatch):
    d = diffuse(crowd, range(30), engine="exact", per_hop=True, max_hops=4, threads=2)
    expected = exact.by_features(d._task(), crowd.features), exact.by_targets(d._task(), crowd.features)
    monkeypatch.setattr(exact, "MOST_BYTES", 1)
    monkeypatch.setattr(exact, "ROWS_AT_ONCE", 100)
    assert d._task().shared
    assert np.array_equal(exact.by_features(d._task(), crowd.features), expected[0])
    assert np.allclose(exact.by_targets(d._task(), crowd.features), expected[1], atol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bank_of_no_targets_is_empty(crowd, engine):
    d = diffuse(crowd, np.zeros(0, int), engine=engine, per_hop=True)
    assert d.apply(crowd.features).shape == (0, 1, 20)


@pytest.mark.parametrize("value", [-1, 1.5, 10**7])
def test_a_bound_that_is_no_number_of_hops_is_refused(crowd, value):
    with pytest.raises(InputError, match=r"max_hops=.*expected a whole number of hops"):
        diffuse(crowd, [0], max_hops=value)


@pytest.mark.parametrize("engine", ["auto", *ENGINES])
def test_hops_that_do_not_fit_into_memory_are_refused_and_it_is_said_what_would_do(engine):
    """One edge among 100,000 nodes: nearly a million hops."""
    lonely = Graph.from_edges(np.array([[0], [1]]), 100_000)
    with pytest.raises(InputError, match=r"hops of each node, which take .* of memory are available; .*max_hops"):
        _ = diffuse(lonely, np.arange(100_000), engine=engine, per_hop=True).matrix
    assert diffuse(lonely, [0], engine=engine, per_hop=True, max_hops=3, epsilon=0.3).hops == 4
