"""NDM, the exact diffusion (Algorithm 1): ``z_u = sum over l <= l_u of U(l) (P^l X)[u]``.

The same hops can run over the features or over the targets. Over features, ``X`` itself is propagated and the targets'
rows are summed. Over targets, by reversibility ``P^l[u, v] = d_v / d_u P^l[v, u]``, so the columns of ``P^l`` that
belong to targets are propagated and scaled.

Either way the columns go in blocks. On small graphs each thread takes a block of its own through all the hops, so that
threads never wait for each other and the block stays in cache. On large ones all threads share one block, as wide as
the memory allows: a hop then reads the adjacency once, in order, whatever file it lies in, and the block from memory.
A column's numbers do not depend on the block it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nodewise._typing import DoubleArray, Features, FloatArray, IntArray
from nodewise.diffusion.kernels import hops as kernels
from nodewise.diffusion.walks import Weights, node_dtype
from nodewise.errors import InputError
from nodewise.graph import Graph
from nodewise.memory import show_bytes
from nodewise.parallel import map_chunks

CACHED_BYTES = 1 << 23  # a thread's two blocks of columns, while they stay near its cache
MOST_BYTES = 1 << 29  # and while they do not
WIDE, NARROW = 64, 16  # columns: where the loop over them pays, and a cache line
ROWS_AT_ONCE = 1 << 16  # nodes that a thread takes at a time from a shared block
COLUMN_BYTES = 12  # a node's numbers in one column: before a hop, after it, and summed


class Task(NamedTuple):
    """Who diffuses how far, with which weights, in how much memory; ``row_scale`` multiplies the features' rows."""

    graph: Graph
    targets: IntArray
    reach: IntArray
    hops: DoubleArray
    threads: int
    memory: int
    row_scale: FloatArray | None = None

    @property
    def shared(self) -> bool:
        """Whether the graph is so large that threads share a block of columns."""
        return 8 * self.graph.num_nodes * NARROW > MOST_BYTES


def by_features(task: Task, features: Features, columns: slice | None = None) -> FloatArray:
    """Representations of the targets, propagating the features: all of them, or ``columns``."""
    wanted = range(features.shape[1])[columns or slice(None)]
    out = np.zeros((task.targets.size, len(wanted)), np.float32)
    hops = task.hops[: int(task.reach.max(initial=0)) + 1]
    taken = features.tocsc() if sp.issparse(features) else features

    def work(run: Runner, block: slice) -> None:
        rows = np.empty((task.graph.num_nodes, block.stop - block.start), np.float32)
        source = slice(wanted.start + block.start, wanted.start + block.stop)
        run(partial(fill, taken, source, task.row_scale, rows), task.graph.num_nodes)
        _sum_hops(task, hops, rows, out, block.start, run)

    _over_blocks(task, len(wanted), work)
    return out


def by_targets(task: Task, features: Features) -> FloatArray:
    """Representations of the targets, propagating the targets."""
    out = np.zeros((task.targets.size, features.shape[1]), np.float32)

    def work(run: Runner, block: slice) -> None:
        total = _weigh(task, block, run)
        if task.row_scale is not None:
            total *= task.row_scale[:, None]
        if sp.issparse(features):
            sums = np.zeros((features.shape[1], total.shape[1]), np.float32)
            kernels.add_sparse_product(features.indptr, features.indices, features.data, total, sums)
            out[block] = sums.T
        else:
            for first in range(0, total.shape[0], ROWS_AT_ONCE):  # as float32 a part at a time
                part = slice(first, first + ROWS_AT_ONCE)
                out[block] += total[part].T @ np.asarray(features[part], np.float32)

    _over_blocks(task, task.targets.size, work)
    return out


def weights(task: Task) -> Weights:
    """Every target's weights, as sampled ones are given; entries that are zero are left out."""
    rows: dict[int, sp.csr_matrix] = {}

    def work(run: Runner, block: slice) -> None:
        rows[block.start] = sp.csr_matrix(np.ascontiguousarray(_weigh(task, block, run).T))

    _over_blocks(task, task.targets.size, work)
    parts = [rows[start] for start in sorted(rows)]
    matrix = sp.vstack(parts, format="csr") if parts else sp.csr_matrix((0, task.graph.num_nodes), dtype=np.float32)
    return Weights(matrix.indptr.astype(np.int64), matrix.indices.astype(node_dtype(task.graph)), matrix.data)


