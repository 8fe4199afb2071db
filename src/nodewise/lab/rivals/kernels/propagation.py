"""Propagation of feature columns over the graph: hops with dropped entries (APPNP), reverse pushes and walks (GBP),
randomized propagation (AGP)."""

from __future__ import annotations

import math

import numpy as np

from nodewise._util.intrinsics import prefetch_row, product_high
from nodewise._util.kernels import njit
from nodewise.diffusion.kernels.walking import _GOLDEN, _MIX1, _by_weight, _mix, _stream, _unit

FAR = 1 << 20  # numbers in a block that is not in cache
HOP_AHEAD, PUSH_AHEAD = 12, 8  # neighbours between asking for a row and adding it, or adding to it
LIKELY = np.float32(0.03125)  # probabilities above which a draw per neighbour is cheaper than jumps

# ---------------------------------------------------------------------- APPNP


@njit(nogil=True, inline="always")
def _stays(seed, row, column, dropped):
    return _mix((seed ^ np.uint64(row) * _MIX1) + np.uint64(column) * _GOLDEN) >= dropped


@njit(nogil=True, fastmath={"contract"})
def hop(indptr, indices, weights, inverse, share, dropped, seed, transposed, rows, out, first, last):
    """``out = share D^-1 (M * A) rows`` for the nodes of a range, ``M`` zero where an entry is dropped.

    Whether it is depends on the seed and the entry alone, so nothing is stored and ``transposed`` finds the same ones.
    ``dropped`` is the probability times 2^64.
    """
    width = rows.shape[1]
    ahead = indptr[last] - HOP_AHEAD if rows.size > FAR else 0
    for v in range(first, last):
        for c in range(width):
            out[v, c] = 0.0
        for e in range(indptr[v], indptr[v + 1]):
            if e < ahead:
                prefetch_row(rows, np.int64(indices[e + HOP_AHEAD]), 0)
            u = np.int64(indices[e])
            if dropped > 0 and not (_stays(seed, u, v, dropped) if transposed else _stays(seed, v, u, dropped)):
                continue
            weight = np.float32(1.0) if weights.size == 0 else weights[e]
            for c in range(width):
                out[v, c] += weight * rows[u, c]
        scale = share * inverse[v]
        for c in range(width):
            out[v, c] *= scale


# ---------------------------------------------------------------------- GBP


@njit(nogil=True, fastmath={"contract"})
def push(indptr, indices, weights, inverse, alpha, limits, slots, residue, reserve):
    """Push every entry of ``residue`` that is beyond its column's limit, until there is none.

    A pushed entry leaves a share ``alpha`` in its node's row of ``reserve``, where the node has one (``slots``), and
    the rest goes to the neighbours, by ``P`` transposed. A column's pushes do not depend on the columns beside it.
    """
    width = residue.shape[1]
    amounts = np.zeros(width, np.float32)
    far = residue.size > FAR
    kept, sent = np.float32(alpha), np.float32(1.0 - alpha)
    pushed = True
    while pushed:
        pushed = False
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
                if far and e + PUSH_AHEAD < last:
                    prefetch_row(residue, np.int64(indices[e + PUSH_AHEAD]), 0)
                u = np.int64(indices[e])
                share = sent * inverse[u]
                if weights.size > 0:
                    share *= weights[e]
                for c in range(width):
                    residue[u, c] += share * amounts[c]


@njit(nogil=True)
def walk_ends(indptr, indices, cumulative, nodes, alpha, seed, first, last, ends):
    """The ends of walks from nodes ``first..last`` that stop with probability ``alpha`` after each step."""
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


@njit(nogil=True, fastmath={"contract"})
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


# ---------------------------------------------------------------------- AGP


@njit(nogil=True)
def sort_rows(indptr, indices, weights, after, sorted_indices, sorted_weights, first, last):
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


@njit(nogil=True, inline="always")
def _key(indices, weights, after, e):
    """What an amount is multiplied by on its way over an edge."""
    return after[np.int64(indices[e])] * (np.float32(1.0) if weights.size == 0 else weights[e])


@njit(nogil=True, inline="always")
def _unit32(bits, e):
    """A number in [0, 1), of 24 bits, from a column's bits and an edge. numba widens sums and products to 64 bits."""
    z = np.uint32(bits + np.uint32(e) * np.uint32(0x9E3779B9))
    z = np.uint32((z ^ (z >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    z = np.uint32((z ^ (z >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.float32(np.uint32(z ^ (z >> np.uint32(16))) >> np.uint32(8)) * np.float32(2.0**-24)


@njit(nogil=True)
def _first_unlikely(indices, weights, after, begin, end, ratio):
    """The first of a node's edges whose probability is below :data:`LIKELY`; they fall along the row."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if ratio * _key(indices, weights, after, middle) >= LIKELY:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True)
def _jump(indices, weights, after, begin, end, ratio, step, state, column, out):
    """Add ``step`` to each neighbour with its probability, by jumps along the row: no others are looked at."""
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


@njit(nogil=True)
def spread_level(indptr, indices, weights, before, after, passed, limits, seed, first_column, level, rows, out):
    """``out += passed D^-a A D^-b rows`` in the mean, ``before`` being ``D^-b`` and ``after`` ``D^-a``.

    A share of at least the column's limit is added as it is; each of the others becomes the limit with the
    probability that keeps its mean, its ratio to the limit. Where these are high, all columns go over an edge together;
    where they are low, each jumps (:func:`_jump`). The numbers drawn depend on seed, column, level and node alone.
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
