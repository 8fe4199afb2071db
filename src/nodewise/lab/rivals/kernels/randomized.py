"""Randomized propagation (AGP): shares above a limit are pushed, the others are drawn."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from nodewise.diffusion.kernels.walking import _GOLDEN, _mix, _stream, _unit

LIKELY = np.float32(0.03125)  # chances above which asking each neighbour is cheaper than jumping to the next one


@njit(cache=True, nogil=True)
def sort_rows(indptr, indices, weights, after, first, last, sorted_indices, sorted_weights):
    """The neighbours of nodes ``first..last``, those that get the largest share first: of equal weight, the ones of
    low degree."""
    for u in range(first, last):
        begin, end = indptr[u], indptr[u + 1]
        shares = np.empty(end - begin, np.float32)
        for e in range(begin, end):
            shares[e - begin] = -after[indices[e]] * (np.float32(1.0) if weights.size == 0 else weights[e])
        order = np.argsort(shares, kind="mergesort")  # stable, so that equals stay in the graph's order
        for i in range(order.size):
            sorted_indices[begin + i] = indices[begin + order[i]]
            if weights.size > 0:
                sorted_weights[begin + i] = weights[begin + order[i]]


@njit(cache=True, nogil=True, inline="always")
def _key(indices, weights, after, e):
    """What an amount is multiplied by on its way over an edge."""
    return after[np.int64(indices[e])] * (np.float32(1.0) if weights.size == 0 else weights[e])


@njit(cache=True, nogil=True, inline="always")
def _unit32(bits, e):
    """A number in [0, 1), of 24 bits, from a column's bits and an edge. numba widens sums and products to 64 bits."""
    z = np.uint32(bits + np.uint32(e) * np.uint32(0x9E3779B9))
    z = np.uint32((z ^ (z >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    z = np.uint32((z ^ (z >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.float32(np.uint32(z ^ (z >> np.uint32(16))) >> np.uint32(8)) * np.float32(2.0**-24)


@njit(cache=True, nogil=True)
def _first_unlikely(indices, weights, after, begin, end, ratio):
    """The first of a node's edges whose chance is below :data:`LIKELY`; chances fall along the row."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if ratio * _key(indices, weights, after, middle) >= LIKELY:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _jump(indices, weights, after, begin, end, ratio, step, state, column, out):
    """Add ``step`` to each neighbour with its chance, by jumps along the row: only those it lands on are looked at."""
    most = ratio * _key(indices, weights, after, begin)
    e = begin
    while e < end and most > 0.0:
        state += _GOLDEN
        skipped = math.log(1.0 - _unit(_mix(state))) / math.log1p(-most)
        if skipped >= end - e:
            return
        e += np.int64(skipped)
        chance = ratio * _key(indices, weights, after, e)
        state += _GOLDEN
        if _unit(_mix(state)) * most < chance:
            out[np.int64(indices[e]), column] += step
        most = chance
        e += 1


@njit(cache=True, nogil=True)
def spread_level(indptr, indices, weights, before, after, passed, limits, seed, first_column, level, rows, out):
    """``out += passed D^-a A D^-b rows`` in the mean, ``before`` being ``D^-b`` and ``after`` ``D^-a``.

    A share of at least the column's limit is added as it is; of the others each becomes the limit with the chance that
    leaves its mean, which is its ratio to the limit. Where chances are high all columns go over an edge together; where
    they are low each jumps (:func:`_jump`). The numbers drawn depend on seed, column, level and node alone.
    """
    width = rows.shape[1]
    streams, states = np.empty(width, np.uint64), np.empty(width, np.uint64)
    bits = np.empty(width, np.uint32)
    ratios, steps = np.empty(width, np.float32), np.empty(width, np.float32)
    for c in range(width):
        streams[c] = _mix(_stream(seed, first_column + c) + np.uint64(level) * _GOLDEN)
    for u in range(rows.shape[0]):
        begin, end = indptr[u], indptr[u + 1]
        largest = np.float32(0.0)
        for c in range(width):
            amount = passed * before[u] * rows[u, c]
            ratios[c] = abs(amount) / limits[c]
            steps[c] = math.copysign(limits[c], amount)
            states[c] = _mix(streams[c] ^ np.uint64(u))
            bits[c] = np.uint32(states[c] >> np.uint64(32))
            largest = max(largest, ratios[c])
        if largest == 0.0:
            continue
        for e in range(begin, end):
            key = _key(indices, weights, after, e)
            if largest * key < LIKELY:
                break
            v = np.int64(indices[e])
            for c in range(width):
                chance = ratios[c] * key
                drawn = np.float32(1.0) if _unit32(bits[c], e - begin) < chance else np.float32(0.0)
                sent = chance if chance >= 1.0 else drawn
                out[v, c] += steps[c] * (sent if chance >= LIKELY else np.float32(0.0))
        last_key = _key(indices, weights, after, end - 1)
        for c in range(width):
            if ratios[c] > 0.0 and ratios[c] * last_key < LIKELY:
                e = _first_unlikely(indices, weights, after, begin, end, ratios[c])
                _jump(indices, weights, after, e, end, ratios[c], steps[c], states[c], c, out)
