"""OGB's layouts, CSV and binary, from folders and zips; and what is said of broken ones."""

from __future__ import annotations

import dataclasses
import gzip
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise._util.errors import InputError
from nodewise.formats import csv as csv_module
from nodewise.formats.ogb import read_ogb
from nodewise.formats.raw_graph import RawGraph
from nodewise.formats.unpack import open_files
from tiny_layouts import (
    Tiny,
    assert_same,
    features_of,
    read_through,
    write_csv,
    write_ogb_binary,
    write_ogb_csv,
    write_splits,
    zipped,
)


def read(path: Path) -> RawGraph:
    return read_ogb(open_files(path))


@pytest.fixture
def ring() -> Tiny:
    return Tiny.ring()


@pytest.fixture(params=["csv", "binary"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, ring: Tiny) -> Path:
    write = write_ogb_csv if request.param == "csv" else write_ogb_binary
    return write(tmp_path / "tiny", ring)


@pytest.fixture
def csv(tmp_path: Path, ring: Tiny) -> Path:
    return write_ogb_csv(tmp_path / "tiny", ring)


# ---------------------------------------------------------------------- what comes back


def test_a_folder_and_its_zip_hold_the_same_graph(folder: Path, ring: Tiny) -> None:
    assert_same(read(folder), ring)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raw = read(zipped(folder, compression))
        assert_same(raw, ring)
        assert raw.name == "tiny"


def test_a_zip_without_a_folder_at_the_top_will_do(folder: Path, ring: Tiny) -> None:
    assert_same(read(zipped(folder, top=False)), ring)


@pytest.mark.parametrize("outer", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("zip64", [False, True])
def test_a_zip_inside_a_zip_is_read_whatever_is_packed_and_however_large_its_fields_are(
    tmp_path: Path, outer: int, inner: bool, zip64: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = Tiny.ring(600)
    with monkeypatch.context() as patch:
        if zip64:  # what a file above 4 GB makes zipfile write
            patch.setattr(zipfile, "ZIP64_LIMIT", 16)
        path = zipped(write_ogb_binary(tmp_path / "tiny", big, compressed=inner), outer)
    if zip64:
        assert path.read_bytes().count(b"PK\x06\x06") >= 1  # the end record of ZIP64
    assert_same(read(path), big, rows=37)


def test_edges_by_pairs_are_read_as_edges_by_sides_are(tmp_path: Path, ring: Tiny) -> None:
    """numpy keeps the order of memory: an edge_index made from a table of pairs is in Fortran order on the disk."""
    by_pairs = np.asfortranarray(ring.edges)
    folder = write_ogb_binary(tmp_path / "tiny", ring, edge_index=by_pairs)
    assert_same(read(folder), ring)


def test_features_by_columns_are_read_by_rows(tmp_path: Path, ring: Tiny) -> None:
    folder = write_ogb_binary(tmp_path / "tiny", ring, True, node_feat=np.asfortranarray(ring.features))
    assert_same(read(folder), ring)
    assert_same(read(zipped(folder)), ring)


def test_float16_stays_and_float64_becomes_float32(tmp_path: Path, ring: Tiny) -> None:
    for given_as, kept in (("float16", "float16"), ("float64", "float32"), (">f4", "float32"), ("int64", "float32")):
        folder = write_ogb_binary(tmp_path / given_as.strip(">"), ring, node_feat=ring.features.astype(given_as))
        raw = read(folder)
        assert raw.features is not None
        assert raw.features.dtype == kept
        assert np.array_equal(features_of(raw, 3), ring.features.astype(given_as))


def test_unknown_labels_are_minus_one_and_several_labels_a_matrix(tmp_path: Path, ring: Tiny) -> None:
    gaps = np.where(np.arange(8) % 2, ring.labels, np.nan)
    for write in (write_ogb_csv, write_ogb_binary):
        raw = read(write(tmp_path / f"gaps-{write.__name__}", dataclasses.replace(ring, labels=gaps)))
        assert raw.labels is not None
        assert raw.labels.dtype == np.int64
        assert raw.labels.tolist() == [-1, 1, -1, 0, -1, 2, -1, 1]
        several = dataclasses.replace(ring, labels=np.arange(16).reshape(8, 2) // 3 % 2)
        raw = read(write(tmp_path / f"several-{write.__name__}", several))
        assert raw.labels is not None
        assert raw.labels.dtype == np.int8
        assert np.array_equal(raw.labels, several.labels)


def test_an_empty_label_is_unknown(csv: Path) -> None:
    (csv / "raw" / "node-label.csv.gz").write_bytes(gzip.compress(b'0\n""\n2\n0\n1\n2\n0\n1\n'))
    labels = read(csv).labels
    assert labels is not None
    assert labels.tolist() == [0, -1, 2, 0, 1, 2, 0, 1]


def test_nodes_without_features_and_graphs_without_edges(tmp_path: Path, ring: Tiny) -> None:
    bare = dataclasses.replace(ring, features=None, edges=np.empty((2, 0), np.int64))
    for write in (write_ogb_csv, write_ogb_binary):
        raw = read(write(tmp_path / write.__name__, bare))
        assert raw.features is None
        assert_same(raw, bare)


def test_a_csv_of_many_blocks_comes_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_module, "BLOCK_BYTES", 4096)
    big = Tiny.ring(3_000)
    assert_same(read(zipped(write_ogb_csv(tmp_path / "big", big))), big, rows=1_000)


graphs = st.integers(1, 30).flatmap(
    lambda n: st.builds(
        Tiny,
        edges=hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(0, 40)), elements=st.integers(0, n - 1)),
        features=hnp.arrays(np.float32, (n, 2), elements=st.floats(-1e6, 1e6, width=32)),
        labels=hnp.arrays(np.int64, n, elements=st.integers(-1, 5)),
        splits=st.fixed_dictionaries(
            {
                part: hnp.arrays(np.int64, st.integers(0, 5), elements=st.integers(0, n - 1))
                for part in ("train", "val", "test")
            }
        ),
        num_nodes=st.just(n),
    )
)


@settings(max_examples=30, deadline=None)
@given(tiny=graphs, rows=st.integers(1, 12), packed=st.booleans())
def test_any_graph_comes_back_from_the_layout_it_was_written_in(
    tiny: Tiny, rows: int, packed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("ogb")
    assert_same(read(zipped(write_ogb_csv(folder / "csv", tiny), 8 * packed)), tiny, rows)
    assert_same(read(zipped(write_ogb_binary(folder / "bin", tiny, packed), 8 * packed)), tiny, rows)


# ---------------------------------------------------------------------- what is broken


def refused(folder: Path, match: str, when_read: bool = False) -> None:
    """At once, or when the edges and features are read."""
    if not when_read:
        with pytest.raises(InputError, match=match):
            read(folder)
        return
    with pytest.raises(InputError, match=match):
        read_through(read(folder))


def test_a_folder_of_something_else_says_what_was_looked_for(tmp_path: Path) -> None:
    refused(tmp_path, r"neither raw/edge\.csv\.gz nor raw/data\.npz")


def test_a_missing_file_is_named(folder: Path) -> None:
    csv = (folder / "raw" / "edge.csv.gz").exists()
    (folder / "raw" / ("node-label.csv.gz" if csv else "node-label.npz")).unlink()
    refused(folder, r"tiny: has no raw/node-label\..* Fetch")
    refused(zipped(folder), r"tiny\.zip: has no tiny/raw/node-label\.")


def test_an_array_that_is_missing_is_named(tmp_path: Path, ring: Tiny) -> None:
    folder = write_ogb_binary(tmp_path / "tiny", ring, edge_index=None)
    refused(folder, r"data\.npz: has no edge_index\.npy")


@pytest.mark.parametrize(("wrong", "number"), [(8, r"8"), (-1, r"-1")])
def test_an_edge_to_nowhere_is_named_by_its_number(tmp_path: Path, ring: Tiny, wrong: int, number: str) -> None:
    ring.edges[1, 6] = wrong
    for write in (write_ogb_csv, write_ogb_binary):
        folder = write(tmp_path / write.__name__, ring)
        refused(folder, rf"edge.*: edge 6 names node {number}; there are 8", when_read=True)


def test_counts_that_disagree_are_named(tmp_path: Path, ring: Tiny) -> None:
    csv = write_ogb_csv(tmp_path / "csv", ring)
    write_csv(csv / "raw" / "num-edge-list.csv.gz", [9])
    refused(csv, r"edge\.csv\.gz: has 8 edges, expected 9", when_read=True)
    binary = write_ogb_binary(tmp_path / "bin", ring, num_edges_list=np.array([9]))
    refused(binary, r"edge_index\.npy: has 8 edges, expected 9")
    short = dataclasses.replace(ring, features=ring.features[:7])
    refused(
        write_ogb_csv(tmp_path / "a", short), r"node-feat\.csv\.gz: has 7 rows of features, expected 8", when_read=True
    )
    refused(write_ogb_binary(tmp_path / "b", short), r"node_feat\.npy: has 7 rows of features, expected 8")


def test_labels_of_the_wrong_number_are_refused(tmp_path: Path, ring: Tiny) -> None:
    folder = write_ogb_csv(tmp_path / "tiny", dataclasses.replace(ring, labels=ring.labels[:7]))
    refused(folder, r"node-label\.csv\.gz: labels: 7 for 8 nodes")


def test_several_graphs_are_refused(csv: Path) -> None:
    write_csv(csv / "raw" / "num-node-list.csv.gz", [4, 4])
    refused(csv, r"num-node-list\.csv\.gz: an array of int64 and shape \(2, 1\), .*; expected one")


def test_a_split_that_names_no_node_and_one_that_is_not_unique(csv: Path, ring: Tiny) -> None:
    write_splits(csv, ring.splits | {"val": np.array([1, 8])})
    refused(csv, r"valid\.csv\.gz: val: entry 1 is 8")
    write_splits(csv, ring.splits, name="random")
    refused(csv, r"several folders in split: random, time")


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("edge", b"0,1\n1,x\n", r"edge\.csv\.gz: column '2' holds 'x' in row 2; expected a whole number"),
        ("edge", b"0,1\n1\n", r"edge\.csv\.gz: row 2 has 1 column, the first line has 2"),
        ("edge", b"0,1,2\n", r"edge\.csv\.gz: has 3 columns; expected 2"),
        ("edge", b"0,1\n1,\n", r"edge\.csv\.gz: column '2' holds nothing in row 2"),
        ("edge", b"0,1\n1,2.5\n", r"edge\.csv\.gz: .*2\.5"),
        ("node-feat", b"1,2,3\n" * 7 + b"1,nan,3\n", r"node-feat\.csv\.gz: node 7 has nan in column 1"),
        ("node-feat", b"1,2,3\n" * 7 + b"1,2,1e99\n", r"node-feat\.csv\.gz: node 7 has inf in column 2"),
        ("node-feat", b"1,2,3\n" * 7 + b"1,,3\n", r"node-feat\.csv\.gz: node 7 has nan in column 1"),
        ("num-node-list", b"", r"num-node-list\.csv\.gz: an array of int64 and shape \(0, 1\)"),
        ("node-label", b"0.5\n" * 8, r"node-label\.csv\.gz: labels: "),
    ],
)
def test_text_that_is_not_what_it_should_be(csv: Path, file: str, text: bytes, reason: str) -> None:
    (csv / "raw" / f"{file}.csv.gz").write_bytes(gzip.compress(text))
    refused(csv, reason, when_read=True)


