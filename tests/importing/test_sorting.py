"""Edges in many runs, merged in small ranges: the adjacency that is built of all of them at once."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodewise import StoreError
from nodewise.graph import adjacency
from nodewise.importing import sorting
from nodewise.importing.sorting import Merge, RunFile, index_bytes, least_room, stride_within, write_run

RUNS = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    monkeypatch.setattr(sorting, "STRIDE", 2)
    monkeypatch.setattr(sorting, "KEYS_PER_BUCKET", 4)


@st.composite
def runs_of_edges(draw):
    """Edges among few nodes (repeats), of one node (a hub), or among many nodes (empty rows)."""
    num_nodes = draw(st.sampled_from([1, 3, 20, 400]))
    node = st.integers(0, num_nodes - 1)
    hub = draw(st.booleans())
    edges = draw(st.lists(st.tuples(st.just(0) if hub else node, node), max_size=80))
    cuts = sorted(draw(st.lists(st.integers(0, len(edges)), max_size=4)))
    weights = draw(st.none() | st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=len(edges), max_size=len(edges)))
    ends = np.array(edges, np.uint32).reshape(-1, 2).T.copy()
    return num_nodes, ends, None if weights is None else np.array(weights), [0, *cuts, len(edges)]


def written_runs(ends, weights, cuts):
    runs = []
    for number, (first, last) in enumerate(itertools.pairwise(cuts)):
        runs.append(RunFile(Path(), number, weights is not None))
        part = slice(first, last)
        write_run(runs[-1], ends[:, part].copy(), None if weights is None else weights[part], 2)
    return runs


def merged_in(times, runs, num_nodes, weighted, threads=1):
    """The merge of runs in so many times the least room."""
    room = index_bytes(sum(map(len, runs)), 2) + times * least_room(len(runs), weighted, 2)
    return Merge(runs, num_nodes, weighted, threads, room)


def joined(ranges, num_nodes):
    """Degrees, columns and weights from ranges of rows, of which some go on in the next."""
    degrees, columns, weights = np.zeros(num_nodes, np.int64), [], []
    for _, rows, _ in ranges:
        degrees[rows.first : rows.first + rows.degrees.size] += rows.degrees
        columns.append(rows.columns)
        weights.append(rows.weights)
    return degrees, np.concatenate(columns), None if weights[0] is None else np.concatenate(weights)


def whole(ends, weights, num_nodes):
    return adjacency.from_edges(ends[0], ends[1], num_nodes, weight=weights)


@RUNS
@given(case=runs_of_edges(), times=st.sampled_from([1, 3, 1000]))
def test_runs_merge_to_the_adjacency_of_all_edges(case, times):
    num_nodes, ends, weights, cuts = case
    merge = merged_in(times, written_runs(ends, weights, cuts), num_nodes, weights is not None, threads=2)
    ranges = list(merge.ranges(0))
    degrees, columns, merged = joined(ranges, num_nodes)
    expected = whole(ends, weights, num_nodes)
    assert np.array_equal(degrees, np.diff(expected.indptr))
    assert np.array_equal(columns, expected.indices)
    assert merged is None if weights is None else np.array_equal(merged, expected.weights)
    assert sum(keys for _, _, keys in ranges) == merge.num_keys
    assert ranges[-1][0] == num_nodes << 32


@RUNS
@given(case=runs_of_edges(), stop=st.integers(0, 10))
def test_a_merge_goes_on_from_where_a_range_ended(case, stop):
    num_nodes, ends, weights, cuts = case
    runs = written_runs(ends, weights, cuts)
    before = list(merged_in(1, runs, num_nodes, weights is not None).ranges(0))[: stop + 1]
    after = merged_in(3, runs, num_nodes, weights is not None).ranges(before[-1][0])
    degrees, columns, _ = joined([*before, *after], num_nodes)
    expected = whole(ends, weights, num_nodes)
    assert np.array_equal(degrees, np.diff(expected.indptr))
    assert np.array_equal(columns, expected.indices)


def test_small_room_means_many_ranges():
    ends = np.random.default_rng(0).integers(0, 50, (2, 2000)).astype(np.uint32)
    runs = written_runs(ends, None, [0, 700, 1400, 2000])
    assert len(list(merged_in(1, runs, 50, False).ranges(0))) > 20
    assert len(list(merged_in(1000, runs, 50, False).ranges(0))) == 1


def test_the_more_runs_the_finer_the_index(monkeypatch):
    """So that more runs fit into the same room; and no finer than it has to be."""
    monkeypatch.setattr(sorting, "STRIDE", 1 << 14)
    room, keys, runs = 100 << 20, 10**8, (2, 100, 200, 400, 10**6)
    strides = [stride_within(room, count, keys, False) for count in runs]
    assert strides == [1 << 14, 1 << 13, 1 << 12, 1 << 11, 1 << 10]
    for count, stride in list(zip(runs, strides, strict=True))[1:-1]:
        fine, coarse = (index_bytes(keys, s) + least_room(count, False, s) for s in (stride, 2 * stride))
        assert fine <= room < coarse


def test_a_run_that_was_cut_off_is_named():
    runs = written_runs(np.arange(40, dtype=np.uint32).reshape(2, 20), None, [0, 20])
    merge = merged_in(1, runs, 40, False)
    runs[0].keys.write_bytes(runs[0].keys.read_bytes()[:-8])
    with pytest.raises(StoreError, match=r"000000\.keys: ends too early.*--overwrite"):
        list(merge.ranges(0))
