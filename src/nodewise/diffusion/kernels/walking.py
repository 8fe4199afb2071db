"""Kernels of random walks: independent (Algorithm 2), or walkers that move together (stratified).

Random numbers are splitmix64: a counter, mixed. A target's stream starts from the seed and the node's id alone, so a
node's result does not depend on threads, chunks or other targets.

The table of visited nodes is open addressing over two arrays, ``keys`` (node + 1, 0 for a free slot) and ``values``;
``used`` lists the taken slots in the order of their first visit, which is also the order of the output and the way to
clear the table. Its size follows the number of walks, not the graph, so it stays in cache; where the graph itself is
that small, a node's slot is its own number.

A slot has ``width`` values side by side: one, the sum over all hops, or one per hop.

The adjacency may lie in a file that nobody has checked, so nothing is read or written by what it says before that is
known to lie inside: a kernel that finds it outside returns :data:`OUTSIDE` at once.
"""

from __future__ import annotations

import numpy as np

from nodewise._util.intrinsics import prefetch, product_high
from nodewise._util.kernels import njit

BATCH = 256  # walks moved together at most: enough cache misses in flight to hide their latency
LEAST_BATCH = 32  # walks moved together at least: first-K may make some of the last batch superfluous
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53
OUTSIDE = -1  # in place of a size: the adjacency points outside itself

# ---------------------------------------------------------------------- random numbers


@njit(nogil=True)
def _mix(state):
    z = state
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@njit(nogil=True)
def _stream(seed, node):
    """The start of a node's own stream."""
    return _mix(_mix(np.uint64(seed) + _GOLDEN) ^ (np.uint64(node) * _MIX1 + _GOLDEN))


@njit(nogil=True)
def _unit(bits):
    """A number in [0, 1)."""
    return np.float64(bits >> np.uint64(11)) * _TO_UNIT


# ---------------------------------------------------------------------- choosing edges


@njit(nogil=True)
def _by_weight(cumulative, first, last, point):
    """The entry of ``[first, last)`` whose share of the running weights holds ``point``."""
    low, high = first, last - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > point:
            high = middle
        else:
            low = middle + 1
    return low


@njit(nogil=True)
def _outside(numbers, count, end):
    """Whether one of the first ``count`` numbers is not in ``[0, end)``; in a loop of its own, which is vectorized."""
    signs = np.int64(0)
    for w in range(count):
        signs |= numbers[w] | (end - 1 - numbers[w])
    return signs < 0


@njit(nogil=True)
def _advance(indptr, indices, cumulative, at, count, edge, state, stride):
    """Move each walker one step; two passes, so that every cache miss of the batch is in flight at once.

    Walker ``w`` draws from ``state + w * stride``: a walk is the same in any batch. Returns whether a walker would
    leave the adjacency.
    """
    for w in range(count):
        first, last = indptr[at[w]], indptr[at[w] + 1]
        bits = _mix(state)
        state += stride
        if cumulative.size == 0:
            edge[w] = first + np.int64(product_high(bits, np.uint64(last - first)))
        else:
            edge[w] = _by_weight(cumulative, first, last, _unit(bits) * cumulative[last - 1])
        prefetch(indices, edge[w])
    if _outside(edge, count, indices.size):
        return True
    for w in range(count):
        at[w] = indices[edge[w]]
        prefetch(indptr, at[w])
    return _outside(at, count, indptr.size - 1)


# ---------------------------------------------------------------------- the table of visited nodes


@njit(nogil=True)
def _slot(keys, node, direct):
    """Where ``node`` is in the table, or the free slot where it belongs; ``direct``: at its own number."""
    if direct:
        return np.int64(node)
    mask = np.uint64(keys.size - 1)
    key = np.int64(node) + 1
    place = ((np.uint64(node) * _GOLDEN) >> np.uint64(32)) & mask
    while keys[place] != 0 and keys[place] != key:
        place = (place + np.uint64(1)) & mask
    return np.int64(place)


@njit(nogil=True)
def _empty_table(keys, values, used, size, width, scale, nodes, weights, sizes):
    """Move the table's contents, scaled, to ``nodes`` and ``weights``, and leave it clear.

    Hop by hop if ``width`` is more than 1, without the nodes that a hop did not reach. Returns how many were moved.
    """
    moved = 0
    for hop in range(width):
        first = moved
        for i in range(size):
            value = values[used[i] * width + hop]
            if width == 1 or value != 0.0:
                nodes[moved] = keys[used[i]] - 1
                weights[moved] = value * scale
                moved += 1
        sizes[hop] = moved - first
    for i in range(size):
        _clear_slot(keys, values, used[i], width)
    return moved


@njit(nogil=True, inline="always")
def _clear_slot(keys, values, slot, width):
    keys[slot] = 0
    for hop in range(width):
        values[slot * width + hop] = 0.0


# ---------------------------------------------------------------------- walks, Algorithm 2


