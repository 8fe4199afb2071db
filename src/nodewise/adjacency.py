"""Edges -> adjacency: undirected, one loop on every node, parallel edges merged, rows sorted.

Each entry is one 64-bit key, row above column, so that sorting keys sorts rows and their columns at once. Keys are
first dealt out by row range: a bucket is sorted in cache, and buckets are independent, so all cores work on them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from nodewise._typing import AnyArray, DoubleArray, IntArray
from nodewise.errors import InputError
from nodewise.parallel import map_chunks, thread_count

MAX_NODES = 2**32 - 1
KEYS_PER_BUCKET = 1 << 19  # 4 MB of keys, about a core's L2
MAX_BUCKETS = 1 << 12  # more write streams than this thrash the TLB


class Adjacency(NamedTuple):
    """CSR arrays: ``indptr`` int64, ``indices`` uint32, ``weights`` float32 or None where every weight is 1."""

    indptr: IntArray
    indices: AnyArray
    weights: AnyArray | None


def from_edges(source: AnyArray, target: AnyArray, num_nodes: int, threads: int | None = None) -> Adjacency:
    """The adjacency of unweighted edges; ids are trusted to lie in ``[0, num_nodes)``."""
    _check_size(num_nodes)
    threads = thread_count(threads)
    shift, buckets = _bucketing(num_nodes, 2 * source.size + num_nodes)
    cuts = np.linspace(0, source.size, threads + 1).astype(np.int64)
    parts = list(enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)))

    counts = np.zeros((threads, buckets), np.int64)
    map_chunks(lambda p: _count_keys(source, target, p[1][0], p[1][1], shift, counts[p[0]]), parts, threads)
    loops = np.minimum((np.arange(1, buckets + 1) << shift), num_nodes) - (np.arange(buckets) << shift)
    ends = np.cumsum(counts.sum(0) + loops)
    starts = np.concatenate(([0], ends))
    keys = np.empty(ends[-1], np.uint64)
    places = starts[:-1] + loops + np.cumsum(counts, axis=0) - counts
    map_chunks(lambda p: _deal_keys(source, target, p[1][0], p[1][1], shift, places[p[0]], keys), parts, threads)

    degrees = np.zeros(num_nodes, np.int64)

    def settle(bucket: int) -> int:
        mine = keys[starts[bucket] : ends[bucket]]
        _write_loops(mine, bucket << shift, loops[bucket])
        mine.sort()
        return int(_merge_equal(mine, degrees))

    sizes = np.array(map_chunks(settle, range(buckets), threads), np.int64)
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(degrees)))
    indices = np.empty(indptr[-1], np.uint32)
    firsts = np.cumsum(sizes) - sizes

    def extract(b: int) -> None:
        _columns(keys[starts[b] : starts[b] + sizes[b]], indices[firsts[b] : firsts[b] + sizes[b]])

    map_chunks(extract, range(buckets), threads)
    return Adjacency(indptr, indices, None)


def from_weighted_edges(source: AnyArray, target: AnyArray, weight: AnyArray, num_nodes: int) -> Adjacency:
    """The adjacency of weighted edges.

    Repeats of one directed edge add up; its two directions count as one edge with the larger weight, so that a list
    that names each edge once and one that names it both ways mean the same graph. A node without a loop gets one of
    weight 1.
    """
    _check_size(num_nodes)
    shape = (num_nodes, num_nodes)
    directed = sp.csr_matrix((weight.astype(np.float64), (source, target)), shape=shape)
    matrix = directed.maximum(directed.T).tocsr()
    missing = matrix.diagonal() == 0
    if missing.any():
        matrix = matrix + sp.diags(missing.astype(np.float64), format="csr")
    matrix.sort_indices()
    if not np.all(np.isfinite(matrix.data.astype(np.float32))):
        raise InputError(
            f"edge_weight: repeats of an edge add up to {matrix.data.max():.3g}, more than float32 can hold"
        )
    return Adjacency(matrix.indptr.astype(np.int64), matrix.indices.astype(np.uint32), matrix.data.astype(np.float32))


def induced(indptr: IntArray, indices: AnyArray, weights: AnyArray | None, nodes: IntArray) -> Adjacency:
    """The adjacency among ``nodes`` alone, renumbered in the order given."""
    position = np.full(indptr.size - 1, -1, np.int64)
    position[nodes] = np.arange(nodes.size)
    degrees = np.zeros(nodes.size, np.int64)
    _count_kept(indptr, indices, nodes, position, degrees)
    sub_indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(degrees)))
    sub_indices = np.empty(sub_indptr[-1], indices.dtype)
    entries = np.empty(sub_indptr[-1], np.int64)
    _copy_kept(indptr, indices, nodes, position, sub_indptr, sub_indices, entries)
    if np.any(np.diff(nodes) < 0):  # in ascending order the rows come out sorted already
        order = np.lexsort((sub_indices, np.repeat(np.arange(nodes.size), degrees)))
        sub_indices, entries = sub_indices[order], entries[order]
    return Adjacency(sub_indptr, sub_indices, None if weights is None else weights[entries])


def _check_size(num_nodes: int) -> None:
    if num_nodes > MAX_NODES:
        raise InputError(f"{num_nodes:,} nodes: at most {MAX_NODES:,} fit into one adjacency")


def running_sums(indptr: IntArray, weights: AnyArray) -> DoubleArray:
    """The running sum of weights within each row; rows do not touch each other, however heavy they are."""
    sums = np.empty(weights.size, np.float64)
    _running_sums(indptr, weights, sums)
    return sums


def _bucketing(num_nodes: int, num_keys: int) -> tuple[int, int]:
    """How far to shift a node id to get its bucket, and the number of buckets."""
    wanted = min(MAX_BUCKETS, max(1, num_keys // KEYS_PER_BUCKET))
    shift = max(0, int(num_nodes - 1).bit_length() - int(wanted - 1).bit_length())
    return shift, max(1, (num_nodes + (1 << shift) - 1) >> shift)


@njit(cache=True, nogil=True)
def _count_keys(source, target, first, last, shift, counts):
    for e in range(first, last):
        s, t = np.int64(source[e]), np.int64(target[e])
        if s != t:
            counts[s >> shift] += 1
            counts[t >> shift] += 1


@njit(cache=True, nogil=True)
def _deal_keys(source, target, first, last, shift, places, keys):
    for e in range(first, last):
        s, t = np.int64(source[e]), np.int64(target[e])
        if s != t:
            keys[places[s >> shift]] = (np.uint64(s) << np.uint64(32)) | np.uint64(t)
            places[s >> shift] += 1
            keys[places[t >> shift]] = (np.uint64(t) << np.uint64(32)) | np.uint64(s)
            places[t >> shift] += 1


@njit(cache=True, nogil=True)
def _write_loops(keys, first_node, count):
    for i in range(count):
        v = np.uint64(first_node + i)
        keys[i] = (v << np.uint64(32)) | v


@njit(cache=True, nogil=True)
def _merge_equal(keys, degrees):
    """Drop repeats from sorted keys in place, count the rest into their rows' degrees, return how many are left."""
    kept = 0
    for i in range(keys.size):
        key = keys[i]
        if kept == 0 or key != keys[kept - 1]:
            degrees[key >> np.uint64(32)] += 1
            keys[kept] = key
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _columns(keys, out):
    for i in range(keys.size):
        out[i] = np.uint32(keys[i] & np.uint64(0xFFFFFFFF))


@njit(cache=True, nogil=True)
def _running_sums(indptr, weights, out):
    for v in range(indptr.size - 1):
        total = 0.0
        for e in range(indptr[v], indptr[v + 1]):
            total += weights[e]
            out[e] = total


@njit(cache=True, nogil=True)
def _count_kept(indptr, indices, nodes, position, degrees):
    for i in range(nodes.size):
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            if position[indices[e]] >= 0:
                degrees[i] += 1


@njit(cache=True, nogil=True)
def _copy_kept(indptr, indices, nodes, position, sub_indptr, sub_indices, entries):
    for i in range(nodes.size):
        place = sub_indptr[i]
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            if position[indices[e]] >= 0:
                sub_indices[place] = position[indices[e]]
                entries[place] = e
                place += 1
