"""Edges -> adjacency: undirected, one loop on every node, parallel edges merged, rows sorted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from nodewise._util.errors import InputError
from nodewise._util.threads import thread_count
from nodewise._util.types import AnyArray, DoubleArray, IntArray
from nodewise.graph.edge_keys import rows_of, sorted_edges

MAX_NODES = 2**32 - 1


class Adjacency(NamedTuple):
    """CSR arrays: ``indptr`` int64, ``indices`` uint32, ``weights`` float32 or None where every weight is 1."""

    indptr: IntArray
    indices: AnyArray
    weights: AnyArray | None


def from_edges(source: AnyArray, target: AnyArray, num_nodes: int, threads: int | None = None) -> Adjacency:
    """The adjacency of unweighted edges; ids are trusted to lie in ``[0, num_nodes)``."""
    return _from_edges(source, target, None, num_nodes, threads)


def from_weighted_edges(
    source: AnyArray, target: AnyArray, weight: AnyArray, num_nodes: int, threads: int | None = None
) -> Adjacency:
    """The adjacency of weighted edges.

    Repeats of one directed edge add up; its two directions count as one edge with the larger weight, so that a list
    that names each edge once and one that names it both ways mean the same graph. A node without a loop gets one of
    weight 1.
    """
    return _from_edges(source, target, weight.astype(np.float64, copy=False), num_nodes, threads)


def _from_edges(
    source: AnyArray, target: AnyArray, weight: DoubleArray | None, num_nodes: int, threads: int | None
) -> Adjacency:
    """What :mod:`nodewise.importing.sorting` does in many runs, in one that stays in memory."""
    _check_size(num_nodes)
    threads = thread_count(threads)
    rows = rows_of(sorted_edges(source, target, weight, num_nodes, threads), threads)
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(rows.degrees)))
    return Adjacency(indptr, rows.columns, rows.weights)


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
