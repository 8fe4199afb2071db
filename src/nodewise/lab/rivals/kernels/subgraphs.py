"""Subgraphs: which nodes are in them, and what edges they induce.

``places`` has a number for each node of the graph, -1 outside a subgraph; the kernels leave it as they found it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from nodewise._util.intrinsics import product_high
from nodewise.diffusion.kernels.walking import _GOLDEN, _advance, _mix, _stream


@njit(cache=True, nogil=True)
def _add(node, places, nodes, size):
    """Number ``node`` if it is new; returns the size."""
    if places[node] < 0:
        places[node] = size
        nodes[size] = node
        size += 1
    return size


@njit(cache=True, nogil=True)
def walked(indptr, indices, cumulative, length, seed, at, edge, places, nodes):
    """The nodes that walks of ``length`` steps visit, one for each place in ``at``, from roots drawn evenly.

    Returns how many there are; ``places`` is left with their numbers.
    """
    count = np.uint64(indptr.size - 1)
    state = _mix(_mix(np.uint64(seed)) + _GOLDEN)
    size = 0
    for w in range(at.size):
        state += _GOLDEN
        at[w] = np.int64(product_high(_mix(state), count))
        size = _add(at[w], places, nodes, size)
    for _ in range(length):
        state += _GOLDEN
        _advance(indptr, indices, cumulative, at, at.size, edge, state, _GOLDEN)
        state += np.uint64(at.size) * _GOLDEN
        for w in range(at.size):
            size = _add(at[w], places, nodes, size)
    return size


@njit(cache=True, nogil=True)
def count_walked(
    indptr, indices, cumulative, length, first_seed, last_seed, at, edge, places, nodes, visits, entries
):  # fmt: skip
    """In how many of the subgraphs of a range of seeds each node is, and each adjacency entry."""
    for seed in range(first_seed, last_seed):
        size = walked(indptr, indices, cumulative, length, seed, at, edge, places, nodes)
        for i in range(size):
            visits[nodes[i]] += 1
            for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
                entries[e] += places[indices[e]] >= 0
        for i in range(size):
            places[nodes[i]] = -1


@njit(cache=True, nogil=True)
def near(indptr, indices, targets, hops, fanout, seed, places, out_nodes, out_sizes):
    """The nodes within ``hops`` hops of each target, itself first, along ``fanout`` random edges of each node.

    A node of no more edges goes along all of them. Returns the entries written.
    """
    total = 0
    chosen = np.empty(fanout, np.int64)
    for t in range(targets.size):
        nodes = out_nodes[total:]
        size = _add(targets[t], places, nodes, 0)
        state = _stream(seed, targets[t])
        first = 0
        for _ in range(hops):
            last = size
            for i in range(first, last):
                start, degree = indptr[nodes[i]], indptr[nodes[i] + 1] - indptr[nodes[i]]
                if degree <= fanout:
                    for e in range(start, start + degree):
                        size = _add(np.int64(indices[e]), places, nodes, size)
                else:
                    state = _choose(degree, state, chosen)
                    for c in range(fanout):
                        size = _add(np.int64(indices[start + chosen[c]]), places, nodes, size)
            first = last
        for i in range(size):
            places[nodes[i]] = -1
        out_sizes[t] = size
        total += size
    return total


@njit(cache=True, nogil=True)
def _choose(count, state, chosen):
    """Different numbers below ``count``, every set as likely as any other (Floyd's algorithm)."""
    for c in range(chosen.size):
        upto = count - chosen.size + c
        state += _GOLDEN
        number = np.int64(product_high(_mix(state), np.uint64(upto + 1)))
        for before in range(c):
            if chosen[before] == number:
                number = upto
                break
        chosen[c] = number
    return state


@njit(cache=True, nogil=True)
def induced_entries(indptr, indices, starts, nodes, places):
    """How many adjacency entries the subgraphs ``nodes[starts[s]:starts[s + 1]]`` have together."""
    entries = 0
    for s in range(starts.size - 1):
        for i in range(starts[s], starts[s + 1]):
            places[nodes[i]] = i
        for i in range(starts[s], starts[s + 1]):
            for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
                entries += places[indices[e]] >= 0
        for i in range(starts[s], starts[s + 1]):
            places[nodes[i]] = -1
    return entries


@njit(cache=True, nogil=True)
def induce(indptr, indices, starts, nodes, places, out_indptr, out_indices, out_entries):
    """The subgraphs side by side, as one block-diagonal adjacency; ``out_entries`` says where the graph has each."""
    entries = 0
    out_indptr[0] = 0
    for s in range(starts.size - 1):
        for i in range(starts[s], starts[s + 1]):
            places[nodes[i]] = i
        for i in range(starts[s], starts[s + 1]):
            for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
                if places[indices[e]] >= 0:
                    out_indices[entries] = places[indices[e]]
                    out_entries[entries] = e
                    entries += 1
            out_indptr[i + 1] = entries
        for i in range(starts[s], starts[s + 1]):
            places[nodes[i]] = -1
