"""A few neighbours of each node, drawn evenly and without replacement.

Random numbers are splitmix64; a target's stream starts from the seed and its place among the targets.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from nodewise._util.intrinsics import product_high
from nodewise.diffusion.kernels.walking import _GOLDEN, _mix, _stream


@njit(cache=True, nogil=True)
def sample_entries(indptr, targets, most, seed):
    """Where the drawn entries of each target's row start, and the entries; a row of at most ``most`` is taken whole."""
    starts = np.zeros(targets.size + 1, np.int64)
    for i in range(targets.size):
        starts[i + 1] = starts[i] + min(most, indptr[targets[i] + 1] - indptr[targets[i]])
    entries = np.empty(starts[-1], np.int64)
    for i in range(targets.size):
        first = indptr[targets[i]]
        degree = indptr[targets[i] + 1] - first
        chosen = entries[starts[i] : starts[i + 1]]
        if degree <= most:
            for j in range(degree):
                chosen[j] = first + j
        else:
            _draw(chosen, first, degree, _stream(seed, i))
    return starts, entries


@njit(cache=True, nogil=True)
def _draw(chosen, first, degree, state):
    """Fill ``chosen`` with distinct ones of ``degree`` entries from ``first`` on (Floyd's algorithm)."""
    for j in range(chosen.size):
        top = degree - chosen.size + j
        state += _GOLDEN
        pick = first + np.int64(product_high(_mix(state), np.uint64(top + 1)))
        for other in range(j):
            if chosen[other] == pick:
                pick = first + top  # was never among the choices so far
                break
        chosen[j] = pick
