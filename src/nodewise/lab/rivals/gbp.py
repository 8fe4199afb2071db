"""GBP: ``sum over l of alpha (1 - alpha)^l (D^(r-1) A D^-r)^l X``, estimated from both ends, then a network.

Chen et al., "Scalable Graph Neural Networks via Bidirectional Propagation", NeurIPS 2020. Each column of ``D^-r X`` is
pushed against the edges (Algorithm 1) until no residue is beyond ``r_max`` of the column's L1 norm; walks from the
nodes to predict see the residues that are left (Algorithm 2). With these weights a residue counts the same at every
level, so the levels share one residue and one reserve, as they do in the authors' program:

    ``P = D^r (reserve + sum over l of alpha (1 - alpha)^l (D^-1 A)^l residue)``

The pushes alone are within ``d^r r_max``. The walks make the rest unbiased: of a walk that stops with ``alpha`` at each
step, the residue at its end has the sum above as its mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nodewise._util.memory import memory_budget
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray, FloatArray, IntArray
from nodewise.diffusion.walks import node_dtype
from nodewise.graph import Graph
from nodewise.lab.rivals.base import RowRival, column_norms
from nodewise.lab.rivals.kernels import propagation as kernels
from nodewise.lab.rivals.params import Exactness, NonNegative, Share, UnitInterval, WholeOrZero

FINEST = 0.1  # of a column's mean entry: residues left by default
WALKERS = 256  # nodes whose walks a thread makes at a time


@dataclass(eq=False, repr=False, kw_only=True)
class GBP(RowRival):
    """``alpha``: what stays at each hop. ``r``: 0 is the random walk, 1/2 symmetric. ``r_max``: residues left, as a
    share of a column's L1 norm (by default a tenth of its mean entry). ``walks``: how many from each node.
    """

    alpha: Share = 0.1
    r: UnitInterval = 0.5
    r_max: Exactness | None = None
    walks: WholeOrZero = 32
    weight_decay: NonNegative = 5e-4

    # alpha, r, r_max, hidden, batch and weight decay of the authors' program. Citeseer's weight decay of 0.2 belongs to
    # its batch normalisation; without that, 0.01 is chosen on validation nodes.
    PRESETS: ClassVar = {
        "cora": {"r_max": 1e-4, "batch_size": 16, "patience": 40, "feature_norm": "l1"},
        "citeseer": {"alpha": 0.15, "r": 0.4, "r_max": 1e-5, "batch_size": 64, "patience": 20, "weight_decay": 0.01},
        "pubmed": {"alpha": 0.05, "r_max": 1e-5, "hidden": 128, "batch_size": 16, "patience": 40},
    }

    def represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        """All columns of ``block`` for as many nodes at a time as leave their walks a quarter of the memory."""
        step = max(1, memory_budget(self.memory) // (16 * max(1, self.walks)))
        parts = [self._estimated(graph, nodes[i : i + step], block) for i in range(0, max(1, nodes.size), step)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _estimated(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        asked, places = np.unique(nodes, return_inverse=True)
        slots = np.full(graph.num_nodes, -1, np.int32)
        slots[asked] = np.arange(asked.size)
        ends = self._walk_ends(graph, asked)
        weights = graph.kernel_weights
        inverse = (1 / graph.degrees).astype(np.float32)
        r_max = FINEST / graph.num_nodes if self.r_max is None else self.r_max

        def work(_: int, residue: FloatArray) -> FloatArray:
            rows = np.zeros((asked.size, residue.shape[1]), np.float32)
            limits = (r_max * column_norms(residue)).astype(np.float32)
            kernels.push(graph.indptr, graph.indices, weights, inverse, self.alpha, limits, slots, residue, rows)
            kernels.add_residues(asked, ends, self.alpha, residue, rows)
            return rows

        rows = self._over_columns(graph, block, self.r, work, 2)
        return (rows * (graph.degrees_of(asked) ** self.r).astype(np.float32)[:, None])[places]

    def _walk_ends(self, graph: Graph, nodes: IntArray) -> AnyArray:
        """The end of each walk: ``(nodes, walks)``."""
        ends = np.empty((nodes.size, self.walks), node_dtype(graph))

        def walk(first: int) -> None:
            last = min(first + WALKERS, nodes.size)
            kernels.walk_ends(
                graph.indptr, graph.indices, graph.cumulative_weights, nodes, self.alpha, self.seed, first, last, ends
            )

        map_chunks(walk, range(0, nodes.size, WALKERS), thread_count(self.threads))
        return ends
