"""Kernels of exact hops, over ranges of nodes or targets, so that threads can share a hop.

``degrees`` is empty where edges have no weights: a row's length is its degree then.
"""

from __future__ import annotations

import numpy as np

from nodewise._util.intrinsics import prefetch_row
from nodewise._util.kernels import njit

RUN = 256  # neighbours summed in single precision
FAR = 1 << 20  # numbers in a block that is not in cache
AHEAD = 12  # neighbours between asking for a row and adding it


@njit(nogil=True, inline="always")
def _inverse_degree(indptr, degrees, v):
    return np.float32(1.0 / (np.float64(indptr[v + 1] - indptr[v]) if degrees.size == 0 else degrees[v]))


@njit(nogil=True, inline="always")
def _ask_for(rows, row):
    for c in range(0, rows.shape[1], 16):
        prefetch_row(rows, row, c)


@njit(nogil=True, fastmath={"contract"})
def propagate(indptr, indices, weights, degrees, rows, out, first_row, last_row):
    """``out[v] = sum over neighbours u of (A[v, u] / d_v) rows[u]`` for the nodes of a range.

    A long row is summed in runs, and the runs in double precision: a float32 sum over a hub's neighbours drifts.
    """
    width = rows.shape[1]
    totals = np.empty(width, np.float64)
    ahead = indptr[last_row] - AHEAD if rows.size > FAR else 0
    for v in range(first_row, last_row):
        last = indptr[v + 1]
        scale = _inverse_degree(indptr, degrees, v)
        long = last - indptr[v] > RUN
        if long:
            totals[:] = 0.0
        for first in range(indptr[v], last, RUN):
            for c in range(width):
                out[v, c] = 0.0
            for e in range(first, min(first + RUN, last)):
                if e < ahead:
                    _ask_for(rows, np.int64(indices[e + AHEAD]))
                u = np.int64(indices[e])
                weight = np.float32(1.0) if weights.size == 0 else weights[e]
                for c in range(width):
                    out[v, c] += weight * rows[u, c]
            if long:
                for c in range(width):
                    totals[c] += out[v, c]
        if long:
            for c in range(width):
                out[v, c] = totals[c]
        for c in range(width):
            out[v, c] *= scale


@njit(nogil=True, fastmath={"contract"})
def add_targets(targets, reach, hop, share, rows, out, column, first, last):
    """``out[i] += share * rows[target i]`` for targets of a range that reach ``hop``, from ``column`` on."""
    for i in range(first, last):
        if reach[i] >= hop:
            for c in range(rows.shape[1]):
                out[i, column + c] += share * rows[targets[i], c]


@njit(nogil=True, fastmath={"contract"})
def add_scaled(shares, rows, total, first, last):
    """``total[v, i] += shares[i] * rows[v, i]`` for the nodes of a range."""
    for v in range(first, last):
        for i in range(shares.size):
            total[v, i] += shares[i] * rows[v, i]


@njit(nogil=True)
def reverse(indptr, indices, weights, degrees, target_degrees, total, first, last):
    """From ``P^l[v, u]`` to ``P^l[u, v] = d_v / d_u P^l[v, u]``, for the nodes ``v`` of a range."""
    share = np.empty(target_degrees.size, np.float32)
    for i in range(share.size):
        share[i] = 1.0 / target_degrees[i]
    for v in range(first, last):
        inverse = _inverse_degree(indptr, degrees, v)
        for i in range(share.size):
            total[v, i] *= share[i] / inverse


@njit(nogil=True, fastmath={"contract"})
def add_sparse_product(indptr, indices, data, total, out):
    """``out = features^T total`` for features in CSR parts."""
    for v in range(total.shape[0]):
        for p in range(indptr[v], indptr[v + 1]):
            for i in range(total.shape[1]):
                out[indices[p], i] += data[p] * total[v, i]
