"""A hop of the random walk with some of the adjacency's entries dropped."""

from __future__ import annotations

import numpy as np
from numba import njit

from nodewise._util.intrinsics import prefetch_row
from nodewise.diffusion.kernels.walking import _GOLDEN, _MIX1, _mix

FAR = 1 << 20  # numbers in a block that is not in cache
AHEAD = 12  # neighbours between asking for a row and adding it


@njit(cache=True, nogil=True, inline="always")
def _stays(seed, row, column, dropped):
    return _mix((seed ^ np.uint64(row) * _MIX1) + np.uint64(column) * _GOLDEN) >= dropped


@njit(cache=True, nogil=True, fastmath={"contract"})
def hop(indptr, indices, weights, inverse, share, dropped, seed, transposed, rows, out, first, last):
    """``out = share D^-1 (M * A) rows`` for the nodes of a range, ``M`` zero where an entry is dropped.

    Whether it is depends on the seed and the entry alone, so nothing is stored and ``transposed`` finds the same ones.
    ``dropped`` is the chance times 2^64.
    """
    width = rows.shape[1]
    ahead = indptr[last] - AHEAD if rows.size > FAR else 0
    for v in range(first, last):
        for c in range(width):
            out[v, c] = 0.0
        for e in range(indptr[v], indptr[v + 1]):
            if e < ahead:
                prefetch_row(rows, np.int64(indices[e + AHEAD]), 0)
            u = np.int64(indices[e])
            if dropped > 0 and not (_stays(seed, u, v, dropped) if transposed else _stays(seed, v, u, dropped)):
                continue
            weight = np.float32(1.0) if weights.size == 0 else weights[e]
            for c in range(width):
                out[v, c] += weight * rows[u, c]
        scale = share * inverse[v]
        for c in range(width):
            out[v, c] *= scale
