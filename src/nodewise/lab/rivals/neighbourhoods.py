"""What surrounds nodes: their heaviest neighbours, by forward push, and the subgraphs that lists of nodes induce."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray, DoubleArray, IntArray
from nodewise.diffusion.walks import Weights, node_dtype
from nodewise.graph import Graph
from nodewise.lab.rivals.kernels import forward_push as kernels
from nodewise.lab.rivals.kernels.subgraphs import induce

CHUNK = 16  # targets a thread takes at a time
FIRST_SLOTS = 1 << 10  # of a thread's table, which grows with the pushes


def some_lists(indptr: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Some of the lists that ``indptr`` bounds: the bounds of the chosen ones, and the indices of their entries."""
    sizes = indptr[chosen + 1] - indptr[chosen]
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    return bounds, np.repeat(indptr[chosen] - bounds[:-1], sizes) + np.arange(bounds[-1])


class Neighbourhoods(NamedTuple):
    """The weights of ``nodes``, which are sorted and unique."""

    nodes: IntArray
    weights: Weights

    def of(self, nodes: IntArray) -> Weights:
        """The weights of nodes that are among them."""
        indptr, entries = some_lists(self.weights.indptr, np.searchsorted(self.nodes, nodes))
        return Weights(indptr, self.weights.nodes[entries], self.weights.values[entries])


def pagerank(
    graph: Graph, nodes: IntArray, alpha: float, epsilon: float, most: int, threads: int | None
) -> Neighbourhoods:
    """The ``most`` largest weights of each node's personalised PageRank ``alpha sum over l of ((1 - alpha) P)^l``.

    A weight falls short of the true one by less than ``epsilon`` times the degree of the node weighed.
    """
    return _push(kernels.push_pagerank, graph, nodes, alpha, epsilon, most, threads, 1 / (alpha * epsilon))


def hop_sums(
    graph: Graph, nodes: IntArray, hops: DoubleArray, epsilon: float, most: int, threads: int | None
) -> Neighbourhoods:
    """The ``most`` largest weights of each node's ``sum over l of hops[l] P^l``, by GFPush.

    A weight falls short of the true one by at most ``sum over l of hops[l] (l + 1) epsilon`` times the degree of the
    node weighed.
    """
    return _push(kernels.push_hops, graph, nodes, hops, epsilon, most, threads, hops.size / epsilon)


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
    """Push from chunks of nodes on threads. ``edges``: followed at most, besides the first push's."""
    nodes = np.unique(nodes)
    room = graph.num_nodes  # the most nodes that a push can reach; with edge weights ``edges`` does not bound them
    if graph.edge_weight is None and math.isfinite(edges):
        first = int(np.max(graph.indptr[nodes + 1] - graph.indptr[nodes], initial=0))
        room = min(room, math.ceil(edges) + first + 1)
    adjacency, kept = graph.kernel_adjacency, CHUNK * min(most, room)
    sizes, own = np.zeros(nodes.size + 1, np.int64), threading.local()

    def work(first: int) -> tuple[AnyArray, AnyArray]:
        if not hasattr(own, "slots"):  # a thread's first chunk
            # Filled from the front: memory is taken only as far as a push reaches.
            own.scratch = [
                np.empty(room, kind) for kind in (np.int64, *[np.float64] * 4, np.int32, np.int32, np.float64)
            ]
            own.slots = np.zeros(min(FIRST_SLOTS, graph.num_nodes), np.int32)
            own.out = np.empty(kept, node_dtype(graph)), np.empty(kept, np.float32)
        part, counts = nodes[first : first + CHUNK], sizes[first + 1 : first + 1 + CHUNK]
        how = (part, shares, epsilon, most, own.slots, *own.scratch, *own.out, counts)
        total, own.slots = kernel(*adjacency, *how)
        return own.out[0][:total].copy(), own.out[1][:total].copy()

    found = map_chunks(work, range(0, max(1, nodes.size), CHUNK), thread_count(threads))
    neighbours, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Neighbourhoods(nodes, Weights(np.cumsum(sizes), neighbours, weights))


# ---------------------------------------------------------------------- subgraphs


class Blocks(NamedTuple):
    """Subgraphs side by side, as one block-diagonal adjacency whose rows and columns are numbered as ``nodes``.

    Subgraph ``s`` has the nodes ``nodes[starts[s]:starts[s + 1]]``. ``entries``: where the graph's adjacency has each.
    """

    starts: IntArray
    nodes: IntArray
    indptr: IntArray
    indices: AnyArray
    entries: IntArray

    def some(self, chosen: IntArray) -> Blocks:
        """Some of the subgraphs."""
        starts, rows = some_lists(self.starts, chosen)
        indptr, entries = some_lists(self.indptr, rows)
        shifts = np.repeat(self.starts[chosen] - starts[:-1], np.diff(indptr[starts]))
        return Blocks(starts, self.nodes[rows], indptr, self.indices[entries] - shifts, self.entries[entries])


def induced(graph: Graph, starts: IntArray, nodes: IntArray) -> Blocks:
    """The subgraphs that lists of nodes induce."""
    return Blocks(starts, nodes, *induce(graph.indptr, graph.indices, starts, nodes))
