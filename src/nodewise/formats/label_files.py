"""Read the file of labels of an import: (node, label) in any order, or an array in node order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodewise._util.errors import InputError, warn
from nodewise._util.memory import room_for, too_small
from nodewise._util.types import AnyArray, IntArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.csv import LABEL_NAMES, NODE_NAMES, TextTable, refuse_header_that_is_data
from nodewise.formats.npy import NpyFile
from nodewise.formats.npz import TIMES, NpzFile
from nodewise.formats.raw_graph import node_labels
from nodewise.formats.tables import ReadOptions, Table, is_array_file, open_table
from nodewise.graph.checks import UNKNOWN

UNKNOWN_WORDS = ("", "nan", "na", "-1")  # written by pandas, R and other tools for an unknown label
DOUBTFUL_WORDS = ("nan", "na")  # may also be the name of a class


@dataclasses.dataclass(frozen=True)
class LabelFile:
    """Labels, read whole: an ``array`` in node order, or a column of ``nodes`` and one of ``labels``."""

    path: Path
    array: AnyArray | None = None
    nodes: Column | None = None
    labels: Column | None = None


def read_labels(path: Path, options: ReadOptions, ids_are_text: bool, memory: int) -> LabelFile:
    """Labels from a table or an array."""
    if not is_array_file(path):
        return _from_table(open_table(path, options), ids_are_text, memory)
    if path.suffix.lower() == ".npy":
        file = NpyFile(path)
        room_for(f"reading {path}", memory, TIMES * file.nbytes)
        array = file[...]
    else:
        content = NpzFile(path)
        if "y" not in content:
            raise InputError(f"{path}: holds {content.holds()}; expected an array y")
        array = content.arrays("y", memory=memory)["y"]
    return LabelFile(path, array=node_labels(path, array, array.shape[0] if array.ndim else 0))


def labels_of_nodes(file: LabelFile, node_of_row: IntArray | None) -> tuple[AnyArray, list[str] | None]:
    """One label per node up to the last one that has a label, -1 if unknown; and the names of the labels."""
    if file.array is not None:
        return file.array, None
    if file.nodes is None or file.labels is None or node_of_row is None:
        raise InputError(f"{file.path}: no labels")
    codes, names = _codes(file.labels)
    known = np.flatnonzero(codes != UNKNOWN)
    _check_repeats(file.nodes, file.labels, known, node_of_row[known], codes[known])
    labels = np.full(int(node_of_row.max(initial=-1)) + 1, UNKNOWN, np.int64)
    labels[node_of_row[known]] = codes[known]
    return labels, names


def _from_table(table: Table, ids_are_text: bool, memory: int) -> LabelFile:
    lower = [name.strip().lower() if table.named else "" for name in table.names]
    label = next((lower.index(name) for name in LABEL_NAMES if name in lower), None)
    node = next((i for i, name in enumerate(lower) if i != label and table.named and name in NODE_NAMES), None)
    if len(lower) == 2:  # one known name, or else the order, identifies both
        label = label if label is not None else (1 if node is None else 1 - node)
        node = 1 - label
    if label is None or node is None:
        raise InputError(
            f"{table.path}: {len(lower)} columns ({', '.join(table.names)[:80]}); expected two, the node and its label"
        )
    kinds = {node: pa.large_string(), label: None}
    try:
        nodes, labels = _whole_columns(table, kinds, memory)
    except _MixedTypesError:  # numbers at first, then words: read them all as words
        nodes, labels = _whole_columns(table, dict.fromkeys(kinds, pa.large_string()), memory)
    if not len(nodes):
        raise InputError(
            f"{table.path}: has no row with a label, only the first line ({', '.join(table.names)[:80]}); expected a "
            f"node and its label. Leave --labels out for a graph without labels, or pass --no-header if that is a row"
        )
    nodes = columns.ids(nodes, ids_are_text)
    if isinstance(table, TextTable):
        refuse_header_that_is_data(table, [nodes, labels])
    return LabelFile(table.path, nodes=nodes, labels=labels)


class _MixedTypesError(Exception):
    """A column changed its type within the file."""


def _whole_columns(table: Table, kinds: Mapping[int, Any], memory: int) -> list[Column]:
    chunks: list[list[Any]] = [[] for _ in kinds]
    room, taken = room_for(f"reading {table.path}", memory, 0), 0
    for part in table.parts(kinds):
        for column, mine in zip(part, chunks, strict=True):
            mine.extend(columns.decoded(column).values.chunks)
            taken += TIMES * mine[-1].nbytes
            if mine[-1].type != mine[0].type:
                raise _MixedTypesError
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
    if pa.types.is_large_string(values.type):
        trimmed = pc.utf8_lower(pc.utf8_trim_whitespace(values))
        words = pa.array(UNKNOWN_WORDS, pa.large_string())
        empty = pc.or_(pc.is_null(values), pc.is_in(trimmed, value_set=words))
    elif pa.types.is_floating(values.type):
        empty = pc.fill_null(pc.is_nan(values), True)
    else:
        empty = pc.is_null(values)
    given = np.flatnonzero(~empty.to_numpy())
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
    # Labels that are not numbers are text. Among class names, NA may be one: Namibia, or North America.
    trimmed = pc.utf8_trim_whitespace(values)
    words = trimmed.filter(pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(DOUBTFUL_WORDS, pa.large_string())))
    if len(words):
        warn(
            f"{column.path}: {len(words):,} labels are {words[0].as_py()!r} and were read as unknown; if that is a "
            f"class, rename it"
        )
    return codes, names.to_pylist()


def _check_repeats(nodes: Column, labels: Column, rows: IntArray, node_of: IntArray, codes: IntArray) -> None:
    order = np.argsort(node_of, kind="stable")
    same = (np.diff(node_of[order]) == 0) & (np.diff(codes[order]) != 0)
    clash = np.flatnonzero(same)
    if clash.size:
        first, second = int(rows[order[clash[0]]]), int(rows[order[clash[0] + 1]])
        raise InputError(
            f"{nodes.path}: row {second + 1:,} gives node {nodes.values[second].as_py()!r} the label "
            f"{labels.values[second].as_py()!r}, row {first + 1:,} gives it {labels.values[first].as_py()!r}; "
            f"expected one label per node. Remove one of the rows"
        )
