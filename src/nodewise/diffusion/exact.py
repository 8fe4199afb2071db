"""NDM, the exact diffusion (Algorithm 1): ``z_u = sum over l <= l_u of U(l) (P^l X)[u]``.

The same hops can run over the features or over the targets. Over features, ``X`` itself is propagated and the targets'
rows are summed. Over targets, by reversibility ``P^l[u, v] = d_v / d_u P^l[v, u]``, so the columns of ``P^l`` that
belong to targets are propagated and scaled. Both work in blocks of columns that bound the memory and stay in cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from nodewise._typing import DoubleArray, Features, FloatArray, IntArray
from nodewise.diffusion import kernels
from nodewise.diffusion.walks import Weights
from nodewise.graph import Graph
from nodewise.parallel import map_chunks

BLOCK_BYTES = 1 << 25  # one block of propagated columns
FEWEST_COLUMNS = 16  # a row of a block is at least a cache line


def by_features(
    graph: Graph, features: Features, targets: IntArray, lengths: IntArray, hops: DoubleArray, threads: int
) -> FloatArray:
    """Representations of the targets, propagating the features."""
    out = np.zeros((targets.size, features.shape[1]), np.float32)
    for columns in _blocks(graph.num_nodes, features.shape[1]):
        out[:, columns] = _sum_hops(graph, _dense(features[:, columns]), targets, lengths, hops, threads)
    return out


def by_targets(
    graph: Graph, features: Features, targets: IntArray, lengths: IntArray, hops: DoubleArray, threads: int
) -> FloatArray:
    """Representations of the targets, propagating the targets."""
    out = np.zeros((targets.size, features.shape[1]), np.float32)
    for block, weights in _weight_blocks(graph, targets, lengths, hops, threads):
        out[block] = (features.T @ weights).T if sp.issparse(features) else weights.T @ _dense(features)
    return out


def weights(graph: Graph, targets: IntArray, lengths: IntArray, hops: DoubleArray, threads: int) -> Weights:
    """Every target's weights, as sampled ones are given; entries that are zero are left out."""
    rows = [
        sp.csr_matrix(np.ascontiguousarray(block.T))
        for _, block in _weight_blocks(graph, targets, lengths, hops, threads)
    ]
    matrix = sp.vstack(rows, format="csr") if rows else sp.csr_matrix((0, graph.num_nodes), dtype=np.float32)
    return Weights(matrix.indptr.astype(np.int64), matrix.indices.astype(graph.indices.dtype), matrix.data)


def _weight_blocks(
    graph: Graph, targets: IntArray, lengths: IntArray, hops: DoubleArray, threads: int
) -> Iterator[tuple[slice, FloatArray]]:
    """For blocks of targets, the weights of all nodes: ``(num_nodes, targets of the block)``."""
    for block in _blocks(graph.num_nodes, targets.size):
        mine, reach = targets[block], lengths[block]
        rows = np.zeros((graph.num_nodes, mine.size), np.float32)
        rows[mine, np.arange(mine.size)] = 1
        total = rows * np.float32(hops[0])
        for hop, propagated in _propagations(graph, rows, int(reach.max(initial=0)), threads):
            total += propagated * (hops[hop] * (reach >= hop)).astype(np.float32)
        total *= graph.degrees[:, None].astype(np.float32)
        total /= graph.degrees[mine].astype(np.float32)
        yield block, total


def _sum_hops(
    graph: Graph, rows: FloatArray, targets: IntArray, lengths: IntArray, hops: DoubleArray, threads: int
) -> FloatArray:
    """``sum over l <= l_u of U(l) (P^l rows)[u]`` for the targets."""
    total = rows[targets] * np.float32(hops[0])
    for hop, propagated in _propagations(graph, rows, int(lengths.max(initial=0)), threads):
        reached = lengths >= hop
        if reached.all():
            total += np.float32(hops[hop]) * propagated[targets]
        else:
            total[reached] += np.float32(hops[hop]) * propagated[targets[reached]]
    return total


def _propagations(graph: Graph, rows: FloatArray, last: int, threads: int) -> Iterator[tuple[int, FloatArray]]:
    """``l, P^l rows`` for ``l = 1..last``; each is overwritten after the next."""
    inverse = (1 / graph.degrees).astype(np.float32)
    weights = np.zeros(0, np.float32) if graph.edge_weights is None else graph.edge_weights
    weights.flags.writeable = False
    cuts = np.searchsorted(graph.indptr, np.linspace(0, graph.num_entries, 4 * threads + 1)[1:-1])
    edges = [0, *cuts.tolist(), graph.num_nodes]
    ranges = list(itertools.pairwise(edges))
    there = np.empty_like(rows)

    def propagate(part: tuple[int, int], source: FloatArray, target: FloatArray) -> None:
        kernels.propagate(graph.indptr, graph.indices, weights, inverse, source, *part, target)

    for hop in range(1, last + 1):
        map_chunks(lambda part, a=rows, b=there: propagate(part, a, b), ranges, threads)  # type: ignore[misc]
        rows, there = there, rows
        yield hop, rows


def _blocks(num_nodes: int, columns: int) -> Iterator[slice]:
    width = max(FEWEST_COLUMNS, BLOCK_BYTES // (4 * num_nodes))
    for first in range(0, columns, width):
        yield slice(first, min(columns, first + width))


def _dense(features: Features) -> FloatArray:
    """A float32 copy, C-ordered, that propagation may overwrite."""
    if sp.issparse(features):
        return np.ascontiguousarray(features.toarray(), dtype=np.float32)
    return np.array(features, dtype=np.float32, order="C")
