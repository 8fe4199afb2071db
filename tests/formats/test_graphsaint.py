"""GraphSAINT's layout, from folders and zips; and what is said of broken ones."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise._util.errors import InputError
from nodewise.formats.graphsaint_files import read_graphsaint
from nodewise.formats.raw_graph import RawGraph
from nodewise.formats.unpack import open_files
from tiny_layouts import Tiny, assert_same, read_through, write_graphsaint, zipped


def read(path: Path) -> RawGraph:
    return read_graphsaint(open_files(path))


def in_rows(edges: Any, nodes: int) -> Any:
    """Each edge once, in the order of the rows of a matrix, which is all that GraphSAINT's layout keeps."""
    return np.array(np.unravel_index(np.unique(edges[0] * nodes + edges[1]), (nodes, nodes)))


@pytest.fixture
def ring() -> Tiny:
    """Both directions of each edge, as GraphSAINT has them."""
    tiny = Tiny.ring()
    return dataclasses.replace(tiny, edges=in_rows(np.concatenate([tiny.edges, tiny.edges[::-1]], 1), 8))


@pytest.fixture
def folder(tmp_path: Path, ring: Tiny) -> Path:
    return write_graphsaint(tmp_path / "tiny", ring)


def test_a_folder_and_its_zip_hold_the_same_graph(folder: Path, ring: Tiny) -> None:
    assert_same(read(folder), ring)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert_same(read(zipped(folder, compression)), ring)
    assert read(folder).name == "tiny"


def test_double_precision_is_kept_as_single(folder: Path) -> None:
    features = read(folder).features
    assert features is not None
    assert (features.width, features.dtype) == (3, "float32")


