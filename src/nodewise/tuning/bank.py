"""One diffusion for all trials: the hops of the labelled nodes kept apart, and rows mixed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodewise._typing import FloatArray, IntArray
from nodewise.diffusion.diffuse import diffuse
from nodewise.diffusion.ghd import ghd
from nodewise.diffusion.length import diffusion_lengths
from nodewise.errors import InputError
from nodewise.features import normalize
from nodewise.graph import Graph
from nodewise.learn.hop_weights import DEEPEST
from nodewise.memory import memory_budget, show_bytes

FEWEST_HOPS = 2


class HopBank:
    """``H_l`` of ``nodes``, of so many ``hops`` or as deep as memory allows.

    :meth:`rows` are those that :class:`nodewise.NIGCN` with the same parameters makes.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[IntArray],
        feature_norm: str,
        *,
        epsilon: float,
        hops: int | None,
        seed: int,
        threads: int | None,
        memory: int | str | None,
    ) -> None:
        self.graph = graph
        self.nodes: IntArray = np.unique(np.concatenate(list(nodes)))
        affordable = _affordable_hops(self.nodes.size, graph.num_features, memory_budget(memory) // 2)
        self.hops = affordable if hops is None else hops
        found = diffuse(
            graph, self.nodes, epsilon=epsilon, length=self.hops, per_hop=True, seed=seed, threads=threads,
            memory=memory,
        )  # fmt: skip
        self.engine = found.engine
        self._bank = found.apply(graph.features, feature_norm)

    def rows(self, nodes: IntArray, params: dict[str, Any]) -> FloatArray:
        """Rows by the ``omega``, ``rho``, ``tau``, ``convention`` and ``row_norm`` of ``params``."""
        reach = diffusion_lengths(self.graph, nodes, params["tau"], params.get("convention", "paper"))
        shares = ghd(params["omega"], params["rho"], self.hops)
        weights = np.where(np.arange(self.hops + 1) <= reach[:, None], shares, 0).astype(np.float32)
        bank = self._bank[np.searchsorted(self.nodes, nodes)]
        return normalize(np.matmul(weights[:, None, :], bank)[:, 0], params["row_norm"])


def _affordable_hops(nodes: int, features: int, memory: int) -> int:
    hops = min(DEEPEST, memory // (4 * max(1, nodes * features)) - 1)
    if hops < FEWEST_HOPS:
        need = 4 * nodes * features * (FEWEST_HOPS + 1)
        raise InputError(
            f"a hop bank of {nodes:,} nodes takes at least {show_bytes(2 * need)}, and {show_bytes(2 * memory)} may be "
            f"used; allow more (--memory), or tune on fewer nodes (--per-class, --val)"
        )
    return hops
