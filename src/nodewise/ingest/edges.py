"""The file of edges: two columns of node ids, perhaps one of weights."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

from nodewise._typing import AnyArray
from nodewise.datasets.npz import WEIGHT_KEYS
from nodewise.errors import InputError, NodewiseWarning
from nodewise.ingest import arrays, columns
from nodewise.ingest.columns import Column
from nodewise.ingest.tables import Table, is_array_file, open_table
from nodewise.ingest.text import TextTable, refuse_header_that_is_data

END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"))
WEIGHT_NAMES = ("weight", "w")


@dataclasses.dataclass(frozen=True)
class Edges:
    """Edges as they stand in the file."""

    path: Path
    source: Column
    target: Column
    weights: AnyArray | None = None
    num_nodes: int | None = None  # known where the file is a matrix

    def __len__(self) -> int:
        return len(self.source)


def read_edges(path: Path, header: bool | None, ids_are_text: bool) -> Edges:
    """Read edges from a table, a ``(2, E)`` array or a sparse matrix."""
    if not is_array_file(path):
        return _from_table(open_table(path, header), ids_are_text)
    if path.suffix.lower() == ".npy":
        return _from_array(path, "edge_index", arrays.read_npy(path), None)
    content = arrays.read_npz(path)
    if "edge_index" in content:
        weights = next((content[key] for key in WEIGHT_KEYS if key in content), None)
        return _from_array(path, "edge_index", content["edge_index"], weights)
    matrix = arrays.sparse_matrix(path, content)
    if matrix is None:
        raise InputError(
            f"{path}: holds {', '.join(sorted(content)) or 'nothing'}; expected edge_index of shape (2, E), or a "
            f"matrix that scipy.sparse.save_npz wrote"
        )
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{path}: a matrix of shape {matrix.shape}; an adjacency is square")
    used = matrix.data != 0
    values = matrix.data[used]
    ends = np.stack([matrix.row[used], matrix.col[used]])
    edges = _from_array(path, "matrix", ends, values if np.any(values != 1) else None)
    return dataclasses.replace(edges, num_nodes=int(matrix.shape[0]))


def _from_array(path: Path, name: str, ends: AnyArray, weights: AnyArray | None) -> Edges:
    if ends.ndim != 2 or ends.shape[0] != 2:
        hint = "; save its transpose" if ends.ndim == 2 and ends.shape[1] == 2 else ""
        raise InputError(f"{path}: {name} has shape {ends.shape}; expected (2, E){hint}")
    source, target = (columns.of_array(path, f"{name}[{i}]", ends[i], "edge") for i in (0, 1))
    if weights is not None:
        if weights.shape != (ends.shape[1],):
            raise InputError(f"{path}: weights of shape {weights.shape} for {ends.shape[1]:,} edges; expected one each")
        weights = _checked_weights(columns.of_array(path, "weight", weights, "edge"))
    return Edges(path, source, target, weights)


def _from_table(table: Table, ids_are_text: bool) -> Edges:
    if len(table.names) < 2:
        raise InputError(
            f"{table.path}: one column ({', '.join(table.names)[:80]}); expected at least two, the ends of each edge. "
            f"Fields are separated by commas in .csv files, by tabs in .tsv and .txt files"
        )
    ends = _end_columns(table.names)
    weight = _weight_column(table.names, ends)
    kind = pa.large_string() if ids_are_text else None
    kinds = {ends[0]: kind, ends[1]: kind} | ({} if weight is None else {weight: pa.float64()})
    read = table.read(kinds)
    source, target = columns.decoded(read[0]), columns.decoded(read[1])
    if isinstance(table, TextTable):
        refuse_header_that_is_data(table, [source, target])
    return Edges(table.path, source, target, _weights(read[2], table.named) if len(read) > 2 else None)


def _end_columns(names: list[str]) -> tuple[int, int]:
    lower = [name.strip().lower() for name in names]
    for first, second in END_NAMES:
        if first in lower and second in lower:
            return lower.index(first), lower.index(second)
    return 0, 1


def _weight_column(names: list[str], ends: tuple[int, int]) -> int | None:
    lower = [name.strip().lower() for name in names]
    for name in WEIGHT_NAMES:
        if name in lower and lower.index(name) not in ends:
            return lower.index(name)
    return 2 if len(names) > 2 and ends == (0, 1) else None


def _weights(column: Column, named: bool) -> AnyArray | None:
    """The weights in ``column``; None where it is a third column of another kind, such as a date or a word."""
    if column.name.strip().lower() in WEIGHT_NAMES:
        return _checked_weights(columns.decoded(column))
    kind = column.values.type
    if pa.types.is_temporal(kind) or pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        return None
    column = columns.decoded(column)
    if not len(column) or not columns.has_number(column):
        return None
    if named:
        warnings.warn(
            f"{column.path}: column {column.name!r} is taken as the weight of the edges; call it 'weight' if it is, or "
            f"leave it out if it is not",
            NodewiseWarning,
            stacklevel=2,
        )
    return _checked_weights(column)


def _checked_weights(column: Column) -> AnyArray:
    weights = columns.as_numbers(column, pa.float64())
    with np.errstate(over="ignore", under="ignore"):
        stored = weights.astype(np.float32)
    wrong = np.flatnonzero(~(np.isfinite(stored) & (stored > 0)))
    if wrong.size:
        raise column.wrong(int(wrong[0]), "expected a weight above 0 that float32 can hold")
    return weights
