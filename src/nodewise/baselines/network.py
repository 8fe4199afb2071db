"""What the rivals share whose network needs the graph itself: a view of the graph, an epoch's losses, an answer.

They run on the CPU; their sparse products are the kernels that NIGCN's exact hops use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from nodewise._typing import AnyArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.learn.classifier import NodeClassifier, known_labels, training_subgraph
from nodewise.learn.metrics import micro_f1
from nodewise.learn.trainer import descend, loss_of, score_of, seeded

View = TypeVar("View")


@dataclass(eq=False, repr=False, kw_only=True)
class GraphNetwork(NodeClassifier, Generic[View]):
    """Base of the rivals that train a network on the graph."""

    # ------------------------------------------------------------------ what a method says of itself

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        """The network, untrained."""
        raise NotImplementedError

    def _view(self, graph: Graph, nodes: IntArray) -> View:
        """What the network needs of the graph to answer for ``nodes``: made once, and timed as preparation."""
        raise NotImplementedError

    def _out(self, network: nn.Module, view: View, nodes: IntArray) -> torch.Tensor:
        """A row of class scores for each of ``nodes``, all of which were named to :meth:`_view`."""
        raise NotImplementedError

    def _losses(
        self, network: nn.Module, view: View, nodes: IntArray, labels: torch.Tensor, rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        """The losses of an epoch, each made when it is asked for; by default one, of all training nodes."""
        yield loss_of(self._out(network, view, nodes), labels)

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        """Multiplications a step, about; by default those of a layer over the whole graph."""
        return (graph.indices.size + graph.num_nodes * graph.num_features // 8) * self.hidden

    # ------------------------------------------------------------------ the estimator

    def _learn(
        self, graph: Graph, nodes: list[IntArray], asked: IntArray, inductive: bool, part: AnyArray | None, **how: Any
    ) -> FloatArray:
        started = time.perf_counter()
        self._learn_classes(graph, nodes)
        seen, train = training_subgraph(graph, nodes[0], part) if inductive else (graph, nodes[0])
        view = self._view(graph, np.concatenate([*nodes[1:], asked] if inductive else [*nodes, asked]))
        train_view = self._view(seen, train) if inductive else view
        prepared = time.perf_counter()
        labels = [self._encoded(known_labels(graph, n, what)) for n, what in zip(nodes, ("train", "val"), strict=False)]
        with seeded(self.seed):
            rng = np.random.default_rng(self.seed)
            self.networks_ = self._make_networks()
            network = self.networks_[0]

            @torch.no_grad()
            def score() -> tuple[float, float]:
                return score_of(self._out(network, view, nodes[1]), labels[1])

            self.epochs_ = descend(
                network,
                lambda: self._losses(network, train_view, train, labels[0], rng),
                score if len(nodes) > 1 else None,
                self._recipe(self.seed),
                self._work(seen, train),
            )
        self.val_f1_ = None
        if len(nodes) > 1:
            predicted = self.labels_of_proba(self._proba_in(view, nodes[1]))
            self.val_f1_ = micro_f1(known_labels(graph, nodes[1], "val"), predicted)
        self.seconds_ = {"preparation": prepared - started, "training": time.perf_counter() - prepared}
        return self._proba_in(view, asked)

    def _proba(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return self._proba_in(self._view(graph, nodes), nodes)

    def _proba_in(self, view: View, nodes: IntArray) -> FloatArray:
        if nodes.size == 0:
            return np.zeros((0, self.classes_.size), np.float32)
        with torch.no_grad(), seeded(self.seed):
            return np.asarray(self._squash(self._out(self.networks_[0], view, nodes)).numpy())

    def _make_networks(self) -> nn.ModuleList:
        return nn.ModuleList([self._make_network(self.n_features_in_, self.classes_.size)])
