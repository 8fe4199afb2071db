"""Samples of neighbours and of nodes, and the subgraphs that these induce (GraphSAGE, GraphSAINT, ShaDow-GCN).

``places`` has a number for each node of the graph, -1 outside a subgraph; unless they say otherwise, the kernels leave
it as it was. Random numbers are splitmix64.
"""

from __future__ import annotations

import numpy as np

from nodewise._util.intrinsics import product_high
from nodewise._util.kernels import njit
from nodewise.diffusion.kernels.walking import _GOLDEN, _advance, _mix, _stream


@njit(nogil=True)
def _choose(count, state, chosen):
    """Distinct numbers below ``count``, every set equally likely (Floyd's algorithm)."""
    for c in range(chosen.size):
        upto = count - chosen.size + c
        state += _GOLDEN
        number = np.int64(product_high(_mix(state), np.uint64(upto + 1)))
        for before in range(c):
            if chosen[before] == number:
                number = upto  # which none of those before can be
                break
        chosen[c] = number
    return state


@njit(nogil=True)
def sample_entries(indptr, targets, most, seed):
    """At most ``most`` entries of each target's row, drawn uniformly without replacement: bounds and entries.

    A target's random stream starts from the seed and its index among the targets.
    """
    starts = np.zeros(targets.size + 1, np.int64)
    for i in range(targets.size):
        starts[i + 1] = starts[i] + min(most, indptr[targets[i] + 1] - indptr[targets[i]])
    entries = np.empty(starts[-1], np.int64)
    for i in range(targets.size):
        first = indptr[targets[i]]
        degree = indptr[targets[i] + 1] - first
        chosen = entries[starts[i] : starts[i + 1]]
        if degree <= most:
            chosen[:] = np.arange(degree)
        else:
            _choose(degree, _stream(seed, i), chosen)
        chosen += first
    return starts, entries


@njit(nogil=True)
def _add(node, places, nodes, size):
    """Number ``node`` if it is new; returns the number of nodes."""
    if places[node] < 0:
        places[node] = size
        nodes[size] = node
        size += 1
    return size


@njit(nogil=True)
def walked(indptr, indices, cumulative, length, seed, at, edge, places, nodes):
    """The nodes that walks of ``length`` steps visit, one walk for each entry of ``at``, from roots drawn uniformly.

    Returns their number; ``places`` is left with their indices.
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


@njit(nogil=True)
def count_walked(
    indptr, indices, cumulative, length, first_seed, last_seed, at, edge, places, nodes, visits, entries
):  # fmt: skip
    """Count in how many of the subgraphs of a range of seeds each node is, and each adjacency entry."""
    for seed in range(first_seed, last_seed):
        size = walked(indptr, indices, cumulative, length, seed, at, edge, places, nodes)
        for i in range(size):
            visits[nodes[i]] += 1
            for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
                entries[e] += places[indices[e]] >= 0
        for i in range(size):
            places[nodes[i]] = -1


@njit(nogil=True)
def near(indptr, indices, targets, hops, fanout, seed, places, out_nodes, out_sizes):
    """The nodes within ``hops`` hops of each target, itself first, along ``fanout`` random edges of each node.

    A node with at most that many edges takes all of them. Returns the number of entries written.
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


@njit(nogil=True)
def induce(indptr, indices, starts, nodes):
    """The subgraphs ``nodes[starts[s]:starts[s + 1]]`` side by side, as one block-diagonal adjacency.

    Returns its bounds and columns, and where the graph has each entry. The first of two passes counts the entries.
    """
    places = np.full(indptr.size - 1, -1, np.int64)
    out_indptr, out = np.zeros(nodes.size + 1, np.int64), np.empty((2, 0), np.int64)
    for counted in (False, True):
        entries = 0
        for s in range(starts.size - 1):
            for i in range(starts[s], starts[s + 1]):
                places[nodes[i]] = i
            for i in range(starts[s], starts[s + 1]):
                for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
                    if places[indices[e]] >= 0:
                        if counted:
                            out[0, entries], out[1, entries] = places[indices[e]], e
                        entries += 1
                out_indptr[i + 1] = entries
            for i in range(starts[s], starts[s + 1]):
                places[nodes[i]] = -1
        if not counted:
            out = np.empty((2, entries), np.int64)
    return out_indptr, out[0], out[1]