@njit(nogil=True)
def walk(
    indptr, indices, cumulative, targets, lengths, hops, width, theta, first_k, mass, seed,
    keys, values, used, path, edge, out_nodes, out_weights, out_sizes, out_walks, out_steps,
):  # fmt: skip
    """Walks from each target; first-K stops after the walk that brings the visited nodes to ``first_k``.

    ``mass``: 0 divides by ``theta``, 1 by the walks made, 2 by ``theta`` but adds ``U(0)`` whole. Returns how many
    nodes were found, or :data:`OUTSIDE`.
    """
    at = np.empty(BATCH, np.int64)
    direct = keys.size >= indptr.size
    per_hop = np.int64(width > 1)
    total = 0
    for i in range(targets.size):
        target, length = targets[i], lengths[i]
        state = _stream(seed, target)
        home = _slot(keys, target, direct)
        keys[home] = target + 1
        used[0] = home
        size, walks, steps = 1, 0, 0
        while walks < theta and (size < first_k or walks == 0):
            needed = (first_k - size) // max(1, length)  # a walk finds at most as many nodes as it has steps
            batch = min(theta - walks, BATCH, max(LEAST_BATCH, needed))
            at[:batch] = target
            for step in range(length):
                draw = state + np.uint64(walks * length + step) * _GOLDEN
                if _advance(indptr, indices, cumulative, at, batch, edge, draw, np.uint64(length) * _GOLDEN):
                    return OUTSIDE
                for w in range(batch):
                    path[w * length + step] = at[w]
            steps += batch * length
            for w in range(batch):
                for step in range(length):
                    node = np.int64(path[w * length + step])
                    slot = _slot(keys, node, direct)
                    used[size] = slot
                    size += keys[slot] == 0  # no branch: whether a node is new cannot be guessed
                    keys[slot] = node + 1
                    values[slot * width + (step + 1) * per_hop] += hops[step + 1]
                walks += 1
                if size >= first_k:
                    break
        divisor = walks if mass == 1 else theta
        values[home * width] += hops[0] * (theta if mass == 2 else walks)
        out_walks[i] = walks
        out_steps[i] = steps
        sizes = out_sizes[i * width : (i + 1) * width]
        total += _empty_table(
            keys, values, used, size, width, 1.0 / divisor, out_nodes[total:], out_weights[total:], sizes
        )
    return total


# ---------------------------------------------------------------------- stratified walks


AHEAD = 32  # moves between asking for a neighbour and reading it


@njit(nogil=True)
def _send(first, degree, walkers, bits, edge, amount, moves):
    """Spread walkers over a row of equal edges: each edge gets its share of them, rounded up or down."""
    if walkers < degree:  # one per edge, at even distances from a random start
        stride = np.float64(degree) if walkers == 1 else degree / walkers
        start = _unit(bits)
        for j in range(walkers):
            edge[moves + j] = first + min(degree - 1, np.int64((j + start) * stride))
            amount[moves + j] = 1
        return moves + walkers
    each = walkers // degree  # the same for all, and one more for a run of edges from a random one on
    rest = walkers - each * degree
    lucky = np.int64(product_high(bits, np.uint64(degree)))
    for e in range(degree):
        edge[moves + e] = first + e
        amount[moves + e] = each + ((e >= lucky) & (e < lucky + rest) | (e < lucky + rest - degree))
    return moves + degree


@njit(nogil=True)
def _send_by_weight(cumulative, first, degree, walkers, bits, edge, amount, moves):
    """As :func:`_send` for edges with weights: walker ``j`` takes the edge whose share holds ``j + start``."""
    start = _unit(bits)
    total = cumulative[first + degree - 1]
    if walkers < degree:
        for j in range(walkers):
            edge[moves + j] = _by_weight(cumulative, first, first + degree, (j + start) / walkers * total)
            amount[moves + j] = 1
        return moves + walkers
    sent = 0
    for e in range(degree):
        reach = walkers * (cumulative[first + e] / total)
        upto = walkers if e == degree - 1 else min(walkers, max(0, np.int64(np.ceil(reach - start))))
        edge[moves] = first + e
        amount[moves] = upto - sent
        moves += amount[moves] > 0
        sent = upto
    return moves


@njit(nogil=True)
def _arrive(indptr, indices, edge, amount, moves, keys, direct, counts, used, size, frontier):
    """Count the walkers into their new nodes and list those nodes; returns the table's size, or OUTSIDE, and theirs."""
    arrived = 0
    for p in range(moves):
        if p + AHEAD < moves:
            prefetch(indices, edge[p + AHEAD])
        node = np.int64(indices[edge[p]])
        if node | (indptr.size - 2 - node) < 0:
            return OUTSIDE, 0
        prefetch(indptr, node)
        slot = _slot(keys, node, direct)
        used[size] = slot
        size += keys[slot] == 0  # no branch: whether a node is new cannot be guessed
        keys[slot] = node + 1
        frontier[arrived] = slot
        arrived += counts[slot] == 0
        counts[slot] += amount[p]
    return size, arrived


