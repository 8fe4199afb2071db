"""Subgraphs side by side: one block-diagonal adjacency for all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nodewise._util.types import AnyArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.kernels import subgraphs as kernels


class Blocks(NamedTuple):
    """Subgraph ``s`` has the nodes ``nodes[starts[s]:starts[s + 1]]``; rows and columns are numbered as ``nodes``.

    ``entries`` says which entry of the graph's adjacency each entry is.
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


def some_lists(indptr: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """The lists ``chosen`` of those that ``indptr`` bounds: their own bounds, and the places of what they list."""
    sizes = indptr[chosen + 1] - indptr[chosen]
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    return bounds, np.repeat(indptr[chosen] - bounds[:-1], sizes) + np.arange(bounds[-1])


def induced(graph: Graph, starts: IntArray, nodes: IntArray) -> Blocks:
    """The subgraphs that lists of nodes induce."""
    places = np.full(graph.num_nodes, -1, np.int64)
    adjacency = (graph.indptr, graph.indices)
    count = kernels.induced_entries(*adjacency, starts, nodes, places)
    made = Blocks(starts, nodes, np.zeros(nodes.size + 1, np.int64), *np.empty((2, count), np.int64))
    kernels.induce(*adjacency, starts, nodes, places, *made[2:])
    return made


def symmetric_values(graph: Graph, blocks: Blocks) -> FloatArray:
    """``D^-1/2 A D^-1/2`` of each subgraph by itself: degrees are those within it."""
    weights = np.ones(blocks.entries.size) if graph.edge_weight is None else graph.edge_weight[blocks.entries]
    scale = 1 / np.sqrt(np.add.reduceat(weights.astype(np.float64), blocks.indptr[:-1]))  # the loop is always there
    values = weights * np.repeat(scale, np.diff(blocks.indptr)) * scale[blocks.indices]
    return values.astype(np.float32)
