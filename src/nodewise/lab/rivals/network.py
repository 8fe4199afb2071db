"""What the rivals share whose network needs the graph itself: a view of the graph, an epoch's losses, an answer.

They run on the CPU; their sparse products are the kernels that NIGCN's exact hops use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from nodewise._util.types import FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.rival import Rival
from nodewise.learn.task import Task
from nodewise.learn.trainer import Score, descend, loss_of, score_of, seeded

View = TypeVar("View")


@dataclass(eq=False, repr=False, kw_only=True)
class GraphNetwork(Rival, Generic[View]):
    """Base of the rivals that train a network on the graph."""

    AT_ONCE: ClassVar[int | None] = None  # nodes answered for at a time, where their answers share little work

    # ------------------------------------------------------------------ what a method says of itself

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
        """Multiplications per step, about; by default those of a layer over the whole graph."""
        return (graph.indices.size + graph.num_nodes * graph.num_features // 8) * self.hidden

    # ------------------------------------------------------------------ the estimator

    def _fit(self, task: Task, **how: Any) -> FloatArray:
        started = time.perf_counter()
        graph, train = task.seen(task.train)
        others = [task.val, task.asked]
        view = self._view(task.graph, np.concatenate(others if task.inductive else [train, *others]))
        train_view = self._view(graph, train) if task.inductive else view
        prepared = time.perf_counter()
        labels, val_labels = self._labels(task, task.train), self._labels(task, task.val)
        with seeded(self.seed):
            rng = np.random.default_rng(self.seed)
            network = self._make_network(self.n_features_in_, self._classes.ids.size)

            @torch.no_grad()
            def scores() -> list[Score]:
                return [score_of(self._all_out(network, view, task.val), val_labels)]

            epochs = descend(
                network,
                lambda: self._losses(network, train_view, train, labels, rng),
                scores if task.val.size else None,
                self._config(),
                self._work(graph, train),
            )
        self._keep(network, epochs)
        self.val_f1_ = self._val_f1(task, self._proba_in(view, task.val))
        self.seconds_ = {"preparation": prepared - started, "training": time.perf_counter() - prepared}
        return self._proba_in(view, task.asked)

    def _proba(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return np.concatenate([self._proba_in(self._view(graph, part), part) for part in self._parts(nodes)])

    @torch.no_grad()
    def _proba_in(self, view: View, nodes: IntArray) -> FloatArray:
        if nodes.size == 0:
            return np.zeros((0, self._classes.ids.size), np.float32)
        return np.asarray(self._classes.proba(self._all_out(self.networks_, view, nodes)).numpy())

    def _all_out(self, network: nn.Module, view: View, nodes: IntArray) -> torch.Tensor:
        return torch.cat([self._out(network, view, part) for part in self._parts(nodes)])

    def _parts(self, nodes: IntArray) -> list[IntArray]:
        """The nodes, at most ``AT_ONCE`` at a time."""
        return np.split(nodes, range(self.AT_ONCE, nodes.size, self.AT_ONCE)) if self.AT_ONCE else [nodes]

    def _batches(self, count: int, rng: np.random.Generator) -> list[IntArray]:
        """An epoch of so many training nodes in a new order, a batch for each step."""
        size = self.batch_size or self.AT_ONCE or count
        return np.split(rng.permutation(count), range(size, count, size))
