"""AGP: ``sum over l of w_l (D^-a A D^-b)^l X`` by randomized propagation, then a network.

Wang et al., "Approximate Graph Propagation", KDD 2021, Algorithm 2. With ``Y_l`` the weights from ``l`` on, a level's
residue is ``r_l = Y_l (D^-a A D^-b)^l x`` and leaves ``w_l / Y_l`` of itself. A neighbour's share of a residue is
passed on as it is where it is at least ``epsilon`` of the column's L1 norm; else it becomes that much or nothing, with
the probability that keeps its mean. Neighbours are sorted by degree, so that only the chosen ones are looked at. The
estimate is unbiased, and with ``L`` levels its variance is at most ``L (L + 1) / 2 epsilon |x|_1`` times what ``|x|``
in place of ``x`` would give the node: the paper's bound, where signs may cancel in the sum but not here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from nodewise._util.threads import thread_count
from nodewise._util.types import AnyArray, DoubleArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.base import RowRival, column_norms
from nodewise.lab.rivals.kernels import propagation as kernels
from nodewise.lab.rivals.matrix import over_rows
from nodewise.lab.rivals.params import Exactness, NonNegative, Positive, Share, UnitInterval, WholeOrZero

FINEST = 0.1  # of a column's mean entry: what is drawn by default
SMALLEST = float(np.finfo(np.float32).tiny)  # the limit in a column of zeros


@dataclass(eq=False, repr=False, kw_only=True)
class AGP(RowRival):
    """``weights``: "ppr" (``alpha (1 - alpha)^l``) or "heat" (``e^-t t^l / l!``); the last of ``hops`` levels takes
    what is left of them. ``a``, ``b``: the exponents of the degrees. ``epsilon``: shares below this part of a column's
    L1 norm are drawn (by default a tenth of its mean entry).
    """

    weights: Literal["ppr", "heat"] = "ppr"
    alpha: Share = 0.1
    t: Positive = 3.0
    hops: WholeOrZero = 20
    a: UnitInterval = 0.5
    b: UnitInterval = 0.5
    epsilon: Exactness | None = None
    weight_decay: NonNegative = 5e-4

    # The paper has none of these graphs: alpha and L are what it uses for APPNP's weights, Cora's weight
    # decay is chosen on validation nodes, Citeseer's is GBP's.
    PRESETS: ClassVar = {"cora": {"weight_decay": 5e-3}, "citeseer": {"weight_decay": 1e-2}}

    def hop_weights(self) -> DoubleArray:
        """``w_0`` to ``w_L``, which sum to one."""
        hops = np.arange(self.hops)
        if self.weights == "ppr":
            shares = self.alpha * (1 - self.alpha) ** hops
        else:
            shares = np.exp(hops * math.log(self.t) - self.t - np.array([math.lgamma(l + 1) for l in hops]))
        return np.append(shares, max(0.0, 1 - shares.sum()))

    def represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        weights = self.hop_weights()
        tails = np.maximum(np.cumsum(weights[::-1])[::-1], SMALLEST)
        before, after = ((graph.degrees**-power).astype(np.float32) for power in (self.b, self.a))
        adjacency = (graph.indptr, *self._sorted_rows(graph, after), before, after)
        epsilon = FINEST / graph.num_nodes if self.epsilon is None else self.epsilon

        def work(column: int, rows: FloatArray) -> FloatArray:
            limits = np.maximum(epsilon * column_norms(rows), SMALLEST).astype(np.float32)
            found = np.zeros((nodes.size, rows.shape[1]), np.float32)
            spare = np.zeros_like(rows)
            for level in range(weights.size):
                found += np.float32(weights[level] / tails[level]) * rows[nodes]
                if level + 1 < weights.size:
                    passed = np.float32(tails[level + 1] / tails[level])
                    kernels.spread_level(*adjacency, passed, limits, self.seed, column, level, rows, spare)
                    rows, spare = spare, rows
                    spare[:] = 0.0
            return found

        return self._over_columns(graph, block, 0.0, work, 3)

    def _sorted_rows(self, graph: Graph, after: FloatArray) -> tuple[AnyArray, FloatArray]:
        """The neighbours and the weights of their edges, those with the largest share first."""
        weights = graph.kernel_weights
        indices, sorted_weights = np.empty_like(graph.indices), np.empty(weights.size, np.float32)
        sort = partial(kernels.sort_rows, graph.indptr, graph.indices, weights, after, indices, sorted_weights)
        over_rows(sort, graph.num_nodes, graph.num_entries, thread_count(self.threads))
        return indices, sorted_weights