def test_several_labels_per_node(folder: Path, ring: Tiny) -> None:
    several = dataclasses.replace(ring, labels=np.arange(32).reshape(8, 4) // 3 % 2)
    raw = read(write_graphsaint(folder, several))
    assert_same(raw, several)
    assert raw.labels is not None
    assert raw.labels.dtype == np.int8


def test_a_node_without_a_class_is_unknown(folder: Path) -> None:
    (folder / "class_map.json").write_text('{"7": 2, "0": 1}')
    labels = read(folder).labels
    assert labels is not None
    assert labels.tolist() == [1, -1, -1, -1, -1, -1, -1, 2]


def test_the_training_matrix_may_be_missing(folder: Path, ring: Tiny) -> None:
    (folder / "adj_train.npz").unlink()
    assert_same(read(folder), ring)


def test_features_by_columns_are_read_by_rows(folder: Path, ring: Tiny) -> None:
    np.save(folder / "feats.npy", np.asfortranarray(ring.features))
    assert_same(read(folder), ring)


@settings(max_examples=40, deadline=None)
@given(
    data=st.integers(1, 25).flatmap(
        lambda n: st.tuples(
            st.just(n),
            hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(0, 60)), elements=st.integers(0, n - 1)),
            hnp.arrays(np.int64, n, elements=st.integers(0, 5)),
        )
    ),
    rows=st.integers(1, 9),
)
def test_any_matrix_comes_back_edge_by_edge(data: Any, rows: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Empty rows at either end and rows across the ends of parts are what goes wrong."""
    nodes, edges, labels = data
    splits = {"train": np.array([0]), "val": np.array([], np.int64), "test": np.array([nodes - 1])}
    tiny = Tiny(in_rows(edges, nodes), np.zeros((nodes, 1), np.float32), labels, splits, nodes)
    assert_same(read(write_graphsaint(tmp_path_factory.mktemp("saint") / "any", tiny)), tiny, rows)


# ---------------------------------------------------------------------- what is broken


def refused(folder: Path, match: str) -> None:
    with pytest.raises(InputError, match=match):
        read_through(read(folder))


@pytest.mark.parametrize("file", ["feats.npy", "class_map.json", "role.json"])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    refused(folder, rf"tiny: has no {file}")


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    refused(tmp_path, r"has no adj_full\.npz; expected a folder as GraphSAINT")


def matrix(folder: Path, **changes: Any) -> None:
    with np.load(folder / "adj_full.npz") as arrays:
        parts = dict(arrays) | changes
    np.savez(folder / "adj_full.npz", **{name: part for name, part in parts.items() if part is not None})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"indices": np.r_[np.zeros(15, np.int32), np.int32(8)]}, r"indices\.npy: edge 15 names node 8; there are 8"),
        ({"indices": np.r_[np.zeros(15, np.int32), np.int32(-3)]}, r"indices\.npy: edge 15 names node -3"),
        ({"indices": np.zeros(15, np.int32)}, r"indptr\.npy: does not rise from 0 to 15"),
        ({"indptr": np.r_[0, 5, 3, np.full(6, 16)]}, r"indptr\.npy: does not rise"),
        ({"indptr": np.arange(3)}, r"indptr\.npy: does not rise"),
        ({"indices": np.zeros(16)}, r"indices\.npy: an array of float64"),
        ({"indices": None}, r"adj_full\.npz: has no indices\.npy"),
        ({"format": np.array(b"csc")}, r"adj_full\.npz: a matrix of format b'csc'; expected csr"),
        ({"shape": np.array([8, 9])}, r"adj_full\.npz: a matrix of 8 by 9"),
        ({"shape": np.array([8.0, 8.0])}, r"shape\.npy: is not two counts"),
        ({"shape": np.array([-8, -8])}, r"shape\.npy: is not two counts"),
        ({"indices": np.array([None] * 16, object)}, r"indices\.npy: .*Python objects"),
    ],
)
def test_a_matrix_that_is_none(folder: Path, changes: dict[str, Any], reason: str) -> None:
    matrix(folder, **changes)
    refused(folder, reason)


def test_a_training_matrix_of_another_graph(folder: Path) -> None:
    sp.save_npz(folder / "adj_train.npz", sp.csr_matrix((7, 7)))
    refused(folder, r"adj_train\.npz: a matrix of 7 by 7, and adj_full\.npz is about 8 nodes")


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        (np.zeros((7, 3)), r"feats\.npy: has 7 rows of features, expected 8"),
        (np.zeros(8), r"feats\.npy: an array of float64 and shape \(8,\)"),
        (np.full((8, 2), np.nan), r"feats\.npy: node 0 has nan in column 0"),
        (np.full((8, 2), 1e300), r"feats\.npy: node 0 has inf in column 0"),
    ],
)
def test_features_that_are_none(folder: Path, features: Any, reason: str) -> None:
    np.save(folder / "feats.npy", features)
    refused(folder, reason)


def test_features_that_are_pickled_cut_off_or_overstated(folder: Path) -> None:
    path = folder / "feats.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    refused(folder, r"feats\.npy: is cut off")
    path.write_bytes(content.replace(b"(8, 3)", b"(8, 9" + b"9" * 30 + b")")[:128] + content[128:])
    refused(folder, r"feats\.npy: ")
    np.save(path, np.array([None] * 8, object), allow_pickle=True)
    refused(folder, r"feats\.npy: .*Python objects")
    path.write_bytes(b"hello")
    refused(folder, r"feats\.npy: .*not a valid \.npy array")


def test_a_class_of_thousands_of_digits(folder: Path) -> None:
    """ijson crashes at a number that Python refuses to convert."""
    (folder / "class_map.json").write_text('{"0": 1, "1": ' + 9000 * "9" + "}")
    refused(folder, r"class_map\.json: holds a number of 1,000 digits")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("[ 1, [\n", "]]")])
def test_a_class_inside_thousands_of_others(folder: Path, opening: str, closing: str) -> None:
    """ijson keeps the path to each of them, 10 GB for 200 KB."""
    (folder / "class_map.json").write_text('{"0": ' + 9000 * opening + "1" + 9000 * closing + "}")
    tracemalloc.start()
    refused(folder, r"class_map\.json: holds lists or objects inside others")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        ([0, 1], r"has no label for node 0; expected one JSON object"),
        ({"0": 1, "8": 0}, r"names node '8'; expected each of 0 to 7, once"),
        ({"0": 1, "x": 0}, r"names node 'x'"),
        ({"0": 1, "00": 0}, r"names node '00'.*once"),
        ({"0": 1, "1": -1}, r"node 1 has -1; expected a class, 0 or more"),
        ({"0": 1, "1": True}, r"node 1 has True; expected a class"),
        ({"0": 1, "1": [0, 1]}, r"node 1 has \[0, 1\]; expected a class"),
        ({str(i): [0, 1][: 1 + (i != 3)] for i in range(8)}, r"node 3 has \[0\]; expected a list of 2 of 0 and 1"),
        ({str(i): [0, i] for i in range(8)}, r"node 2 has \[0, 2\]; expected a list of 2 of 0 and 1"),
        ({str(i): [0, 1] for i in range(7)}, r"has no label for node 7"),
        ({}, r"has no label for node 0"),
    ],
)
def test_classes_that_are_none(folder: Path, classes: Any, reason: str) -> None:
    (folder / "class_map.json").write_text(json.dumps(classes))
    refused(folder, rf"class_map\.json: {reason}")


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("[]", r'has no list of nodes called "tr"'),
        ('{"tr": [0], "va": [1]}', r'has no list of nodes called "te"'),
        ('{"tr": [0], "va": [1.5], "te": []}', r'has no list of nodes called "va"'),
        ('{"tr": [0], "va": [1], "te": [8]}', r"test: entry 0 is 8"),
        ('{"tr": [0], "va": [' + "9" * 30 + '], "te": []}', r'has no list of nodes called "va"'),
        ('{"tr": [0', r"is cut off or not JSON"),
    ],
)
def test_roles_that_are_none(folder: Path, role: str, reason: str) -> None:
    (folder / "role.json").write_text(role)
    refused(folder, rf"role\.json: {reason}")
