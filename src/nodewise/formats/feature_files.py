"""Read the file of features of an import: one row per node, with or without a column of node ids."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nodewise._util.errors import InputError, warn
from nodewise._util.types import AnyArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.csv import NODE_NAMES, TextTable
from nodewise.formats.graph_npz import CSR_PARTS, features_in
from nodewise.formats.npy import NpyFile
from nodewise.formats.npz import NpzFile
from nodewise.formats.raw_graph import array_features
from nodewise.formats.tables import Table, is_array_file, open_table
from nodewise.graph.checks import checked_features

ELSEWHERE = ("node", "node_id")  # names of a column of node ids that is not the first


@dataclasses.dataclass(frozen=True)
class FeatureFile:
    """Features to be read from a file. Each call reads from the beginning.

    ``rows(k)`` yields up to ``k`` rows at a time, finite and in the order of the file. ``nodes(ids_are_text)`` yields
    the column of node ids; it is None if row i belongs to node i.
    """

    path: Path
    width: int
    rows: Callable[[int], Iterator[AnyArray]]
    num_rows: Callable[[], int]  # may read the whole file
    dtype: str = "float32"
    nodes: Callable[[bool], Iterator[Column]] | None = None
    names: tuple[str, ...] | None = None  # of the columns, if the file has them
    matrix: sp.csr_matrix | None = None  # if they are sparse


def open_features(path: Path, header: bool | None, memory: int, stack: ExitStack) -> FeatureFile:
    """Features in a table, an array or a sparse matrix; ``stack`` closes what is open for them."""
    if not is_array_file(path):
        return _in_table(open_table(path, header))
    if path.suffix.lower() == ".npy":
        return _in_array(path, NpyFile(path))
    content = NpzFile(path)
    if "x" in content and not any(part in content for part in CSR_PARTS):
        return _in_array(path, content.arrays_or_files("x", memory=memory, stack=stack)["x"])
    matrix = features_in(path, content.arrays("x", *CSR_PARTS, memory=memory))
    if matrix is None:
        matrix = content.matrix(memory)
    if matrix is None:
        raise InputError(
            f"{path}: holds {content.holds()}; expected x, or x_data, x_indices, x_indptr and x_shape, or a matrix "
            f"that scipy.sparse.save_npz wrote"
        )
    try:
        checked: Any = checked_features(matrix, matrix.shape[0])
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    count, width = (int(length) for length in matrix.shape)
    return FeatureFile(path, width, lambda _: iter(()), lambda: count, matrix=checked)


def _in_array(path: Path, array: NpyFile | AnyArray) -> FeatureFile:
    stream = array_features(path, array)
    return FeatureFile(path, stream.width, stream.parts, lambda: array.shape[0], stream.dtype)


def _in_table(table: Table) -> FeatureFile:
    node = _node_column(table)
    features = [i for i in range(len(table.names)) if i != node]
    if not features:
        raise InputError(f"{table.path}: has no column of features; expected at least one beside the node ids")
    if node is None:
        _warn_of_ids(table)

    def nodes(ids_are_text: bool) -> Iterator[Column]:
        for read in table.parts({node or 0: pa.large_string()}):
            yield columns.ids(read[0], ids_are_text)

    def rows(count: int) -> Iterator[AnyArray]:
        for read in table.parts(dict.fromkeys(features, pa.float32())):
            matrix = _matrix(read)
            for begin in range(0, matrix.shape[0], count):
                yield matrix[begin : begin + count]

    def num_rows() -> int:
        if isinstance(table, TextTable):
            return sum(len(read[0]) for read in table.parts({0: pa.large_binary()}))
        return table.rows

    names = _names(table, features)
    return FeatureFile(table.path, len(features), rows, num_rows, nodes=None if node is None else nodes, names=names)


def _names(table: Table, features: list[int]) -> tuple[str, ...] | None:
    names = tuple(table.names[i] for i in features)
    if not table.named or len(set(names)) == len(names):
        return names if table.named else None
    twice = next(name for i, name in enumerate(names) if name in names[:i])
    warn(
        f"{table.path}: two columns are named {twice!r}, so the names of features are not kept, and a model cannot "
        f"find its columns by name; rename one of them"
    )
    return None


def _node_column(table: Table) -> int | None:
    """Found by its name, or the first column if it holds text, since features are numbers."""
    lower = [name.strip().lower().replace(" ", "_") if table.named else "1" for name in table.names]
    if lower[:1] and (lower[0] in NODE_NAMES or table.first_is_text()):
        return 0
    return next((lower.index(name) for name in ELSEWHERE if name in lower), None)


def _warn_of_ids(table: Table) -> None:
    """Warn about a first column that is called an id or numbers the rows: it is probably not a feature."""
    column = next((part[0] for part in table.parts({0: pa.float64()})), None) if table.names else None
    if column is None or not len(column):
        return
    numbers = np.sort(_matrix([column])[:, 0])
    counting = len(column) > 1 and np.array_equal(numbers, np.arange(len(column)))
    if counting or (table.named and re.search(r"(?i)(^|[^a-z])ids?$", column.name.strip())):
        warn(
            f"{table.path}: column {column.name!r} is taken as a feature, and rows in the order of node ids; name "
            f"it 'node' if it holds node ids, or leave it out"
        )


def _matrix(read: list[Column]) -> AnyArray:
    matrix = np.empty((len(read[0]), len(read)), np.float32)
    for i, column in enumerate(read):
        kind = column.values.type
        plain = column if pa.types.is_floating(kind) or pa.types.is_boolean(kind) else columns.decoded(column)
        matrix[:, i] = columns.as_numbers(plain, pa.float32())
    return matrix
