"""The file of features: one row a node, with or without a column that says which."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nodewise._typing import AnyArray, Features, IntArray
from nodewise.checks import checked_features
from nodewise.datasets.npz import features_in
from nodewise.errors import InputError
from nodewise.ingest import arrays, columns
from nodewise.ingest.columns import Column
from nodewise.ingest.tables import Table, is_array_file, open_table
from nodewise.ingest.text import NODE_NAMES


@dataclasses.dataclass(frozen=True)
class FeatureFile:
    """Features as they stand in the file. Without ``nodes``, row i belongs to node i."""

    path: Path
    matrix: Features
    nodes: Column | None = None

    def __len__(self) -> int:
        return int(self.matrix.shape[0])


def read_features(path: Path, header: bool | None, ids_are_text: bool) -> FeatureFile:
    """Read features from a table, an array or a sparse matrix."""
    if not is_array_file(path):
        return _from_table(open_table(path, header), ids_are_text)
    if path.suffix.lower() == ".npy":
        matrix: Any = arrays.read_npy(path, mmap=True)
    else:
        matrix = _from_npz(path)
    if matrix.ndim != 2:
        raise InputError(f"{path}: an array of shape {matrix.shape}; expected (num_nodes, num_features)")
    try:
        return FeatureFile(path, checked_features(matrix, matrix.shape[0]))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def rows_of_nodes(file: FeatureFile, node_of_row: IntArray | None, num_nodes: int) -> Features:
    """The matrix with row i for node i; nodes without a row get zeros."""
    rows, width = file.matrix.shape
    if node_of_row is None and rows == num_nodes:
        return file.matrix
    if sp.issparse(file.matrix):
        return sp.vstack([file.matrix, sp.csr_matrix((num_nodes - rows, width), dtype=np.float32)], format="csr")
    matrix = np.zeros((num_nodes, width), file.matrix.dtype)
    matrix[np.arange(rows) if node_of_row is None else node_of_row] = file.matrix
    return matrix


def _from_npz(path: Path) -> Any:
    content = arrays.read_npz(path)
    features = features_in(path, content)
    if features is not None:
        return features
    matrix = arrays.sparse_matrix(path, content)
    if matrix is None:
        raise InputError(
            f"{path}: holds {', '.join(sorted(content)) or 'nothing'}; expected x, or x_data, x_indices, x_indptr and "
            f"x_shape, or a matrix that scipy.sparse.save_npz wrote"
        )
    return matrix


def _from_table(table: Table, ids_are_text: bool) -> FeatureFile:
    with_nodes = bool(table.names) and _first_is_node(table)
    first = int(with_nodes)
    if len(table.names) <= first:
        raise InputError(f"{table.path}: no column of features; expected a column for each, beside that of the nodes")
    kinds: dict[int, Any] = dict.fromkeys(range(first, len(table.names)), pa.float32())
    if with_nodes:
        kinds = {0: pa.large_string() if ids_are_text else None} | kinds
    read = table.read(kinds)
    nodes = columns.decoded(read[0]) if with_nodes else None
    return FeatureFile(table.path, _matrix(read[first:]), nodes)


def _first_is_node(table: Table) -> bool:
    """By its name, or because it holds text: features are numbers."""
    if table.named and table.names[0].strip().lower() in NODE_NAMES:
        return True
    return table.first_is_text()


def _matrix(read: list[Column]) -> AnyArray:
    matrix = np.empty((len(read[0]), len(read)), np.float32)
    for i, column in enumerate(read):
        kind = column.values.type
        plain = column if pa.types.is_floating(kind) or pa.types.is_boolean(kind) else columns.decoded(column)
        matrix[:, i] = columns.as_numbers(plain, pa.float32())
    return matrix
