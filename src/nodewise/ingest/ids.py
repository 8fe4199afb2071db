"""The ids in the files -> nodes 0 to n-1.

Ids are whole numbers that say the node outright, or names. Names are numbered in the order of the feature file where
it has a node column, then of the label file, then of the edges, row by row.
"""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodewise._typing import AnyArray, IntArray
from nodewise.adjacency import MAX_NODES
from nodewise.errors import InputError, NodewiseWarning
from nodewise.ingest import columns
from nodewise.ingest.columns import Column
from nodewise.ingest.edges import Edges
from nodewise.ingest.features import FeatureFile
from nodewise.ingest.labels import LabelFile
from nodewise.store import Names

WHOLE_IDS = f"node ids are whole numbers from 0 to at most {MAX_NODES - 1:,}. If these are names, pass --ids names"


@dataclasses.dataclass(frozen=True)
class Files:
    """What was read."""

    edges: Edges
    features: FeatureFile | None = None
    labels: LabelFile | None = None

    @property
    def feature_nodes(self) -> Column | None:
        """The column that says which node a row of features is about."""
        return None if self.features is None else self.features.nodes

    @property
    def label_nodes(self) -> Column | None:
        """The column that says which node a label is for."""
        return None if self.labels is None else self.labels.nodes

    @property
    def id_columns(self) -> list[Column]:
        """All columns that hold node ids."""
        columns = (self.edges.source, self.edges.target, self.feature_nodes, self.label_nodes)
        return [column for column in columns if column is not None]


@dataclasses.dataclass(frozen=True)
class Numbering:
    """The nodes that the files speak of; ``of_features`` and ``of_labels`` say which node each row is about."""

    num_nodes: int
    edge_index: AnyArray
    of_features: IntArray | None = None
    of_labels: IntArray | None = None
    names: Names | None = None


def ids_are_whole(files: Files) -> bool:
    """Whether every id in every file is a number."""
    return all(columns.looks_whole(column) for column in files.id_columns)


def all_text(files: Files) -> bool:
    """Whether every id was read as text."""
    return all(pa.types.is_large_string(column.values.type) for column in files.id_columns)


# ---------------------------------------------------------------------- whole numbers


def number_by_value(files: Files, add_missing: bool) -> Numbering:
    """The node of an id is the id itself."""
    edges = files.edges
    ends = np.stack([_whole(edges.source), _whole(edges.target)])
    of_features = None if files.feature_nodes is None else _whole(files.feature_nodes)
    of_labels = None if files.label_nodes is None else _whole(files.label_nodes)
    if files.feature_nodes is not None and of_features is not None:
        _check_rows(files.feature_nodes, of_features, add_missing)
    known, known_in = _known_nodes(files, of_features)
    largest = max((int(ids.max()) for ids in (ends, of_labels) if ids is not None and ids.size), default=-1)
    if known is None:
        _warn_of_gaps(edges, largest, ends.size + (0 if of_labels is None else of_labels.size))
    elif largest >= known and not add_missing:
        _raise_missing(files, ends, of_labels, known, known_in)
    return Numbering(max(known or 0, largest + 1), ends, of_features, of_labels)


def _whole(column: Column) -> IntArray:
    return columns.as_whole(column, 0, WHOLE_IDS, high=MAX_NODES - 1)


def _known_nodes(files: Files, of_features: IntArray | None) -> tuple[int | None, Path]:
    """How many nodes there are and which file says so; None where all that is known are the ids in use."""
    if of_features is not None and files.features is not None:
        return (int(of_features.max()) + 1 if of_features.size else 0), files.features.path
    if files.features is not None:
        return len(files.features), files.features.path
    if files.labels is not None and files.labels.array is not None:
        return files.labels.array.shape[0], files.labels.path
    return files.edges.num_nodes, files.edges.path


def _check_rows(column: Column, ids: IntArray, add_missing: bool) -> None:
    """Each node once, and none left out."""
    _check_unique(column, ids)
    gaps = np.flatnonzero(np.sort(ids) != np.arange(ids.size))
    if gaps.size and not add_missing:
        raise InputError(
            f"{column.path}: node {gaps[0]} has no row, and ids go up to {ids.max()}; expected one row a node. Pass "
            f"--add-missing-nodes for rows of zeros, or --ids names if the ids have gaps"
        )


