"""A Graph on disk: what was written comes back."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from written import SLOW_DISK, everything, full_graph, rewrite_manifest, sparse_graph

from nodewise import Graph, InputError, StoreError
from nodewise.graph import synthetic
from nodewise.graph.features import Quantized
from nodewise.store import Names, open_store, read_manifest, reading, verify_store, write_store
from nodewise.store import blocks as block_files

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def graphs(draw):
    nodes = draw(st.integers(1, 12))
    ends = draw(st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2), max_size=20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width = draw(st.integers(0, 5))
    dense = (rng.random((nodes, width)) * (rng.random((nodes, width)) < 0.5)).astype(np.float32)
    features = {
        "none": None,
        "float32": dense,
        "float16": dense.astype(np.float16),
        "int8": Quantized.of(dense),
        "sparse": sp.csr_matrix(dense),
    }
    kind = draw(st.sampled_from(sorted(features)))
    labels = {"none": None, "single": rng.integers(-1, 4, nodes), "multi": rng.integers(0, 2, (nodes, 3))}
    return Graph.from_edges(
        np.array(ends, np.int64).reshape(-1, 2).T,
        nodes,
        features[kind],
        labels[draw(st.sampled_from(sorted(labels)))],
        edge_weight=rng.random(len(ends)) + 0.1 if draw(st.booleans()) else None,
        node_names=draw(st.none() | st.lists(TEXT, min_size=nodes, max_size=nodes, unique=True)),
        label_names=draw(st.none() | st.lists(TEXT, min_size=12, max_size=12)),
        splits=draw(st.dictionaries(st.sampled_from(["train", "val", "test-1.b"]), st.lists(st.just(0), max_size=2))),
        name=draw(TEXT),
        feature_names=draw(st.none() | st.lists(TEXT, min_size=width, max_size=width, unique=True))
        if kind != "none"
        else None,
    )


@SLOW_DISK
@given(graph=graphs())
def test_every_graph_comes_back_as_it_was_written(tmp_path, graph):
    shutil.rmtree(tmp_path / "s", ignore_errors=True)
    write_store(graph, tmp_path / "s")
    for verify in (None, True, False):
        assert everything(open_store(tmp_path / "s", verify)) == everything(graph)


@pytest.mark.parametrize("label", [2**62 - 1, 2**63 - 1])
def test_the_largest_labels_come_back(tmp_path, label):
    write_store(Graph.from_edges([[0], [1]], labels=[0, label]), tmp_path / "store")
    assert open_store(tmp_path / "store").labels.tolist() == [0, label]


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_the_largest_features_come_back(tmp_path, form, verify):
    features = form(np.array([[1e16, 0], [0, -1e16]], np.float32))
    graph = Graph.from_edges([[0], [1]], features=features)
    write_store(graph, tmp_path / "s")
    assert everything(open_store(tmp_path / "s", verify=verify)) == everything(graph)


def test_a_store_can_be_overwritten_by_the_graph_it_holds(full):
    before = everything(open_store(full))
    write_store(open_store(full), full, overwrite=True)
    assert everything(open_store(full)) == before


def test_64_bit_indices_come_back(tmp_path, full):
    graph = open_store(full)
    wide = dataclasses.replace(graph, indices=graph.indices.astype(np.uint64))
    write_store(wide, tmp_path / "wide")
    assert everything(open_store(tmp_path / "wide", verify=True)) == everything(wide)


def test_the_sum_of_degrees_and_the_least_are_kept(full):
    graph = open_store(full)
    assert {"total_degree", "least_degree"} <= graph.__dict__.keys()
    adjacency = graph.to_scipy()
    assert graph.total_degree == pytest.approx(adjacency.sum())
    assert graph.least_degree == pytest.approx(adjacency.sum(1).min())
    nodes = np.array([3, 0, 3])
    assert np.allclose(graph.degrees_of(nodes), np.asarray(adjacency.sum(1)).ravel()[nodes])


def test_a_store_of_format_1_is_still_read(full):
    expected = everything(open_store(full))
    rewrite_manifest(full, lambda content: (content.pop("degrees"), content.update(format_version=1)))
    graph = open_store(full)
    assert everything(graph) == expected
    assert graph.total_degree == pytest.approx(graph.to_scipy().sum())


def test_files_of_several_blocks_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(block_files, "BLOCK_BYTES", 4096)
    features = np.random.default_rng(0).random((3000, 7)).astype(np.float32)
    graph = Graph.from_edges(np.array([[0], [1]]), 3000, features, node_names=[f"n{i}" for i in range(3000)])
    write_store(graph, tmp_path / "s")
    assert everything(open_store(tmp_path / "s", verify=True)) == everything(graph)
    file = read_manifest(tmp_path / "s").files["features.npy"]
    data = (tmp_path / "s" / "features.npy").read_bytes()
    blocks = [data[first : first + 4096] for first in range(0, len(data), 4096)]
    assert list(file.sha256) == [hashlib.sha256(block).hexdigest() for block in blocks]


def test_other_tools_can_read_the_files(full):
    graph = full_graph()
    assert np.array_equal(np.load(full / "indptr.npy"), graph.indptr)
    assert np.load(full / "indices.npy").dtype == np.uint32
    assert np.array_equal(np.load(full / "features.npy"), graph.features)
    assert np.array_equal(np.load(full / "splits" / "val.npy"), graph.splits["val"])
    assert pq.read_table(full / "names.parquet").column("name").to_pylist() == list(graph.node_names)


def test_the_manifest_says_what_the_store_holds(full):
    write_store(full_graph(), full, overwrite=True, provenance={"source": "edges.csv", "numbers": [1, 2.5]})
    graph, manifest = full_graph(), read_manifest(full)
    assert manifest.counts == {
        "nodes": 30,
        "entries": graph.indices.size,
        "edges": (graph.indices.size - 30) // 2,
        "features": 4,
        "classes": 3,
    }
    assert manifest.flags == {"weighted": True, "multilabel": False, "sparse_features": False}
    assert manifest.provenance == {"source": "edges.csv", "numbers": [1, 2.5]}
    sizes = {p.relative_to(full).as_posix(): p.stat().st_size for p in full.rglob("*") if p.is_file()}
    sizes.pop("manifest.json")
    assert {name: file.bytes for name, file in manifest.files.items()} == sizes
    assert verify_store(full) == sum(sizes.values())


def test_what_is_opened_is_mapped_and_cannot_be_written(full):
    graph = open_store(full)
    assert isinstance(graph.features, np.memmap)
    for array in (graph.indptr, graph.indices, graph.edge_weight, graph.features, graph.labels):
        assert not array.flags.writeable


def test_mapped_sparse_features_compute_like_those_in_memory(tmp_path):
    graph = sparse_graph()
    write_store(graph, tmp_path / "s")
    rows = np.array([3, 1, 29])
    mapped = open_store(tmp_path / "s").features
    assert np.array_equal(mapped[rows].toarray(), graph.features[rows].toarray())
    assert np.allclose(mapped.T @ np.ones(30), graph.features.toarray().sum(0), atol=1e-5)


def test_a_store_of_many_gigabytes_opens_at_once(tmp_path):
    """4 GiB of features as a sparse file: reading them would take seconds."""
    write_store(Graph.from_edges(np.array([[0], [1]]), 4, np.zeros((4, 1))), tmp_path / "s")
    width = 2**28
    head = {"descr": "<f4", "fortran_order": False, "shape": (4, width)}
    with (tmp_path / "s" / "features.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, head)
        size = file.tell() + 16 * width
        file.truncate(size)

    def change(content):
        content["counts"]["features"] = width
        entry = content["files"]["features.npy"]
        entry |= {"shape": [4, width], "bytes": size, "sha256": ["0" * 64] * -(-size // entry["block_bytes"])}

    rewrite_manifest(tmp_path / "s", change)
    start = time.perf_counter()
    graph = open_store(tmp_path / "s")
    assert time.perf_counter() - start < 1
    assert graph.features.shape == (4, width)
    with pytest.raises(StoreError, match=r"features\.npy: block 0 of 257"):
        verify_store(tmp_path / "s")


def test_names_are_a_sequence_of_strings():
    names = Names.of(pa.chunked_array([["a", "b"], ["c"], [], ["d"]]))
    expected = ["a", "b", "c", "d"]
    assert list(names) == expected
    assert len(names) == 4
    assert [names[i] for i in range(-4, 4)] == expected * 2
    assert [names[i] for i in np.array([3, 0], np.uint32)] == ["d", "a"]
    assert list(names[1:3]) == ["b", "c"]
    assert list(names[::-2]) == ["d", "b"]
    assert names.take(np.array([2, 2, 0])).to_pylist() == ["c", "c", "a"]
    assert "c" in names
    assert names.index("c") == 2
    for outside in (4, -5):
        with pytest.raises(IndexError):
            names[outside]


def test_names_are_not_read_before_they_are_asked_for(full):
    graph = open_store(full, verify=False)
    (full / "names.parquet").unlink()
    assert len(graph.node_names) == 30
    with pytest.raises(StoreError, match=r"names\.parquet: no such file"):
        graph.node_names[0]


@pytest.mark.parametrize("names", [[1, 2], ["a", None], ["a", "\ud800"], ["a", b"\xff"]])
def test_names_that_are_no_text_are_refused_and_nothing_is_written(tmp_path, names):
    graph = dataclasses.replace(Graph.from_edges(np.array([[0], [1]])), node_names=names)
    with pytest.raises(InputError, match="node_names"):
        write_store(graph, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_replaced_as_it_is_opened_is_opened_again(tmp_path, monkeypatch):
    """What was open by then belongs to the old one, and what is opened next to the new one."""
    small, large = (synthetic.dcsbm(nodes, avg_degree=4, classes=2, features=2, seed=0) for nodes in (20, 30))
    write_store(small, tmp_path / "s")
    read = reading.read_manifest

    def late(folder):
        described = read(folder)
        if described.counts["nodes"] == 20:
            write_store(large, tmp_path / "s", overwrite=True)
        return described

    monkeypatch.setattr(reading, "read_manifest", late)
    assert open_store(tmp_path / "s").num_nodes == 30
