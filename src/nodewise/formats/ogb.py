"""Read node-property data sets as the Open Graph Benchmark publishes them: a zip, or the folder that it unpacks to.

Two layouts, both with ``split/NAME/{train,valid,test}.csv.gz``. CSV (ogbn-arxiv): ``raw/edge.csv.gz``,
``num-node-list.csv.gz``, ``num-edge-list.csv.gz``, ``node-feat.csv.gz`` if nodes have features, and
``node-label.csv.gz``. Binary (ogbn-papers100M): ``raw/data.npz`` with ``edge_index``, ``num_nodes_list``,
``num_edges_list`` and perhaps ``node_feat``, and ``raw/node-label.npz`` with ``node_label``, NaN if unknown.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget, room_for, too_small
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray, IntArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.csv import TextTable, open_lines
from nodewise.formats.npy import NpyFile
from nodewise.formats.npz import TIMES
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
from nodewise.graph.adjacency import MAX_NODES

CSV_MARK, BINARY_MARK = "raw/edge.csv.gz", "raw/data.npz"
GZIP = b"\x1f\x8b"  # how a gzipped file begins
_ARRAYS = ("edge_index.npy", "node_feat.npy", "num_nodes_list.npy", "num_edges_list.npy")
_PARTS = {"train": "train", "val": "valid", "test": "test"}


def read_ogb(files: Files, memory: int | None = None) -> RawGraph:
    """The graph in a zip or folder of the Open Graph Benchmark; edges and features stay on the disk."""
    root = files.root(CSV_MARK, BINARY_MARK)
    if root is None:
        raise InputError(
            f"{files.label}: has neither {CSV_MARK} nor {BINARY_MARK}; expected the zip or folder of an OGB data set "
            f"for node prediction, with one kind of nodes and edges"
        )
    return (_read_csv if files.has(root + CSV_MARK) else _read_binary)(files, root, memory_budget(memory))


def _read_csv(files: Files, root: str, memory: int) -> RawGraph:
    num_nodes, num_edges = (
        _one(member.label, _read_numbers(member, np.int64, MAX_NODES, memory, width=1))
        for member in (files.member(f"{root}raw/num-{what}-list.csv.gz") for what in ("node", "edge"))
    )
    labels, features = files.member(f"{root}raw/node-label.csv.gz"), f"{root}raw/node-feat.csv.gz"
    return RawGraph(
        num_nodes,
        _csv_edges(files.member(root + CSV_MARK), num_nodes, num_edges, memory),
        _csv_features(files.member(features), num_nodes, memory) if files.has(features) else None,
        node_labels(labels.label, _read_numbers(labels, np.float64, num_nodes, memory), num_nodes),
        splits=_splits(files, root, num_nodes, memory),
        name=files.name,
    )


def _read_binary(files: Files, root: str, memory: int) -> RawGraph:
    arrays = files.npz(root + BINARY_MARK)
    arrays.extract(*_ARRAYS)  # together: each pass over a zip inside a zip takes minutes
    num_nodes, num_edges = (
        _one(counts.label, counts)
        for counts in (NpyFile(*arrays.member(f"num_{what}_list.npy")) for what in ("nodes", "edges"))
    )
    labels = NpyFile(*files.npz(f"{root}raw/node-label.npz").member("node_label.npy"))
    room_for(f"reading {labels.label}", memory, TIMES * labels.nbytes)
    features = NpyFile(*arrays.member("node_feat.npy")) if arrays.has("node_feat.npy") else None
    return RawGraph(
        num_nodes,
        _binary_edges(NpyFile(*arrays.member("edge_index.npy")), num_nodes, num_edges),
        None if features is None else array_features(features.label, features, num_nodes),
        node_labels(labels.label, labels[...], num_nodes),
        splits=_splits(files, root, num_nodes, memory),
        name=files.name,
    )


def _csv_edges(member: Member, num_nodes: int, num_edges: int, memory: int) -> EdgeStream:
    table = _opened(member, memory)

    def parts(rows: int) -> Iterator[AnyArray]:
        for part in _number_parts(table, np.int64, rows, width=2):
            yield np.ascontiguousarray(part.T)

    return edge_stream(member.label, parts, num_nodes, num_edges)


def _csv_features(member: Member, num_nodes: int, memory: int) -> FeatureStream:
    table = _opened(member, memory)
    parts = functools.partial(_number_parts, table, np.float32)
    return feature_stream(member.label, parts, (num_nodes, len(table.names)), np.float32)


def _binary_edges(edges: NpyFile, num_nodes: int, num_edges: int) -> EdgeStream:
    if len(edges.shape) != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise InputError(f"{edges.label}: {edges}; expected whole numbers, (2, num_edges)")
    check_count(edges.label, edges.shape[1], num_edges, "edges")

    def parts(count: int) -> Iterator[AnyArray]:
        for first in range(0, num_edges, count):
            yield edges[:, first : first + count]

    return edge_stream(edges.label, parts, num_nodes, num_edges)


def _splits(files: Files, root: str, num_nodes: int, memory: int) -> dict[str, IntArray]:
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
            nodes = _read_numbers(member, np.int64, MAX_NODES, memory, width=1)[:, 0]
            splits[part] = split_nodes(member.label, nodes, num_nodes, part)
    return splits


def _one(label: str, counts: AnyArray | NpyFile) -> int:
    """The only count in a list with one entry per graph, which is read only if it is one."""
    if math.prod(counts.shape) != 1 or counts.dtype.kind not in "iu" or (count := int(counts[...].item())) < 0:
        raise InputError(
            f"{label}: an array of {counts.dtype} and shape {counts.shape}, one count per graph; expected one of 0 or "
            f"more. Only data sets for node prediction are read, which are one graph"
        )
    return count


# ---------------------------------------------------------------------- gzipped CSV of numbers, without a header


def _opened(member: Member, memory: int) -> TextTable:
    with reading(member.label), member.path.open("rb") as stream:
        if stream.read(len(GZIP)) != GZIP:
            raise InputError(f"{member.label}: is not gzipped rows of numbers; fetch or write it again")
    return open_lines(member.path, member.label, memory)


def _read_numbers(member: Member, kind: Any, most: int, memory: int, width: int | None = None) -> AnyArray:
    """A table of up to ``most`` rows, ``(rows, columns)``; an empty field is NaN in a table of floats."""
    table, doing = _opened(member, memory), f"reading {member.label}"
    parts = [np.empty((0, len(table.names) or width or 0), kind)]
    room, rows, taken = room_for(doing, memory, 0), 0, 0
    for part in _number_parts(table, kind, max(1, most), width):
        parts.append(part)
        rows, taken = rows + part.shape[0], taken + TIMES * part.nbytes
        if rows > most:
            raise InputError(f"{member.label}: has more than {most:,} rows; fetch or write it again")
        if taken > room:
            raise too_small(doing, memory, memory + 2 * taken)
    return np.concatenate(parts)


def _number_parts(table: TextTable, kind: Any, rows: int, width: int | None = None) -> Iterator[AnyArray]:
    """Up to ``rows`` rows at a time, as arrays ``(k, columns)`` of type ``kind``; ``width`` columns are expected."""
    found = len(table.names)
    if found and width not in (None, found):
        raise InputError(f"{table.path}: has {found} columns; expected {width}. Fetch or write the file again")
    convert = _whole if np.dtype(kind).kind == "i" else _floats
    for read in table.parts(dict.fromkeys(range(found), pa.from_numpy_dtype(kind))):
        part = np.empty((len(read[0]), found), kind)
        for i, column in enumerate(read):
            part[:, i] = convert(column)
        for first in range(0, part.shape[0], rows):
            yield part[first : first + rows]


def _whole(column: Column) -> AnyArray:
    return columns.as_whole(columns.decoded(column), -(2**62), "expected a whole number")


def _floats(column: Column) -> AnyArray:
    """Numbers, NaN where a field is empty."""

    def convert(values: Any) -> Any:
        if not pa.types.is_floating(values.type):
            values = pc.utf8_trim_whitespace(values)
            values = pc.if_else(pc.equal(values, ""), "nan", values).cast(pa.float64())
        return pc.fill_null(values, float("nan"))

    if not pa.types.is_floating(column.values.type):  # some value may be none
        column = columns.decoded(column)
    try:
        values: AnyArray = convert(column.values).to_numpy()
    except pa.ArrowInvalid as error:
        raise column.wrong(columns.first_failure(column.values, convert), "expected a number") from error
    return values
