"""Forward push: weight starts on a target and is pushed to neighbours, as long as a node holds enough of it.

A target's nodes are numbered in the order in which weight first reaches them; their numbers lie in arrays that the push
fills from the front, so memory follows the push and not the graph. ``slots`` finds a node's number: open addressing
(number + 1, 0 for a free slot), doubled when it is half full; once it is as large as the graph, a node's slot is its
own. ``degrees`` is empty where edges have no weights.
"""

from __future__ import annotations

import numpy as np

from nodewise._util.intrinsics import prefetch
from nodewise._util.kernels import njit
from nodewise.diffusion.kernels.walking import _GOLDEN, _nth_smallest

AHEAD = 8  # neighbours between asking for a slot and reading it
SOME = 1e-300  # a node that holds less holds nothing


@njit(nogil=True, inline="always")
def _degree(indptr, degrees, node):
    return np.float64(indptr[node + 1] - indptr[node]) if degrees.size == 0 else degrees[node]


@njit(nogil=True, inline="always")
def _place(slots, node, count):
    """Where a search for ``node`` starts; ``count``: nodes in the graph."""
    if slots.size >= count:
        return node
    return np.int64(((np.uint64(node) * _GOLDEN) >> np.uint64(32)) & np.uint64(slots.size - 1))


@njit(nogil=True, inline="always")
def _slot(slots, nodes, node, count):
    """The slot of ``node``, or the free one where it belongs."""
    place = _place(slots, node, count)
    while slots[place] != 0 and nodes[slots[place] - 1] != node:
        place = (place + 1) & (slots.size - 1)
    return place


@njit(nogil=True)
def _with_room(slots, nodes, size, more, count):
    """The table, larger if ``more`` nodes would fill it beyond a half."""
    if slots.size >= count or 2 * (size + more) <= slots.size:
        return slots
    room = slots.size
    while room < count and room < 2 * (size + more):
        room *= 2
    grown = np.zeros(room if room < count else count, np.int32)
    for i in range(size):
        grown[_slot(grown, nodes, nodes[i], count)] = i + 1
    return grown


@njit(nogil=True)
def _clear(slots, nodes, size, count):
    """Free all slots; from the last on, so that searches for the others still find them."""
    for i in range(size - 1, -1, -1):
        slots[_slot(slots, nodes, nodes[i], count)] = 0


@njit(nogil=True, inline="always")
def _spread(
    indptr, indices, weights, degrees, node, share, enough, slots, nodes, degree, reserve, held, spare, size,
    queue, queued,
):  # fmt: skip
    """Give each neighbour ``share`` per unit of edge weight; those that come to hold ``enough`` per degree queue up.

    Returns the number of nodes and the length of the queue.
    """
    count = indptr.size - 1
    last = indptr[node + 1]
    for e in range(indptr[node], last):
        if e + AHEAD < last:
            coming = np.int64(indices[e + AHEAD])
            prefetch(slots, _place(slots, coming, count))
            prefetch(indptr, coming)
        v = np.int64(indices[e])
        slot = _slot(slots, nodes, v, count)
        i = np.int64(slots[slot]) - 1
        if i < 0:
            i = size
            size += 1
            slots[slot] = size
            nodes[i], degree[i] = v, _degree(indptr, degrees, v)
            reserve[i] = held[i] = spare[i] = 0.0
        before, limit = held[i], max(enough * degree[i], SOME)
        held[i] = before + (share if weights.size == 0 else share * weights[e])
        if before < limit <= held[i]:
            queue[queued] = i
            queued += 1
    return size, queued


@njit(nogil=True)
def _cut(values, size, most):
    """The least of the ``most`` largest values, and how many that are equal to it are among them; reorders values."""
    least = _nth_smallest(values, size, size - most)
    equals = most
    for value in values[:size]:
        equals -= value > least
    return least, equals


@njit(nogil=True)
def _heaviest(nodes, reserve, size, most, ranks, out_nodes, out_weights):
    """The ``most`` nodes with the largest reserve, among equals the first reached; returns their number."""
    positive = 0
    for i in range(size):
        if reserve[i] > 0.0:
            ranks[positive] = reserve[i]
            positive += 1
    least, equals = 0.0, 0
    if positive > most:
        least, equals = _cut(ranks, positive, most)
    kept = 0
    for i in range(size):
        if reserve[i] > least or (equals > 0 and reserve[i] == least):
            equals -= reserve[i] == least
            out_nodes[kept] = nodes[i]
            out_weights[kept] = reserve[i]
            kept += 1
    return kept


