"""NIGCN: rows by node-wise diffusion, then a small network.

Huang et al., "Node-wise Diffusion for Scalable Graph Learning", WWW 2023.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

import numpy as np

from nodewise._typing import AnyArray, FloatArray, IntArray
from nodewise.diffusion.diffuse import Diffusion, Params, diffuse, plan_diffusion
from nodewise.diffusion.length import Convention
from nodewise.diffusion.plan import ENTRY_BYTES, Engine
from nodewise.diffusion.walks import Mass
from nodewise.graph import Graph
from nodewise.learn.classifier import nodes_or_all
from nodewise.learn.decoupled import DecoupledClassifier
from nodewise.memory import memory_budget


@dataclass(eq=False, repr=False)
class NIGCN(DecoupledClassifier):
    """A classifier of nodes that computes rows for the nodes asked about and for no others.

    ``omega``, ``rho``, ``tau``, ``epsilon``, ``engine``, ``convention``, ``mass``, ``length``, ``max_hops``,
    ``first_k``: as in :func:`nodewise.diffuse`. ``engine="auto"`` chooses in ``fit`` and keeps its choice
    (``engine_``), so that a node's prediction does not depend on what else is asked. ``hidden``, ``layers``, ``bias``,
    ``dropout``, ``lr``, ``weight_decay``, ``epochs``, ``patience``, ``batch_size``: the network and its training.
    ``feature_norm`` and
    ``row_norm`` ("none", "l1", "l2") scale the features before the diffusion and the rows after it. ``heads``: so many
    networks learn from different starts, and their probabilities are averaged. ``memory`` ("4GB"; by default a quarter
    of what is available) bounds what a diffusion holds; rows that do not fit go to a temporary file. ``phases_`` says
    how many seconds of the diffusion went into what.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> m = nw.NIGCN(seed=0).fit(g, train=range(60), val=range(60, 120))
    >>> m.score(g, range(120, 500)) > 0.6
    True
    """

    omega: float = 1.15
    rho: float = 0.1
    tau: float = 1.9
    epsilon: float = 0.01
    _: KW_ONLY
    engine: Engine = "auto"
    convention: Convention = "paper"
    mass: Mass = "theta"
    length: int | None = None
    max_hops: int | None = None
    first_k: bool = True
    eta: float = 2.0
    delta: float = 0.01
    row_norm: str = "l2"

    def _prepare(self, graph: Graph, nodes: IntArray) -> None:
        self.phases_: dict[str, float] = {}
        self.plan_ = self._planned(graph, nodes).plan
        self.engine_ = self.plan_.engine

    def cheapest_engine(self, graph: Graph, nodes: AnyArray | None = None) -> Engine:
        """The engine that ``engine="auto"`` would choose for these nodes, or for all."""
        return plan_diffusion(graph, nodes_or_all(graph, nodes), engine="auto", **self._diffusion()).plan.engine

    def _represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        found = diffuse(graph, nodes, engine=self._engine, **self._diffusion())
        rows = found.apply(graph.features, self.feature_norm)
        self.phases_ = dict(Counter(getattr(self, "phases_", {})) + Counter(found.phases))
        return rows

    def _group_size(self, graph: Graph) -> int:
        """As many as leave their weights room in the memory: features in a file are read once for all of them."""
        if self._engine in ("auto", "exact"):
            return graph.num_nodes
        neighbours = self._planned(graph, np.zeros(1, np.int64)).most_neighbours
        return memory_budget(self.memory) // (ENTRY_BYTES * neighbours)

    def _column_blocks(self, graph: Graph, nodes: IntArray | None, memory: int) -> list[slice] | None:
        if self._engine != "exact":
            return None
        return self._planned(graph, nodes_or_all(graph, nodes), memory).blocks(graph.features)

    def _represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        return self._planned(graph, nodes).apply_columns(graph.features, self.feature_norm, block)

    def _planned(self, graph: Graph, nodes: IntArray, memory: int | None = None) -> Diffusion:
        params = self._diffusion() if memory is None else {**self._diffusion(), "memory": memory}
        return plan_diffusion(graph, nodes, engine=self._engine, **params)

    @property
    def _engine(self) -> Engine:
        """The one asked for, or the one that ``fit`` chose."""
        return getattr(self, "engine_", "auto") if self.engine == "auto" else self.engine

    def _diffusion(self) -> dict[str, Any]:
        """The parameters that are those of :func:`nodewise.diffuse`, but for the engine."""
        names = [field.name for field in fields(Params) if field.name not in ("engine", "per_hop")]
        return {name: getattr(self, name) for name in names}

    def _fitted_extras(self) -> dict[str, Any]:
        return {**super()._fitted_extras(), "engine": self.engine_}

    def _restore_extras(self, fitted: dict[str, Any]) -> None:
        super()._restore_extras(fitted)
        self.engine_ = fitted["engine"]
