"""NIGCN: rows by node-wise diffusion, then a small network.

Huang et al., "Node-wise Diffusion for Scalable Graph Learning", WWW 2023.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from nodewise._typing import FloatArray, IntArray
from nodewise.diffusion.diffuse import Engine, Params, diffuse, plan_diffusion
from nodewise.diffusion.length import Convention
from nodewise.diffusion.walks import Mass
from nodewise.graph import Graph
from nodewise.learn.decoupled import DecoupledClassifier

TARGETS_AT_ONCE = 4096  # bounds the weights held at a time


class NIGCN(DecoupledClassifier):
    """A classifier of nodes that computes rows for the nodes asked about and for no others.

    ``omega``, ``rho``, ``tau``, ``epsilon``, ``engine``, ``convention``, ``mass``, ``length``, ``first_k``: as in
    :func:`nodewise.diffuse`. ``engine="auto"`` chooses in ``fit`` and keeps its choice (``engine_``), so that a node's
    prediction does not depend on what else is asked. ``hidden``, ``layers``, ``bias``, ``dropout``, ``lr``,
    ``weight_decay``, ``epochs``, ``patience``, ``batch_size``: the network and its training. ``feature_norm`` and
    ``row_norm`` ("none", "l1", "l2") scale the features before the diffusion and the rows after it. ``heads``: so many
    networks learn from different starts, and their probabilities are averaged.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> m = nw.NIGCN(seed=0).fit(g, train=range(60), val=range(60, 120))
    >>> m.score(g, range(120, 500)) > 0.6
    True
    """

    def __init__(
        self,
        omega: float = 1.15,
        rho: float = 0.1,
        tau: float = 1.9,
        epsilon: float = 0.01,
        *,
        engine: Engine = "auto",
        convention: Convention = "paper",
        mass: Mass = "theta",
        length: int | None = None,
        first_k: bool = True,
        eta: float = 2.0,
        delta: float = 0.01,
        hidden: int = 64,
        layers: int = 2,
        bias: bool = True,
        heads: int = 1,
        dropout: float = 0.5,
        lr: float = 0.01,
        weight_decay: float = 5e-3,
        epochs: int = 1000,
        patience: int = 60,
        batch_size: int | None = None,
        feature_norm: str = "none",
        row_norm: str = "l2",
        device: str = "auto",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.omega = omega
        self.rho = rho
        self.tau = tau
        self.epsilon = epsilon
        self.engine = engine
        self.convention = convention
        self.mass = mass
        self.length = length
        self.first_k = first_k
        self.eta = eta
        self.delta = delta
        self.hidden = hidden
        self.layers = layers
        self.bias = bias
        self.heads = heads
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.batch_size = batch_size
        self.feature_norm = feature_norm
        self.row_norm = row_norm
        self.device = device
        self.seed = seed
        self.threads = threads

    def _prepare(self, graph: Graph, nodes: IntArray) -> None:
        self.plan_ = plan_diffusion(graph, nodes, engine=self.engine, **self._diffusion())
        self.engine_ = self.plan_.engine

    def _represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        engine: Engine = getattr(self, "engine_", "auto") if self.engine == "auto" else self.engine
        step = nodes.size if engine in ("auto", "exact") else TARGETS_AT_ONCE
        out = np.empty((nodes.size, graph.num_features), np.float32)
        for first in range(0, nodes.size, max(1, step)):
            part = slice(first, first + step)
            out[part] = diffuse(graph, nodes[part], engine=engine, **self._diffusion()).apply(graph.features)
        return out

    def _diffusion(self) -> dict[str, Any]:
        """The parameters that are those of :func:`nodewise.diffuse`, but for the engine."""
        return {field.name: getattr(self, field.name) for field in fields(Params) if field.name != "engine"}

    def _fitted_extras(self) -> dict[str, Any]:
        return {"engine": self.engine_}

    def _restore_extras(self, fitted: dict[str, Any]) -> None:
        self.engine_ = fitted["engine"]
