"""Read graphs as GraphSAINT publishes them: a folder (or a zip of one) with five files.

``adj_full.npz`` holds the parts of a scipy CSR matrix with an entry for each direction of each edge. Its values are not
read, since GraphSAINT itself takes the matrix as binary. ``feats.npy`` has one row per node, ``class_map.json`` a
class, or a list of 0 and 1, for each node, and ``role.json`` the nodes of each part: "tr", "va" and "te".

``adj_train.npz`` is the part of ``adj_full.npz`` among training nodes, for methods that train on that subgraph.
nodewise labels nodes within the whole graph and does not need it; if it exists, it must have the same shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, Any

import ijson
import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget, room_for
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray, IntArray
from nodewise.formats.npy import NpyFile
from nodewise.formats.npz import TIMES
from nodewise.formats.raw_graph import EdgeStream, RawGraph, array_features, edge_stream, node_labels, split_nodes
from nodewise.formats.unpack import Files, Member, Zip
from nodewise.graph.adjacency import MAX_NODES, entry_rows
from nodewise.graph.checks import UNKNOWN

MARK = "adj_full.npz"
_ARRAYS = ("format.npy", "shape.npy", "indptr.npy", "indices.npy")
ROLE_TIMES = 24  # memory per byte of the file of roles, whose numbers become Python objects
MOST_DIGITS = 1000  # of a number; ijson crashes at one that Python refuses to read
_TOO_MANY_DIGITS = re.compile(rb"[0-9]{%d}" % MOST_DIGITS)
_NESTED = re.compile(rb"[\[:,]\s*\{|[\[,]\s*\[")  # of which a parser may keep every path
MOST_VALUE = 64 << 20  # bytes of a file of classes that are about one node
_PARTS = {"train": "tr", "val": "va", "test": "te"}


def read_graphsaint(files: Files, memory: int | None = None) -> RawGraph:
    """The graph in a folder or zip of GraphSAINT; edges and features stay on the disk."""
    budget = memory_budget(memory)
    root = files.root(MARK)
    if root is None:
        raise InputError(f"{files.label}: has no {MARK}; expected a folder as GraphSAINT publishes it")
    num_nodes, edges = _adjacency(files.npz(root + MARK), budget)
    if files.has(f"{root}adj_train.npz"):
        train = files.npz(f"{root}adj_train.npz")
        if (shape := _shape(train)) != (num_nodes, num_nodes):
            raise InputError(
                f"{train.label}: a matrix of {shape[0]:,} by {shape[1]:,}, and {MARK} is about {num_nodes:,} nodes; "
                f"they are of different graphs. Fetch the folder again"
            )
    features = NpyFile(*files.member(f"{root}feats.npy"))
    return RawGraph(
        num_nodes,
        edges,
        array_features(features.label, features, num_nodes),
        _labels(files.member(f"{root}class_map.json"), num_nodes, budget),
        splits=_splits(files.member(f"{root}role.json"), num_nodes, budget),
        name=files.name,
    )


# ---------------------------------------------------------------------- edges


def _adjacency(arrays: Zip, memory: int) -> tuple[int, EdgeStream]:
    arrays.extract(*_ARRAYS)
    rows, columns = _shape(arrays)
    if rows != columns:
        raise InputError(f"{arrays.label}: a matrix of {rows:,} by {columns:,}; expected as many rows as columns")
    indptr, indices = (NpyFile(*arrays.member(f"{name}.npy")) for name in ("indptr", "indices"))
    for array in (indptr, indices):
        if len(array.shape) != 1 or array.dtype.kind not in "iu":
            raise InputError(f"{array.label}: {array}; expected one row of whole numbers")
    entries = indices.shape[0]
    room_for(f"reading {indptr.label}", memory, TIMES * 8 * indptr.shape[0])
    starts = _checked_indptr(indptr, rows, entries)

    def parts(count: int) -> Iterator[AnyArray]:
        for first in range(0, entries, count):
            targets = indices[first : first + count]
            yield np.stack([entry_rows(starts, first, first + targets.size), targets.astype(np.int64, copy=False)])

    return rows, edge_stream(indices.label, parts, rows, entries)


def _shape(arrays: Zip) -> tuple[int, int]:
    """The number of rows and columns of the CSR matrix."""
    kind = NpyFile(*arrays.member("format.npy"))
    if kind.shape != () or kind[...].item() not in (b"csr", "csr"):
        shown = kind[...].tolist() if kind.nbytes < 80 else str(kind)
        raise InputError(f"{arrays.label}: a matrix of format {shown!r}; expected csr. Save its tocsr()")
    shape = NpyFile(*arrays.member("shape.npy"))
    values = shape[...] if shape.shape == (2,) and shape.dtype.kind in "iu" else np.array([-1])
    if values.min() < 0 or values.max() > MAX_NODES:
        raise InputError(f"{shape.label}: is not two counts, of rows and of columns. Save the matrix again")
    return int(values[0]), int(values[1])


def _checked_indptr(indptr: NpyFile, num_nodes: int, entries: int) -> IntArray:
    starts = indptr[...].astype(np.int64)
    fits = starts.size == num_nodes + 1 and starts[0] == 0 and starts[-1] == entries
    if not fits or np.any(starts[1:] < starts[:-1]):
        raise InputError(
            f"{indptr.label}: does not rise from 0 to {entries:,}, the number of indices, in {num_nodes:,} steps; "
            f"expected the indptr of a CSR matrix. Fetch or save the matrix again"
        )
    return starts


# ---------------------------------------------------------------------- labels and splits


class _PerNode:
    """A stream of JSON that refuses to give more than :data:`MOST_VALUE` bytes about one node."""

    def __init__(self, stream: IO[bytes], label: str) -> None:
        self._stream, self._label, self.given, self._last = stream, label, 0, b""

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self.given += len(chunk)
        if _TOO_MANY_DIGITS.search(self._last + chunk):
            raise InputError(f"{self._label}: holds a number of {MOST_DIGITS:,} digits; expected classes, or 0 and 1")
        if _NESTED.search(self._last + chunk):
            raise InputError(f"{self._label}: holds lists or objects inside others; expected classes, or 0 and 1")
        self._last = chunk[-MOST_DIGITS:]
        if self.given > MOST_VALUE:
            raise InputError(
                f"{self._label}: more than {MOST_VALUE:,} bytes about one node; expected a class, or a list of 0 and 1"
            )
        return chunk


def _labels(member: Member, num_nodes: int, memory: int) -> AnyArray:
    """One class, or one row of 0 and 1, per node; not read whole, since Python lists take ten times the memory."""
    labels: AnyArray | None = None
    seen = np.zeros(num_nodes, bool)
    with _reading_json(member), member.path.open("rb") as file:
        stream = _PerNode(file, member.label)
        for key, value in ijson.kvitems(stream, ""):
            stream.given = 0
            node = int(key) if key.isascii() and key.isdigit() else num_nodes  # too many digits are a ValueError
            if node >= num_nodes or seen[node]:
                raise InputError(
                    f"{member.label}: names node {key[:60]!r}; expected each of 0 to {num_nodes - 1:,}, once. Correct "
                    f"it"
                )
            if labels is None:
                several = isinstance(value, list)
                row = len(value) if several else 8
                room_for(f"reading {member.label}", memory, TIMES * num_nodes * row)
                labels = (
                    np.zeros((num_nodes, len(value)), np.int8) if several else np.full(num_nodes, UNKNOWN, np.int64)
                )
            _put_label(member.label, labels, node, value)
            seen[node] = True
    if labels is None or (labels.ndim == 2 and not seen.all()):
        missing = int(np.flatnonzero(~seen)[0]) if num_nodes else 0
        raise InputError(
            f"{member.label}: has no label for node {missing:,}; expected one JSON object with an entry per node"
        )
    return node_labels(member.label, labels, num_nodes)


def _put_label(label: str, labels: AnyArray, node: int, value: Any) -> None:
    if labels.ndim == 2:
        fits = isinstance(value, list) and len(value) == labels.shape[1] and all(map((0, 1).__contains__, value))
    else:
        fits = type(value) is int and 0 <= value < 1 << 62
    if not fits:
        expected = f"a list of {labels.shape[1]} of 0 and 1" if labels.ndim == 2 else "a class, 0 or more"
        raise InputError(f"{label}: node {node:,} has {str(value)[:60]}; expected {expected}, as the first has")
    labels[node] = value


def _splits(member: Member, num_nodes: int, memory: int) -> dict[str, IntArray]:
    with _reading_json(member):
        room_for(f"reading {member.label}", memory, ROLE_TIMES * member.path.stat().st_size)
        role = json.loads(member.path.read_bytes())
    splits = {}
    for part, key in _PARTS.items():
        nodes = role.get(key) if isinstance(role, Mapping) else None
        if not isinstance(nodes, list) or not all(type(node) is int and abs(node) < 1 << 62 for node in nodes):
            raise InputError(
                f'{member.label}: has no list of nodes called "{key}"; expected "tr", "va" and "te", with node ids'
            )
        splits[part] = split_nodes(member.label, np.array(nodes, np.int64), num_nodes, part)
    return splits


def _reading_json(member: Member) -> AbstractContextManager[None]:
    damage = (ijson.JSONError, ValueError, RecursionError)  # the second: text that is not UTF-8
    return reading(member.label, "JSON", damage, advice="fetch or write it again")