@njit(nogil=True)
def _move_all(
    indptr, indices, cumulative, length, hops, width, state, keys, direct, values, counts, used, frontier, edge, amount
):
    """Let the walkers in the table's first slot take ``length`` steps; returns the table's size and the edges used.

    The size is :data:`OUTSIDE` if they would leave the adjacency.
    """
    size, here, steps = 1, 1, 0
    per_hop = np.int64(width > 1)
    frontier[0] = used[0]
    for step in range(length + 1):
        moves = 0
        for f in range(here):
            slot = frontier[f]
            walkers = np.int64(counts[slot])
            counts[slot] = 0
            values[slot * width + step * per_hop] += hops[step] * walkers
            if step < length:
                node = np.int64(keys[slot]) - 1
                first, last = indptr[node], indptr[node + 1]
                degree = last - first
                if first | (degree - 1) | (indices.size - last) < 0:
                    return OUTSIDE, steps
                state += _GOLDEN
                if cumulative.size == 0:
                    moves = _send(first, degree, walkers, _mix(state), edge, amount, moves)
                else:
                    moves = _send_by_weight(cumulative, first, degree, walkers, _mix(state), edge, amount, moves)
        if step < length:
            size, here = _arrive(indptr, indices, edge, amount, moves, keys, direct, counts, used, size, frontier)
            if size < 0:
                return OUTSIDE, steps
            steps += moves
    return size, steps


@njit(nogil=True)
def _nth_smallest(numbers, size, n):
    """The number with ``n`` smaller or equal ones before it among the first ``size``; reorders them (quickselect)."""
    low, high = 0, size - 1
    while low < high:
        a, b, c = numbers[low], numbers[(low + high) >> 1], numbers[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while numbers[i] < pivot:
                i += 1
            while numbers[j] > pivot:
                j -= 1
            if i <= j:
                numbers[i], numbers[j] = numbers[j], numbers[i]
                i += 1
                j -= 1
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            break
    return numbers[n]


@njit(nogil=True)
def _keep_heaviest(keys, values, used, size, width, most, ranks):
    """Clear all but the ``most`` heaviest nodes, among equals the first visited, a node's hops taken together.

    Returns how many are left, and the weight of all over theirs.
    """
    if size <= most:
        return size, 1.0
    weight = np.empty(size, np.float64)
    for i in range(size):
        weight[i] = 0.0
        for hop in range(width):
            weight[i] += values[used[i] * width + hop]
        ranks[i] = weight[i]
    least = _nth_smallest(ranks, size, size - most)
    equals, total, kept_mass = most, 0.0, 0.0
    for i in range(size):
        total += weight[i]
        if weight[i] > least:
            equals -= 1
            kept_mass += weight[i]
    kept_mass += equals * least
    kept = 0
    for i in range(size):
        slot = used[i]
        if weight[i] > least or (weight[i] == least and equals > 0):
            equals -= weight[i] == least
            used[kept] = slot
            kept += 1
        else:
            _clear_slot(keys, values, slot, width)
    return kept, total / kept_mass


@njit(nogil=True)
def _slots(most):
    """The size of a table for ``most`` nodes: a power of two, at most half full."""
    size = 16
    while size < 2 * most:
        size *= 2
    return size


@njit(nogil=True)
def stratify(
    indptr, indices, cumulative, targets, lengths, hops, width, theta, most, keep_mass, seed,
    keys, values, counts, used, frontier, edge, amount, ranks, out_nodes, out_weights, out_sizes, out_walks, out_steps,
):  # fmt: skip
    """The walkers of a target move together, as counts per node.

    Each node that holds walkers spreads them over its edges from one random number, every edge getting its expected
    share rounded up or down, so a hop's counts are unbiased and vary less than independent walks. There are as many
    walkers as could visit ``most`` nodes; where they meet and visit less than half of that, four times as many start
    anew, up to ``theta``. Of the nodes visited the ``most`` heaviest are kept; ``keep_mass`` scales them to the weight
    of all. Returns how many nodes were found, or :data:`OUTSIDE`.
    """
    direct = keys.size >= indptr.size
    total = 0
    for i in range(targets.size):
        walkers = min(theta, max(1, most // max(1, lengths[i])))
        state = _stream(seed, targets[i])
        out_steps[i] = 0
        while True:
            # A table that is as small as it can be stays in cache.
            table = keys if direct else keys[: min(keys.size, _slots(walkers * lengths[i] + 1))]
            home = _slot(table, targets[i], direct)
            table[home] = targets[i] + 1
            used[0] = home
            counts[home] = walkers
            size, steps = _move_all(
                indptr, indices, cumulative, lengths[i], hops, width, state + np.uint64(walkers) * _MIX1,
                table, direct, values, counts, used, frontier, edge, amount,
            )  # fmt: skip
            if size < 0:
                return OUTSIDE
            out_steps[i] += steps
            if walkers == theta or 2 * size >= most:
                break
            for j in range(size):
                _clear_slot(table, values, used[j], width)
            walkers = min(theta, 4 * walkers)
        size, dropped = _keep_heaviest(table, values, used, size, width, most, ranks)
        scale = (dropped if keep_mass else 1.0) / walkers
        out_walks[i] = walkers
        sizes = out_sizes[i * width : (i + 1) * width]
        total += _empty_table(table, values, used, size, width, scale, out_nodes[total:], out_weights[total:], sizes)
    return total
