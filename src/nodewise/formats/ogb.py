"""Read node-property data sets as the Open Graph Benchmark publishes them: a zip, or the folder that it unpacks to.

Two layouts, both with ``split/NAME/{train,valid,test}.csv.gz``. CSV (ogbn-arxiv): ``raw/edge.csv.gz``,
``num-node-list.csv.gz``, ``num-edge-list.csv.gz``, ``node-feat.csv.gz`` if nodes have features, and
``node-label.csv.gz``. Binary (ogbn-papers100M): ``raw/data.npz`` with ``edge_index``, ``num_nodes_list``,
``num_edges_list`` and perhaps ``node_feat``, and ``raw/node-label.npz`` with ``node_label``, NaN if unknown.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from nodewise._util.errors import InputError
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray, IntArray
from nodewise.formats.npy import NpyFile
from nodewise.formats.raw_graph import (
    EdgeStream,
    FeatureStream,
    RawGraph,
    array_features,
    check_count,
    edge_stream,
    feature_stream,
    node_labels,
    split_nodes,
)
from nodewise.formats.unpack import Files, Member

CSV_MARK, BINARY_MARK = "raw/edge.csv.gz", "raw/data.npz"
BLOCK_BYTES = 4 << 20  # of text; a row must fit into one block
_ARRAYS = ("edge_index.npy", "node_feat.npy", "num_nodes_list.npy", "num_edges_list.npy")
_PARTS = {"train": "train", "val": "valid", "test": "test"}


def read_ogb(files: Files) -> RawGraph:
    """The graph in a zip or folder of the Open Graph Benchmark; edges and features stay on the disk."""
    root = files.root(CSV_MARK, BINARY_MARK)
    if root is None:
        raise InputError(
            f"{files.label}: has neither {CSV_MARK} nor {BINARY_MARK}; expected the zip or folder of an OGB data set "
            f"for node prediction, with one kind of nodes and edges"
        )
    return _read_csv(files, root) if files.has(root + CSV_MARK) else _read_binary(files, root)


def _read_csv(files: Files, root: str) -> RawGraph:
    num_nodes, num_edges = (
        _one(member.label, _read_numbers(member, np.int64, width=1))
        for member in (files.member(f"{root}raw/num-{what}-list.csv.gz") for what in ("node", "edge"))
    )
    labels, features = files.member(f"{root}raw/node-label.csv.gz"), f"{root}raw/node-feat.csv.gz"
    return RawGraph(
        num_nodes,
        _csv_edges(files.member(root + CSV_MARK), num_nodes, num_edges),
        _csv_features(files.member(features), num_nodes) if files.has(features) else None,
        node_labels(labels.label, _read_numbers(labels, np.float64), num_nodes),
        splits=_splits(files, root, num_nodes),
        name=files.name,
    )


def _read_binary(files: Files, root: str) -> RawGraph:
    arrays = files.npz(root + BINARY_MARK)
    arrays.extract(*_ARRAYS)  # together: each pass over a zip inside a zip takes minutes
    num_nodes, num_edges = (_only(NpyFile(*arrays.member(f"num_{what}_list.npy"))) for what in ("nodes", "edges"))
    labels = NpyFile(*files.npz(f"{root}raw/node-label.npz").member("node_label.npy"))
    features = NpyFile(*arrays.member("node_feat.npy")) if arrays.has("node_feat.npy") else None
    return RawGraph(
        num_nodes,
        _binary_edges(NpyFile(*arrays.member("edge_index.npy")), num_nodes, num_edges),
        None if features is None else array_features(features.label, features, num_nodes),
        node_labels(labels.label, labels[...], num_nodes),
        splits=_splits(files, root, num_nodes),
        name=files.name,
    )


def _csv_edges(member: Member, num_nodes: int, num_edges: int) -> EdgeStream:
    def parts(rows: int) -> Iterator[AnyArray]:
        for table in _number_parts(member, np.int64, rows, width=2):
            yield np.ascontiguousarray(table.T)

    return edge_stream(member.label, parts, num_nodes, num_edges)


def _csv_features(member: Member, num_nodes: int) -> FeatureStream:
    width = _count_columns(member)

    def parts(rows: int) -> Iterator[AnyArray]:
        return _number_parts(member, np.float32, rows, width)

    return feature_stream(member.label, parts, (num_nodes, width), np.float32)


def _binary_edges(edges: NpyFile, num_nodes: int, num_edges: int) -> EdgeStream:
    if len(edges.shape) != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise InputError(f"{edges.label}: {edges}; expected whole numbers, (2, num_edges)")
    check_count(edges.label, edges.shape[1], num_edges, "edges")

    def parts(count: int) -> Iterator[AnyArray]:
        for first in range(0, num_edges, count):
            yield edges[:, first : first + count]

    return edge_stream(edges.label, parts, num_nodes, num_edges)


def _splits(files: Files, root: str, num_nodes: int) -> dict[str, IntArray]:
    """The nodes of each part; a data set published with several splits must be reduced to one."""
    folders = files.folders(f"{root}split")
    if len(folders) > 1:
        raise InputError(
            f"{files.label}: has several folders in split: {', '.join(folders)}; expected one. Keep the one to use"
        )
    splits = {}
    for folder in folders:
        for part, file in _PARTS.items():
            member = files.member(f"{root}split/{folder}/{file}.csv.gz")
            nodes = _read_numbers(member, np.int64, width=1)[:, 0]
            splits[part] = split_nodes(member.label, nodes, num_nodes, part)
    return splits


def _only(array: NpyFile) -> int:
    if array.dtype.kind not in "iu":
        raise InputError(f"{array.label}: {array}; expected one count")
    return _one(array.label, array[...])


def _one(label: str, counts: AnyArray) -> int:
    """The only count in a list with one entry per graph."""
    if counts.size != 1 or counts.min() < 0:
        raise InputError(
            f"{label}: is about {counts.size:,} graphs; expected one, with a count of 0 or more. Only data sets for "
            f"node prediction are read"
        )
    return int(counts.reshape(-1)[0])


# ---------------------------------------------------------------------- gzipped CSV of numbers, without a header


def _read_numbers(member: Member, kind: Any, width: int | None = None) -> AnyArray:
    """A small table, ``(rows, columns)``; an empty field is NaN in a table of floats."""
    parts = list(_number_parts(member, kind, 1 << 30, width))
    return np.concatenate(parts) if parts else np.empty((0, width or 0), kind)


def _number_parts(member: Member, kind: Any, rows: int, width: int | None = None) -> Iterator[AnyArray]:
    """Up to ``rows`` rows at a time, as arrays ``(k, columns)`` of type ``kind``; ``width`` columns are expected."""
    found = _count_columns(member)
    if found == 0:
        return
    if width not in (None, found):
        raise InputError(f"{member.label}: has {found} columns; expected {width}. Fetch or write the file again")
    with _reading(member):
        batches = pacsv.open_csv(
            pa.input_stream(str(member.path), compression="gzip"),
            pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, autogenerate_column_names=True),
            convert_options=pacsv.ConvertOptions(
                column_types={f"f{i}": pa.from_numpy_dtype(kind) for i in range(found)}, null_values=[""]
            ),
        )
        for batch in batches:
            table = _matrix(batch, kind, member.label)
            for first in range(0, table.shape[0], rows):
                yield table[first : first + rows]


def _count_columns(member: Member) -> int:
    """The number of columns of the first row; 0 if there is no row."""
    with _reading(member), gzip.open(member.path) as stream:
        line = stream.readline(BLOCK_BYTES)
    return line.count(b",") + 1 if line.strip() else 0


def _matrix(batch: Any, kind: Any, label: str) -> AnyArray:
    table = np.empty((batch.num_rows, batch.num_columns), kind)
    for i, column in enumerate(batch.columns):
        if column.null_count and table.dtype.kind != "f":
            raise InputError(f"{label}: has an empty field in column {i + 1}; expected a whole number. Fill it")
        table[:, i] = column.to_numpy(zero_copy_only=False)  # a null among floats becomes NaN
    return table


def _reading(member: Member) -> AbstractContextManager[None]:
    damage = (pa.ArrowException, ValueError, EOFError, zlib.error)
    return reading(member.label, "gzipped rows of numbers", damage, advice="fetch or write it again")
