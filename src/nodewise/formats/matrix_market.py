"""Read a Matrix Market file (``.mtx``): an adjacency, or sparse features.

Boisvert, Pozo and Remington, "The Matrix Market Exchange Formats", NIST 1996. Not by scipy, whose parser leaves its
arrays where a file has more numbers than its head says.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.memory import room_for
from nodewise._util.os_errors import reading
from nodewise._util.types import DoubleArray
from nodewise.formats.csv import opened_bytes

ENTRY_BYTES = 64  # of memory per entry: its text, its numbers, expanded by symmetry, checked and copied
MOST_HEAD = 1 << 20  # bytes of banner, comments and sizes
FIELDS = {"real": 3, "double": 3, "integer": 3, "unsigned-integer": 3, "pattern": 2}  # numbers per entry
WHOLE = ("integer", "unsigned-integer", "pattern")
SYMMETRIES = {"general": 0.0, "symmetric": 1.0, "skew-symmetric": -1.0}  # what stands across the diagonal


def read_matrix_market(path: Path, memory: int) -> Any:
    """The matrix as COO."""
    with reading(path, "a Matrix Market file", (ValueError, OverflowError), advice="fetch or write it again"):
        file, stream = opened_bytes(path)
        with file, stream:
            head, rest = _head(stream)
            kind, field, symmetry, sizes = _parsed(head)
            numbers = sizes[0] * sizes[1] if kind == "array" else sizes[2] * FIELDS[field]
            room = room_for(f"reading {path}", memory, ENTRY_BYTES * numbers + 8 * sizes[0])
            body = rest + stream.read(room // 4)
            if stream.read(1):
                raise ValueError("it has more text than its sizes ask for")
        values = _values(body, numbers)
        if kind == "array":
            matrix = sp.coo_matrix(values.reshape(sizes[1], sizes[0]).T)
        else:
            matrix = _from_entries(values.reshape(-1, FIELDS[field]), sizes[0], sizes[1], SYMMETRIES[symmetry])
        if field not in WHOLE:
            return matrix
        if not ((matrix.data == np.floor(matrix.data)) & (np.abs(matrix.data) < 2**63)).all():
            raise ValueError("its header declares integers, but some values are not, or are beyond 64 bits")
        return matrix.astype(np.int64)


def _head(stream: Any) -> tuple[list[str], bytes]:
    """The banner and the line of sizes, and what was read beyond them."""
    text = io.BytesIO(stream.read(MOST_HEAD))
    lines: list[str] = []
    for line in text:
        if not lines or (line.strip() and not line.startswith(b"%")):
            lines.append(line.decode("ascii"))
        if len(lines) == 2:
            return lines, text.read()
    raise ValueError("it ends before its line of sizes")


def _parsed(head: list[str]) -> tuple[str, str, str, list[int]]:
    words = head[0].lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("its first line is not '%%MatrixMarket matrix …'")
    kind, field, symmetry = words[2:]
    wanted = {"coordinate": 3, "array": 2}.get(kind)
    if wanted is None or field not in FIELDS or symmetry not in SYMMETRIES:
        raise ValueError(f"a matrix of kind '{' '.join(words[2:])}'; expected real or whole numbers")
    if kind == "array" and (symmetry != "general" or field == "pattern"):
        raise ValueError("an array that is symmetric or a pattern; write it as coordinates")
    sizes = [int(word) for word in head[1].split()]
    if len(sizes) != wanted or min(sizes) < 0:
        raise ValueError(f"its line of sizes is {head[1]!r:.80}; expected {wanted} whole numbers")
    return kind, field, symmetry, sizes


def _values(body: bytes, count: int) -> DoubleArray:
    if not body.strip():
        values = np.zeros(0)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # by which numpy says that it found something else
            try:
                values = np.fromstring(body, np.float64, sep=" ")
            except DeprecationWarning as warning:
                raise ValueError("it holds something that is no number") from warning
    if values.size != count:
        raise ValueError(f"{values.size:,} numbers follow its head, which announces {count:,}")
    return values


def _from_entries(entries: DoubleArray, rows: int, columns: int, across: float) -> Any:
    places = entries[:, :2]
    if not ((places >= 1) & (places <= (rows, columns)) & (places == np.floor(places))).all():
        raise ValueError(f"an entry is not at a place in {rows:,} rows and {columns:,} columns")
    row, column = (places.T - 1).astype(np.int64)
    data = entries[:, 2] if entries.shape[1] == 3 else np.ones(row.size)
    if across:
        if rows != columns:
            raise ValueError("a symmetric matrix that is not square")
        other = row != column
        row, column = np.concatenate([row, column[other]]), np.concatenate([column, row[other]])
        data = np.concatenate([data, across * data[other]])
    return sp.coo_matrix((data, (row, column)), (rows, columns))
