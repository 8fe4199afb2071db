"""Read the file of features of an import: one row per node, or one row per value that is not zero."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nodewise._util.errors import InputError, warn
from nodewise._util.memory import room_for, too_small
from nodewise._util.types import AnyArray, IntArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.csv import NODE_NAMES
from nodewise.formats.feature_columns import encoded, kind_to_read, numbers_in, plan_columns, words_of
from nodewise.formats.graph_npz import CSR_PARTS, features_in
from nodewise.formats.label_files import label_columns
from nodewise.formats.matrix_market import read_matrix_market
from nodewise.formats.npy import NpyFile
from nodewise.formats.npz import NpzFile
from nodewise.formats.raw_graph import MOST_FEATURES, FeatureStream, RawFeatures, about, array_features, num_columns
from nodewise.formats.tables import ReadOptions, Source, Table, column_named, is_array_file, open_table
from nodewise.graph.checks import checked_features

log = logging.getLogger("nodewise")

ELSEWHERE = ("node", "node_id")  # names of a column of node ids that is not the first
TRIPLES = ("feature", "value")  # names of the other two columns of a table with one row per value
TEXT_ROWS = 1 << 12  # of numbers beside a text, at a time
NAME_BYTES = 128  # of memory for the name of each feature in such a table
TRIPLE_BYTES = 64  # of memory for each row of such a table: it is read, placed and sorted


@dataclasses.dataclass(frozen=True)
class FeatureFile:
    """Features to be read from a file: ``values``, whose rows are those of the file.

    ``nodes(ids_are_text)`` yields the column of node ids, from the beginning; it is None if row i belongs to node i. In
    a file of ``triples`` each row has one value, and a node several rows.
    """

    path: Source
    values: RawFeatures
    num_rows: Callable[[], int]  # may read the whole file
    nodes: Callable[[bool], Iterator[Column]] | None = None
    names: Sequence[str] | None = None  # of the columns, if the file has them
    triples: bool = False

    @property
    def width(self) -> int:
        return num_columns(self.values)


def open_features(
    path: Source, options: ReadOptions, memory: int, stack: ExitStack, with_labels: bool = False
) -> FeatureFile:
    """Features in a table, an array or a sparse matrix; ``stack`` closes what is open for them.

    ``with_labels``: the table has the labels as well, which are no features.
    """
    if not is_array_file(path):
        table = open_table(path, options, memory)
        if options.text is None and _is_triples(table):
            return _in_triples(table, memory)
        return _in_table(table, options, memory, label_columns(table, options)[1] if with_labels else [])
    if options.text is not None:
        raise InputError(f"{path}: holds arrays, which have no column {options.text!r}; --text is for tables")
    if path.suffix.lower() == ".npy":
        return _in_array(path, NpyFile(path))
    if path.suffix.lower() == ".mtx":
        return _in_matrix(path, read_matrix_market(path, memory))
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
    return _in_matrix(path, matrix)


def _in_matrix(path: Path, matrix: Any) -> FeatureFile:
    if matrix.shape[1] > MOST_FEATURES:
        raise InputError(f"{path}: {matrix.shape[1]:,} columns of features; at most {MOST_FEATURES:,} are read")
    with about(path):
        checked: Any = checked_features(matrix, matrix.shape[0])
    return FeatureFile(path, checked, lambda: int(checked.shape[0]))


def _in_array(path: Path, array: NpyFile | AnyArray) -> FeatureFile:
    return FeatureFile(path, array_features(path, array), lambda: array.shape[0])


def _in_table(table: Table, options: ReadOptions, memory: int, labels: list[int]) -> FeatureFile:
    text = None if options.text is None else column_named(table, options.text, "--text")
    node = _node_column(table, text)
    features = [i for i in range(len(table.names)) if i not in (node, text, *labels)]
    if labels:
        log.info("%s: labels, not features: %s", table.path, ", ".join(table.names[i] for i in labels)[:80])
    if not features and text is None:
        raise InputError(f"{table.path}: has no column of features; expected at least one beside the node ids")
    if node is None and features[:1] == [0]:
        _warn_of_ids(table)
    plans = plan_columns(table, features, options.impute)
    named = [name for plan in plans for name in plan.names]

    def rows(count: int) -> Iterator[AnyArray]:
        for read in table.parts({plan.index: kind_to_read(plan) for plan in plans}):
            matrix = encoded(plans, read)
            for begin in range(0, matrix.shape[0], count):
                yield matrix[begin : begin + count]

    nodes = None if node is None else _ids_in(table, node)
    if text is None:
        names = _distinct(table, named) if table.named else None
        return FeatureFile(table.path, FeatureStream(rows, len(named)), lambda: table.rows, nodes, names)
    matrix, words = words_of(table, text, memory)
    if plans:
        numbers = sp.vstack([sp.csr_matrix(part) for part in rows(TEXT_ROWS)])
        matrix = sp.hstack([numbers, matrix], format="csr", dtype=np.float32)
    return FeatureFile(table.path, matrix, lambda: int(matrix.shape[0]), nodes, _distinct(table, [*named, *words]))


def _distinct(table: Table, names: list[str]) -> list[str] | None:
    """The names, unless two are the same: then a warning."""
    if len(set(names)) == len(names):
        return names
    twice = Counter(names).most_common(1)[0][0]
    warn(
        f"{table.path}: two columns are named {twice!r}, so the names of features are not kept, and a model cannot "
        f"find its columns by name; rename one of them"
    )
    return None


def _ids_in(table: Table, node: int) -> Callable[[bool], Iterator[Column]]:
    def nodes(ids_are_text: bool) -> Iterator[Column]:
        for read in table.parts({node: pa.large_string() if ids_are_text else None}):
            yield columns.decoded(read[0])

    return nodes


def _lower_names(table: Table) -> list[str]:
    return [name.strip().lower().replace(" ", "_") if table.named else "1" for name in table.names]


def _is_triples(table: Table) -> bool:
    """Whether the columns are called node, feature and value."""
    names = _lower_names(table)
    rest = {*names} - {*TRIPLES}
    return len(names) == len({*names}) == 3 and len(rest) == 1 and rest <= {*NODE_NAMES}


def _in_triples(table: Table, memory: int) -> FeatureFile:
    lower = _lower_names(table)
    feature, value = (lower.index(name) for name in TRIPLES)
    node = 3 - feature - value
    doing, known = f"reading {table.path}", dict[str, int]()
    room, rows = room_for(doing, memory, 0), 0
    codes: list[AnyArray] = [np.zeros(0, np.int32)]
    values: list[AnyArray] = [np.zeros(0, np.float32)]
    for read in table.parts({feature: pa.large_string(), value: pa.float32()}):
        codes.append(_numbered(columns.as_text(columns.decoded(read[0]), "the name of a feature"), known))
        values.append(numbers_in(read[1]))
        rows += len(read[0])
        if TRIPLE_BYTES * rows + NAME_BYTES * len(known) > room:
            raise too_small(doing, memory, memory + 2 * TRIPLE_BYTES * rows + NAME_BYTES * len(known))
    parts = (np.concatenate(values), np.concatenate(codes), np.arange(rows + 1))
    matrix = sp.csr_matrix(parts, (rows, len(known)))
    return FeatureFile(table.path, matrix, lambda: rows, _ids_in(table, node), list(known), triples=True)


def _numbered(text: Any, known: dict[str, int]) -> AnyArray:
    """The number of each name, in the order in which they first appear; new names are added to ``known``."""
    numbers = []
    for chunk in text.chunks:  # a Python object for each different name, not for each row
        encoded = chunk.dictionary_encode()
        mine = np.array([known.setdefault(name, len(known)) for name in encoded.dictionary.to_pylist()], np.int32)
        numbers.append(mine[encoded.indices.to_numpy()])
    return np.concatenate([np.zeros(0, np.int32), *numbers])


def matrix_of_nodes(file: FeatureFile, node_of_row: IntArray, num_nodes: int) -> sp.csr_matrix:
    """The rows of a sparse file in the order of nodes, empty where there is none."""
    entries = sp.coo_matrix(file.values)
    placed = (entries.data, (node_of_row[entries.row], entries.col))
    matrix = sp.csr_matrix(placed, (num_nodes, file.width))  # adds up repeats
    if matrix.nnz < entries.nnz:
        key = node_of_row[entries.row] * file.width + entries.col
        order = np.argsort(key, kind="stable")
        again = int(np.flatnonzero(np.diff(key[order]) == 0)[0])
        first, second = (int(entries.row[order[i]]) + 1 for i in (again, again + 1))
        name = (file.names or [])[entries.col[order[again]]]
        raise InputError(
            f"{file.path}: rows {first:,} and {second:,} both give the feature {name!r} of one node; expected each "
            f"feature of a node once. Add the values up, or remove one of the rows"
        )
    matrix.eliminate_zeros()
    return matrix


def _node_column(table: Table, text: int | None) -> int | None:
    """Found by its name, or the first column if it holds text, and is not the text to be read."""
    lower = _lower_names(table)
    named = [0] * (lower[:1] != [] and lower[0] in NODE_NAMES) + [
        lower.index(name) for name in ELSEWHERE if name in lower
    ]
    if named:
        return named[0]
    return 0 if lower and text != 0 and table.first_is_text() else None


def _warn_of_ids(table: Table) -> None:
    """Warn about a first column that is called an id or numbers the rows: it is probably not a feature."""
    column = next((part[0] for part in table.parts({0: pa.float64()})), None) if table.names else None
    if column is None or not len(column):
        return
    numbers = np.sort(numbers_in(column))
    counting = len(column) > 1 and np.array_equal(numbers, np.arange(len(column)))
    if counting or (table.named and re.search(r"(?i)(^|[^a-z])ids?$", column.name.strip())):
        warn(
            f"{table.path}: column {column.name!r} is taken as a feature, and rows in the order of node ids; name "
            f"it 'node' if it holds node ids, or leave it out"
        )
