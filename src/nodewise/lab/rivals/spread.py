"""Spreading features over the whole graph, some columns at a time.

``sum over l of w_l (D^(r-1) A D^-r)^l X`` is NIGCN's exact hops between two scalings: ``D^(r-1) A D^-r`` is
``D^r P D^-r``. ``r = 0`` is the random walk ``P = D^-1 A``, ``r = 1/2`` the symmetric ``D^-1/2 A D^-1/2``, ``r = 1``
is ``A D^-1``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from nodewise._util.memory import memory_budget
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import DoubleArray, Features, FloatArray, IntArray
from nodewise.diffusion import exact
from nodewise.graph import Graph
from nodewise.graph.features import row_scales

COLUMNS = 16  # of float32: a cache line of a node's numbers


def spread(
    graph: Graph, nodes: IntArray, columns: slice, shares: DoubleArray, r: float, norm: str, threads: int, memory: int
) -> FloatArray:
    """A row for each of ``nodes``; ``shares[l]`` is the weight of hop ``l``, ``norm`` that of the features."""
    reach = np.full(nodes.size, shares.size - 1)
    task = exact.Task(graph, nodes, reach, shares, threads, memory, scaled_by_degree(graph, r, norm))
    after = (graph.degrees_of(nodes) ** r).astype(np.float32)
    return exact.by_features(task, graph.features, columns) * after[:, None]


def scaled_by_degree(graph: Graph, power: float, norm: str) -> FloatArray:
    """What multiplies each node's features: ``d^-power``, and what brings them to ``norm``."""
    scale, scales = graph.degrees**-power, row_scales(graph.features, norm)
    return (scale if scales is None else scale * scales).astype(np.float32)


# ---------------------------------------------------------------------- columns side by side

# Takes the number of the first column and the block's features, ``(num_nodes, columns)``, and answers with the rows
# of the nodes asked about.
BlockWork = Callable[[int, FloatArray], FloatArray]


def over_columns(
    graph: Graph,
    columns: slice,
    scale: FloatArray,
    work: BlockWork,
    held: int,
    threads: int | None,
    memory: int | str | None,
) -> FloatArray:
    """The rows that ``work`` makes of narrow blocks of columns, one per thread.

    ``scale`` multiplies the features' rows. ``held``: arrays of a block's size that ``work`` has at a time. A column's
    numbers must not depend on the block that it is in.
    """
    threads, nodes = thread_count(threads), graph.num_nodes
    width = max(1, min(COLUMNS, memory_budget(memory) // (4 * held * nodes * threads)))
    given: Features = graph.features
    features = given.tocsc() if sp.issparse(given) else given

    def run(first: int) -> FloatArray:
        last = min(first + width, columns.stop)
        rows = np.empty((nodes, last - first), np.float32)
        exact.fill(features, slice(first, last), scale, rows, 0, nodes)
        return work(first, rows)

    return np.concatenate(map_chunks(run, range(columns.start, columns.stop, width), threads), axis=1)


def column_norms(rows: FloatArray) -> DoubleArray:
    """The L1 norm of each column."""
    parts = range(0, rows.shape[0], exact.ROWS_AT_ONCE)
    norms = [np.abs(rows[i : i + exact.ROWS_AT_ONCE]).sum(0, dtype=np.float64) for i in parts]
    return np.asarray(np.sum(norms, axis=0))
