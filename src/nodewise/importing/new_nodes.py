"""New nodes in files, laid over a graph that is there already."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget, room_for, show_bytes
from nodewise._util.types import Features, IntArray
from nodewise._util.words import counted
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.edge_files import EdgePart, open_edges
from nodewise.formats.feature_files import FeatureFile, matrix_of_nodes, open_features
from nodewise.formats.npz import TIMES
from nodewise.formats.raw_graph import FeatureStream
from nodewise.formats.sql import Query
from nodewise.formats.tables import ReadOptions, Source, as_source
from nodewise.graph import Graph
from nodewise.graph.extended import ExtendedGraph
from nodewise.graph.names import expected_name, places_of

log = logging.getLogger("nodewise")
ROWS_AT_A_TIME = 1 << 12
EDGE_BYTES = 256  # of memory per edge, whose ends become Python objects
MADE = ("=", " is missing")  # in names of features that were made from a column: a value of it, or a mark


def with_new_nodes(graph: Graph, edges: Any, features: Any | None = None) -> ExtendedGraph:
    """The graph with the new nodes of files or frames laid over it; see :meth:`Graph.extended`.

    New nodes are those of ``features`` or, where the graph has none, those ends of ``edges`` that it does not know.

    >>> import pyarrow as pa
    >>> edges = pa.table({"source": ["dee"], "target": ["bob"]})
    >>> with_new_nodes(Graph.from_edges([[0, 1], [1, 2]], node_names=["ann", "bob", "cy"]), edges).node_names[3]
    'dee'
    """
    memory, options, named = memory_budget(None), ReadOptions(), graph.node_names is not None
    with ExitStack() as stack:
        table = _asked(as_source(edges, "edges"), "new edges")
        parts = _within(memory, f"reading {table}", open_edges(table, options, memory, stack).parts(named))
        if features is None:
            if graph.features is not None:
                raise InputError(f"{graph.name} has features; expected those of the new nodes, too: --new-features")
            new: list[Any] = _unknown(graph, parts)
            rows = None
        else:
            file = open_features(_asked(as_source(features, "features"), "new features"), options, memory, stack)
            new, places = _new_nodes(graph, file, memory)
            rows = _features(graph, file, places, len(new), memory)
    place_of = {node: graph.num_nodes + place for place, node in enumerate(new)}
    ends = np.concatenate([np.zeros((2, 0), np.int64), *(_ends(graph, part, place_of) for part in parts)], axis=1)
    weights = [part.weights for part in parts if part.weights is not None]
    return graph.extended(ends, rows, new if named else None, np.concatenate(weights) if weights else None)


def _within(memory: int, doing: str, parts: Iterator[EdgePart]) -> list[EdgePart]:
    """All parts; too many for ``memory`` are an error."""
    held: list[EdgePart] = []
    room, taken = room_for(doing, memory, 0), 0
    for part in parts:
        held.append(part)
        taken += EDGE_BYTES * len(part.source) + sum(TIMES * side.values.nbytes for side in (part.source, part.target))
        if taken > room:
            raise InputError(
                f"{doing} takes more than {show_bytes(taken)} of memory, and {show_bytes(memory)} may be used; add so "
                f"many edges with `nodewise append`, which needs less"
            )
    return held


def _asked(source: Source, what: str) -> Source:
    if isinstance(source, Query):
        raise InputError(f"{source}: {what} are read from files; write the answer to a Parquet file first")
    return source


def _new_nodes(graph: Graph, file: FeatureFile, memory: int) -> tuple[list[Any], IntArray]:
    """The new nodes in the order in which they first occur, and the place among them of each row."""
    if file.nodes is None:
        if graph.node_names is not None:
            raise InputError(f"{file.path}: rows have no node names; use a table with a column 'node'")
        count = file.num_rows()
        return list(range(graph.num_nodes, graph.num_nodes + count)), np.arange(count)
    found: dict[Any, int] = {}
    places: list[IntArray] = []
    for column in file.nodes(graph.node_names is not None):
        ids, known = _known(graph, column)
        if (known >= 0).any():
            raise column.wrong(int(np.argmax(known >= 0)), f"this is a node of {graph.name} already; expected new ones")
        expected = len(found) + np.arange(len(ids))  # as long as no node occurs twice
        here = np.array([found.setdefault(node, len(found)) for node in ids], np.int64)
        if not file.triples and (here != expected).any():
            raise column.wrong(int(np.argmax(here != expected)), "expected one row per node. Remove one of them")
        places.append(here)
        room_for(f"reading {file.path}", memory, EDGE_BYTES * len(found))
    new = list(found)
    place = np.concatenate([np.zeros(0, np.int64), *places])
    if graph.node_names is not None:
        return new, place
    if sorted(new) != list(range(graph.num_nodes, graph.num_nodes + len(new))):
        raise InputError(
            f"{file.path}: nodes {min(new)} to {max(new)}; ids of new nodes go on from those of {graph.name}: expected "
            f"{graph.num_nodes:,} to {graph.num_nodes + len(new) - 1:,}"
        )
    return sorted(new), np.array(new, np.int64)[place] - graph.num_nodes


def _features(graph: Graph, file: FeatureFile, places: IntArray, count: int, memory: int) -> Features:
    """The features of the new nodes, in their order and with the columns of the graph."""
    dense = isinstance(file.values, FeatureStream)
    room_for(f"reading {file.path}", memory, TIMES * 4 * count * (file.width if dense else 1))
    if isinstance(file.values, FeatureStream):
        rows: Any = np.zeros((count, file.width), np.float32)
        rows[places] = np.concatenate([rows[:0], *file.values.parts(ROWS_AT_A_TIME)])
    else:
        rows = matrix_of_nodes(file, places, count)
    if file.names is None or graph.feature_names is None:
        return rows
    theirs = {name: place for place, name in enumerate(file.names)}
    missing = [name for name in graph.feature_names if name not in theirs]
    needed = [name for name in missing if not any(mark in name for mark in MADE)]
    if needed and not file.triples:
        raise InputError(
            f"{file.path}: has no column {needed[0]!r}, which {graph.name} has; expected the same features, "
            f"{counted(len(needed), 'column')} missing"
        )
    ours = {name: place for place, name in enumerate(graph.feature_names)}
    other = [name for name in theirs if name not in ours]
    if other:
        log.info(
            "%s: %s left out that %s does not have: %s", file.path, counted(len(other), "feature"), graph.name,
            ", ".join(other[:5]),
        )  # fmt: skip
    both = [name for name in theirs if name in ours]
    moves = (np.ones(len(both), np.float32), ([theirs[name] for name in both], [ours[name] for name in both]))
    moved = sp.csr_matrix(rows) @ sp.csr_matrix(moves, (file.width, graph.num_features))
    return sp.csr_matrix(moved) if sp.issparse(rows) else moved.toarray()


def _unknown(graph: Graph, parts: Sequence[EdgePart]) -> list[Any]:
    """The ends of edges that the graph does not have, in the order in which they first occur."""
    found: dict[Any, None] = {}
    for part in parts:
        for column in (part.source, part.target):
            ids, known = _known(graph, column)
            found |= dict.fromkeys(node for node, place in zip(ids, known.tolist(), strict=True) if place < 0)
    return list(found) if graph.node_names is not None else sorted(found)


def _ends(graph: Graph, part: EdgePart, place_of: Mapping[Any, int]) -> IntArray:
    """Both ends as ids of the extended graph; one that is neither new nor known is an error that names its row."""
    ends = []
    for column in (part.source, part.target):
        ids, found = _known(graph, column)
        for i in np.flatnonzero(found < 0):
            found[i] = place_of.get(ids[i], -1)
        if (found < 0).any():
            wrong = int(np.argmax(found < 0))
            nearest = "" if graph.node_names is None else f"; {expected_name(ids[wrong], graph.node_names)}"
            raise column.wrong(wrong, f"this is neither a node of {graph.name} nor a new one with features{nearest}")
        ends.append(found)
    return np.stack(ends)


def _known(graph: Graph, column: Column) -> tuple[list[Any], IntArray]:
    """The ids in a column, and the nodes of the graph with these ids, -1 where there is none."""
    if graph.node_names is not None:
        names: list[Any] = columns.as_text(column).to_pylist()
        return names, places_of(names, graph.node_names)
    ids = columns.as_whole(columns.decoded(column), 0, "node ids are whole numbers")
    return ids.tolist(), np.where(ids < graph.num_nodes, ids, -1)
