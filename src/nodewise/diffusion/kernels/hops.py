"""Exact hops."""

from __future__ import annotations

import numpy as np
from numba import njit

RUN = 256  # neighbours summed in single precision


@njit(cache=True, nogil=True, fastmath={"contract"})
def _propagate(indptr, indices, weights, inverse_degrees, rows, out):
    """``out[v] = sum over neighbours u of (A[v, u] / d_v) rows[u]``.

    A long row is summed in runs, and the runs in double precision: a float32 sum over a hub's neighbours drifts.
    """
    width = rows.shape[1]
    totals = np.empty(width, np.float64)
    for v in range(rows.shape[0]):
        last = indptr[v + 1]
        scale = inverse_degrees[v]
        long = last - indptr[v] > RUN
        if long:
            totals[:] = 0.0
        for first in range(indptr[v], last, RUN):
            for c in range(width):
                out[v, c] = 0.0
            for e in range(first, min(first + RUN, last)):
                u = indices[e]
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


@njit(cache=True, nogil=True, fastmath={"contract"})
def sum_hops(indptr, indices, weights, inverse_degrees, targets, lengths, hops, rows, spare, out, column):
    """``out[i] += U(l) (P^l rows)[target i]`` for ``l`` up to the target's length, in columns from ``column`` on."""
    for hop in range(hops.size):
        if hop > 0:
            _propagate(indptr, indices, weights, inverse_degrees, rows, spare)
            rows, spare = spare, rows
        share = np.float32(hops[hop])
        for i in range(targets.size):
            if lengths[i] >= hop:
                for c in range(rows.shape[1]):
                    out[i, column + c] += share * rows[targets[i], c]


@njit(cache=True, nogil=True, fastmath={"contract"})
def weigh_all(indptr, indices, weights, inverse_degrees, targets, lengths, hops, rows, spare, total):
    """``total[v, i] = sum over l of U(l) P^l[target i, v]``, by propagating the targets' columns of the identity."""
    for i in range(targets.size):
        rows[targets[i], i] = 1.0
    share = np.empty(targets.size, np.float32)
    for hop in range(hops.size):
        if hop > 0:
            _propagate(indptr, indices, weights, inverse_degrees, rows, spare)
            rows, spare = spare, rows
        for i in range(targets.size):
            share[i] = hops[hop] if lengths[i] >= hop else 0.0
        for v in range(total.shape[0]):
            for i in range(targets.size):
                total[v, i] += share[i] * rows[v, i]
    for i in range(targets.size):
        share[i] = inverse_degrees[targets[i]]
    for v in range(total.shape[0]):  # from P^l[v, u] to P^l[u, v] = d_v / d_u P^l[v, u]
        for i in range(targets.size):
            total[v, i] *= share[i] / inverse_degrees[v]


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_sparse_product(indptr, indices, data, total, out):
    """``out = features^T total`` for features in CSR parts."""
    for v in range(total.shape[0]):
        for p in range(indptr[v], indptr[v + 1]):
            for i in range(total.shape[1]):
                out[indices[p], i] += data[p] * total[v, i]
