"""Edges as 64-bit keys, row above column, so that sorting keys sorts rows and their columns at once.

An edge becomes two keys, one for each direction. Keys are dealt out by row range: a bucket is sorted in cache, and
buckets are independent, so all cores work on them. What comes out are pieces of distinct keys in order, which become
rows at once where all edges are there, or lie in a file until they are merged with others.

With weights, each key carries the weight of its edge, as a negative number where the edge ran the other way, and times
``BOTH`` where a run has it once for both directions (an edge of a store, which does not keep its direction). Weights
of equal keys are added in the order of the edges, so that both ends of an edge see the same two sums, bit for bit.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.kernels import njit
from nodewise._util.memory import give_back
from nodewise._util.threads import map_chunks
from nodewise._util.types import AnyArray, DoubleArray, IntArray

KEYS_PER_BUCKET = 1 << 16  # half a megabyte: two cores sort theirs in cache
PIECES_AT_A_TIME = 1 << 8  # written before their memory is given back
MAX_BUCKETS = 1 << 12  # more write streams than this thrash the TLB
ROW = 1 << 32  # the first key of row 1
BOTH = 2.0**600  # times a weight for both directions: exact, and above all others, since the least float32 is 2^-149
_LEAST_BOTH = 2.0**400
_LOW = np.uint64(ROW - 1)
_UP = np.uint64(32)


class Piece(NamedTuple):
    """Keys from ``first`` up to ``last``, exclusive, in order and each once; or with weights at most once a direction.

    Two pieces have no row in common, unless the one begins where the other ends.
    """

    first: int
    last: int
    keys: AnyArray
    weights: DoubleArray | None


class Sorted(NamedTuple):
    """Pieces that follow each other, and the array in which their keys lie one behind the other."""

    pieces: list[Piece]
    keys: AnyArray


class CsrRows(NamedTuple):
    """What rows hold: degrees from row ``first`` on, then all columns and, unless None, weights in float32."""

    first: int
    degrees: IntArray
    columns: AnyArray
    weights: AnyArray | None


def sorted_edges(
    source: AnyArray, target: AnyArray, weight: DoubleArray | None, num_nodes: int, threads: int
) -> Sorted:
    """The keys of both directions of each edge in pieces, those of small rows first; loops only where weighted.

    Ids are trusted to lie in ``[0, num_nodes)``.
    """
    loops = weight is not None  # without weights every loop is like every other, and rows_of adds them
    shift, buckets = _bucketing(num_nodes, 2 * source.size)
    cuts = np.linspace(0, source.size, threads + 1).astype(np.int64)
    parts = list(enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)))
    counts = np.zeros((threads, buckets), np.int64)
    map_chunks(lambda p: _count_keys(source, target, loops, p[1][0], p[1][1], shift, counts[p[0]]), parts, threads)
    starts = np.concatenate(([0], np.cumsum(counts.sum(0))))
    places = starts[:-1] + np.cumsum(counts, axis=0) - counts
    keys = np.empty(starts[-1], np.uint64)
    weights = None if weight is None else np.empty(starts[-1], np.float64)

    def deal(part: tuple[int, tuple[int, int]]) -> None:
        number, (first, last) = part
        if weights is None:
            _deal_keys(source, target, first, last, shift, places[number], keys)
        else:
            _deal_weighted(source, target, weight, first, last, shift, places[number], keys, weights)

    def settle(bucket: int) -> Piece:
        mine = slice(starts[bucket], starts[bucket + 1])
        first, last = bucket << shift, min((bucket + 1) << shift, num_nodes)
        return settled(first * ROW, last * ROW, keys[mine], None if weights is None else weights[mine])

    map_chunks(deal, parts, threads)
    return Sorted(map_chunks(settle, range(buckets), threads), keys)


def settled(first: int, last: int, keys: AnyArray, weights: DoubleArray | None, in_runs: bool = False) -> Piece:
    """The piece from ``first`` to ``last`` from its keys in any order, in their place.

    ``in_runs``: they are a few runs in order, which a stable sort merges: 10 to 50 times as fast for one long run.
    """
    kind: Literal["stable", "quicksort"] = "stable" if in_runs else "quicksort"
    if weights is None:
        keys.sort(kind=kind)
        return Piece(first, last, keys[: _drop_repeats(keys)], None)
    kept = _add_up(keys.copy(), weights.copy(), np.argsort(keys, kind=kind), keys, weights)
    return Piece(first, last, keys[:kept], weights[:kept])


def rows_of(edges: Sorted, threads: int) -> CsrRows:
    """The rows of sorted edges; each node has a loop, those that were missing of weight 1.

    The edges are used up: the memory of keys goes back to the system as that of rows is taken.
    """
    pieces = edges.pieces
    first, last = pieces[0].first // ROW, -(-pieces[-1].last // ROW)
    loops = [first_loop(piece.first) for piece in pieces] + [first_loop(pieces[-1].last)]
    spans = [(number, piece, loops[number], loops[number + 1]) for number, piece in enumerate(pieces)]
    sizes = map_chunks(lambda span: _num_entries(*span[1:]), spans, threads)
    ends = np.cumsum(sizes).tolist()
    degrees, columns = np.zeros(last - first, np.int64), np.empty(ends[-1], np.uint32)
    weights = None if pieces[0].weights is None else np.empty(ends[-1], np.float32)

    def write(span: tuple[int, Piece, int, int]) -> float:
        number, piece, loop, end = span
        mine = slice(ends[number] - sizes[number], ends[number])
        if weights is None:
            _write_rows(piece.keys, loop, end, first, degrees, columns[mine])
            return 0.0
        return float(
            _write_weighted_rows(piece.keys, piece.weights, loop, end, first, degrees, columns[mine], weights[mine])
        )

    heaviest, spent = 0.0, 0
    for begin in range(0, len(spans), PIECES_AT_A_TIME):
        group = spans[begin : begin + PIECES_AT_A_TIME]
        heaviest = max(heaviest, *map_chunks(write, group, threads))
        through = _end_in(edges.keys, group[-1][1].keys)
        give_back(edges.keys[spent:through])
        spent = through
    if heaviest > float(np.finfo(np.float32).max):
        raise InputError(f"edge_weight: repeats of an edge add up to {heaviest:.3g}, more than float32 can hold")
    return CsrRows(first, degrees, columns, weights)


def _end_in(whole: AnyArray, part: AnyArray) -> int:
    """Where in an array a part of it ends."""
    return (part.ctypes.data + part.nbytes - whole.ctypes.data) // whole.itemsize


def first_loop(key: int) -> int:
    """The first node whose loop does not come before ``key``."""
    row, column = divmod(key, ROW)
    return row if column <= row else row + 1


def _num_entries(piece: Piece, loop: int, end: int) -> int:
    if piece.weights is None:
        return piece.keys.size + end - loop
    return int(_count_distinct(piece.keys)) + end - loop


def _bucketing(num_nodes: int, num_keys: int) -> tuple[int, int]:
    """How far to shift a node id to get its bucket, and the number of buckets."""
    wanted = min(MAX_BUCKETS, max(1, num_keys // KEYS_PER_BUCKET))
    shift = max(0, int(num_nodes - 1).bit_length() - int(wanted - 1).bit_length())
    return shift, max(1, (num_nodes + (1 << shift) - 1) >> shift)


# ---------------------------------------------------------------------- kernels


@njit(nogil=True)
def _count_keys(source, target, loops, first, last, shift, counts):
    for e in range(first, last):
        s, t = np.int64(source[e]), np.int64(target[e])
        if s != t:
            counts[s >> shift] += 1
            counts[t >> shift] += 1
        elif loops:
            counts[s >> shift] += 1


@njit(nogil=True)
def _deal_keys(source, target, first, last, shift, places, keys):
    for e in range(first, last):
        s, t = np.int64(source[e]), np.int64(target[e])
        if s != t:
            keys[places[s >> shift]] = (np.uint64(s) << _UP) | np.uint64(t)
            places[s >> shift] += 1
            keys[places[t >> shift]] = (np.uint64(t) << _UP) | np.uint64(s)
            places[t >> shift] += 1


@njit(nogil=True)
def _deal_weighted(source, target, weight, first, last, shift, places, keys, weights):
    for e in range(first, last):
        s, t = np.int64(source[e]), np.int64(target[e])
        place = places[s >> shift]
        keys[place] = (np.uint64(s) << _UP) | np.uint64(t)
        weights[place] = weight[e]
        places[s >> shift] += 1
        if s != t:
            place = places[t >> shift]
            keys[place] = (np.uint64(t) << _UP) | np.uint64(s)
            weights[place] = -weight[e]
            places[t >> shift] += 1


@njit(nogil=True)
def _drop_repeats(keys):
    """Drop repeats, and loops if there are any, from sorted keys in place; return how many are left."""
    kept, last = 0, np.uint64(0)  # the key of a loop
    for i in range(keys.size):
        key = keys[i]
        keys[kept] = key
        kept += (key != last) & (key >> _UP != key & _LOW)
        last = key
    return kept


@njit(nogil=True)
def _add_up(keys, weights, order, kept_keys, kept_weights):
    """One entry for each key and direction, with the sum of its weights; return how many there are."""
    kept = i = 0
    while i < order.size:
        key = keys[order[i]]
        end = i + 1
        while end < order.size and keys[order[end]] == key:
            end += 1
        if end - i > 1:
            order[i:end].sort()  # back to the order of the edges
        elif weights[order[i]] >= _LEAST_BOTH:  # alone, so that either direction will do, and one entry has to
            weights[order[i]] /= BOTH
        forward, backward = 0.0, 0.0
        for j in range(i, end):
            if end - i > 1 and weights[order[j]] >= _LEAST_BOTH:
                forward += weights[order[j]] / BOTH
                backward -= weights[order[j]] / BOTH
            elif weights[order[j]] > 0:
                forward += weights[order[j]]
            else:
                backward += weights[order[j]]
        for total in (forward, backward):
            if total != 0:
                kept_keys[kept], kept_weights[kept] = key, total
                kept += 1
        i = end
    return kept


@njit(nogil=True)
def _count_distinct(keys):
    """The number of distinct keys that are no loops."""
    count = 0
    for i in range(keys.size):
        count += (i == 0 or keys[i] != keys[i - 1]) and (keys[i] >> _UP) != (keys[i] & _LOW)
    return count


@njit(nogil=True)
def _write_rows(keys, loop, end, first, degrees, columns):
    """Columns and degrees of sorted keys and, among them, the loops of nodes from ``loop`` to ``end``."""
    i, loops = 0, 0  # the entry i + loops is next
    while i < keys.size:
        row = keys[i] >> _UP
        node = np.int64(row)
        while loop < min(node, end):  # rows of nothing else
            columns[i + loops] = loop
            degrees[loop - first] += 1
            loop, loops = loop + 1, loops + 1
        begin = i + loops
        if loop == node and loop < end:
            while i < keys.size and keys[i] >> _UP == row and keys[i] & _LOW < row:
                columns[i + loops] = keys[i] & _LOW
                i += 1
            columns[i + loops] = node
            loop, loops = loop + 1, loops + 1
        while i < keys.size and keys[i] >> _UP == row:
            columns[i + loops] = keys[i] & _LOW
            i += 1
        degrees[node - first] += i + loops - begin
    for alone in range(loop, end):
        columns[i + loops] = alone
        degrees[alone - first] += 1
        loops += 1


@njit(nogil=True)
def _write_weighted_rows(keys, weights, loop, end, first, degrees, columns, out):
    """The same with weights: of an edge's two directions the heavier counts. Return the greatest weight."""
    place = i = 0
    heaviest = 1.0
    while i < keys.size:
        key = keys[i]
        row, column = np.int64(key >> _UP), np.int64(key & _LOW)
        while loop < end and (loop < row or (loop == row and loop < column)):
            columns[place], out[place] = loop, 1.0
            degrees[loop - first] += 1
            place += 1
            loop += 1
        heavier = 0.0
        while i < keys.size and keys[i] == key:
            heavier = max(heavier, abs(weights[i]))
            i += 1
        columns[place], out[place] = column, heavier
        degrees[row - first] += 1
        place += 1
        heaviest = max(heaviest, heavier)
        if row == column:
            loop = row + 1
    for node in range(loop, end):
        columns[place], out[place] = node, 1.0
        degrees[node - first] += 1
        place += 1
    return heaviest


@njit(nogil=True)
def degree_sums(counts, weights, complete, opened, total, least):
    """Add up the degrees of rows of ``counts`` entries, the first of which has ``opened`` already.

    The sums of the first ``complete`` rows go to ``total`` and ``least`` (0 where nothing is known yet), that of a row
    behind them is returned first. Without weights an entry counts 1. Numbers are added one by one, so that the result
    does not depend on where rows are cut.
    """
    entry = 0
    for row in range(counts.size):
        degree = opened
        if weights.size:
            for _ in range(counts[row]):
                degree += np.float64(weights[entry])
                entry += 1
        else:
            degree += np.float64(counts[row])
        if row < complete:
            total += degree
            least = degree if least == 0.0 else min(least, degree)
            opened = 0.0
        else:
            opened = degree
    return opened, total, least
