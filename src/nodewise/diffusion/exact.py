"""NDM, the exact diffusion (Algorithm 1): ``z_u = sum over l <= l_u of U(l) (P^l X)[u]``.

The same hops can run over the features or over the targets. Over features, ``X`` itself is propagated and the targets'
rows are summed. Over targets, by reversibility ``P^l[u, v] = d_v / d_u P^l[v, u]``, so the columns of ``P^l`` that
belong to targets are propagated and scaled. Either way a thread takes a block of columns through all the hops, so that
threads never wait for each other and the block stays in cache where the graph is small.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from nodewise._typing import AnyArray, DoubleArray, Features, FloatArray, IntArray
from nodewise.diffusion.kernels import hops as kernels
from nodewise.diffusion.walks import Weights
from nodewise.graph import Graph
from nodewise.parallel import map_chunks

CACHED_BYTES = 1 << 23  # a thread's two blocks of columns, while they stay near its cache
MOST_BYTES = 1 << 29  # and while they do not
WIDE, NARROW = 64, 16  # columns: where the loop over them pays, and a cache line


class Task(NamedTuple):
    """Who diffuses how far, with which weights."""

    graph: Graph
    targets: IntArray
    reach: IntArray
    hops: DoubleArray
    threads: int

    @property
    def arrays(self) -> tuple[AnyArray, ...]:
        """What every kernel takes first."""
        weights = np.zeros(0, np.float32) if self.graph.edge_weight is None else self.graph.edge_weight
        weights.flags.writeable = False
        inverse = (1 / self.graph.degrees).astype(np.float32)
        return self.graph.indptr, self.graph.indices, weights, inverse


def by_features(task: Task, features: Features) -> FloatArray:
    """Representations of the targets, propagating the features."""
    out = np.zeros((task.targets.size, features.shape[1]), np.float32)
    hops = task.hops[: int(task.reach.max(initial=0)) + 1]
    arrays = task.arrays
    columns = features.tocsc() if sp.issparse(features) else features

    def work(block: slice) -> None:
        rows = _dense(columns[:, block])
        kernels.sum_hops(*arrays, task.targets, task.reach, hops, rows, np.empty_like(rows), out, block.start)

    map_chunks(work, _blocks(task, features.shape[1]), task.threads)
    return out


def by_targets(task: Task, features: Features) -> FloatArray:
    """Representations of the targets, propagating the targets."""
    out = np.zeros((task.targets.size, features.shape[1]), np.float32)

    arrays = task.arrays

    def work(block: slice) -> None:
        total = _weigh(task, arrays, block)
        if sp.issparse(features):
            sums = np.zeros((features.shape[1], total.shape[1]), np.float32)
            kernels.add_sparse_product(features.indptr, features.indices, features.data, total, sums)
            out[block] = sums.T
        else:
            out[block] = total.T @ np.asarray(features, np.float32)

    map_chunks(work, _blocks(task, task.targets.size), task.threads)
    return out


def weights(task: Task) -> Weights:
    """Every target's weights, as sampled ones are given; entries that are zero are left out."""

    def work(arrays: tuple[AnyArray, ...], block: slice) -> sp.csr_matrix:
        return sp.csr_matrix(np.ascontiguousarray(_weigh(task, arrays, block).T))

    rows = map_chunks(partial(work, task.arrays), _blocks(task, task.targets.size), task.threads)
    matrix = sp.vstack(rows, format="csr") if rows else sp.csr_matrix((0, task.graph.num_nodes), dtype=np.float32)
    return Weights(matrix.indptr.astype(np.int64), matrix.indices.astype(task.graph.indices.dtype), matrix.data)


def _weigh(task: Task, arrays: tuple[AnyArray, ...], block: slice) -> FloatArray:
    """The weights that a block of targets gives to all nodes: ``(num_nodes, targets of the block)``."""
    targets, reach = task.targets[block], task.reach[block]
    total, rows, spare = np.zeros((3, task.graph.num_nodes, targets.size), np.float32)
    hops = task.hops[: int(reach.max(initial=0)) + 1]
    kernels.weigh_all(*arrays, targets, reach, hops, rows, spare, total)
    return total


def _blocks(task: Task, columns: int) -> list[slice]:
    """Blocks of columns that fit the cache, and at least one for each thread."""
    column = 8 * task.graph.num_nodes
    fitting = max(CACHED_BYTES // column, min(WIDE, MOST_BYTES // column), NARROW)
    width = max(1, min(fitting, -(-columns // task.threads)))
    return [slice(first, min(columns, first + width)) for first in range(0, columns, width)]


def _dense(features: Features) -> FloatArray:
    """A float32 copy, C-ordered, that propagation may overwrite."""
    if sp.issparse(features):
        return np.ascontiguousarray(features.toarray(), dtype=np.float32)
    return np.array(features, dtype=np.float32, order="C")
