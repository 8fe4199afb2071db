"""Steps and edges between a few nodes of a large graph: the cost follows these nodes and their neighbours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nodewise._util.types import AnyArray, BoolArray, IntArray
from nodewise.graph import Graph

ENTRIES = 1 << 22  # adjacency entries that are looked at together


def hops_from(graph: Graph, node: int, found: IntArray, wanted: BoolArray) -> IntArray:
    """The fewest steps from ``node`` to each of ``found`` (in order) through others of them; -1 where there is no way.

    Ends once those that are ``wanted`` are known.
    """
    hops = np.where(found == node, 0, -1)
    front, hop = np.array([node]), 0
    while front.size and (hops[wanted] < 0).any():
        hop += 1
        places = np.unique(np.concatenate(list(_places(graph, front, found))))
        places = places[hops[places] < 0]
        hops[places] = hop
        front = found[places]
    return hops


def edges_among(graph: Graph, nodes: IntArray) -> list[tuple[int, int]]:
    """The edges between ``nodes``, each once, as places among them."""
    order = np.argsort(nodes)
    pairs = (
        (a, order[b]) for a, node in enumerate(nodes) for b in next(_places(graph, np.array([node]), nodes[order]))
    )
    return sorted((int(a), int(b)) for a, b in pairs if a < b)


def _places(graph: Graph, nodes: IntArray, found: IntArray) -> Iterator[AnyArray]:
    """Where the neighbours of ``nodes`` are in ``found``, part by part; neighbours that are not there are left out."""
    first, last = graph.row_ends(nodes)
    size, indices = last - first, graph.unchecked("indices")  # neighbours are only compared, wherever they point
    found = found.astype(indices.dtype)
    hubs = size > max(found.size, 64)
    for start, stop in zip(first[hubs], first[hubs] + size[hubs], strict=True):  # rows are sorted: look each one up
        row = indices[start:stop]
        yield np.flatnonzero(row[np.minimum(np.searchsorted(row, found), row.size - 1)] == found)
    if hubs.all():
        return
    first, size = first[~hubs], size[~hubs]
    ends = np.cumsum(size)
    cuts = np.searchsorted(ends, np.arange(0, ends[-1], ENTRIES))
    for low, high in zip(cuts, [*cuts[1:], size.size], strict=True):
        starts, sizes = first[low:high], size[low:high]
        places = np.repeat(starts - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes) + np.arange(sizes.sum())
        near = indices[places]
        at = np.minimum(np.searchsorted(found, near), found.size - 1)
        yield at[found[at] == near]
