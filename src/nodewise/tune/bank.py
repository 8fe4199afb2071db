"""One diffusion for all trials: the features of nodes per hop, and the rows that are mixed from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget, show_bytes
from nodewise._util.types import FloatArray, IntArray
from nodewise.diffusion.diffuse import diffuse
from nodewise.diffusion.ghd import ghd
from nodewise.diffusion.length import diffusion_lengths, tau_of_length
from nodewise.graph import Graph
from nodewise.graph.features import normalize
from nodewise.learn.search import DEEPEST, worthwhile_hops

FEWEST_HOPS = 2


class HopBank:
    """``H_l`` of ``nodes`` for ``l = 0..hops``. ``how``: other arguments of :func:`nodewise.diffuse`."""

    def __init__(self, graph: Graph, nodes: IntArray, feature_norm: str, hops: int, **how: Any) -> None:
        self.graph, self.nodes, self.hops = graph, nodes, hops
        found = diffuse(graph, nodes, length=hops, per_hop=True, **how)
        self.engine = found.engine
        self._bank = found.apply(graph.features, feature_norm)

    def rows(self, omega: float, rho: float, row_norm: str) -> FloatArray:
        """The rows that :class:`nodewise.NIGCN` makes with this curve and ``max_hops=hops``, and the nodes' own
        features beside them."""
        shares = ghd(omega, rho, self.hops)
        reach = diffusion_lengths(self.graph, self.nodes, tau_of_length(self.graph, worthwhile_hops(shares)))
        weights = np.where(np.arange(self.hops + 1) <= reach[:, None], shares, 0).astype(np.float32)
        rows = np.matmul(weights[:, None, :], self._bank)[:, 0]
        return np.hstack([normalize(part, row_norm) for part in (rows, self._bank[:, 0])])


def affordable_hops(nodes: int, features: int, memory: int | str | None) -> int:
    """The number of hops of a bank that takes at most half of the memory."""
    budget = memory_budget(memory) // 2
    hops = min(DEEPEST, budget // (4 * max(1, nodes * features)) - 1)
    if hops < FEWEST_HOPS:
        need = 2 * 4 * nodes * features * (FEWEST_HOPS + 1)
        raise InputError(
            f"a hop bank of {nodes:,} nodes takes at least {show_bytes(need)}, and {show_bytes(2 * budget)} may be "
            f"used; allow more (--memory), or tune on fewer nodes (--per-class, --val)"
        )
    return hops
