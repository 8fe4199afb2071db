"""Edges to CSR adjacency (undirected, one loop per node, parallel edges merged, rows sorted), and subgraphs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.kernels import njit
from nodewise._util.threads import thread_count
from nodewise._util.types import AnyArray, IntArray
from nodewise.graph.edge_keys import rows_of, sorted_edges

MAX_NODES = 2**32 - 1


class Adjacency(NamedTuple):
    """CSR arrays: ``indptr`` int64, ``indices`` uint32, ``weights`` float32 or None where every weight is 1."""

    indptr: IntArray
    indices: AnyArray
    weights: AnyArray | None


def from_edges(
    source: AnyArray, target: AnyArray, num_nodes: int, threads: int | None = None, weight: AnyArray | None = None
) -> Adjacency:
    """The adjacency of edges; ids are trusted to lie in ``[0, num_nodes)``.

    With weights, repeats of one directed edge add up; its two directions count as one edge with the larger weight, so
    that listing each edge once and listing it both ways mean the same graph. A node without a loop gets one of weight
    1. :mod:`nodewise.importing.sorting` does the same in many runs, for edges that do not fit into memory.
    """
    if num_nodes > MAX_NODES:
        raise InputError(f"{num_nodes:,} nodes: at most {MAX_NODES:,} fit into one adjacency")
    threads = thread_count(threads)
    weight = None if weight is None else weight.astype(np.float64, copy=False)
    rows = rows_of(sorted_edges(source, target, weight, num_nodes, threads), threads)
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(rows.degrees)))
    return Adjacency(indptr, rows.columns, rows.weights)


def induced(indptr: IntArray, indices: AnyArray, weights: AnyArray | None, nodes: IntArray) -> Adjacency:
    """The adjacency among ``nodes`` alone, renumbered in the order given."""
    position = np.full(indptr.size - 1, -1, np.int64)
    position[nodes] = np.arange(nodes.size)
    sub_indptr, sub_indices, entries = _kept(indptr, indices, nodes, position)
    if np.any(np.diff(nodes) < 0):  # in ascending order the rows come out sorted already
        order = np.lexsort((sub_indices, np.repeat(np.arange(nodes.size), np.diff(sub_indptr))))
        sub_indices, entries = sub_indices[order], entries[order]
    return Adjacency(sub_indptr, sub_indices, None if weights is None else weights[entries])


def entry_rows(indptr: IntArray, first: int, last: int) -> IntArray:
    """The row of each of the entries ``first`` to ``last``."""
    low, high = int(np.searchsorted(indptr, first, side="right")) - 1, int(np.searchsorted(indptr, last))
    bounds = np.clip(indptr[low : high + 1], first, last)
    return np.repeat(np.arange(low, high), bounds[1:] - bounds[:-1])


@njit(nogil=True)
def running_sums(indptr, weights):
    """The running sum of weights within each row; rows do not touch each other, however heavy they are."""
    sums = np.empty(weights.size, np.float64)
    for v in range(indptr.size - 1):
        total = 0.0
        for e in range(indptr[v], indptr[v + 1]):
            total += weights[e]
            sums[e] = total
    return sums


@njit(nogil=True)
def _kept(indptr, indices, nodes, position):
    """The rows of ``nodes`` without columns whose position is -1: indptr, renumbered columns, places in ``indices``."""
    ends = np.zeros(nodes.size + 1, np.int64)
    for i in range(nodes.size):
        ends[i + 1] = ends[i]
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            ends[i + 1] += position[indices[e]] >= 0
    columns, entries = np.empty(ends[-1], indices.dtype), np.empty(ends[-1], np.int64)
    place = 0
    for i in range(nodes.size):
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            if position[indices[e]] >= 0:
                columns[place], entries[place] = position[indices[e]], e
                place += 1
    return ends, columns, entries
