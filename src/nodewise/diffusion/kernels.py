"""The compiled kernels: functions over arrays, nothing else.

Random numbers are splitmix64: a counter, mixed. A target's stream starts from the seed and the node's id alone, so a
node's result does not depend on threads, chunks or the company of other targets.

The table of visited nodes is open addressing over two arrays, ``keys`` (node + 1, 0 for a free slot) and ``values``;
``used`` lists the taken slots in the order of their first visit, which is also the order of the output and the way to
clear the table. Its size follows the number of walks, not the graph, so it stays in cache; where the graph itself is
that small, a node's slot is its own number.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from nodewise.intrinsics import half_to_float, prefetch, prefetch_row, product_high

BATCH = 256  # walks moved together at most: enough cache misses in flight to hide their latency
LEAST_BATCH = 32  # walks moved together at least: first-K may make some of the last batch superfluous
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53

# ---------------------------------------------------------------------- random numbers


@njit(cache=True, nogil=True)
def _mix(state):
    z = state
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def _stream(seed, node):
    """The start of a node's own stream."""
    return _mix(_mix(np.uint64(seed) + _GOLDEN) ^ (np.uint64(node) * _MIX1 + _GOLDEN))


@njit(cache=True, nogil=True)
def _unit(bits):
    """A number in [0, 1)."""
    return np.float64(bits >> np.uint64(11)) * _TO_UNIT


# ---------------------------------------------------------------------- choosing edges


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _advance(indptr, indices, cumulative, at, count, edge, state, stride):
    """Move each walker one step; two passes, so that every cache miss of the batch is in flight at once.

    Walker ``w`` draws from ``state + w * stride``: a walk is the same in any batch.
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
    for w in range(count):
        at[w] = indices[edge[w]]
        prefetch(indptr, at[w])


# ---------------------------------------------------------------------- the table of visited nodes


@njit(cache=True, nogil=True)
def _slot(keys, node, direct):
    """Where ``node`` is in the table, or the free slot where it belongs; ``direct``: at its own number."""
    if direct:
        return np.int64(node)
    mask = np.uint64(keys.size - 1)
    key = node + 1
    place = ((np.uint64(node) * _GOLDEN) >> np.uint64(32)) & mask
    while keys[place] != 0 and keys[place] != key:
        place = (place + np.uint64(1)) & mask
    return np.int64(place)


@njit(cache=True, nogil=True)
def _empty_table(keys, values, used, size, scale, nodes, weights):
    """Move the table's contents, scaled, to ``nodes`` and ``weights`` and leave it clear."""
    for i in range(size):
        slot = used[i]
        nodes[i] = keys[slot] - 1
        weights[i] = values[slot] * scale
        keys[slot] = 0
        values[slot] = 0.0


# ---------------------------------------------------------------------- walks, Algorithm 2


@njit(cache=True, nogil=True)
def walk(
    indptr, indices, cumulative, targets, lengths, hops, theta, first_k, mass, seed,
    keys, values, used, path, edge, out_nodes, out_weights, out_sizes, out_walks, out_steps,
):  # fmt: skip
    """Walks from each target; first-K stops after the walk that brings the visited nodes to ``first_k``.

    ``mass``: 0 divides by ``theta``, 1 by the walks made, 2 by ``theta`` but adds ``U(0)`` whole.
    """
    at = np.empty(BATCH, np.int64)
    direct = keys.size >= indptr.size
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
                _advance(indptr, indices, cumulative, at, batch, edge, draw, np.uint64(length) * _GOLDEN)
                for w in range(batch):
                    path[w * length + step] = at[w]
            steps += batch * length
            for w in range(batch):
                for step in range(length):
                    node = path[w * length + step]
                    slot = _slot(keys, node, direct)
                    used[size] = slot
                    size += keys[slot] == 0  # no branch: whether a node is new cannot be guessed
                    keys[slot] = node + 1
                    values[slot] += hops[step + 1]
                walks += 1
                if size >= first_k:
                    break
        divisor = walks if mass == 1 else theta
        values[home] += hops[0] * (theta if mass == 2 else walks)
        _empty_table(keys, values, used, size, 1.0 / divisor, out_nodes[total:], out_weights[total:])
        out_sizes[i] = size
        out_walks[i] = walks
        out_steps[i] = steps
        total += size
    return total


