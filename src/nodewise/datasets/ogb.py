"""Node-property data sets as the Open Graph Benchmark publishes them: a zip, or the folder that it unpacks to.

Two layouts, both with ``split/NAME/{train,valid,test}.csv.gz``. CSV (ogbn-arxiv): ``raw/edge.csv.gz``,
``num-node-list.csv.gz``, ``num-edge-list.csv.gz``, ``node-feat.csv.gz`` where nodes have features, and
``node-label.csv.gz``. Binary (ogbn-papers100M): ``raw/data.npz`` with ``edge_index``, ``num_nodes_list``,
``num_edges_list`` and perhaps ``node_feat``, and ``raw/node-label.npz`` with ``node_label``, NaN where unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from nodewise._typing import AnyArray, IntArray
from nodewise.datasets.archive import Files, Member, Zip, open_files
from nodewise.datasets.npy import NpyMember
from nodewise.datasets.streams import (
    check_count,
    checked_ends,
    feature_stream,
    node_labels,
    npy_features,
    split_nodes,
)
from nodewise.datasets.tables import read_table, table_parts, table_width
from nodewise.errors import InputError
from nodewise.ingest.raw import EdgeStream, FeatureStream, RawGraph

CSV_MARK, BINARY_MARK = "raw/edge.csv.gz", "raw/data.npz"
_PARTS = {"train": "train", "val": "valid", "test": "test"}


def read_ogb(path: str | Path) -> RawGraph:
    """The graph in a zip or folder of the Open Graph Benchmark, whose edges and features stay where they are."""
    path = Path(path)
    files = open_files(path)
    root = files.root(CSV_MARK, BINARY_MARK)
    if root is None:
        raise InputError(
            f"{path}: has neither {CSV_MARK} nor {BINARY_MARK}; expected the zip or folder of an OGB data set for node "
            f"prediction, with one kind of nodes and edges"
        )
    read = _read_csv if files.has(root + CSV_MARK) else _read_binary
    return read(files, root, path.stem if path.is_file() else path.name)


def _read_csv(files: Files, root: str, name: str) -> RawGraph:
    num_nodes = _single(files.member(f"{root}raw/num-node-list.csv.gz"))
    num_edges = _single(files.member(f"{root}raw/num-edge-list.csv.gz"))
    labels = files.member(f"{root}raw/node-label.csv.gz")
    features = f"{root}raw/node-feat.csv.gz"
    return RawGraph(
        num_nodes,
        _csv_edges(files.member(root + CSV_MARK), num_nodes, num_edges),
        _csv_features(files.member(features), num_nodes) if files.has(features) else None,
        node_labels(labels.label, read_table(labels, np.float64), num_nodes),
        splits=_splits(files, root, num_nodes),
        name=name,
    )


def _read_binary(files: Files, root: str, name: str) -> RawGraph:
    arrays = Zip(files.member(root + BINARY_MARK))
    num_nodes = _only(NpyMember(arrays.member("num_nodes_list.npy")))
    num_edges = _only(NpyMember(arrays.member("num_edges_list.npy")))
    labels = NpyMember(Zip(files.member(f"{root}raw/node-label.npz")).member("node_label.npy"))
    features = arrays.member("node_feat.npy") if arrays.has("node_feat.npy") else None
    return RawGraph(
        num_nodes,
        _binary_edges(NpyMember(arrays.member("edge_index.npy")), num_nodes, num_edges),
        None if features is None else npy_features(features, num_nodes),
        node_labels(labels.label, labels.whole(), num_nodes),
        splits=_splits(files, root, num_nodes),
        name=name,
    )


def _csv_edges(member: Member, num_nodes: int, num_edges: int) -> EdgeStream:
    def parts(rows: int) -> Iterator[AnyArray]:
        for table in table_parts(member, np.int64, rows, width=2):
            yield np.ascontiguousarray(table.T)

    return _edge_stream(member.label, parts, num_nodes, num_edges)


def _csv_features(member: Member, num_nodes: int) -> FeatureStream:
    width = table_width(member)

    def parts(rows: int) -> Iterator[AnyArray]:
        return table_parts(member, np.float32, rows, width)

    return feature_stream(member.label, parts, (num_nodes, width), np.float32)


def _binary_edges(edges: NpyMember, num_nodes: int, num_edges: int) -> EdgeStream:
    if len(edges.shape) != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise InputError(
            f"{edges.label}: an array of {edges.dtype} and shape {edges.shape}; expected whole numbers, (2, edges)"
        )
    check_count(edges.label, edges.shape[1], num_edges, "edges")
    return _edge_stream(edges.label, edges.columns, num_nodes, num_edges)


def _edge_stream(label: str, ends: Callable[[int], Iterator[AnyArray]], num_nodes: int, num_edges: int) -> EdgeStream:
    def parts(rows: int) -> Iterator[tuple[AnyArray, None]]:
        first = 0
        for part in ends(rows):
            yield checked_ends(label, part, first, num_nodes), None
            first += part.shape[1]
        check_count(label, first, num_edges, "edges")

    return EdgeStream(parts, num_edges)


def _splits(files: Files, root: str, num_nodes: int) -> dict[str, IntArray]:
    """The nodes of each part; a data set that was published with several ways to split needs one to be left."""
    folders = files.folders(f"{root}split")
    if len(folders) > 1:
        raise InputError(
            f"{files.label}: has several folders in split: {', '.join(folders)}; expected one. Keep the one to use"
        )
    splits = {}
    for folder in folders:
        for part, file in _PARTS.items():
            member = files.member(f"{root}split/{folder}/{file}.csv.gz")
            nodes = read_table(member, np.int64, width=1)[:, 0]
            splits[part] = split_nodes(member.label, nodes, num_nodes, part)
    return splits


def _single(member: Member) -> int:
    return _one(member.label, read_table(member, np.int64, width=1))


def _only(array: NpyMember) -> int:
    if math.prod(array.shape) != 1 or array.dtype.kind not in "iu":
        raise InputError(f"{array.label}: an array of {array.dtype} and shape {array.shape}; expected one count")
    return _one(array.label, array.whole())


def _one(label: str, counts: AnyArray) -> int:
    """The one count in a list that has an entry for each graph."""
    if counts.size != 1 or counts.min() < 0:
        raise InputError(
            f"{label}: is about {counts.size:,} graphs; expected one, with a count of 0 or more. Only data sets for "
            f"node prediction are read"
        )
    return int(counts.reshape(-1)[0])
