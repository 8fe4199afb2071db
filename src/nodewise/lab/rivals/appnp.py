"""APPNP: a network's class scores, propagated by ``K`` power iterations of personalised PageRank.

Gasteiger et al., "Predict then Propagate: Graph Neural Networks meet Personalized PageRank", ICLR 2019, eq. 4:
``Z_0 = H``, ``Z_(k+1) = (1 - alpha) S Z_k + alpha H`` with ``S = D^-1/2 A D^-1/2``; ``H`` is the network's output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from nodewise._util.threads import thread_count
from nodewise._util.types import IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.base import GraphNetwork
from nodewise.lab.rivals.kernels import propagation as kernels
from nodewise.lab.rivals.matrix import MLP, Inputs, feature_rows, over_rows
from nodewise.lab.rivals.params import Share, Whole, WholeOrZero
from nodewise.learn.trainer import TrainConfig, loss_of


class Pagerank:
    """``Z_K`` from ``H``, with a gradient.

    ``D^-1/2 Z_(k+1) = (1 - alpha) P D^-1/2 Z_k + alpha D^-1/2 H``: scaled once, the hops are those of the random walk
    and no entry's value has to be kept. ``drop``: each hop loses this share of its entries; the others are scaled
    up to keep the mean.
    """

    def __init__(self, graph: Graph, alpha: float, hops: int, threads: int) -> None:
        inverse = (1 / graph.degrees).astype(np.float32)
        self.adjacency = (graph.indptr, graph.indices, graph.kernel_weights, inverse)
        self.root = torch.from_numpy(np.sqrt(graph.degrees).astype(np.float32))[:, None]
        self.alpha, self.hops, self.threads = alpha, hops, threads

    def spread(self, rows: torch.Tensor, drop: float = 0.0) -> torch.Tensor:
        seeds = torch.randint(2**62, (self.hops,)).tolist() if drop > 0 else [0] * self.hops
        spread: torch.Tensor = _Spread.apply(rows, self, drop, seeds)  # type: ignore[no-untyped-call]
        return spread

    def hop(self, rows: torch.Tensor, drop: float, seed: int, transposed: bool) -> torch.Tensor:
        """``(1 - alpha) P rows``, of ``P`` without what is dropped."""
        out = torch.empty_like(rows)
        share = np.float32((1 - self.alpha) / (1 - drop))
        arrays = (np.ascontiguousarray(rows.numpy()), out.numpy())
        run = partial(
            kernels.hop, *self.adjacency, share, np.uint64(drop * 2.0**64), np.uint64(seed), transposed, *arrays
        )
        over_rows(run, rows.shape[0], self.adjacency[1].size * rows.shape[1], self.threads)
        return out


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, pagerank: Pagerank, drop: float, seeds: list[int]) -> torch.Tensor:
        ctx.how = pagerank, drop, seeds
        start = rows / pagerank.root
        now = start
        for seed in seeds:
            now = pagerank.hop(now, drop, seed, False).add_(start, alpha=pagerank.alpha)
        return now * pagerank.root

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        pagerank, drop, seeds = ctx.how
        now = grads[0] / pagerank.root
        total = torch.zeros_like(now)
        for seed in reversed(seeds):
            total.add_(now, alpha=pagerank.alpha)
            now = pagerank.hop(now, drop, seed, True)
        return (total + now) * pagerank.root, None, None, None


View = tuple[Inputs, Pagerank]


@dataclass(eq=False, repr=False, kw_only=True)
class APPNP(GraphNetwork[View]):
    """``alpha``: the probability to return. ``hops``: K. ``dropout`` is that of the features, of the hidden layers and
    of the adjacency's entries, anew at each hop; ``weight_decay`` is the L2 penalty of the first layer alone. The
    network has no bias, as in the authors' program.
    """

    alpha: Share = 0.1
    hops: WholeOrZero = 10
    patience: Whole = 100

    # alpha, K, network and penalty of the paper's Section 5 are the defaults, its alpha for co-author graphs is 0.2. A
    # patience of 50 saves time; feature_norm of Cora and Citeseer is chosen on the validation nodes of two splits.
    PRESETS: ClassVar = {
        "cora": {"patience": 50},
        "citeseer": {"patience": 50, "feature_norm": "l1"},
        "pubmed": {"patience": 50},
        "coauthor-cs": {"alpha": 0.2, "patience": 50},
        "coauthor-physics": {"alpha": 0.2, "patience": 50},
    }

    def _make_network(self, inputs: int, outputs: int) -> MLP:
        return MLP([inputs, *[self.hidden] * (self.layers - 1), outputs], self.dropout)

    def _view(self, graph: Graph, nodes: IntArray) -> View:
        threads = thread_count(self.threads)
        inputs = feature_rows(graph.features, self.feature_norm, threads)
        return inputs, Pagerank(graph, self.alpha, self.hops, threads)

    def _out(self, network: nn.Module, view: View, nodes: IntArray) -> torch.Tensor:
        inputs, pagerank = view
        return pagerank.spread(network(inputs), self.dropout if network.training else 0.0)[torch.from_numpy(nodes)]

    def _losses(
        self, network: nn.Module, view: View, nodes: IntArray, labels: torch.Tensor, rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        penalty = self.weight_decay / 2 * next(network.parameters()).square().sum()
        yield loss_of(self._out(network, view, nodes), labels) + penalty

    def _config(self) -> TrainConfig:
        """Without weight decay: the loss has it."""
        return replace(super()._config(), weight_decay=0.0)
