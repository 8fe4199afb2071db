"""A Graph on disk: what was written comes back; what was altered is noticed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodewise import Graph, InputError, StoreError
from nodewise.features import Quantized
from nodewise.store import Names, open_store, read_manifest, reading, verify_store, write_store
from nodewise.store import blocks as block_files

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SLOW_DISK = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def everything(graph: Graph) -> dict[str, object]:
    """All that a graph holds, read to the last byte, as values that can be compared."""
    dense = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    if isinstance(dense, Quantized):
        dense = np.hstack([dense.codes.ravel().view(np.uint8), dense.scale.view(np.uint8), dense.offset.view(np.uint8)])
    arrays = {"indptr": graph.indptr, "indices": graph.indices, "weights": graph.edge_weight, "labels": graph.labels}
    arrays |= {"features": dense} | {f"split {name}": nodes for name, nodes in graph.splits.items()}
    return {
        **{k: None if a is None else (a.dtype.str, a.shape, a.tobytes()) for k, a in arrays.items()},
        "sparse": sp.issparse(graph.features),
        "names": None if graph.node_names is None else list(graph.node_names),
        "label names": None if graph.label_names is None else list(graph.label_names),
        "name": graph.name,
    }


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
        node_names=draw(st.none() | st.lists(TEXT, min_size=nodes, max_size=nodes)),
        label_names=draw(st.none() | st.lists(TEXT, min_size=12, max_size=12)),
        splits=draw(st.dictionaries(st.sampled_from(["train", "val", "test-1.b"]), st.lists(st.just(0), max_size=2))),
        name=draw(TEXT),
    )


def full_graph() -> Graph:
    """A graph with one of everything but sparse features."""
    rng = np.random.default_rng(0)
    return Graph.from_edges(
        rng.integers(0, 30, (2, 60)),
        30,
        rng.random((30, 4)),
        rng.integers(-1, 3, 30),
        edge_weight=rng.random(60) + 0.1,
        node_names=[f"node {i}" for i in range(30)],
        label_names=["a", "b", "c"],
        splits={"train": np.arange(5), "val": np.arange(5, 9)},
    )


def sparse_graph() -> Graph:
    rng = np.random.default_rng(1)
    features = sp.random(30, 9, 0.3, "csr", np.float32, rng)
    return Graph.from_edges(rng.integers(0, 30, (2, 60)), 30, features, rng.integers(0, 2, (30, 3)))


@pytest.fixture(params=[full_graph, sparse_graph], ids=["full", "sparse"])
def stored(request, tmp_path):
    write_store(request.param(), tmp_path / "s")
    return tmp_path / "s"


@pytest.fixture
def full(tmp_path):
    write_store(full_graph(), tmp_path / "s")
    return tmp_path / "s"


def rewrite_manifest(folder: Path, change) -> None:
    """Change the manifest and give it the checksum that fits, as one who means harm would."""
    content = json.loads((folder / "manifest.json").read_text())
    change(content)
    content.pop("checksum")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["checksum"] = hashlib.sha256(canonical.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(content))


# ---------------------------------------------------------------------- round trip


@SLOW_DISK
@given(graph=graphs())
def test_every_graph_comes_back_as_it_was_written(tmp_path, graph):
    shutil.rmtree(tmp_path / "s", ignore_errors=True)
    write_store(graph, tmp_path / "s")
    for verify in (None, True, False):
        assert everything(open_store(tmp_path / "s", verify)) == everything(graph)


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


# ---------------------------------------------------------------------- names


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
    with pytest.raises(StoreError, match=r"names\.parquet: No such file"):
        graph.node_names[0]


@pytest.mark.parametrize("names", [[1, 2], ["a", None], ["a", "\ud800"], ["a", b"\xff"]])
def test_names_that_are_no_text_are_refused_and_nothing_is_written(tmp_path, names):
    graph = Graph.from_edges(np.array([[0], [1]]), node_names=names)
    with pytest.raises(InputError, match="node_names"):
        write_store(graph, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- damage


@SLOW_DISK
@given(data=st.data())
def test_a_flipped_bit_anywhere_is_noticed(stored, data):
    before = everything(open_store(stored))
    path = data.draw(st.sampled_from(sorted(p for p in stored.rglob("*") if p.is_file())))
    good = path.read_bytes()
    position = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bad)
    try:
        graph = open_store(stored)
    except StoreError:
        pass
    else:  # only a space for another space in the manifest, which is the same JSON
        assert path.name == "manifest.json"
        assert everything(graph) == before
    finally:
        path.write_bytes(good)


@SLOW_DISK
@given(data=st.data())
def test_an_unverified_store_with_a_flipped_bit_fails_cleanly_or_not_at_all(stored, data):
    path = data.draw(st.sampled_from(sorted(p for p in stored.rglob("*") if p.is_file())))
    good = path.read_bytes()
    # Headers are where parsing can go wrong, so look there more often than elsewhere.
    position = data.draw(st.integers(0, min(len(good), 128) - 1) | st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bad)
    try:
        graph = open_store(stored, verify=False)
        _ = None if graph.node_names is None else list(graph.node_names)
    except StoreError:
        pass
    finally:
        path.write_bytes(good)


@SLOW_DISK
@given(data=st.data())
def test_a_truncated_file_is_noticed_even_unverified(stored, data):
    path = data.draw(st.sampled_from(sorted(p for p in stored.rglob("*") if p.is_file())))
    good = path.read_bytes()
    path.write_bytes(good[: data.draw(st.integers(0, len(good) - 2))])  # the last byte of the manifest is a newline
    try:
        with pytest.raises(StoreError):
            open_store(stored, verify=False)
    finally:
        path.write_bytes(good)


def test_a_bad_block_is_named_by_file_and_number(tmp_path, monkeypatch):
    monkeypatch.setattr(block_files, "BLOCK_BYTES", 4096)
    write_store(Graph.from_edges(np.array([[0], [1]]), 3000, np.ones((3000, 7))), tmp_path / "s")
    with (tmp_path / "s" / "features.npy").open("r+b") as file:
        file.seek(3 * 4096 + 5)
        file.write(b"\xff")
    with pytest.raises(StoreError, match=r"features\.npy: block 3 of 21"):
        verify_store(tmp_path / "s")


def test_a_large_store_is_verified_only_when_asked(full, monkeypatch):
    monkeypatch.setattr(reading, "VERIFY_UP_TO", 0)
    with (full / "features.npy").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    open_store(full)
    with pytest.raises(StoreError, match=r"features\.npy: block 0"):
        open_store(full, verify=True)


@pytest.mark.parametrize("name", ["indptr.npy", "features.npy", "names.parquet", "splits/train.npy"])
def test_a_missing_file_is_named(full, name):
    (full / name).unlink()
    with pytest.raises(StoreError, match=rf"{name}: No such file or directory, and the manifest lists it"):
        open_store(full, verify=False)


def test_a_file_of_another_type_or_shape_is_noticed_without_verifying(full):
    labels = np.load(full / "labels.npy")
    np.save(full / "labels.npy", labels.view(np.float64))  # the same size
    with pytest.raises(StoreError, match=r"labels\.npy: holds <f8 values of shape \(30,\), the manifest says <i8"):
        open_store(full, verify=False)
    np.save(full / "labels.npy", labels.reshape(5, 6))
    with pytest.raises(StoreError, match=r"labels\.npy: holds <i8 values of shape \(5, 6\)"):
        open_store(full, verify=False)


@pytest.mark.parametrize(("at", "value"), [(0, 1), (-1, 7)])
def test_row_pointers_that_do_not_span_the_entries_are_noticed_without_verifying(full, at, value):
    indptr = np.load(full / "indptr.npy")
    indptr[at] = value
    np.save(full / "indptr.npy", indptr)
    with pytest.raises(StoreError, match=r"indptr\.npy: runs from"):
        open_store(full, verify=False)


def forge(folder: Path, name: str, change) -> None:
    """Alter an array and the checksums with it."""
    array = np.load(folder / name)
    change(array)
    np.save(folder / name, array)
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    rewrite_manifest(folder, lambda content: content["files"][name].update(sha256=[digest]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("indices.npy", 30),
        ("indptr.npy", 10**6),
        ("weights.npy", np.nan),
        ("weights.npy", -1),
        ("labels.npy", -2),
        ("splits/train.npy", 30),
        ("splits/train.npy", -1),
    ],
)
def test_a_forged_array_that_points_outside_is_noticed(full, name, value):
    forge(full, name, lambda array: array.__setitem__(1, value))
    with pytest.raises(StoreError, match=rf"{name}: holds values that cannot be"):
        open_store(full)


@pytest.mark.parametrize(("name", "value"), [("features_indices.npy", 9), ("features_indptr.npy", 10**6)])
def test_forged_sparse_features_that_point_outside_are_noticed(tmp_path, name, value):
    write_store(sparse_graph(), tmp_path / "s")
    forge(tmp_path / "s", name, lambda array: array.__setitem__(1, value))
    with pytest.raises(StoreError, match=rf"{name}: holds values that cannot be"):
        open_store(tmp_path / "s")


def test_a_pickled_array_is_not_loaded(full):
    """Loading this one would make a folder."""

    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(full / "attacked"),)

    np.save(full / "labels.npy", np.array([Attack()], object), allow_pickle=True)
    data = (full / "labels.npy").read_bytes().ljust(400, b"\x00")
    (full / "labels.npy").write_bytes(data)
    changes = {"bytes": len(data), "sha256": [hashlib.sha256(data).hexdigest()]}
    rewrite_manifest(full, lambda content: content["files"]["labels.npy"].update(changes))
    with pytest.raises(StoreError, match=r"labels\.npy: is not an \.npy file"):
        open_store(full)
    assert not (full / "attacked").exists()


# ---------------------------------------------------------------------- manifests that lie


def test_a_store_of_a_newer_version_says_who_wrote_it_and_to_upgrade(full):
    rewrite_manifest(full, lambda content: content.update(format_version=3, written_by="9.1.0", surprise=True))
    with pytest.raises(StoreError, match=r"store format 3, written by nodewise '9\.1\.0'.*Upgrade nodewise"):
        open_store(full)


def test_a_folder_that_is_no_store_says_so(tmp_path):
    with pytest.raises(StoreError, match="no such folder"):
        open_store(tmp_path / "missing")
    with pytest.raises(StoreError, match=r"has no manifest\.json"):
        open_store(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "something else"}')
    with pytest.raises(StoreError, match="Not a store of nodewise"):
        open_store(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"x"', '{"format": NaN}', "[" * 100_000, '{"format": 1' + "0" * 5000 + "}", "\x00"],
)
def test_a_manifest_that_is_no_json_object_is_an_error_of_the_store(full, text):
    (full / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=r"manifest\.json: "):
        open_store(full)


def test_a_manifest_that_is_no_text_is_an_error_of_the_store(full):
    (full / "manifest.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(StoreError, match=r"manifest\.json: is not JSON"):
        open_store(full)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "../s/labels.npy",
        "splits/../labels.npy",
        "splits/../../x.npy",
        "splits//x.npy",
        "splits/.npy",
        "splits/a/b.npy",
        "splits/a\\..\\b.npy",
        "splits/train.npy\n",
        "splits/tr\x00ain.npy",
        "LABELS.NPY",
        "",
        ".",
    ],
)
def test_a_manifest_cannot_name_files_outside_the_store(full, name):
    rewrite_manifest(full, lambda content: content["files"].update({name: content["files"]["labels.npy"]}))
    with pytest.raises(StoreError, match="which stores do not have"):
        open_store(full)


HARM = {
    "huge shape": lambda c: c["files"]["features.npy"].update(shape=[30, 2**61]),
    "shape that overflows": lambda c: c["files"]["features.npy"].update(shape=[2**32, 2**32]),
    "number beyond 64 bits": lambda c: c["files"]["features.npy"].update(shape=[30, 10**30]),
    "negative shape": lambda c: c["files"]["features.npy"].update(shape=[-30, -4]),
    "fractional shape": lambda c: c["files"]["features.npy"].update(shape=[30.0, 4]),
    "true as a length": lambda c: c["files"]["features.npy"].update(shape=[True, 4]),
    "text shape": lambda c: c["files"]["features.npy"].update(shape="30"),
    "no shape": lambda c: c["files"]["features.npy"].pop("shape"),
    "shape of another rank": lambda c: c["files"]["features.npy"].update(shape=[120]),
    "object dtype": lambda c: c["files"]["features.npy"].update(dtype="|O"),
    "list dtype": lambda c: c["files"]["features.npy"].update(dtype=["<f4"]),
    "other dtype": lambda c: c["files"]["indices.npy"].update(dtype="<f4"),
    "negative bytes": lambda c: c["files"]["features.npy"].update(bytes=-1),
    "too many bytes": lambda c: c["files"]["features.npy"].update(bytes=10**9),
    "no block size": lambda c: c["files"]["features.npy"].update(block_bytes=0),
    "negative block size": lambda c: c["files"]["features.npy"].update(block_bytes=-4096),
    "too few checksums": lambda c: c["files"]["features.npy"].update(sha256=[]),
    "too many checksums": lambda c: c["files"]["features.npy"]["sha256"].append("0" * 64),
    "checksum that is no text": lambda c: c["files"]["features.npy"].update(sha256=[0]),
    "checksum in short": lambda c: c["files"]["features.npy"].update(sha256=["00"]),
    "entry that is no object": lambda c: c["files"].update({"features.npy": 7}),
    "files that are no object": lambda c: c.update(files=[]),
    "labels out of order": lambda c: c.update(present_labels=[1, 0]),
    "labels beyond the classes": lambda c: c.update(present_labels=[0, 99]),
    "labels that are no numbers": lambda c: c.update(present_labels=["a"]),
    "degrees that are no object": lambda c: c.update(degrees=[1, 2]),
    "degrees without the least": lambda c: c["degrees"].pop("least"),
    "degrees of zero": lambda c: c["degrees"].update(total=0),
    "degrees that are text": lambda c: c["degrees"].update(least="1"),
    "int8 without steps": lambda c: c["files"]["features.npy"].update(dtype="|i1"),
    "steps without int8": lambda c: c["files"].update({"feature_steps.npy": c["files"]["features.npy"]}),
    "no files": lambda c: c.pop("files"),
    "no indices": lambda c: c["files"].pop("indices.npy"),
    "no counts": lambda c: c.pop("counts"),
    "no nodes": lambda c: c["counts"].update(nodes=0),
    "negative nodes": lambda c: c["counts"].update(nodes=-30),
    "too many nodes": lambda c: c["counts"].update(nodes=2**40),
    "text nodes": lambda c: c["counts"].update(nodes="30"),
    "no number of nodes": lambda c: c["counts"].update(nodes=None),
    "other edges": lambda c: c["counts"].update(edges=1),
    "other features": lambda c: c["counts"].update(features=5),
    "weights that are not": lambda c: c["files"].pop("weights.npy"),
    "sparse that is not": lambda c: c["flags"].update(sparse_features=True),
    "multilabel that is not": lambda c: c["flags"].update(multilabel=True),
    "flag that is no flag": lambda c: c["flags"].update(weighted=1),
    "label names that are no list": lambda c: c.update(label_names={"a": 1}),
    "label names that are no text": lambda c: c.update(label_names=[1]),
    "name that is no text": lambda c: c.update(name=None),
    "provenance that is no object": lambda c: c.update(provenance=[]),
    "format version of zero": lambda c: c.update(format_version=0),
    "format version as text": lambda c: c.update(format_version="1"),
    "format version true": lambda c: c.update(format_version=True),
    "no format version": lambda c: c.pop("format_version"),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_a_manifest_that_cannot_be_is_an_error_of_the_store(full, harm):
    rewrite_manifest(full, harm)
    with pytest.raises(StoreError, match=r"manifest\.json: "):
        open_store(full)


def test_not_a_number_in_the_manifest_is_an_error_of_the_store(full):
    text = (full / "manifest.json").read_text()
    (full / "manifest.json").write_text(text.replace('"nodes": 30', '"nodes": NaN'))
    with pytest.raises(StoreError, match="NaN is not a number"):
        open_store(full)


# ---------------------------------------------------------------------- writing


def test_an_existing_store_is_kept_unless_told_otherwise(full):
    before = everything(open_store(full))
    with pytest.raises(StoreError, match="--overwrite"):
        write_store(sparse_graph(), full)
    assert everything(open_store(full)) == before
    write_store(sparse_graph(), full, overwrite=True)
    assert everything(open_store(full)) == everything(sparse_graph())


def test_overwrite_does_not_take_a_folder_that_is_no_store(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"thesis\.tex"):
        write_store(full_graph(), tmp_path, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    "provenance",
    [{"x": float("nan")}, {"x": object()}, {"x": {1, 2}}, {(1, 2): 3}],
    ids=["nan", "object", "set", "key"],
)
def test_provenance_that_json_cannot_hold_is_refused_and_nothing_is_written(tmp_path, provenance):
    with pytest.raises(InputError, match="provenance"):
        write_store(full_graph(), tmp_path / "s", provenance=provenance)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "a\nb", "x" * 200])
def test_a_split_whose_name_is_no_file_name_is_refused_and_nothing_is_written(tmp_path, name):
    graph = full_graph().replace(splits={name: np.arange(3)})
    with pytest.raises(InputError, match="rename it"):
        write_store(graph, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [False, True])
def test_a_full_disk_leaves_the_old_store_and_nothing_else(tmp_path, names):
    """A real failed write: the process may write no file above 64 KiB."""
    write_store(full_graph(), tmp_path / "s")
    what = "node_names=[secrets.token_hex(20) for _ in range(n)]" if names else "features=np.ones((n, 8), np.float32)"
    script = f"""
import resource
import secrets
import numpy as np
from nodewise import Graph, StoreError, write_store
n = 7000
graph = Graph.from_edges(np.array([[0], [1]]), n, {what})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
for target in ("s", "new/deep/t"):
    try:
        write_store(graph, {str(tmp_path)!r} + "/" + target, overwrite=True)
    except StoreError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.count("cannot be written: File too large; raise the limit") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    assert everything(open_store(tmp_path / "s")) == everything(full_graph())