def test_a_graph_of_no_nodes(csv: Path) -> None:
    for what in ("node", "edge"):
        (csv / "raw" / f"num-{what}-list.csv.gz").write_bytes(gzip.compress(b"0\n"))
    refused(csv, r"node-label\.csv\.gz: has more than 0 rows")


def test_text_that_is_cut_off_or_not_gzipped(csv: Path) -> None:
    path = csv / "raw" / "edge.csv.gz"
    content = path.read_bytes()
    path.write_bytes(content[:-12])
    refused(csv, r"edge\.csv\.gz: is cut off", when_read=True)
    path.write_bytes(b"0,1\n1,2\n")
    refused(csv, r"edge\.csv\.gz: .*not gzipped", when_read=True)


def test_a_command_ends_in_order_while_most_of_a_file_is_not_read_yet(tmp_path: Path) -> None:
    """A reader's threads that went on once Python ended would end the process: exit code 134."""
    edges = write_ogb_csv(tmp_path / "ogb", Tiny.ring(400_000)) / "raw" / "edge.csv.gz"
    edges.write_bytes(gzip.compress(b"5,x\n" + gzip.decompress(edges.read_bytes()).partition(b"\n")[2], 1))
    command = [sys.executable, "-m", "nodewise", "import", "--edges", str(tmp_path / "ogb"), "-o", str(tmp_path / "s")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "edge.csv.gz: column '2' holds 'x' in row 1; expected a whole number" in done.stderr


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"edge_index": np.array([[None, 1], [1, 2]], object)}, r"edge_index\.npy: .*Python objects"),
        ({"edge_index": np.zeros((3, 8), np.int64)}, r"edge_index\.npy: an array of int64 and shape \(3, 8\)"),
        ({"edge_index": np.zeros((2, 8))}, r"edge_index\.npy: an array of float64"),
        ({"node_feat": np.zeros(8)}, r"node_feat\.npy: an array of float64 and shape \(8,\)"),
        ({"num_nodes_list": np.array(["8"])}, r"num_nodes_list\.npy: an array of <U1"),
        ({"num_nodes_list": np.array([-8])}, r"num_nodes_list\.npy: .*0 or more"),
    ],
)
def test_arrays_that_are_not_what_they_should_be(
    tmp_path: Path, ring: Tiny, changes: dict[str, Any], reason: str
) -> None:
    refused(write_ogb_binary(tmp_path / "tiny", ring, **changes), reason, when_read=True)


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _no_zip(content: bytes) -> bytes:
    return b"not a zip at all"


