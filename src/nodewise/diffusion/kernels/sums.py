"""Kernels of weighted sums of feature rows."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from nodewise._util.intrinsics import half_to_float, prefetch_row
from nodewise._util.kernels import njit
from nodewise.graph.features import NORMS

L1, L2 = NORMS.index("l1"), NORMS.index("l2")
SMALLEST = np.float32(np.finfo(np.float32).tiny)  # the inverse of less overflows


@njit(nogil=True)
def deal_entries(indptr, first, last, nodes, weights, shift, starts, by_target, by_node, by_weight):
    """Order the entries of targets ``first..last`` by node range, so that a row is read once for all who need it.

    ``starts`` has a zero for each range and one more; it is left saying where each range starts. Within a range the
    order is that of the entries, so a target's sum does not depend on other targets.
    """
    for e in range(indptr[first], indptr[last]):
        starts[(nodes[e] >> shift) + 1] += 1
    for b in range(1, starts.size):
        starts[b] += starts[b - 1]
    places = starts[:-1].copy()
    for t in range(first, last):
        for e in range(indptr[t], indptr[t + 1]):
            place = places[nodes[e] >> shift]
            places[nodes[e] >> shift] = place + 1
            by_target[place] = t
            by_node[place] = nodes[e]
            by_weight[place] = weights[e]


def value(rows, row, column, steps):
    """A number of a feature row: float32 as it is, float16 from its bits, int8 by its column's scale and offset."""
    raise NotImplementedError("for compiled kernels only")


@overload(value)
def _value(rows, row, column, steps):
    if rows.dtype == types.uint16:
        return lambda rows, row, column, steps: half_to_float(rows[row, column])
    if rows.dtype == types.int8:
        return lambda rows, row, column, steps: steps[0, column] * np.float32(rows[row, column]) + steps[1, column]
    return lambda rows, row, column, steps: rows[row, column]


@njit(nogil=True)
def _factor(total, norm):
    """What brings a row to norm 1, from the sum of its numbers' sizes or squares; rows of zeros stay as they are."""
    size = np.sqrt(total) if norm == L2 else total
    return np.float32(1.0 / size) if size > SMALLEST else np.float32(1.0)


@njit(nogil=True, fastmath={"contract", "reassoc"})
def _row_factor(rows, row, steps, norm):
    total = np.float32(0.0)
    for c in range(rows.shape[1]):
        number = value(rows, row, c, steps)
        total += abs(number) if norm == L1 else number * number
    return _factor(total, norm)


@njit(nogil=True, fastmath={"contract"})
def add_rows(rows, first_row, steps, norm, by_target, by_node, by_weight, first, last, out):
    """``out[target] += weight * row of node`` for entries ``first..last``.

    ``rows`` begin with node ``first_row``; ``norm`` other than 0 scales each to a norm of 1.
    """
    width = rows.shape[1]
    for e in range(first, last):
        if e + 4 < last:
            for c in range(0, width, 64 // rows.itemsize):
                prefetch_row(rows, np.int64(by_node[e + 4]) - first_row, c)
        target, row, weight = by_target[e], np.int64(by_node[e]) - first_row, by_weight[e]
        if norm != 0:
            weight *= _row_factor(rows, row, steps, norm)
        for c in range(width):
            out[target, c] += weight * value(rows, row, c, steps)


@njit(nogil=True)
def add_sparse_rows(indptr, indices, data, norm, targets, first, last, nodes, weights, out):
    """``out[target] += weight * features[node]`` for features in CSR parts; ``targets`` points into the entries.

    Nobody may have checked the features: returns False, at once, where they point outside themselves.
    """
    for t in range(first, last):
        for e in range(targets[t], targets[t + 1]):
            node, weight = nodes[e], weights[e]
            start, end = np.int64(indptr[node]), np.int64(indptr[node + 1])
            if start | (end - start) | (data.size - end) < 0:
                return False
            if norm != 0:
                total = np.float32(0.0)
                for p in range(start, end):
                    total += abs(data[p]) if norm == L1 else data[p] * data[p]
                weight *= _factor(total, norm)
            for p in range(start, end):
                column = np.int64(indices[p])
                if column | (out.shape[1] - 1 - column) < 0:
                    return False
                out[t, column] += weight * data[p]
    return True