# ---------------------------------------------------------------------- stratified walks

AHEAD = 32  # moves between asking for a neighbour and reading it


@njit(cache=True, nogil=True)
def _send(first, degree, walkers, bits, edge, amount, moves):
    """Spread walkers over a row of equal edges: each edge gets its share of them, rounded up or down."""
    if walkers < degree:  # one an edge, at even distances from a random start
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _arrive(indptr, indices, edge, amount, moves, keys, direct, counts, used, size, frontier):
    """Count the walkers into their new nodes and list those nodes; returns the table's size and the list's."""
    arrived = 0
    for p in range(moves):
        if p + AHEAD < moves:
            prefetch(indices, edge[p + AHEAD])
        node = np.int64(indices[edge[p]])
        prefetch(indptr, node)
        slot = _slot(keys, node, direct)
        used[size] = slot
        size += keys[slot] == 0  # no branch: whether a node is new cannot be guessed
        keys[slot] = node + 1
        frontier[arrived] = slot
        arrived += counts[slot] == 0
        counts[slot] += amount[p]
    return size, arrived


@njit(cache=True, nogil=True)
def _move_all(
    indptr, indices, cumulative, length, hops, state, keys, direct, values, counts, used, frontier, edge, amount
):
    """Let the walkers in the table's first slot take ``length`` steps; returns the table's size and the edges used."""
    size, here, steps = 1, 1, 0
    frontier[0] = used[0]
    for step in range(length + 1):
        moves = 0
        for f in range(here):
            slot = frontier[f]
            walkers = np.int64(counts[slot])
            counts[slot] = 0
            values[slot] += hops[step] * walkers
            if step < length:
                node = np.int64(keys[slot]) - 1
                first, degree = indptr[node], indptr[node + 1] - indptr[node]
                state += _GOLDEN
                if cumulative.size == 0:
                    moves = _send(first, degree, walkers, _mix(state), edge, amount, moves)
                else:
                    moves = _send_by_weight(cumulative, first, degree, walkers, _mix(state), edge, amount, moves)
        if step < length:
            size, here = _arrive(indptr, indices, edge, amount, moves, keys, direct, counts, used, size, frontier)
            steps += moves
    return size, steps


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _empty_heaviest(keys, values, used, size, most, keep_mass, scale, ranks, nodes, weights):
    """As :func:`_empty_table`, but of the ``most`` heaviest nodes, among equals the first visited. Returns how many."""
    if size <= most:
        _empty_table(keys, values, used, size, scale, nodes, weights)
        return size
    total = 0.0
    for i in range(size):
        ranks[i] = values[used[i]]
        total += ranks[i]
    least = _nth_smallest(ranks, size, size - most)
    equals, kept_mass = most, 0.0
    for i in range(size):
        if values[used[i]] > least:
            equals -= 1
            kept_mass += values[used[i]]
    kept_mass += equals * least
    if keep_mass:
        scale *= total / kept_mass
    kept = 0
    for i in range(size):
        slot = used[i]
        if values[slot] > least or (values[slot] == least and equals > 0):
            equals -= values[slot] == least
            nodes[kept] = keys[slot] - 1
            weights[kept] = values[slot] * scale
            kept += 1
        keys[slot] = 0
        values[slot] = 0.0
    return kept