@pytest.mark.parametrize("damage", [_cut, _no_zip])
def test_a_zip_that_is_cut_off_or_none(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    path = zipped(folder)
    path.write_bytes(damage(path.read_bytes()))
    refused(path, r"tiny\.zip: is cut off or not a valid zip.*fetch it again")


def test_a_zip_that_is_cut_off_inside_a_zip(tmp_path: Path, ring: Tiny) -> None:
    folder = write_ogb_binary(tmp_path / "tiny", ring)
    data = folder / "raw" / "data.npz"
    data.write_bytes(_cut(data.read_bytes()))
    refused(zipped(folder), r"tiny\.zip: tiny/raw/data\.npz: is cut off")


@pytest.mark.parametrize("outer", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_one_changed_byte_in_the_data_is_noticed_by_its_crc(tmp_path: Path, outer: int) -> None:
    big = Tiny.ring(600)
    folder = write_ogb_binary(tmp_path / "tiny", big)
    data = folder / "raw" / "data.npz"
    content = bytearray(data.read_bytes())
    at = content.index(np.arange(100, 120).astype("<i8").tobytes(), content.index(b"edge_index") + 600 * 8)
    content[at] ^= 1
    data.write_bytes(content)
    refused(
        zipped(folder, outer),
        r"tiny\.zip: tiny/raw/data\.npz: edge_index\.npy: .*Bad CRC-32",
    )
