"""Weighted sums of feature rows."""

from __future__ import annotations

import numpy as np
from numba import njit

from nodewise.intrinsics import half_to_float, prefetch_row


@njit(cache=True, nogil=True)
def deal_entries(indptr, first, last, nodes, weights, shift, places, by_target, by_node, by_weight):
    """Order the entries of targets ``first..last`` by node range, so that a row is read once for all who need it.

    ``places`` has a zero for each range. Within a range the order is that of the entries, so a target's sum does not
    depend on its company.
    """
    for e in range(indptr[first], indptr[last]):
        places[nodes[e] >> shift] += 1
    total = 0
    for b in range(places.size):
        places[b], total = total, total + places[b]
    for t in range(first, last):
        for e in range(indptr[t], indptr[t + 1]):
            place = places[nodes[e] >> shift]
            places[nodes[e] >> shift] = place + 1
            by_target[place] = t
            by_node[place] = nodes[e]
            by_weight[place] = weights[e]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_rows(features, by_target, by_node, by_weight, total, out):
    """``out[target] += weight * features[node]`` for every entry."""
    width = features.shape[1]
    for e in range(total):
        if e + 4 < total:
            for c in range(0, width, 16):
                prefetch_row(features, np.int64(by_node[e + 4]), c)
        target, node, weight = by_target[e], by_node[e], by_weight[e]
        for c in range(width):
            out[target, c] += weight * features[node, c]


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_half_rows(features, by_target, by_node, by_weight, total, out):
    """As :func:`add_rows` for float16 features, given by their bits."""
    width = features.shape[1]
    for e in range(total):
        target, node, weight = by_target[e], by_node[e], by_weight[e]
        for c in range(width):
            out[target, c] += weight * half_to_float(features[node, c])


@njit(cache=True, nogil=True)
def add_sparse_rows(indptr, indices, data, targets, first, last, nodes, weights, out):
    """``out[target] += weight * features[node]`` for features in CSR parts; ``targets`` points into the entries."""
    for t in range(first, last):
        for e in range(targets[t], targets[t + 1]):
            node, weight = nodes[e], weights[e]
            for p in range(indptr[node], indptr[node + 1]):
                out[t, indices[p]] += weight * data[p]
