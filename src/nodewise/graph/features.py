"""Feature matrices: Quantized (one byte per value), and the norms of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, Features, FloatArray, IntArray
from nodewise.graph.unchecked import check_finite

NORMS = ("none", "l1", "l2")
ROWS_AT_ONCE = 1 << 16
CODES = 255  # steps between the least and the greatest value of a column


class Quantized:
    """A dense matrix whose value in column ``c`` is ``offset[c] + scale[c] * code``, codes being int8.

    Indexing decodes: ``matrix[rows]`` and ``matrix[:, columns]`` are float32 arrays.

    >>> import numpy as np
    >>> matrix = Quantized.of(np.array([[0.0, 5.0], [2.0, 6.0]], np.float32))
    >>> matrix[1].tolist(), matrix.nbytes
    ([2.0, 6.0], 4)
    """

    dtype = np.dtype(np.int8)
    ndim = 2

    def __init__(self, codes: AnyArray, scale: FloatArray, offset: FloatArray) -> None:
        self.codes = codes
        self.scale = np.asarray(scale, np.float32)
        self.offset = np.asarray(offset, np.float32)

    @classmethod
    def of(cls, rows: AnyArray) -> Quantized:
        """Finite numbers, each rounded to one of 256 evenly spaced values of its column."""
        low = rows.min(0) if rows.shape[0] else np.zeros(rows.shape[1], np.float32)
        high = rows.max(0) if rows.shape[0] else low
        scale, offset = column_steps(low, high)
        return cls(encode(rows, scale, offset), scale, offset)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.codes.shape
        return rows, columns

    @property
    def size(self) -> int:
        return int(self.codes.size)

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes)

    def __getitem__(self, key: Any) -> FloatArray:
        columns = key[1] if isinstance(key, tuple) else slice(None)
        codes = np.asarray(self.codes[key], np.float32)
        return codes * self.scale[columns] + self.offset[columns]

    def take(self, nodes: AnyArray) -> Quantized:
        """The rows of ``nodes``, as they are."""
        return Quantized(np.asarray(self.codes[nodes]), self.scale, self.offset)


def take_columns(features: Features, columns: IntArray) -> Features:
    """The features with these columns, in this order."""
    if isinstance(features, Quantized):
        return Quantized(np.asarray(features.codes[:, columns]), features.scale[columns], features.offset[columns])
    return features[:, columns]


def column_steps(low: AnyArray, high: AnyArray) -> tuple[FloatArray, FloatArray]:
    """The scale and offset by which int8 codes span ``low`` to ``high`` of each column.

    Where zero lies between them it gets its own code, so that zeros stay exactly 0.
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    span = high - low
    least = float(np.finfo(np.float32).smallest_subnormal)  # less would be a scale of 0
    scale = np.where(span > 0, np.maximum(span / CODES, least), 1.0).astype(np.float32)
    with_zero = (low <= 0) & (high >= 0) & (span > 0)
    zero = np.clip(np.rint(-128 - low / scale), -128, 127)
    offset = np.where(with_zero, -(zero.astype(np.float32) * scale), np.where(span > 0, low + 128.0 * scale, low))
    return scale, offset.astype(np.float32)


def encode(rows: AnyArray, scale: FloatArray, offset: FloatArray) -> AnyArray:
    """The int8 codes nearest to ``rows``."""
    codes = np.rint((np.asarray(rows, np.float32) - offset) / scale)
    encoded: AnyArray = np.clip(codes, -128, 127).astype(np.int8)
    return encoded


def check_norm(norm: str, name: str = "norm") -> None:
    if norm not in NORMS:
        raise InputError(f"{name}={norm!r}: expected one of {', '.join(map(repr, NORMS))}")


def row_scales(features: Features, norm: str) -> FloatArray | None:
    """The factor that scales each row to an L1 or L2 norm of 1 (1 for a row of zeros); None where norm is "none"."""
    check_norm(norm)
    if norm == "none":
        return None
    scales = np.empty(features.shape[0], np.float32)
    for first in range(0, scales.size, ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        rows = features[part]
        if sp.issparse(rows):
            sizes = np.abs(rows.data) if norm == "l1" else np.square(rows.data, dtype=np.float64)
            totals = np.bincount(np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), sizes, rows.shape[0])
        else:
            dense = np.asarray(rows, np.float32)
            totals = np.abs(dense).sum(1) if norm == "l1" else np.square(dense).sum(1)
        scales[part] = _inverse(totals if norm == "l1" else np.sqrt(totals))
    return scales


def dense_rows(features: Features, nodes: AnyArray, norm: str) -> FloatArray:
    """The features of ``nodes``, as float32, each row scaled to ``norm``."""
    rows = features[nodes]
    rows = np.asarray(rows.toarray() if sp.issparse(rows) else rows, np.float32)
    check_finite(rows, features)
    return normalize(rows, norm)


def normalize(rows: FloatArray, norm: str) -> FloatArray:
    """Rows scaled to an L1 or L2 norm of 1; a row of zeros stays as it is. ``"none"`` returns ``rows`` itself."""
    scales = row_scales(rows, norm)
    return rows if scales is None else rows * scales[:, None]


def normalize_into(out: FloatArray, rows: FloatArray, norm: str) -> None:
    """:func:`normalize`, written to ``out``, which may be ``rows``: a new array takes longer than the arithmetic."""
    scales = row_scales(rows, norm)
    if scales is not None:
        np.multiply(rows, scales[:, None], out=out)
    elif out is not rows:
        out[:] = rows


def _inverse(totals: AnyArray) -> FloatArray:
    smallest = float(np.finfo(np.float32).tiny)  # the inverse of less overflows
    return np.divide(1, totals, out=np.ones(totals.shape, np.float32), where=totals > smallest, casting="unsafe")
