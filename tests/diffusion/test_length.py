"""Diffusion lengths: both conventions, and the exact one."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nodewise import Graph, InputError, diffusion_lengths, load, tau_distance
from nodewise.diffusion.length import second_eigenvalue, tau_of_length
from oracles import graphs


@given(graphs(), st.floats(0.1, 5))
def test_the_papers_convention_is_its_formula(g, tau):
    assume(g.num_edges > 0)
    degrees = g.to_scipy().toarray().sum(1)
    average = g.num_entries / g.num_nodes
    for u, length in enumerate(diffusion_lengths(g, np.arange(g.num_nodes), tau)):
        exact = tau * math.log(degrees.sum() / math.sqrt(degrees.min() * degrees[u])) / math.log(math.sqrt(average))
        assert length == pytest.approx(exact, abs=1 + 1e-6)
        assert length >= exact - 1e-6


def test_the_reference_convention_doubles_the_entries_and_rounds_down(star):
    entries, nodes = 13, 5
    for u, degree in enumerate([5, 2, 2, 2, 2]):
        exact = 1.9 * math.log(2 * entries / math.sqrt(2 * degree)) / math.log(math.sqrt(2 * entries / nodes))
        assert diffusion_lengths(star, [u], 1.9, "reference") == [math.floor(exact)]


def test_on_cora_the_two_conventions_mean_different_depths(data_dir):
    g = load("cora", data_dir)
    everyone = np.arange(g.num_nodes)
    assert np.median(diffusion_lengths(g, everyone, 1.7, "reference")) == 13
    assert np.median(diffusion_lengths(g, everyone, 1.7, "paper")) == 19


def test_scaling_all_weights_changes_no_length():
    edges, loops = np.array([[0, 1, 2], [1, 2, 3]]), np.arange(4)
    index = np.concatenate([edges, [loops, loops]], axis=1)
    small = Graph.from_edges(index, edge_weight=np.full(7, 0.01))
    large = Graph.from_edges(index, edge_weight=np.full(7, 100.0))
    assert np.array_equal(diffusion_lengths(small, loops, 1.3), diffusion_lengths(large, loops, 1.3))


def test_a_graph_without_edges_has_nowhere_to_go():
    lonely = Graph.from_edges(np.zeros((2, 0), int), num_nodes=3)
    assert diffusion_lengths(lonely, [0, 1, 2], 2.0).tolist() == [0, 0, 0]


@given(graphs(connected=True), st.floats(0.01, 0.5))
def test_the_exact_length_is_a_tau_distance(g, tau):
    """Theorem 3.2: after that many steps every entry of P^l is within tau of the stationary state."""
    adjacency = g.to_scipy().toarray()
    transition = adjacency / adjacency.sum(1, keepdims=True)
    stationary = adjacency.sum(1) / adjacency.sum()
    for u, length in enumerate(tau_distance(g, np.arange(g.num_nodes), tau)):
        row = np.linalg.matrix_power(transition, int(length))[u]
        assert np.all(np.abs(row - stationary) / stationary <= tau + 1e-6)


def test_arpack_and_dense_eigenvalues_agree():
    rng = np.random.default_rng(0)
    ring = np.array([np.arange(80), (np.arange(80) + 1) % 80])
    g = Graph.from_edges(np.concatenate([ring, rng.integers(0, 80, (2, 100))], axis=1))
    scale = 1 / np.sqrt(g.degrees)
    values = np.linalg.eigvalsh(g.to_scipy().toarray() * scale[:, None] * scale)
    assert second_eigenvalue(g) == pytest.approx(max(values[-2], -values[0]), abs=1e-8)


def test_a_complete_graph_settles_in_one_step():
    pairs = np.array([(a, b) for a in range(5) for b in range(a)]).T
    assert tau_distance(Graph.from_edges(pairs), range(5), 0.1).tolist() == [1] * 5


def test_one_node_is_settled_from_the_start():
    assert tau_distance(Graph.from_edges(np.zeros((2, 0), int), num_nodes=1), [0], 0.1).tolist() == [0]


def test_a_disconnected_graph_has_no_exact_length(two_islands):
    with pytest.raises(InputError, match="4 components, so lambda = 1"):
        tau_distance(two_islands, [0], 0.1)


@pytest.mark.parametrize("tau", [0, -1.0, math.nan, math.inf])
def test_tau_must_be_positive(star, tau):
    for length in (diffusion_lengths, tau_distance):
        with pytest.raises(InputError, match="tau="):
            length(star, [0], tau)


def test_an_unknown_convention_is_refused(star):
    with pytest.raises(InputError, match="convention='papers'"):
        diffusion_lengths(star, [0], 1.0, "papers")


@pytest.mark.parametrize("convention", ["paper", "reference"])
@pytest.mark.parametrize("hops", [3, 8, 15])
def test_the_tau_of_a_length_gives_that_length_on_a_regular_graph(convention, hops):
    """All nodes of a ring have the mean degree; a tau a little above or below meets the rounding up or down."""
    ring = Graph.from_edges(np.array([np.arange(50), (np.arange(50) + 1) % 50]))
    tau = tau_of_length(ring, hops, convention) * (1 - 1e-9 if convention == "paper" else 1 + 1e-9)
    assert set(diffusion_lengths(ring, np.arange(50), tau, convention)) == {hops}