@njit(cache=True, nogil=True)
def stratify(
    indptr, indices, cumulative, targets, lengths, hops, theta, most, keep_mass, seed,
    keys, values, counts, used, frontier, edge, amount, ranks, out_nodes, out_weights, out_sizes, out_steps,
):  # fmt: skip
    """All ``theta`` walkers of a target move together, as counts per node.

    Each node that holds walkers spreads them over its edges from one random number, every edge getting its expected
    share rounded up or down, so a hop's counts are unbiased and vary less than independent walks. Of the nodes visited
    the ``most`` heaviest are kept; ``keep_mass`` scales them to the weight of all.
    """
    direct = keys.size >= indptr.size
    total = 0
    for i in range(targets.size):
        home = _slot(keys, targets[i], direct)
        keys[home] = targets[i] + 1
        used[0] = home
        counts[home] = theta
        state = _stream(seed, targets[i])
        size, out_steps[i] = _move_all(
            indptr,
            indices,
            cumulative,
            lengths[i],
            hops,
            state,
            keys,
            direct,
            values,
            counts,
            used,
            frontier,
            edge,
            amount,
        )
        out_sizes[i] = _empty_heaviest(
            keys, values, used, size, most, keep_mass, 1.0 / theta, ranks, out_nodes[total:], out_weights[total:]
        )
        total += out_sizes[i]
    return total


# ---------------------------------------------------------------------- weighted sums of features


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


# ---------------------------------------------------------------------- exact propagation


RUN = 256  # neighbours summed in single precision


@njit(cache=True, nogil=True, fastmath={"contract"})
def _propagate(indptr, indices, weights, inverse_degrees, rows, out):
    """``out[v] = sum over neighbours u of (A[v, u] / d_v) rows[u]``.

    A long row is summed in runs, and the runs in double precision: a float32 sum over a hub's neighbours drifts.
    """
    width = rows.shape[1]
    totals = np.empty(width, np.float64)
    for v in range(rows.shape[0]):
        last = indptr[v + 1]
        scale = inverse_degrees[v]
        long = last - indptr[v] > RUN
        if long:
            totals[:] = 0.0
        for first in range(indptr[v], last, RUN):
            for c in range(width):
                out[v, c] = 0.0
            for e in range(first, min(first + RUN, last)):
                u = indices[e]
                weight = np.float32(1.0) if weights.size == 0 else weights[e]
                for c in range(width):
                    out[v, c] += weight * rows[u, c]
            if long:
                for c in range(width):
                    totals[c] += out[v, c]
        if long:
            for c in range(width):
                out[v, c] = totals[c]
        for c in range(width):
            out[v, c] *= scale


@njit(cache=True, nogil=True, fastmath={"contract"})
def sum_hops(indptr, indices, weights, inverse_degrees, targets, lengths, hops, rows, spare, out, column):
    """``out[i] += U(l) (P^l rows)[target i]`` for ``l`` up to the target's length, in columns from ``column`` on."""
    for hop in range(hops.size):
        if hop > 0:
            _propagate(indptr, indices, weights, inverse_degrees, rows, spare)
            rows, spare = spare, rows
        share = np.float32(hops[hop])
        for i in range(targets.size):
            if lengths[i] >= hop:
                for c in range(rows.shape[1]):
                    out[i, column + c] += share * rows[targets[i], c]


@njit(cache=True, nogil=True, fastmath={"contract"})
def weigh_all(indptr, indices, weights, inverse_degrees, targets, lengths, hops, rows, spare, total):
    """``total[v, i] = sum over l of U(l) P^l[target i, v]``, by propagating the targets' columns of the identity."""
    for i in range(targets.size):
        rows[targets[i], i] = 1.0
    share = np.empty(targets.size, np.float32)
    for hop in range(hops.size):
        if hop > 0:
            _propagate(indptr, indices, weights, inverse_degrees, rows, spare)
            rows, spare = spare, rows
        for i in range(targets.size):
            share[i] = hops[hop] if lengths[i] >= hop else 0.0
        for v in range(total.shape[0]):
            for i in range(targets.size):
                total[v, i] += share[i] * rows[v, i]
    for i in range(targets.size):
        share[i] = inverse_degrees[targets[i]]
    for v in range(total.shape[0]):  # from P^l[v, u] to P^l[u, v] = d_v / d_u P^l[v, u]
        for i in range(targets.size):
            total[v, i] *= share[i] / inverse_degrees[v]


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_sparse_product(indptr, indices, data, total, out):
    """``out = features^T total`` for features in CSR parts."""
    for v in range(total.shape[0]):
        for p in range(indptr[v], indptr[v + 1]):
            for i in range(total.shape[1]):
                out[indices[p], i] += data[p] * total[v, i]
