"""Read the file of labels of an import: (node, label) in any order, a column per class, or an array in node order."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodewise._util.errors import InputError, warn
from nodewise._util.memory import room_for, too_small
from nodewise._util.types import AnyArray, IntArray
from nodewise._util.words import counted
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.csv import LABEL_NAMES, NODE_NAMES, TextTable, refuse_header_that_is_data
from nodewise.formats.matrix_market import read_matrix_market
from nodewise.formats.npy import NpyFile
from nodewise.formats.npz import TIMES, NpzFile
from nodewise.formats.raw_graph import node_labels
from nodewise.formats.tables import ReadOptions, Source, Table, column_named, is_array_file, open_table
from nodewise.graph.checks import UNKNOWN

UNKNOWN_WORDS = (*columns.MISSING_WORDS, "-1")  # an unknown label
DOUBTFUL_WORDS = columns.MISSING_WORDS[1:]  # may also be the name of a class

log = logging.getLogger("nodewise")


@dataclasses.dataclass(frozen=True)
class LabelFile:
    """Labels, read whole: a column or an array, with a row per node or, with ``nodes``, about the node of the row.

    ``names``: of the classes in an array, or of the columns of one of 0 and 1. ``several``: a node may have several
    rows, one per label.
    """

    path: Source
    labels: Column | AnyArray
    nodes: Column | None = None  # always there for a column of labels
    names: Sequence[str] | None = None
    several: bool = False


def read_labels(path: Source, options: ReadOptions, ids_are_text: bool, memory: int) -> LabelFile:
    """Labels from a table or an array."""
    if not is_array_file(path):
        return _from_table(open_table(path, options, memory), options, ids_are_text, memory)
    if path.suffix.lower() == ".npy":
        file = NpyFile(path)
        room_for(f"reading {path}", memory, TIMES * file.nbytes)
        array = file[...]
    elif path.suffix.lower() == ".npz":
        content = NpzFile(path)
        if "y" not in content:
            raise InputError(f"{path}: holds {content.holds()}; expected an array y")
        array = content.arrays("y", memory=memory)["y"]
    else:
        matrix = read_matrix_market(path, memory)
        room_for(f"reading {path}", memory, TIMES * 8 * matrix.shape[0] * matrix.shape[1])
        array = matrix.toarray()
    names = None
    if array.ndim == 1 and array.dtype.kind == "U":
        array, names = _codes(Column(path, "y", pa.chunked_array([pa.array(array, pa.large_string())])))
    return LabelFile(path, node_labels(path, array, array.shape[0] if array.ndim else 0), names=names)


def labels_of_nodes(
    file: LabelFile, node_of_row: IntArray | None, memory: int
) -> tuple[AnyArray, Sequence[str] | None]:
    """The labels of each node up to the last that has any, and their names: one label, -1 if unknown, or 0/1 rows."""
    in_column = isinstance(file.labels, Column)
    array, names = _codes(file.labels) if isinstance(file.labels, Column) else (file.labels, file.names)
    if node_of_row is None:
        return array, names
    doing, count = f"reading {file.path}", int(node_of_row.max(initial=-1)) + 1
    rows = np.flatnonzero(array != UNKNOWN) if in_column else np.arange(array.shape[0])
    nodes, labels = node_of_row[rows], array[rows] if in_column else array
    if file.several:
        classes, places = np.unique(labels, return_inverse=True)
        room_for(doing, memory, 2 * count * classes.size)
        matrix = np.zeros((count, classes.size), np.int8)
        matrix[nodes, places] = 1
        return matrix, [str(label) if names is None else names[label] for label in classes.tolist()]
    _check_repeats(file, rows, nodes, labels if in_column else rows)
    room_for(doing, memory, 2 * count * array[:1].nbytes)
    placed = np.full((count, *array.shape[1:]), UNKNOWN if array.ndim == 1 else 0, array.dtype)
    placed[nodes] = labels
    return placed, names


def label_columns(table: Table, options: ReadOptions) -> tuple[int, list[int]]:
    """The column of nodes, and that of labels; or several, one per class."""
    lower = [name.strip().lower() if table.named else "" for name in table.names]
    labels = [column_named(table, name, "--label") for name in options.label]
    if not labels:
        labels = [lower.index(name) for name in LABEL_NAMES if name in lower][:1]
    free = [i for i in range(len(lower)) if i not in labels]
    node = next((i for i in free if table.named and lower[i] in NODE_NAMES), free[0] if free else None)
    if node is None or len(lower) < 2:
        raise InputError(
            f"{table.path}: {counted(len(lower), 'column')} ({', '.join(table.names)[:80]}); expected two, the node "
            f"and its label"
        )
    return node, labels or [i for i in free if i != node]


def _from_table(table: Table, options: ReadOptions, ids_are_text: bool, memory: int) -> LabelFile:
    node, chosen = label_columns(table, options)
    if len(chosen) > 1:
        nodes, array = _wide_labels(table, node, chosen, memory)
        names = [table.names[i] for i in chosen]
        return LabelFile(table.path, array, columns.ids(nodes, ids_are_text), names)
    kinds = {node: pa.large_string(), chosen[0]: None}
    try:
        nodes, labels = whole_columns(table, kinds, memory)
    except _MixedTypesError:  # numbers at first, then words: read them all as words
        nodes, labels = whole_columns(table, dict.fromkeys(kinds, pa.large_string()), memory)
    _check_rows(table, nodes)
    nodes = columns.ids(nodes, ids_are_text)
    if isinstance(table, TextTable):
        refuse_header_that_is_data(table, [nodes, labels])
    return LabelFile(table.path, labels, nodes, several=options.multilabel)


def _check_rows(table: Table, nodes: Column) -> None:
    if not len(nodes):
        raise InputError(
            f"{table.path}: has no row with a label, only the first line ({', '.join(table.names)[:80]}); expected a "
            f"node and its label. Leave --labels out for a graph without labels, or pass --no-header if that is a row"
        )


def _wide_labels(table: Table, node: int, chosen: Sequence[int], memory: int) -> tuple[Column, AnyArray]:
    """The column of nodes, and the columns of 0 and 1."""
    (nodes,) = whole_columns(table, {node: pa.large_string()}, memory)
    _check_rows(table, nodes)
    room_for(f"reading {table.path}", memory, TIMES * len(nodes) * len(chosen))
    matrix, first = np.zeros((len(nodes), len(chosen)), np.int8), 0
    for read in table.parts(dict.fromkeys(chosen, pa.float32())):
        for place, column in enumerate(read):
            matrix[first : first + len(column), place] = _zero_or_one(column)
        first += len(read[0])
    log.info("%s: %s columns of 0 and 1 are taken as labels, several per node", table.path, len(chosen))
    return nodes, matrix


def _zero_or_one(column: Column) -> AnyArray:
    expected = (
        "a table with several columns of labels has one of 0 and 1 per class. Name the column of labels with --label "
        "(Python: label), or leave the other columns out"
    )
    column = column if pa.types.is_boolean(column.values.type) else columns.decoded(column)
    values = column.values
    if pa.types.is_large_string(values.type):
        values = pc.if_else(pc.equal(pc.utf8_trim_whitespace(values), ""), None, values)
    nothing = "0" if pa.types.is_large_string(values.type) else False if pa.types.is_boolean(values.type) else 0
    given = pc.fill_null(values, nothing)
    numbers = columns.as_numbers(dataclasses.replace(column, values=given), pa.float64(), expected)
    wrong = np.flatnonzero((numbers != 0) & (numbers != 1))
    if wrong.size:
        raise column.wrong(int(wrong[0]), expected)
    return numbers.astype(np.int8)


class _MixedTypesError(InputError):
    """A column changed its type within the file."""


def whole_columns(table: Table, kinds: Mapping[int, Any], memory: int) -> list[Column]:
    """All rows of some columns; too many for ``memory`` are an error."""
    chunks: list[list[Any]] = [[] for _ in kinds]
    room, taken = room_for(f"reading {table.path}", memory, 0), 0
    for part in table.parts(kinds):
        for column, mine in zip(part, chunks, strict=True):
            mine.extend(columns.decoded(column).values.chunks)
            taken += TIMES * mine[-1].nbytes
            if mine[-1].type != mine[0].type:
                raise _MixedTypesError(
                    f"{table.path}: a column is {mine[0].type} at first and {mine[-1].type} later; expected one type "
                    f"in all of it. Write the file again"
                )
        if taken > room:
            raise too_small(f"reading {table.path}", memory, memory + 2 * taken)
    return [
        Column(table.path, table.names[i], pa.chunked_array(mine, None if mine else pa.large_string()))
        for i, mine in zip(kinds, chunks, strict=True)
    ]


def _codes(column: Column) -> tuple[IntArray, list[str] | None]:
    """One integer per label, -1 for empty ones. Whole numbers stay, names are numbered in alphabetical order."""
    values: Any = column.values
    codes = np.full(len(values), UNKNOWN, np.int64)
    given = columns.given(column, UNKNOWN_WORDS)
    if not given.size:
        return codes, None
    present = column.subset(given)
    if columns.looks_whole(present):
        expected = "expected a whole number from 0 on, -1 or nothing for unknown, or names"
        codes[given] = columns.as_whole(present, UNKNOWN, expected)
        return codes, None
    text = columns.as_text(present)
    names = pc.unique(text)
    names = names.take(pc.sort_indices(names))
    codes[given] = pc.index_in(text, value_set=names).to_numpy()
    # Labels that are not numbers are text. Among class names, NA may be one: Namibia, or North America. So may None.
    trimmed = pc.utf8_trim_whitespace(values)
    words = trimmed.filter(pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(DOUBTFUL_WORDS, pa.large_string())))
    if len(words):
        warn(
            f"{column.path}: {len(words):,} labels are {words[0].as_py()!r:.80} and were read as unknown; if that is a "
            f"class, rename it"
        )
    return codes, names.to_pylist()


def _check_repeats(file: LabelFile, rows: IntArray, node_of: IntArray, codes: IntArray) -> None:
    """Refuse two rows about one node that say different things."""
    assert file.nodes is not None  # checked
    order = np.argsort(node_of, kind="stable")
    same = (np.diff(node_of[order]) == 0) & (np.diff(codes[order]) != 0)
    clash = np.flatnonzero(same)
    if clash.size:
        first, second = int(rows[order[clash[0]]]), int(rows[order[clash[0] + 1]])
        node = file.nodes.values[second].as_py()
        if not isinstance(file.labels, Column):
            raise InputError(
                f"{file.path}: rows {first + 1:,} and {second + 1:,} are both about node {node!r:.80}; expected one "
                f"row per node. Remove one of them"
            )
        raise InputError(
            f"{file.path}: row {second + 1:,} gives node {node!r:.80} the label "
            f"{file.labels.values[second].as_py()!r:.80}, row {first + 1:,} gives it "
            f"{file.labels.values[first].as_py()!r:.80}; expected one label per node. Remove one of the rows, "
            f"or pass --multilabel if nodes have several labels (Python: multilabel=True)"
        )