# ---------------------------------------------------------------------- blocks

# Runs a function over ranges ``(first, last)`` that make up ``0..count``, and waits for all of them.
Runner = Callable[[Callable[[int, int], Any], int], None]


def column_blocks(task: Task, columns: int) -> list[slice]:
    """The columns in blocks: in cache or within the memory, and enough of them for all threads."""
    nodes = task.graph.num_nodes
    if task.shared:
        width = task.memory // (COLUMN_BYTES * nodes)
        if width < 1 and columns:
            raise InputError(
                f"memory={show_bytes(task.memory)}: an exact diffusion over {nodes:,} nodes takes at least "
                f"{show_bytes(COLUMN_BYTES * nodes)}; allow that much, or choose engine='walks', which needs little"
            )
        blocks = -(-columns // max(1, width))
        width = -(-columns // max(1, blocks))  # of equal width, so that none is made for a column or two
    else:
        fitting = max(CACHED_BYTES // (8 * nodes), min(WIDE, MOST_BYTES // (8 * nodes)), NARROW)
        width = max(1, min(fitting, -(-columns // task.threads)))
    return [slice(first, min(columns, first + width)) for first in range(0, columns, width)] if columns else []


def _over_blocks(task: Task, columns: int, work: Callable[[Runner, slice], None]) -> None:
    """Blocks side by side, a thread each, or one after the other with all threads on each."""
    blocks = column_blocks(task, columns)
    if not task.shared:
        map_chunks(partial(work, _run_alone), blocks, task.threads)
        return
    with ThreadPoolExecutor(task.threads) as pool:

        def run(function: Callable[[int, int], Any], count: int) -> None:
            starts = range(0, count, ROWS_AT_ONCE)
            for done in [pool.submit(function, i, min(count, i + ROWS_AT_ONCE)) for i in starts]:
                done.result()

        for block in blocks:
            work(run, block)


def _run_alone(function: Callable[[int, int], Any], count: int) -> None:
    function(0, count)


# ---------------------------------------------------------------------- hops


def _sum_hops(task: Task, hops: DoubleArray, rows: FloatArray, out: FloatArray, column: int, run: Runner) -> None:
    """``out[i] += U(l) (P^l rows)[target i]`` for ``l`` up to the target's length, in columns from ``column`` on."""
    for hop, current in enumerate(_propagated(task, rows, len(hops), run)):
        share = np.float32(hops[hop])
        run(partial(kernels.add_targets, task.targets, task.reach, hop, share, current, out, column), task.targets.size)


def _weigh(task: Task, block: slice, run: Runner) -> FloatArray:
    """The weights that a block of targets gives to all nodes: ``(num_nodes, targets of the block)``."""
    targets, reach = task.targets[block], task.reach[block]
    total, rows = np.zeros((2, task.graph.num_nodes, targets.size), np.float32)
    rows[targets, np.arange(targets.size)] = 1.0
    for hop, current in enumerate(_propagated(task, rows, int(reach.max(initial=0)) + 1, run)):
        shares = np.where(reach >= hop, task.hops[hop], 0.0).astype(np.float32)
        run(partial(kernels.add_scaled, shares, current, total), task.graph.num_nodes)
    degrees = task.graph.degrees_of(targets)
    run(partial(kernels.reverse, *task.graph.kernel_adjacency, degrees, total), task.graph.num_nodes)
    return total


def _propagated(task: Task, rows: FloatArray, hops: int, run: Runner) -> Iterator[FloatArray]:
    """``P^l rows`` for each hop; a hop's array is overwritten two hops later."""
    spare = np.empty_like(rows)
    adjacency = task.graph.kernel_adjacency
    for hop in range(hops):
        if hop > 0:
            run(partial(kernels.propagate, *adjacency, rows, spare), task.graph.num_nodes)
            rows, spare = spare, rows
        yield rows


def fill(
    features: Features, columns: slice, row_scale: FloatArray | None, rows: FloatArray, first: int, last: int
) -> None:
    """Features as float32, C-ordered, that propagation may overwrite."""
    for start in range(first, last, ROWS_AT_ONCE):
        part = slice(start, min(last, start + ROWS_AT_ONCE))
        taken = features[part, columns]
        rows[part] = taken.toarray() if sp.issparse(taken) else taken
        if row_scale is not None:
            rows[part] *= row_scale[part, None]
