"""benchmarks/papers100m.py: the graph it times is the one it promises."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit
from scipy.sparse.csgraph import connected_components

import citation_graph as graphs
import feistel
import nodewise as nw
import papers100m
import papers_run
import papers_store
import weak_features
from measuring import alone
from nodewise.report.describe import edge_homophily
from nodewise.store import verify_store

PER_NODE = papers_store.EDGES / papers_store.NODES
SCALE = 0.0005


def uint32s(*values):
    return tuple(np.uint32(value) for value in values)


# ---------------------------------------------------------------------- permutations


@given(st.integers(1, 5000), st.integers(0, 2**32 - 1))
def test_every_number_below_the_size_is_hit_once_and_found_again(size, key):
    how = uint32s(size, feistel.digit_bits(size), key)
    values = np.arange(size, dtype=np.uint32)
    feistel.permute(values, *how)
    assert np.array_equal(np.sort(values), np.arange(size))
    assert all(feistel.permuted(np.uint32(i), *how) == values[i] for i in range(0, size, 97))
    assert all(feistel.origin(values[i], *how) == i for i in range(0, size, 97))
    feistel.unpermute(values, *how)
    assert np.array_equal(values, np.arange(size))


@given(st.integers(1, feistel.MAX_SIZE), st.integers(0, 2**32 - 1), st.data())
def test_there_and_back_at_any_size(size, key, data):
    how = uint32s(size, feistel.digit_bits(size), key)
    value = data.draw(st.integers(0, size - 1))
    there = feistel.permuted(np.uint32(value), *how)
    assert there < size
    assert feistel.origin(there, *how) == value


def test_permutations_look_random():
    """Where 64 ranges of numbers go, by 64 ranges: chi squared, of mean 1 and standard deviation 0.022 a degree."""
    size = 1 << 19
    for key in range(5):
        values = np.arange(size, dtype=np.uint32)
        feistel.permute(values, *uint32s(size, feistel.digit_bits(size), key))
        counts = np.histogram2d(np.arange(size), values, bins=64)[0]
        expected = size / 64**2
        assert ((counts - expected) ** 2 / expected).sum() / 63**2 == pytest.approx(1, abs=6 * 0.022)


# ---------------------------------------------------------------------- rows


def all_rows(plan, step):
    """Every row, ``step`` nodes at a time."""
    parts = [graphs.rows(plan, first, min(first + step, plan.nodes)) for first in range(0, plan.nodes, step)]
    lengths, indices = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return np.concatenate(([0], np.cumsum(lengths))), indices


def citations(layers, own):
    """Who cites whom in some layers, by the permutations forwards and by the rule alone."""
    for citing, key in zip(layers.citing.tolist(), layers.keys.tolist(), strict=True):
        for rank in range(citing):
            place = int(feistel.permuted(*uint32s(rank, citing, layers.bits, key ^ own)))
            share = place / citing
            yield rank, int(layers.size * (share * share * share))


@pytest.mark.parametrize(("nodes", "seed"), [(172, 0), (1000, 1), (3141, 2)])
def test_rows_are_those_of_the_citations_both_ways_with_loops(nodes, seed):
    plan = graphs.make_plan(nodes, round(nodes * 12), seed)
    edges = list(citations(plan.across, 0))
    for c in range(graphs.COMMUNITIES):
        own = int(feistel.scramble(*uint32s(c, 0)))
        layers = plan.large if c < plan.larger else plan.small
        edges += [(a * graphs.COMMUNITIES + c, b * graphs.COMMUNITIES + c) for a, b in citations(layers, own)]
    ends = graphs.ids(plan, np.array(edges).ravel()).reshape(-1, 2)
    entries = np.bincount(ends.ravel(), minlength=nodes) + 1  # repeats and all: what the scratch row must hold
    assert np.all(entries <= graphs._most_entries(plan, graphs.positions(plan, 0, nodes)))
    matrix = sp.coo_matrix((np.ones(len(ends)), ends.T), (nodes, nodes)).tocsr()
    matrix = (matrix + matrix.T + sp.eye(nodes)).tocsr()
    matrix.sort_indices()
    indptr, indices = all_rows(plan, 700)
    assert np.array_equal(indptr, matrix.indptr)
    assert np.array_equal(indices, matrix.indices)


@given(st.integers(1, 10**6), st.floats(0, 1), st.integers(0, 10**6))
@settings(max_examples=300)
def test_the_first_place_that_cites_a_rank_is_found(size, share, rank):
    citing, rank = round(size * share), min(rank, size)
    places = np.arange(citing) / max(citing, 1)
    expected = np.searchsorted((size * (places * places * places)).astype(np.int64), rank)
    assert graphs._first_place(np.cbrt(rank / size), rank, np.uint32(citing), size) == expected


def test_a_row_is_the_same_whatever_is_made_beside_it():
    plan = graphs.make_plan(5000, 60_000, 3)
    whole, parts = all_rows(plan, 5000), all_rows(plan, 333)
    assert np.array_equal(whole[0], parts[0])
    assert np.array_equal(whole[1], parts[1])


def test_another_seed_makes_another_graph():
    first, second = (all_rows(graphs.make_plan(2000, 20_000, seed), 2000)[1] for seed in (0, 1))
    assert first.size != second.size or not np.array_equal(first, second)


@pytest.fixture(scope="module")
def hundred_thousand():
    plan = papers_store.plan_of(0.001, 0)
    indptr, indices = all_rows(plan, 1 << 14)
    return nw.Graph(indptr, indices, labels=graphs.labels(plan, 0, plan.nodes))


def test_degrees_follow_a_power_law_of_exponent_two_and_a_half():
    """At full size, by rows of the famous: the k-th largest degree is as k^-(1 / 1.5)."""
    plan = papers_store.plan_of(1.0, 0)
    places = np.geomspace(300, plan.nodes / 1000, 40).astype(np.int64)
    degrees = [graphs.rows(plan, node, node + 1)[0][0] for node in graphs.ids(plan, places).tolist()]
    assert np.polyfit(np.log(places), np.log(degrees), 1)[0] == pytest.approx(-1 / 1.5, abs=0.04)
    assert degrees[0] > 10_000


def test_every_node_has_a_neighbour(hundred_thousand):
    assert np.diff(hundred_thousand.indptr).min() >= 2


def test_most_edges_stay_in_a_community_and_all_nodes_hang_together(hundred_thousand):
    """22 of 28 references stay within; of those more are repeats, which are merged."""
    assert edge_homophily(hundred_thousand) == pytest.approx(22 / 28, abs=0.025)
    parts = connected_components(hundred_thousand.to_scipy(), directed=False)[1]
    assert np.bincount(parts).max() > 0.999 * hundred_thousand.num_nodes


def test_communities_are_of_one_size(hundred_thousand):
    sizes = np.bincount(hundred_thousand.labels, minlength=graphs.COMMUNITIES)
    assert sizes.size == graphs.COMMUNITIES
    assert np.ptp(sizes) <= 1


def test_ids_show_neither_fame_nor_community(hundred_thousand):
    """Correlations of 111,060 pairs: a standard error is 0.003."""
    ids, neighbours = np.arange(hundred_thousand.num_nodes), np.diff(hundred_thousand.indptr)
    assert abs(np.corrcoef(ids, np.argsort(np.argsort(neighbours)))[0, 1]) < 0.02
    assert np.mean(np.diff(hundred_thousand.labels) == 0) == pytest.approx(1 / graphs.COMMUNITIES, abs=0.003)


def test_there_are_as_many_edges_as_ordered():
    plan = papers_store.plan_of(0.01, 0)
    starts = range(0, plan.nodes, 1 << 14)
    entries = sum(int(graphs.rows(plan, i, min(i + (1 << 14), plan.nodes))[0].sum()) for i in starts)
    assert (entries - plan.nodes) / 2 / plan.nodes == pytest.approx(PER_NODE, rel=0.01)


def test_a_graph_with_fewer_nodes_than_communities_is_refused():
    with pytest.raises(nw.InputError, match="nodes=100"):
        graphs.make_plan(100, 1000, 0)


# ---------------------------------------------------------------------- features


@njit
def halves(values, out):
    for i in range(values.size):
        out[i] = weak_features.to_half(values[i])


@given(arrays(np.float32, st.integers(1, 50), elements=st.floats(width=32, allow_nan=False)))
def test_halves_are_those_of_numpy(values):
    out = np.empty(values.size, np.uint16)
    halves(values, out)
    with np.errstate(over="ignore"):
        assert np.array_equal(out, values.astype(np.float16).view(np.uint16))


def test_features_are_a_centre_and_noise_of_variance_one():
    """2,000 rows a class: a mean has the standard error 0.022, and 384 of them stay within five."""
    points = weak_features.centres(3, 128, seed=4)
    labels = np.arange(6000) % 3
    rows = weak_features.features(points, labels, 10**8, seed=4).astype(np.float64)
    noise = rows - points[labels]
    assert np.abs(np.stack([noise[labels == c].mean(0) for c in range(3)])).max() < 5 * 0.0224
    assert noise.std() == pytest.approx(1, abs=0.01)
    assert abs(np.mean(noise[1:] * noise[:-1])) < 5 / np.sqrt(noise.size)
    assert abs(np.mean(noise[:, 1:] * noise[:, :-1])) < 5 / np.sqrt(noise.size)


def test_classes_of_a_field_have_centres_nearer_to_each_other():
    points = weak_features.centres(172, 128, seed=0)
    away = np.linalg.norm(points[:, None] - points, axis=2)
    alike = np.arange(172)[:, None] % weak_features.FIELDS == np.arange(172) % weak_features.FIELDS
    assert away[alike].max() < away[~alike].min() / 5


def test_a_row_of_features_is_the_same_whatever_is_made_beside_it():
    points, labels = weak_features.centres(5, 16, seed=0), np.arange(100) % 5
    whole = weak_features.features(points, labels, 50, seed=2)
    assert np.array_equal(whole[40:], weak_features.features(points, labels[40:], 90, seed=2))


# ---------------------------------------------------------------------- the store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers") / "store"
    papers_store.write(folder, SCALE, 0, lambda *_: None)
    return folder


def test_the_store_is_sound_and_holds_what_was_made(store):
    verify_store(store)
    graph, plan = nw.open_store(store), papers_store.plan_of(SCALE, 0)
    indptr, indices = all_rows(plan, plan.nodes)
    assert np.array_equal(graph.indptr, indptr)
    assert np.array_equal(graph.indices, indices)
    assert np.array_equal(graph.labels, graphs.labels(plan, 0, plan.nodes))
    assert graph.features.shape == (plan.nodes, 128)
    assert graph.features.dtype == np.float16
    assert graph.least_degree == np.diff(indptr).min()
    points = weak_features.centres(172, 128, 0)
    assert np.array_equal(graph.features, weak_features.features(points, graph.labels, 0, 0))


def test_splits_have_twenty_of_each_class_and_share_no_node(store):
    graph = nw.open_store(store)
    train, val, test = (graph.splits[part] for part in ("train", "val", "test"))
    assert np.array_equal(np.bincount(graph.labels[train]), np.full(172, 20))
    assert (val.size, test.size) == (500, 1000)
    assert np.unique(np.concatenate([train, val, test])).size == 172 * 20 + 1500


def test_the_size_is_known_beforehand(tmp_path):
    papers_store.write(tmp_path / "store", 0.001, 0, lambda *_: None)
    taken = sum(path.stat().st_size for path in (tmp_path / "store").rglob("*.npy"))
    assert papers_store.bytes_needed(0.001) == pytest.approx(taken, rel=0.02)
    assert papers_store.bytes_needed(1.0) == pytest.approx(43.5e9, rel=0.01)


def test_a_store_is_used_again_only_if_it_is_the_one_asked_for(store):
    assert papers_store.is_there(store, SCALE, 0)
    assert not papers_store.is_there(store.with_name("other"), SCALE, 0)
    for scale, seed in ((0.001, 0), (SCALE, 1)):
        with pytest.raises(nw.StoreError, match="delete it or choose another folder"):
            papers_store.is_there(store, scale, seed)


# ---------------------------------------------------------------------- the runs


def test_what_does_not_fit_on_the_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(papers100m.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(nw.StoreError, match=r"needs 43\.\d+ GB and 1\.0 GB are free.*--scale up to 0\.022"):
        papers100m.ensure_store(tmp_path / "cache" / "store", 1.0)
    assert list(tmp_path.rglob("*.npy")) == []


def test_the_graph_is_described_as_it_is(store):
    graph, described = nw.open_store(store), papers100m.describe(store)
    neighbours = np.diff(graph.indptr) - 1
    assert described["neighbours"]["most"] == neighbours.max()
    assert described["neighbours"]["least"] == neighbours.min()
    assert described["neighbours"]["mean"] == pytest.approx(neighbours.mean())
    assert described["homophily"] == pytest.approx(edge_homophily(graph), abs=0.03)


def test_a_run_reports_times_score_and_memory(store):
    """Chance finds one label in 172."""
    found = alone(papers_run.timed_run, store, store, profiled=True)
    steps = [found[f"{step}_seconds"] for step in ("open", "diffuse", "train")]
    assert min(steps) > 0
    assert found["total_seconds"] == pytest.approx(sum(steps))
    assert found["test_f1"] > 0.3
    assert 10**7 < found["peak_anonymous_bytes"] <= found["peak_resident_bytes"]
    assert any(line["function"] == "diffusion/walks.walk" for line in found["profile"])


def test_without_the_right_to_empty_the_page_cache_each_file_of_the_store_leaves_it(store, monkeypatch):
    def refuse(*_):
        raise PermissionError

    left = []
    monkeypatch.setattr(papers_run.Path, "write_text", refuse)
    monkeypatch.setattr(papers_run.os, "posix_fadvise", lambda file, *_: left.append(papers_run.os.fstat(file).st_ino))
    assert "posix_fadvise" in papers_run.drop_page_cache(store)
    assert sorted(left) == sorted(path.stat().st_ino for path in store.rglob("*") if path.is_file())


def test_results_of_several_scales_stand_side_by_side(tmp_path):
    path = tmp_path / "results" / "papers100m.json"
    papers100m.keep_scale(path, 1.0, {"warm": [{"total_seconds": 3.0}]})
    papers100m.keep_scale(path, 0.01, {"warm": [{"total_seconds": 9.0}]})
    papers100m.keep_scale(path, 0.01, {"warm": [{"total_seconds": 2.0}]})
    scales = json.loads(path.read_text())["scales"]
    assert list(scales) == ["0.01", "1"]
    assert scales["0.01"] == {"warm": [{"total_seconds": 2.0}]}