def _warn_of_gaps(edges: Edges, largest: int, mentions: int) -> None:
    if largest > 1_000_000 and largest > 10 * mentions:
        warnings.warn(
            f"{edges.path}: ids go up to {largest:,} and at most {mentions:,} are in use, which leaves many nodes "
            f"without an edge; pass --ids names (Python: ids='names') if the ids have gaps",
            NodewiseWarning,
            stacklevel=2,
        )


# ---------------------------------------------------------------------- names


def number_by_name(files: Files, add_missing: bool) -> Numbering:
    """Nodes are numbered as their names first appear."""
    _check_rows_have_names(files)
    named = (files.feature_nodes, files.label_nodes)
    parts = [columns.as_text(column) for column in named if column is not None]
    source, target = columns.as_text(files.edges.source), columns.as_text(files.edges.target)
    codes, names = _encoded([*parts, source, target])
    ends = np.stack(codes[-2:])
    rank = _first_appearance(np.concatenate([*codes[:-2], ends.T.reshape(-1)]), len(names))
    ends = rank[ends]
    numbered = [rank[code] for code in codes[:-2]]
    of_features = numbered.pop(0) if files.feature_nodes is not None else None
    of_labels = numbered.pop(0) if files.label_nodes is not None else None
    if files.feature_nodes is not None and of_features is not None:
        _check_unique(files.feature_nodes, of_features)
        if len(names) > len(of_features) and not add_missing:
            _raise_missing(files, ends, of_labels, len(of_features), files.feature_nodes.path)
    order = np.empty(len(names), np.int64)
    order[rank] = np.arange(len(names))
    return Numbering(len(names), ends, of_features, of_labels, Names.of(names.take(pa.array(order))))


def _check_rows_have_names(files: Files) -> None:
    """Rows without names cannot be matched to nodes that have them; with named features, labels go by their order."""
    for file in (files.features, files.labels if files.features is None else None):
        if file is not None and file.nodes is None:
            raise InputError(
                f"{file.path}: rows have no node names, and the ids in {files.edges.path} are names; use a table with "
                f"a column 'node', or number the nodes from 0 on"
            )


def _encoded(parts: list[Any]) -> tuple[list[IntArray], Any]:
    """A code for each string, equal where strings are, part by part; and the string of each code."""
    chunks = [chunk for part in parts for chunk in part.chunks]
    encoded = pc.dictionary_encode(pa.concat_arrays([pa.array([], pa.large_string()), *chunks]))
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.split(codes, np.cumsum([len(part) for part in parts])[:-1]), encoded.dictionary


def _first_appearance(codes: IntArray, num_codes: int) -> IntArray:
    """The rank of each code by where it first stands in ``codes``."""
    first = np.empty(num_codes, np.int64)
    first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)  # of repeated places, numpy keeps the last written
    rank = np.empty(num_codes, np.int64)
    rank[np.argsort(first)] = np.arange(num_codes)
    return rank


# ---------------------------------------------------------------------- errors


def _check_unique(column: Column, nodes: IntArray) -> None:
    order = np.argsort(nodes, kind="stable")
    repeats = np.flatnonzero(np.diff(nodes[order]) == 0)
    if repeats.size:
        first, second = int(order[repeats[0]]), int(order[repeats[0] + 1])
        raise InputError(
            f"{column.path}: rows {first + 1:,} and {second + 1:,} are both about node "
            f"{column.values[first].as_py()!r}; expected one row a node. Remove one of them"
        )


def _raise_missing(files: Files, ends: AnyArray, of_labels: IntArray | None, known: int, known_in: Path) -> NoReturn:
    """Name the first edge, or else the first label, of a node that ``known_in`` does not have."""
    outside = np.flatnonzero((ends >= known).any(axis=0))
    if outside.size or of_labels is None or files.label_nodes is None:
        row = int(outside[0])
        column = files.edges.source if ends[0, row] >= known else files.edges.target
    else:
        row, column = int(np.flatnonzero(of_labels >= known)[0]), files.label_nodes
    raise InputError(
        f"{column.path}: {column.place(row)} names node {column.values[row].as_py()!r}, which is not in {known_in}; "
        f"pass --add-missing-nodes or fix the file"
    )
