"""What forward push finds for the nodes asked about: the heaviest neighbours of each, and their weights."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from nodewise._util.errors import InputError
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray, DoubleArray, Features, IntArray
from nodewise.diffusion.walks import Weights, node_dtype
from nodewise.graph import Graph
from nodewise.graph.features import row_scales
from nodewise.lab.rivals.block_diagonal import some_lists
from nodewise.lab.rivals.kernels import forward_push as kernels
from nodewise.lab.rivals.matrix import Inputs, SparseMatrix

CHUNK = 16  # targets a thread takes at a time
FIRST_SLOTS = 1 << 10  # of a thread's table, which grows with the pushes


class Neighbourhoods(NamedTuple):
    """The weights of some nodes, which are in order and named once."""

    nodes: IntArray
    weights: Weights

    def of(self, nodes: IntArray) -> Weights:
        """The weights of nodes that are among them."""
        return some_rows(self.weights, np.searchsorted(self.nodes, nodes))


def some_rows(weights: Weights, rows: IntArray) -> Weights:
    """The weights of some targets, by their place."""
    indptr, entries = some_lists(weights.indptr, rows)
    return Weights(indptr, weights.nodes[entries], weights.values[entries])


def pagerank(
    graph: Graph, nodes: IntArray, alpha: float, epsilon: float, most: int, threads: int | None
) -> Neighbourhoods:
    """Of each node the ``most`` heaviest of its personalised PageRank ``alpha sum over l of ((1 - alpha) P)^l``.

    A weight falls short of the true one by less than ``epsilon`` times the degree of the node weighed.
    """
    return _push(kernels.push_pagerank, graph, nodes, alpha, epsilon, most, threads, 1 / (alpha * epsilon))


def hop_sums(
    graph: Graph, nodes: IntArray, hops: DoubleArray, epsilon: float, most: int, threads: int | None
) -> Neighbourhoods:
    """Of each node the ``most`` heaviest of ``sum over l of hops[l] P^l``, by GFPush.

    A weight falls short of the true one by at most ``sum over l of hops[l] (l + 1) epsilon`` times the degree of the
    node weighed.
    """
    return _push(kernels.push_hops, graph, nodes, hops, epsilon, most, threads, hops.size / epsilon)


def check_push(alpha: float, epsilon: float) -> None:
    if not 0 < alpha < 1:
        raise InputError(f"alpha={alpha}: expected a number between 0 and 1; more stays closer to the node")
    if not 0 < epsilon < 1:
        raise InputError(f"epsilon={epsilon}: expected a number between 0 and 1; less is more exact and costs more")


def inputs_of(features: Features, nodes: IntArray, norm: str, threads: int | None) -> Inputs:
    """The features of some nodes, brought to ``norm``: of a large graph no other is read."""
    rows = features[nodes]
    scales = row_scales(rows, norm)
    if sp.issparse(rows):
        return SparseMatrix.of(rows if scales is None else (sp.diags(scales) @ rows).tocsr(), threads)
    rows = np.array(rows, np.float32)
    return torch.from_numpy(rows if scales is None else rows * scales[:, None])


# ---------------------------------------------------------------------- inside


def _push(
    kernel: Callable[..., tuple[int, AnyArray]],
    graph: Graph,
    nodes: IntArray,
    shares: float | DoubleArray,
    epsilon: float,
    most: int,
    threads: int | None,
    edges: float,
) -> Neighbourhoods:
    """Let threads take chunks of nodes until none is left. ``edges``: followed at most, but for the first push's."""
    nodes = np.unique(nodes)
    room = _most_reached(graph, nodes, edges)
    chunks = range(0, nodes.size, CHUNK)
    sizes = np.zeros(nodes.size, np.int64)
    found: list[tuple[AnyArray, AnyArray]] = [(np.empty(0), np.empty(0))] * len(chunks)
    turn, stopped = itertools.count(), threading.Event()
    adjacency = graph.kernel_adjacency

    def work(_: int) -> None:
        scratch, slots = _scratch(room), np.zeros(min(FIRST_SLOTS, graph.num_nodes), np.int32)
        kept = CHUNK * min(most, room)
        neighbours, weights = np.empty(kept, node_dtype(graph)), np.empty(kept, np.float32)
        while (chunk := next(turn)) < len(chunks) and not stopped.is_set():
            part = slice(chunks[chunk], chunks[chunk] + CHUNK)
            how = (nodes[part], shares, epsilon, most)
            total, slots = kernel(*adjacency, *how, slots, *scratch, neighbours, weights, sizes[part])
            found[chunk] = neighbours[:total].copy(), weights[:total].copy()

    threads = thread_count(threads)
    try:
        map_chunks(work, range(min(threads, len(chunks))), threads)
    finally:
        stopped.set()  # after an error or an interrupt no thread takes another chunk
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    joined = [np.concatenate([part[i] for part in found]) if found else np.empty(0) for i in (0, 1)]
    return Neighbourhoods(nodes, Weights(indptr, joined[0].astype(node_dtype(graph), copy=False), joined[1]))


def _most_reached(graph: Graph, nodes: IntArray, edges: float) -> int:
    """The most nodes that one push can reach. Where edges have weights their number does not bound it."""
    if graph.edge_weight is not None or not math.isfinite(edges):
        return graph.num_nodes
    first = int(np.max(graph.indptr[nodes + 1] - graph.indptr[nodes], initial=0))
    return min(graph.num_nodes, math.ceil(edges) + first + 1)


def _scratch(room: int) -> tuple[Any, ...]:
    """A thread's arrays, filled from the front: memory is taken as far as a push reaches."""
    numbers = [np.empty(room, np.float64) for _ in range(4)]
    queues = [np.empty(room, np.int32) for _ in range(2)]
    return np.empty(room, np.int64), *numbers, *queues, np.empty(room, np.float64)
