"""Graphs beyond memory: streamed sums, shared blocks, 64-bit indices, more than 2^31 entries."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from nodewise import Graph, InputError, diffuse
from nodewise._util import pagecache
from nodewise.diffusion import aggregate, exact, plan
from nodewise.diffusion.kernels import hops as hop_kernels
from nodewise.diffusion.walks import Weights
from nodewise.graph import synthetic
from nodewise.graph.features import Quantized, row_scales
from oracles import graphs


@pytest.fixture(scope="module")
def crowd():
    return synthetic.dcsbm(3000, avg_degree=12, classes=4, features=20, seed=5)


def on_disk(features, folder):
    np.save(folder / "features.npy", features)
    return np.load(folder / "features.npy", mmap_mode="r")


@pytest.mark.parametrize("norm", ["none", "l1", "l2"])
@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
@pytest.mark.parametrize("threads", [1, 3])
def test_streaming_is_gathering_and_both_are_the_product(crowd, tmp_path, monkeypatch, kind, norm, threads):
    monkeypatch.setattr(pagecache, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(aggregate, "BLOCK_BYTES", 1 << 12)
    found = diffuse(crowd, range(0, 3000, 7), engine="walks", epsilon=0.05)
    if kind == "int8":
        codes = Quantized.of(crowd.features)
        features = Quantized(on_disk(codes.codes, tmp_path), codes.scale, codes.offset)
        dense = codes[:].astype(float)
    else:
        features = on_disk(crowd.features.astype(kind), tmp_path)
        dense = np.asarray(features, float)
    if norm != "none":
        dense *= row_scales(dense, norm)[:, None]
    gathered, streamed = (
        aggregate.weighted_sum(found._weights, features, threads, norm, stream) for stream in (False, True)
    )
    assert np.array_equal(gathered, streamed)
    assert np.allclose(gathered, found.matrix @ dense, atol=1e-5)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 1, width=32)), max_size=6), max_size=9),
    st.integers(1, 4),
)
def test_streams_of_any_shape(tmp_path_factory, rows, threads):
    """Targets without entries, nodes named twice, more threads than targets."""
    features = on_disk(
        np.random.default_rng(1).standard_normal((41, 3)).astype(np.float32), tmp_path_factory.mktemp("f")
    )
    entries = [entry for row in rows for entry in row]
    weights = Weights(
        np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64),
        np.array([node for node, _ in entries], np.uint32),
        np.array([value for _, value in entries], np.float32),
    )
    expected = np.zeros((len(rows), 3))
    for i, row in enumerate(rows):
        for node, value in row:
            expected[i] += value * features[node]
    assert np.allclose(aggregate.weighted_sum(weights, features, threads, stream=True), expected, atol=1e-5)


def test_the_planner_streams_what_is_not_in_memory_and_much_asked_for(crowd, tmp_path, monkeypatch):
    stored = on_disk(crowd.features, tmp_path)
    pages = stored.nbytes // pagecache.PAGE
    assert not plan.reads_in_order(crowd.features, 10**9)
    monkeypatch.setattr(plan, "resident_share", lambda _: 0.0)
    assert plan.reads_in_order(stored, pages)
    assert plan.reads_in_order(Quantized(stored.view(np.int8), [], []), pages * 4)
    assert not plan.reads_in_order(stored, 0)
    assert not plan.reads_in_order(sp.csr_matrix(crowd.features), 10**9)
    monkeypatch.setattr(plan, "resident_share", lambda _: 1.0)
    assert not plan.reads_in_order(stored, 10**9)


def test_the_planner_does_not_ask_again_about_a_file_that_was_in_memory_a_moment_ago(crowd, tmp_path, monkeypatch):
    stored, asked, now = on_disk(crowd.features, tmp_path), [], [100.0]
    monkeypatch.setattr(plan, "resident_share", lambda _: asked.append(1) or 1.0)
    monkeypatch.setattr(plan.time, "monotonic", lambda: now[0])
    for seconds in (0, 1, plan.STAYS + 1):
        now[0] = 100.0 + seconds
        assert not plan.reads_in_order(stored, 10**9)
    assert len(asked) == 2


def test_walks_on_disk_first_bring_the_adjacency_in_where_they_touch_most_of_it(crowd, monkeypatch):
    read = []
    monkeypatch.setattr(plan, "resident_share", lambda _: 0.0)
    monkeypatch.setattr(plan, "preload", lambda array: read.append(array.nbytes))
    diffuse(crowd, range(500), engine="walks", epsilon=0.05)
    assert read == [crowd.indptr.nbytes, crowd.indices.nbytes]
    read.clear()
    monkeypatch.setattr(plan, "available_memory", lambda: 1000)  # it would not stay there
    diffuse(crowd, range(500), engine="walks", epsilon=0.05)
    assert read == []


@pytest.mark.parametrize("norm", ["none", "l2"])
@pytest.mark.parametrize("sparse", [False, True])
def test_threads_that_share_a_block_change_nothing(crowd, monkeypatch, norm, sparse):
    features = sp.csr_matrix(crowd.features) if sparse else crowd.features
    d = diffuse(crowd, range(50), engine="exact")
    sides = [
        exact.by_features(d._task(features, norm), features),
        exact.by_targets(d._task(features, norm), features),
    ]
    monkeypatch.setattr(exact, "MOST_BYTES", 1)
    monkeypatch.setattr(exact, "ROWS_AT_ONCE", 700)
    task = d._task(features, norm)._replace(memory=7 * exact.COLUMN_BYTES * crowd.num_nodes, threads=3)
    assert task.shared
    assert [b.stop - b.start for b in exact.column_blocks(task, 20)] == [7, 7, 6]
    assert np.array_equal(exact.by_features(task, features), sides[0])
    assert np.array_equal(exact.by_features(task, features, slice(3, 11)), sides[0][:, 3:11])
    assert np.allclose(exact.by_targets(task, features), sides[1], atol=1e-6)
    assert np.allclose(sides[0], sides[1], atol=1e-5)


@given(graphs(features=True), st.integers(1, 4))
def test_shared_blocks_on_any_graph(g, threads):
    d = diffuse(g, np.arange(g.num_nodes), engine="exact", tau=0.7)
    expected = d.apply(g.features)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "MOST_BYTES", 1)
        patch.setattr(exact, "ROWS_AT_ONCE", 2)
        task = d._task()._replace(memory=2 * exact.COLUMN_BYTES * g.num_nodes, threads=threads)
        assert np.allclose(exact.by_features(task, g.features), expected, atol=1e-5)
        assert np.allclose(exact.by_targets(task, g.features), expected, atol=1e-5)


def test_a_memory_too_small_says_the_least_that_would_do(crowd, monkeypatch):
    monkeypatch.setattr(exact, "MOST_BYTES", 1)
    with pytest.raises(InputError, match=r"memory=1 kB: an exact diffusion over 3,000 nodes takes at least 36 kB"):
        diffuse(crowd, range(5), engine="exact", memory=1000).apply(crowd.features)
    assert diffuse(crowd, range(5), engine="exact", memory="36kB").apply(crowd.features).shape == (5, 20)


# ---------------------------------------------------------------------- 64-bit indices, many entries


@pytest.mark.parametrize("engine", ["exact", "walks", "stratified"])
def test_64_bit_indices_give_what_32_bit_ones_do(crowd, engine):
    wide = dataclasses.replace(crowd, indices=crowd.indices.astype(np.uint64))
    narrow, found = (diffuse(g, range(0, 3000, 50), engine=engine, seed=4) for g in (crowd, wide))
    assert np.array_equal(narrow.matrix.toarray(), found.matrix.toarray())
    assert np.array_equal(narrow.apply(crowd.features), found.apply(crowd.features))
    assert np.array_equal(wide.subgraph(np.arange(100)).indptr, crowd.subgraph(np.arange(100)).indptr)


@pytest.fixture(scope="module")
def beyond(tmp_path_factory):
    """A small graph behind a node whose row has 2^31 entries: a file with a hole, so that it takes no space."""
    small = synthetic.dcsbm(400, avg_degree=8, classes=2, features=5, seed=2)
    hole, entries = 2**31 + 12345, small.num_entries
    path = tmp_path_factory.mktemp("large") / "indices"
    indices = np.memmap(path, np.uint32, "w+", shape=(hole + entries,))
    indices[hole:] = small.indices + np.uint32(1)
    indptr = np.concatenate(([0], hole + small.indptr))
    features = np.vstack([np.zeros((1, 5), np.float32), small.features])
    return small, Graph(indptr, indices, features=features)


@pytest.mark.parametrize("engine", ["walks", "stratified"])
def test_walks_beyond_2_to_the_31_entries(beyond, engine):
    small, large = beyond
    settings = {"length": 4, "engine": engine, "epsilon": 0.05, "seed": 3, "threads": 2}
    found = diffuse(large, np.arange(1, 401), **settings)
    assert found.matrix[:, 0].nnz == 0
    exact_rows = diffuse(small, np.arange(400), **{**settings, "engine": "exact"}).apply(small.features)
    plain = diffuse(small, np.arange(400), **settings).apply(small.features)
    # A walk is drawn from its node's number, which is one more here: other draws of the same distribution.
    error, usual = (np.abs(rows - exact_rows).mean() for rows in (found.apply(large.features), plain))
    assert error < 1.5 * usual


def test_hops_beyond_2_to_the_31_entries(beyond):
    small, large = beyond
    rows, out = large.features.copy(), np.zeros_like(large.features)
    none = np.zeros(0, np.float32)
    none.flags.writeable = False
    hop_kernels.propagate(large.indptr, large.indices, none, np.zeros(0), rows, out, 1, 401)
    adjacency = small.to_scipy()
    expected = (adjacency @ small.features) / np.asarray(adjacency.sum(1))
    assert np.allclose(out[1:], expected, atol=1e-5)


def test_lengths_beyond_2_to_the_31_entries_count_them_all(beyond):
    _, large = beyond
    assert large.num_entries > 2**31
    assert large.total_degree == large.num_entries
    assert large.least_degree == np.diff(large.indptr).min()
