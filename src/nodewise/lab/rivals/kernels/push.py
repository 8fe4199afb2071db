"""Reverse pushes from the features, and the walks that meet what is left of them (GBP)."""

from __future__ import annotations

import numpy as np
from numba import njit

from nodewise._util.intrinsics import prefetch_row, product_high
from nodewise.diffusion.kernels.walking import _GOLDEN, _by_weight, _mix, _stream, _unit

FAR = 1 << 20  # numbers in a block that is not in cache
AHEAD = 8  # neighbours between asking for a row and adding to it


@njit(cache=True, nogil=True, fastmath={"contract"})
def push(indptr, indices, weights, inverse, alpha, limits, slots, residue, reserve):
    """Push every entry of ``residue`` that is beyond its column's limit, until there is none; returns the sweeps.

    A pushed entry leaves a share ``alpha`` in its node's row of ``reserve``, where the node has one (``slots``), and
    the rest goes to the neighbours, by ``P`` transposed. A column's pushes do not depend on the columns beside it.
    """
    width = residue.shape[1]
    amounts = np.zeros(width, np.float32)
    far = residue.size > FAR
    kept, sent = np.float32(alpha), np.float32(1.0 - alpha)
    sweeps, pushed = 0, True
    while pushed:
        pushed = False
        sweeps += 1
        for v in range(slots.size):
            beyond = False
            for c in range(width):
                beyond |= abs(residue[v, c]) > limits[c]
            if not beyond:
                continue
            pushed = True
            for c in range(width):
                amounts[c] = residue[v, c] if abs(residue[v, c]) > limits[c] else np.float32(0.0)
                residue[v, c] -= amounts[c]
            if slots[v] >= 0:
                for c in range(width):
                    reserve[slots[v], c] += kept * amounts[c]
            last = indptr[v + 1]
            for e in range(indptr[v], last):
                if far and e + AHEAD < last:
                    prefetch_row(residue, np.int64(indices[e + AHEAD]), 0)
                u = np.int64(indices[e])
                share = sent * inverse[u]
                if weights.size > 0:
                    share *= weights[e]
                for c in range(width):
                    residue[u, c] += share * amounts[c]
    return sweeps


@njit(cache=True, nogil=True)
def walk_ends(indptr, indices, cumulative, nodes, alpha, seed, first, last, ends):
    """Where walks from nodes ``first..last`` end that move at least once and then stop with ``alpha`` at each step."""
    for i in range(first, last):
        state = _stream(seed, nodes[i])
        for w in range(ends.shape[1]):
            at = np.int64(nodes[i])
            going = True
            while going:
                state += _GOLDEN
                begin, end = indptr[at], indptr[at + 1]
                if cumulative.size == 0:
                    at = np.int64(indices[begin + np.int64(product_high(_mix(state), np.uint64(end - begin)))])
                else:
                    point = _unit(_mix(state)) * cumulative[end - 1]
                    at = np.int64(indices[_by_weight(cumulative, begin, end, point)])
                state += _GOLDEN
                going = _unit(_mix(state)) >= alpha
            ends[i, w] = at


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_residues(nodes, ends, alpha, residue, rows):
    """Add what walks find of the residues: the share that stays is known, the others are the mean over the ends."""
    width = residue.shape[1]
    totals = np.empty(width, np.float32)
    stay = np.float32(alpha)
    move = np.float32((1.0 - alpha) / max(1, ends.shape[1]))
    for i in range(nodes.size):
        totals[:] = 0.0
        for w in range(ends.shape[1]):
            at = np.int64(ends[i, w])
            for c in range(width):
                totals[c] += residue[at, c]
        for c in range(width):
            rows[i, c] += stay * residue[nodes[i], c] + move * totals[c]