@njit(nogil=True)
def _start(indptr, degrees, target, slots, nodes, degree, reserve, held, spare, queue):
    """A table with the target alone, which holds all the weight."""
    nodes[0], degree[0] = target, _degree(indptr, degrees, target)
    reserve[0], held[0], spare[0] = 0.0, 1.0, 0.0
    queue[0] = 0
    slots[_place(slots, target, indptr.size - 1)] = 1


@njit(nogil=True)
def push_pagerank(
    indptr, indices, weights, degrees, targets, alpha, epsilon, most,
    slots, nodes, degree, reserve, held, spare, queue, later, ranks, out_nodes, out_weights, out_sizes,
):  # fmt: skip
    """Approximate personalised PageRank (Andersen, Chung and Lang 2006); of each target the ``most`` heaviest nodes.

    A node that holds at least ``epsilon`` times its degree keeps a share ``alpha`` of it and pushes the rest, so in the
    end ``0 <= pi(v) - p(v) < epsilon d_v``. The target pushes once in any case. Returns the entries written, and the
    table for the next call.
    """
    count = indptr.size - 1
    total = 0
    for t in range(targets.size):
        _start(indptr, degrees, targets[t], slots, nodes, degree, reserve, held, spare, queue)
        size, queued = 1, 1
        while queued > 0:
            arrived = 0
            for q in range(queued):
                i = queue[q]
                share = held[i]
                held[i] = 0.0
                reserve[i] += alpha * share
                u = np.int64(nodes[i])
                slots = _with_room(slots, nodes, size, indptr[u + 1] - indptr[u], count)
                size, arrived = _spread(
                    indptr, indices, weights, degrees, u, (1 - alpha) * share / degree[i], epsilon,
                    slots, nodes, degree, reserve, held, spare, size, later, arrived,
                )  # fmt: skip
            queue, later = later, queue
            queued = arrived
        _clear(slots, nodes, size, count)
        out_sizes[t] = _heaviest(nodes, reserve, size, most, ranks, out_nodes[total:], out_weights[total:])
        total += out_sizes[t]
    return total, slots


@njit(nogil=True)
def push_hops(
    indptr, indices, weights, degrees, targets, hops, epsilon, most,
    slots, nodes, degree, reserve, held, spare, queue, later, ranks, out_nodes, out_weights, out_sizes,
):  # fmt: skip
    """``sum over l of hops[l] P^l[target]`` (GFPush, Feng et al. 2022, Algorithm 1); arguments as above.

    A node that holds more than ``epsilon`` times its degree after hop ``l`` counts and pushes; what others hold is
    dropped, except in the last hop. So ``0 <= exact(v) - found(v) <= sum over l of hops[l] (l + 1) epsilon d_v``.
    """
    count = indptr.size - 1
    total = 0
    for t in range(targets.size):
        _start(indptr, degrees, targets[t], slots, nodes, degree, reserve, held, spare, queue)
        size, queued = 1, 1
        for hop in range(hops.size):
            last = hop == hops.size - 1
            arrived = 0
            for q in range(queued):
                i = queue[q]
                share = held[i]
                held[i] = 0.0
                if share > epsilon * degree[i] or last or hop == 0:
                    reserve[i] += hops[hop] * share
                    if not last:
                        u = np.int64(nodes[i])
                        slots = _with_room(slots, nodes, size, indptr[u + 1] - indptr[u], count)
                        size, arrived = _spread(
                            indptr, indices, weights, degrees, u, share / degree[i], 0.0,
                            slots, nodes, degree, reserve, spare, held, size, later, arrived,
                        )  # fmt: skip
            queue, later = later, queue
            held, spare = spare, held
            queued = arrived
        _clear(slots, nodes, size, count)
        out_sizes[t] = _heaviest(nodes, reserve, size, most, ranks, out_nodes[total:], out_weights[total:])
        total += out_sizes[t]
    return total, slots


@njit(nogil=True)
def mark_heaviest(indptr, values, most):
    """Mark the ``most`` largest values of each row; among equals those that come first."""
    marked = np.ones(values.size, np.bool_)
    for i in range(indptr.size - 1):
        row = values[indptr[i] : indptr[i + 1]]
        if row.size <= most:
            continue
        least, equals = _cut(row.copy(), row.size, most)
        for j in range(row.size):
            if row[j] == least:
                marked[indptr[i] + j] = equals > 0
                equals -= 1
            else:
                marked[indptr[i] + j] = row[j] > least
    return marked
