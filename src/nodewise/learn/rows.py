"""Rows, the input of the networks: how NIGCN makes them, and how many at a time.

Rows that do not fit into memory go to a temporary file without a name.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from nodewise._util.errors import StoreError
from nodewise._util.memory import memory_budget, show_bytes
from nodewise._util.types import FloatArray, IntArray
from nodewise.diffusion.diffuse import Diffusion, diffuse, plan_diffusion
from nodewise.diffusion.length import tau_of_length
from nodewise.diffusion.params import DiffusionParams
from nodewise.diffusion.plan import ENTRY_BYTES
from nodewise.graph import Graph
from nodewise.graph.features import dense_rows, normalize_into

STEP_BYTES = 1 << 28  # rows held at a time while predicting


def new_rows(count: int, width: int, memory: int) -> FloatArray:
    """float32 ``(count, width)``, in memory, or in a temporary file where it would take more than ``memory`` bytes.

    The file has no name and goes with the array. Its folder is the system's for temporary files (``$TMPDIR``).
    """
    size = 4 * count * width
    if size <= memory:
        return np.empty((count, width), np.float32)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < size:
        raise StoreError(
            f"{folder}: rows for {count:,} nodes take {show_bytes(size)}, and {show_bytes(free)} are free; free some "
            f"space, set TMPDIR to a larger disk, or allow more memory"
        )
    with tempfile.TemporaryFile(dir=folder, prefix="nodewise-rows-") as file:
        file.truncate(size)
        return np.memmap(file, np.float32, "r+", shape=(count, width))


class RowMaker:
    """Makes rows of nodes; a method implements :meth:`represent` and may override the others.

    ``row_norm``: the norm of finished rows. ``memory``: the limit of memory.
    """

    row_norm: str
    memory: int | str | None

    def represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        """A row for each of ``nodes``, not finished yet."""
        raise NotImplementedError

    def group_size(self, graph: Graph, nodes: IntArray) -> int:
        """How many of ``nodes`` :meth:`represent` can take at a time."""
        return graph.num_nodes

    def column_blocks(self, graph: Graph, nodes: IntArray | None, memory: int) -> list[slice] | None:
        """The blocks, if rows of ``nodes`` (or of all) are best made together, one block of columns after the other."""
        return None

    def represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        """The columns ``block`` of the rows: one block of :meth:`column_blocks`, or several adjacent ones."""
        raise NotImplementedError

    def width(self, graph: Graph) -> int:
        """Columns of a finished row."""
        return graph.num_features

    def finish(self, graph: Graph, nodes: IntArray, rows: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Rows of ``nodes`` as the networks see them: scaled to ``row_norm``. ``out``: where to write them."""
        out = np.empty((nodes.size, self.width(graph)), np.float32) if out is None else out
        normalize_into(out[:, : rows.shape[1]], rows, self.row_norm)
        return out

    # ------------------------------------------------------------------ how many at a time

    def rows(self, graph: Graph, nodes: IntArray) -> FloatArray:
        """Finished rows: in memory, or in a temporary file where there are too many for that."""
        nodes = nodes.astype(np.int64)
        memory = memory_budget(self.memory)
        rows = new_rows(nodes.size, self.width(graph), memory // 2)
        blocks = self.column_blocks(graph, nodes, memory)
        small = rows.nbytes <= memory // 4  # then all are made at once, and the engine chooses the blocks
        if blocks is None or small:
            step = max(1, self.group_size(graph, nodes) if blocks is None else nodes.size)
            for first in range(0, nodes.size, step):
                part = slice(first, first + step)
                self.finish(graph, nodes[part], self.represent(graph, nodes[part]), rows[part])
            return rows
        for block in blocks:
            rows[:, block] = self.represent_block(graph, nodes, block)
        step = max(1, STEP_BYTES // (4 * max(1, rows.shape[1])))
        for first in range(0, nodes.size, step):
            part = slice(first, first + step)
            self.finish(graph, nodes[part], rows[part, : graph.num_features], rows[part])
        return rows

    def rows_in_steps(self, graph: Graph, nodes: IntArray) -> Iterator[FloatArray]:
        """Finished rows, a part at a time; all are made first where they are made together."""
        step = max(1, STEP_BYTES // (4 * max(1, self.width(graph))))
        whole = None if self.blocks(graph, nodes) is None else self.rows(graph, nodes)
        for first in range(0, nodes.size, step):
            part = slice(first, first + step)
            yield self.rows(graph, nodes[part]) if whole is None else whole[part]

    def blocks(self, graph: Graph, nodes: IntArray | None = None) -> list[slice] | None:
        """None where rows can be made for any few nodes; else the blocks of columns in which rows of all are made."""
        return self.column_blocks(graph, nodes, memory_budget(self.memory))


MakeRows: TypeAlias = Callable[["DiffusedRows", Graph, IntArray], FloatArray]  # makes them elsewhere, as on a cluster


@dataclass(frozen=True)
class DiffusedRows(RowMaker):
    """Rows by node-wise diffusion.

    ``params``: of :func:`nodewise.diffuse`. ``own``: each node's own features stand beside the diffused ones.
    ``depth``: hops that a node of mean degree goes, where it was found and not given as ``tau``; the ``tau`` for it
    depends on the degrees, which differ between a graph and the part of it that inductive training sees. ``order``:
    the column of the graph that each column of a finished row is, where they differ; features are left as they are,
    since they may be a file of any size.
    """

    params: DiffusionParams
    feature_norm: str
    row_norm: str
    depth: int | None = None
    own: bool = False
    order: IntArray | None = None

    @property
    def memory(self) -> int | str | None:  # type: ignore[override]
        return self.params.memory

    def settled(self, graph: Graph, nodes: IntArray) -> DiffusedRows:
        """With the engine that is cheapest for these nodes, if the engine is "auto"."""
        if self.params.engine != "auto":
            return self
        return self.changed(engine=self.planned(graph, nodes).plan.engine)

    def changed(self, **params: Any) -> DiffusedRows:
        """With other parameters of the diffusion."""
        return replace(self, params=replace(self.params, **params))

    def planned(self, graph: Graph, nodes: IntArray, **changes: Any) -> Diffusion:
        """The diffusion from ``nodes``, not done yet."""
        return plan_diffusion(graph, nodes, **{**vars(self.on(graph)), **changes})

    def on(self, graph: Graph) -> DiffusionParams:
        """The parameters on this graph."""
        if self.depth is None:
            return self.params
        return replace(self.params, tau=tau_of_length(graph, self.depth, self.params.convention))

    def rows(self, graph: Graph, nodes: IntArray) -> FloatArray:
        if self.params.engine == "auto":  # one engine for all groups of nodes that the memory allows
            return self.settled(graph, nodes).rows(graph, nodes)
        return super().rows(graph, nodes)

    def width(self, graph: Graph) -> int:
        return graph.num_features * (2 if self.own else 1)

    def finish(self, graph: Graph, nodes: IntArray, rows: FloatArray, out: FloatArray | None = None) -> FloatArray:
        out = super().finish(graph, nodes, self._ordered(rows), out)
        if self.own:
            own = self._ordered(dense_rows(graph.features, nodes, self.feature_norm))
            normalize_into(out[:, graph.num_features :], own, self.row_norm)
        return out

    def _ordered(self, rows: FloatArray) -> FloatArray:
        return rows if self.order is None else rows[:, self.order]

    def represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return diffuse(graph, nodes, **vars(self.on(graph))).apply(graph.features, self.feature_norm)

    def group_size(self, graph: Graph, nodes: IntArray) -> int:
        """As many as leave their weights room in the memory: features in a file are read once for all of them."""
        if self.params.engine == "exact" or nodes.size == 1:
            return graph.num_nodes
        return max(1, memory_budget(self.memory) // (ENTRY_BYTES * self.planned(graph, nodes).most_neighbours))

    def column_blocks(self, graph: Graph, nodes: IntArray | None, memory: int) -> list[slice] | None:
        if self.params.engine != "exact":
            return None
        everyone = np.arange(graph.num_nodes) if nodes is None else nodes
        return self.planned(graph, everyone, memory=memory).blocks(graph.features)

    def represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        return self.planned(graph, nodes).apply_columns(graph.features, self.feature_norm, block)
