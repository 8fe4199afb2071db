"""Row norms, of features before the diffusion and of representations after it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nodewise._typing import AnyArray, Features, FloatArray
from nodewise.errors import InputError

NORMS = ("none", "l1", "l2")


def normalize(rows: Features, norm: str) -> Features:
    """Rows scaled to an L1 or L2 norm of 1; a row of zeros stays as it is. ``"none"`` returns ``rows`` itself."""
    check_norm(norm)
    if norm == "none":
        return rows
    if sp.issparse(rows):
        sizes = np.abs(rows.data) if norm == "l1" else np.square(rows.data, dtype=np.float64)
        totals = np.bincount(np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), sizes, rows.shape[0])
        scale = _inverse(totals if norm == "l1" else np.sqrt(totals))
        data = rows.data * np.repeat(scale, np.diff(rows.indptr))
        return sp.csr_matrix((data, rows.indices, rows.indptr), shape=rows.shape)
    dense = np.asarray(rows, dtype=np.float32)
    totals = np.abs(dense).sum(1) if norm == "l1" else np.linalg.norm(dense, axis=1)
    return dense * _inverse(totals)[:, None]


def check_norm(norm: str) -> None:
    if norm not in NORMS:
        raise InputError(f"norm {norm!r}: expected one of {', '.join(map(repr, NORMS))}")


def _inverse(totals: AnyArray) -> FloatArray:
    smallest = float(np.finfo(np.float32).tiny)  # the inverse of less overflows
    return np.divide(1, totals, out=np.ones(totals.shape, np.float32), where=totals > smallest, casting="unsafe")
