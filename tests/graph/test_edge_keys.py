"""Edges -> sorted keys -> rows, held against a dictionary of sums."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise import InputError
from nodewise.graph import adjacency
from nodewise.graph import edge_keys as keys


def expected_rows(edges, weights, num_nodes):
    """Each row's columns and weights: directed sums, the larger of two directions, loops of weight 1."""
    sums = defaultdict(float)
    for (u, v), w in zip(edges, weights, strict=True):
        sums[u, v] += w
    rows = [dict() for _ in range(num_nodes)]
    for u, v in sums:
        rows[u][v] = rows[v][u] = max(sums.get((u, v), 0), sums.get((v, u), 0))
    for v in range(num_nodes):
        rows[v].setdefault(v, 1.0)
    return [sorted(row.items()) for row in rows]


def rows_in(adj):
    values = np.ones(adj.indices.size) if adj.weights is None else adj.weights
    pairs = list(zip(adj.indices.tolist(), values.tolist(), strict=True))
    return [pairs[first:last] for first, last in zip(adj.indptr[:-1], adj.indptr[1:], strict=True)]


@st.composite
def edge_lists(draw):
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=60))
    weight = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])  # sums are exact in float32
    return num_nodes, edges, draw(st.lists(weight, min_size=len(edges), max_size=len(edges)))


def ends_of(edges, dtype=np.int64):
    return np.array(edges, dtype).reshape(-1, 2).T.copy()


@given(case=edge_lists(), dtype=st.sampled_from([np.int32, np.int64, np.uint32]), threads=st.integers(1, 3))
def test_weighted_rows_are_those_of_a_dictionary(case, dtype, threads):
    num_nodes, edges, weights = case
    source, target = ends_of(edges, dtype)
    adj = adjacency.from_edges(source, target, num_nodes, threads, np.array(weights))
    assert rows_in(adj) == expected_rows(edges, weights, num_nodes)


@given(case=edge_lists(), threads=st.integers(1, 3))
def test_plain_rows_are_those_of_a_dictionary(case, threads):
    num_nodes, edges, _ = case
    source, target = ends_of(edges)
    rows = rows_in(adjacency.from_edges(source, target, num_nodes, threads))
    expected = expected_rows(edges, [1.0] * len(edges), num_nodes)
    assert [[v for v, _ in row] for row in rows] == [[v for v, _ in row] for row in expected]


def test_weights_are_symmetric_bit_for_bit_and_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(keys, "KEYS_PER_BUCKET", 32)
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 40, (2, 3000))  # many repeats, whose sums round
    weights = rng.random(3000) + 1e-3
    one, two = (adjacency.from_edges(source, target, 40, threads, weights) for threads in (1, 2))
    assert np.array_equal(one.weights, two.weights)
    dense = np.zeros((40, 40), np.float32)
    for row, entries in enumerate(rows_in(one)):
        for column, weight in entries:
            dense[row, column] = weight
    assert np.array_equal(dense, dense.T)


def test_sums_that_float32_cannot_hold_are_an_error():
    ends = np.zeros((2, 3), np.int64)
    with pytest.raises(InputError, match=r"add up to 6e\+38"):
        adjacency.from_edges(ends[0], ends[1], 1, weight=np.full(3, 2e38))


@pytest.mark.parametrize(("key", "node"), [(0, 0), (1, 1), (keys.ROW, 1), (keys.ROW + 1, 1), (keys.ROW + 2, 2)])
def test_the_first_loop_behind_a_key(key, node):
    assert keys.first_loop(key) == node


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=8), cut=st.integers(0, 40), weighted=st.booleans())
def test_degrees_add_up_wherever_rows_are_cut(counts, cut, weighted):
    total = sum(counts)
    weights = np.random.default_rng(total).random(total).astype(np.float32) if weighted else np.ones(total, np.float32)
    given_weights = weights if weighted else np.zeros(0, np.float32)
    whole = keys.degree_sums(np.array(counts), given_weights, len(counts), 0.0, 0.0, 0.0)
    rows = np.repeat(np.arange(len(counts)), counts)
    cut = min(cut, total)
    first, second = rows[:cut], rows[cut:]
    state = (0.0, 0.0, 0.0)
    if cut:
        here = np.bincount(first, minlength=first[-1] + 1)
        complete = first[-1] + 1 if cut == total or second[0] != first[-1] else first[-1]
        state = keys.degree_sums(here, weights[:cut] if weighted else given_weights, complete, *state)
    if cut < total:
        here = np.bincount(second)[second[0] :]
        state = keys.degree_sums(here, weights[cut:] if weighted else given_weights, here.size, *state)
    assert state == whole
    degrees = np.bincount(rows, weights)
    assert np.allclose(whole[1:], [degrees.sum(), degrees.min()])


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1.0, -2.0, keys.BOTH, 1e300, np.nan, np.inf]))))
def test_whatever_weights_are_the_entries_fit_the_keys(given_keys):
    """A run that was altered may hold any: a key with both directions in one weight wrote past the end."""
    size = len(given_keys)
    numbers, weights = np.full(2 * size, 7, np.uint64), np.full(2 * size, 7.0)
    for i, (number, weight) in enumerate(sorted(given_keys, key=lambda pair: pair[0])):
        numbers[i], weights[i] = number, weight
    piece = keys.settled(0, 4, numbers[:size], weights[:size])
    assert piece.keys.size <= size
    assert (numbers[size:] == 7).all()
    assert (weights[size:] == 7).all()
