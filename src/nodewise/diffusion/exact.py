"""NDM, the exact diffusion (Algorithm 1): ``z_u = sum over l <= l_u of U(l) (P^l X)[u]``.

The same hops can run over the features or over the targets. Over features, ``X`` itself is propagated and the targets'
rows are summed. Over targets, by reversibility ``P^l[u, v] = d_v / d_u P^l[v, u]``, so the columns of ``P^l`` that
belong to targets are propagated and scaled.

Either way the columns go in blocks. On small graphs each thread takes a block of its own through all the hops, so that
threads never wait for each other and the block stays in cache. On large ones all threads share one block, as wide as
the memory allows: a hop then reads the adjacency once, in order, whatever file it lies in, and the block from memory.
A column's numbers do not depend on the block it is in.

The hops are summed with their weights, or kept one by one (``per_hop``): ``H_l[u] = (P^l X)[u]``, zero beyond ``l_u``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from nodewise._util.errors import InputError
from nodewise._util.memory import show_bytes
from nodewise._util.threads import map_chunks
from nodewise._util.types import DoubleArray, Features, FloatArray, IntArray
from nodewise.diffusion.kernels import hops as kernels
from nodewise.diffusion.walks import Weights, node_dtype
from nodewise.graph import Graph
from nodewise.graph.unchecked import check_finite

CACHED_BYTES = 1 << 23  # a thread's two blocks of columns, while they stay near its cache
MOST_BYTES = 1 << 29  # and while they do not
WIDE, NARROW = 64, 16  # columns: where the loop over them pays, and a cache line
ROWS_AT_ONCE = 1 << 16  # nodes that a thread takes at a time from a shared block
COLUMN_BYTES = 12  # a node's numbers in one column: before a hop, after it, and summed


class Task(NamedTuple):
    """Targets, how far each goes (``reach``), the weights of ``hops``; ``row_scale`` multiplies the features' rows.

    ``per_hop``: hops are kept one by one, each with a weight of 1.
    """

    graph: Graph
    targets: IntArray
    reach: IntArray
    hops: DoubleArray
    threads: int
    memory: int
    row_scale: FloatArray | None = None
    per_hop: bool = False

    @property
    def last_hop(self) -> int:
        """The last hop that any target reaches."""
        return int(self.reach.max(initial=0))

    @property
    def width(self) -> int:
        """The number of rows per target."""
        return self.hops.size if self.per_hop else 1

    @property
    def shared(self) -> bool:
        """Whether the graph is so large that threads share a block of columns."""
        return 8 * self.graph.num_nodes * NARROW > MOST_BYTES


def by_features(
    task: Task, features: Features, columns: slice | None = None, dtype: DTypeLike = np.float32
) -> FloatArray:
    """Rows of the targets, propagating the features: all of them, or ``columns``.

    ``out[i] += U(l) (P^l X)[target i]``, or with ``per_hop`` ``out[i, l] = (P^l X)[target i]``, for ``l <= l_i``.
    """
    wanted = range(features.shape[1])[columns or slice(None)]
    out = np.zeros((task.targets.size, task.width, len(wanted)), dtype if task.per_hop else np.float32)
    taken = features.tocsc() if sp.issparse(features) else features

    def work(run: Runner, block: slice) -> None:
        rows = np.empty((task.graph.num_nodes, block.stop - block.start), np.float32)
        source = slice(wanted.start + block.start, wanted.start + block.stop)
        run(partial(fill, taken, source, task.row_scale, rows), task.graph.num_nodes)
        for hop, current in enumerate(_propagated(task, rows, run)):
            if task.per_hop:
                reached = np.flatnonzero(task.reach >= hop)
                out[reached, hop, block] = current[task.targets[reached]]
            else:
                how = (task.targets, task.reach, hop, np.float32(task.hops[hop]))
                run(partial(kernels.add_targets, *how, current, out[:, 0], block.start), task.targets.size)

    _over_blocks(task, len(wanted), work)
    return out if task.per_hop else out[:, 0].astype(dtype, copy=False)


def by_targets(task: Task, features: Features, dtype: DTypeLike = np.float32) -> FloatArray:
    """Rows of the targets, propagating the targets."""
    out = np.zeros((task.targets.size, task.width, features.shape[1]), dtype)

    def work(run: Runner, block: slice) -> None:
        for place, total in enumerate(_weighed(task, block, run)):
            out[block, place] = _product(total, task.row_scale, features)

    _over_blocks(task, task.targets.size, work)
    return out if task.per_hop else out[:, 0]


def _product(total: FloatArray, row_scale: FloatArray | None, features: Features) -> FloatArray:
    """``total^T features``, whose rows are scaled; overwrites ``total``."""
    if row_scale is not None:
        total *= row_scale[:, None]
    if sp.issparse(features):
        sums = np.zeros((features.shape[1], total.shape[1]), np.float32)
        kernels.add_sparse_product(features.indptr, features.indices, features.data, total, sums)
        check_finite(sums, features)
        return sums.T
    made = np.zeros((total.shape[1], features.shape[1]), np.float32)
    for first in range(0, total.shape[0], ROWS_AT_ONCE):  # as float32 a part at a time
        part = slice(first, first + ROWS_AT_ONCE)
        made += total[part].T @ np.asarray(features[part], np.float32)
    check_finite(made, features)
    return made


def weights(task: Task) -> Weights:
    """Every target's weights, as sampled ones are given; entries that are zero are left out."""
    rows: dict[int, sp.csr_matrix] = {}

    def work(run: Runner, block: slice) -> None:
        hops = [sp.csr_matrix(total.T) for total in _weighed(task, block, run)]
        order = np.arange(len(hops) * (block.stop - block.start)).reshape(len(hops), -1)
        rows[block.start] = sp.vstack(hops, format="csr")[order.T.ravel()]  # by target, then by hop

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
        fitting = min(fitting, task.memory // (COLUMN_BYTES * nodes * task.threads))  # each thread has a block
        width = max(1, min(fitting, -(-columns // task.threads)))
    return [slice(first, min(columns, first + width)) for first in range(0, columns, width)] if columns else []


def _over_blocks(task: Task, columns: int, work: Callable[[Runner, slice], None]) -> None:
    """Blocks side by side, a thread each, or one after the other with all threads on each."""
    blocks = column_blocks(task, columns)
    if not task.shared:
        map_chunks(partial(work, lambda function, count: function(0, count)), blocks, task.threads)
        return
    with ThreadPoolExecutor(task.threads) as pool:

        def run(function: Callable[[int, int], Any], count: int) -> None:
            starts = range(0, count, ROWS_AT_ONCE)
            for done in [pool.submit(function, i, min(count, i + ROWS_AT_ONCE)) for i in starts]:
                done.result()

        for block in blocks:
            work(run, block)


# ---------------------------------------------------------------------- hops


def _weighed(task: Task, block: slice, run: Runner) -> Iterator[FloatArray]:
    """The weights that a block of targets gives to all nodes, ``(num_nodes, targets of the block)``: of each hop, or
    of all together."""
    targets, reach = task.targets[block], task.reach[block]
    total, rows = np.zeros((2, task.graph.num_nodes, targets.size), np.float32)
    rows[targets, np.arange(targets.size)] = 1.0
    turn = partial(kernels.reverse, *task.graph.kernel_adjacency, task.graph.degrees_of(targets))
    for hop, current in enumerate(_propagated(task, rows, run)):
        shares = np.where(reach >= hop, task.hops[hop], 0.0).astype(np.float32)
        run(partial(kernels.add_scaled, shares, current, total), task.graph.num_nodes)
        if task.per_hop or hop == task.last_hop:
            run(partial(turn, total), task.graph.num_nodes)
            yield total
            total.fill(0.0)


def _propagated(task: Task, rows: FloatArray, run: Runner) -> Iterator[FloatArray]:
    """``P^l rows`` for each hop that a target goes; a hop's array is overwritten two hops later."""
    spare = np.empty_like(rows)
    adjacency = task.graph.kernel_adjacency
    for hop in range(task.last_hop + 1):
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
        check_finite(rows[part], features)
        if row_scale is not None:
            rows[part] *= row_scale[part, None]
