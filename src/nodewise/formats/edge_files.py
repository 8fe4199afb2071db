"""Read the file of edges of an import: two columns of node ids, and perhaps one of weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nodewise._util.errors import InputError, warn
from nodewise._util.types import AnyArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.csv import END_NAMES, TextTable, refuse_header_that_is_data
from nodewise.formats.graph_npz import WEIGHT_KEYS
from nodewise.formats.matrix_market import read_matrix_market
from nodewise.formats.npy import NpyFile
from nodewise.formats.npz import NpzFile
from nodewise.formats.tables import ReadOptions, Source, Table, is_array_file, open_table
from nodewise.graph.checks import EXPECTED_WEIGHT, HEAVIEST, LEAST_LOOP, wrong_weights

WEIGHT_NAMES = ("weight", "w")
UNNAMED = 0, 1  # the columns of the ends if no column has a name that says so
INDEX_NAMES = ("index", "edge", "edge_id", "row", "id", "", "__index_level_0__")  # of a column that is not an end
PART_EDGES = 1 << 19  # of an array, at a time


class EdgePart(NamedTuple):
    """Some edges, with ids as in the file."""

    source: Column
    target: Column
    weights: AnyArray | None


@dataclasses.dataclass(frozen=True)
class EdgeFile:
    """Edges to be read from a file. ``parts(ids_are_text)`` starts from the beginning each time."""

    path: Source
    parts: Callable[[bool], Iterator[EdgePart]]
    weighted: bool
    count: int | None = None
    most: int = 0  # about how many there are, rather too many, if ``count`` is not known
    num_nodes: int | None = None  # known if the file is a matrix
    share: Callable[[], float] | None = None


def open_edges(path: Source, options: ReadOptions, memory: int, stack: ExitStack) -> EdgeFile:
    """Edges in a table, a ``(2, E)`` array or a sparse matrix; ``stack`` closes what is open for them."""
    if not is_array_file(path):
        return _in_table(open_table(path, options, memory))
    if path.suffix.lower() == ".npy":
        return _in_array(path, NpyFile(path), None)
    if path.suffix.lower() == ".mtx":
        return _in_matrix(path, read_matrix_market(path, memory))
    content = NpzFile(path)
    if "edge_index" in content:
        arrays = content.arrays_or_files("edge_index", *WEIGHT_KEYS, memory=memory, stack=stack)
        return _in_array(path, arrays["edge_index"], next((arrays[key] for key in WEIGHT_KEYS if key in arrays), None))
    matrix = content.matrix(memory)
    if matrix is None:
        raise InputError(
            f"{path}: holds {content.holds()}; expected edge_index of shape (2, E), or a matrix that "
            f"scipy.sparse.save_npz wrote"
        )
    return _in_matrix(path, matrix)


def _in_array(path: Path, ends: NpyFile | AnyArray, weights: NpyFile | AnyArray | None) -> EdgeFile:
    if len(ends.shape) != 2 or ends.shape[0] != 2:
        hint = "; save its transpose" if len(ends.shape) == 2 and ends.shape[1] == 2 else ""
        raise InputError(f"{path}: edge_index has shape {ends.shape}; expected (2, E){hint}")
    if weights is not None and weights.shape != (ends.shape[1],):
        raise InputError(f"{path}: weights of shape {weights.shape} for {ends.shape[1]:,} edges; expected one each")
    return EdgeFile(path, _array_parts(path, "edge_index", ends, weights), weights is not None, ends.shape[1])


def _in_matrix(path: Path, matrix: Any) -> EdgeFile:
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{path}: a matrix of shape {matrix.shape}; expected a square matrix")
    used = matrix.data != 0
    ends, values = np.stack([matrix.row[used], matrix.col[used]]), matrix.data[used]
    weights = values if np.any(values != 1) else None
    parts = _array_parts(path, "matrix", ends, weights)
    return EdgeFile(path, parts, weights is not None, values.size, num_nodes=int(matrix.shape[0]))


def _array_parts(
    path: Path, name: str, ends: NpyFile | AnyArray, weights: NpyFile | AnyArray | None
) -> Callable[[bool], Iterator[EdgePart]]:
    def parts(_: bool) -> Iterator[EdgePart]:
        for first in range(0, ends.shape[1], PART_EDGES):
            mine = slice(first, first + PART_EDGES)
            both = enumerate(ends[:, mine])
            source, target = (columns.of_array(path, f"{name}[{i}]", side, "edge", first) for i, side in both)
            checked = None
            if weights is not None:
                weight = columns.of_array(path, "weight", weights[mine], "edge", first)
                checked = _checked_weights(weight, source, target)
            yield EdgePart(source, target, checked)

    return parts


def _in_table(table: Table) -> EdgeFile:
    if len(table.names) < 2:
        raise InputError(
            f"{table.path}: one column ({', '.join(table.names)[:80]}); expected at least two, the ends of each edge. "
            f"Pass --delimiter if something else separates fields than commas, tabs, semicolons or, in .txt, spaces"
        )
    ends = _end_columns(table.names)
    first = table.names[0].strip().lower()
    if ends == UNNAMED and table.named and len(table.names) > 2 and first in INDEX_NAMES:
        raise InputError(
            f"{table.path}: the columns are {', '.join(map(repr, table.names))[:80]}, and none of them is called "
            f"source or target; give the ends of the edges these names, or leave {table.names[0]!r} out"
        )
    third = _weight_column(table.names, ends)
    weighted = third is not None and _holds_weights(table, third)

    def parts(ids_are_text: bool) -> Iterator[EdgePart]:
        kinds = dict.fromkeys(ends, pa.large_string()) | ({} if third is None else {third: pa.float64()})
        for read in table.parts(kinds):
            source, target = (columns.ids(column, ids_are_text) for column in read[:2])
            if isinstance(table, TextTable):
                refuse_header_that_is_data(table, [source, target])
            if third is not None and not weighted:
                _refuse_numbers(read[2])
            weights = _checked_weights(columns.decoded(read[2]), source, target) if weighted else None
            yield EdgePart(source, target, weights)

    if isinstance(table, TextTable):
        return EdgeFile(table.path, parts, weighted, most=table.most_rows(), share=table.share)
    return EdgeFile(table.path, parts, weighted, table.rows)


def _end_columns(names: list[str]) -> tuple[int, int]:
    lower = [name.strip().lower() for name in names]
    for first, second in END_NAMES:
        if first in lower and second in lower:
            return lower.index(first), lower.index(second)
    return UNNAMED


def _weight_column(names: list[str], ends: tuple[int, int]) -> int | None:
    lower = [name.strip().lower() for name in names]
    for name in WEIGHT_NAMES:
        if name in lower and lower.index(name) not in ends:
            return lower.index(name)
    return 2 if len(names) > 2 and ends == UNNAMED else None


def _holds_weights(table: Table, index: int) -> bool:
    """Whether a third column holds weights rather than, say, dates or words; judged by its first rows."""
    called_so = table.names[index].strip().lower() in WEIGHT_NAMES
    column = next((part[0] for part in table.parts({index: pa.float64()})), None)
    if column is None or not _is_plain(column):
        return called_so
    column = columns.decoded(column)
    columns.refuse_decimal_commas(column)
    if called_so or not columns.has_number(column):
        return called_so
    if table.named:
        warn(
            f"{column.path}: column {column.name!r} is taken as the weight of the edges; name it 'weight' if it is, or "
            f"leave it out if it is not"
        )
    return True


def _is_plain(column: Column) -> bool:
    kind = column.values.type
    return not (pa.types.is_temporal(kind) or pa.types.is_nested(kind) or pa.types.is_boolean(kind))


def _refuse_numbers(column: Column) -> None:
    """Refuse a number in a third column that held words at first, and so was not taken as the weight."""
    if _is_plain(column) and len(column) and columns.has_number(columns.decoded(column)):
        raise InputError(
            f"{column.path}: column {column.name!r} holds words at first and a number after {column.place(0)}; name "
            f"it 'weight' if it is the weight of the edges, or leave it out"
        )


def _checked_weights(column: Column, source: Column, target: Column) -> AnyArray:
    weights = columns.as_numbers(column, pa.float64(), most=HEAVIEST)
    with np.errstate(over="ignore", under="ignore"):
        stored = weights.astype(np.float32)
    loops = np.zeros(stored.size, bool)
    for i in np.flatnonzero(stored < LEAST_LOOP):  # hardly any
        loops[i] = source.values[int(i)] == target.values[int(i)]
    wrong = np.flatnonzero(wrong_weights(stored, loops))
    if wrong.size:
        raise column.wrong(int(wrong[0]), EXPECTED_WEIGHT)
    return weights
