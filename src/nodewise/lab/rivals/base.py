"""The base classes of the rivals: ``GraphNetwork`` trains on the graph, ``RowRival`` makes rows first, then trains."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.memory import memory_budget
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import DoubleArray, FloatArray, IntArray
from nodewise.diffusion import exact
from nodewise.graph import Graph
from nodewise.graph.checks import checked_seed
from nodewise.graph.features import row_scales
from nodewise.lab.rivals.params import Dropout, NonNegative, Norm, Positive, Whole, check_types
from nodewise.learn import trainer
from nodewise.learn.estimator import NodeClassifier
from nodewise.learn.heads import Heads
from nodewise.learn.metrics import micro_f1
from nodewise.learn.rows import RowMaker
from nodewise.learn.task import Task
from nodewise.learn.trainer import Score, TrainConfig, choose_device, loss_of

COLUMNS = 16  # of float32: a cache line of a node's numbers
View = TypeVar("View")


@dataclass(eq=False, repr=False, kw_only=True)
class Rival(NodeClassifier):
    """Base of all rivals: the parameters of a network and of its training.

    ``batch_size=None``: all training nodes at once, or as many as suit the method. ``feature_norm`` ("none", "l1",
    "l2") scales each node's features first.
    """

    hidden: Whole = 64
    layers: Whole = 2
    dropout: Dropout = 0.5
    lr: Positive = 0.01
    weight_decay: NonNegative = 5e-3
    epochs: Whole = 1000
    patience: Whole = 60
    batch_size: Whole | None = None
    feature_norm: Norm = "none"
    seed: int = 0
    threads: int | None = None

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # parameters for data sets, by name

    def check_params(self) -> None:
        check_types(self)
        checked_seed(self.seed)

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        """The network, untrained."""
        raise NotImplementedError

    def _restore(self, fitted: dict[str, Any], tensors: dict[str, torch.Tensor]) -> nn.Module:
        if self.layers > len(tensors):
            raise ValueError(f"layers={self.layers} with {len(tensors)} tensors; expected at least one for each")
        return self._make_network(self.n_features_in_, self._classes.ids.size)

    def _config(self) -> TrainConfig:
        threads = thread_count(self.threads)
        return TrainConfig(self.lr, self.weight_decay, self.epochs, self.patience, self.batch_size, self.seed, threads)

    def _labels(self, task: Task, nodes: IntArray) -> torch.Tensor:
        """Labels as the loss takes them."""
        return self._classes.encoded(task.labels(nodes))

    def _keep(self, network: nn.Module, epochs: list[int]) -> None:
        """Take a trained network as this model's, unless training diverged."""
        trainer.check_bounds(network, self.lr)
        self.networks_, self.epochs_ = network.eval(), epochs[0]

    def _val_f1(self, task: Task, proba: FloatArray) -> float | None:
        """Micro-F1 of the probabilities of the validation nodes."""
        return micro_f1(task.labels(task.val), self.labels_of_proba(proba)) if task.val.size else None


@dataclass(eq=False, repr=False, kw_only=True)
class GraphNetwork(Rival, Generic[View]):
    """Base of the rivals whose network needs the graph itself. They run on the CPU."""

    AT_ONCE: ClassVar[int | None] = None  # nodes predicted at a time, where their predictions share little work
    BATCHED: ClassVar[bool] = False  # whether training takes batches

    # ------------------------------------------------------------------ what a method defines

    def _view(self, graph: Graph, nodes: IntArray) -> View:
        """What the network needs of the graph to predict ``nodes``: made once, and timed as preparation."""
        raise NotImplementedError

    def _out(self, network: nn.Module, view: View, nodes: IntArray) -> torch.Tensor:
        """A row of class scores for each of ``nodes``, all of which were passed to :meth:`_view`."""
        raise NotImplementedError

    def _train_out(self, network: nn.Module, view: View, nodes: IntArray, rng: np.random.Generator) -> torch.Tensor:
        """Class scores in a training step, where these are sampled."""
        return self._out(network, view, nodes)

    def _losses(
        self, network: nn.Module, view: View, nodes: IntArray, labels: torch.Tensor, rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        """The losses of an epoch, each computed when it is asked for: one per batch."""
        for chosen in self._batches(nodes.size, rng):
            yield loss_of(self._train_out(network, view, nodes[chosen], rng), labels[chosen])

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        """Multiplications per step, roughly; by default those of a layer over the whole graph."""
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
        with trainer.seeded(self.seed):
            rng = np.random.default_rng(self.seed)
            network = self._make_network(self.n_features_in_, self._classes.ids.size)

            @torch.no_grad()
            def scores() -> list[Score]:
                return [trainer.score_of(self._all_out(network, view, task.val), val_labels)]

            epochs = trainer.descend(
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
        """The batches of an epoch, in a new order, as indices of the ``count`` training nodes."""
        if not self.BATCHED:
            return [np.arange(count)]
        size = self.batch_size or self.AT_ONCE or count
        return np.split(rng.permutation(count), range(size, count, size))


@dataclass(eq=False, repr=False, kw_only=True)
class RowRival(Rival, RowMaker):
    """Base of the rivals that propagate the features first and then learn from each node's row alone.

    A method defines ``represent_block``, which makes some columns of the rows.
    """

    bias: bool = True
    row_norm: Norm = "none"
    device: str = "auto"
    memory: int | str | None = None

    def check_params(self) -> None:
        super().check_params()
        choose_device(self.device)

    # ------------------------------------------------------------------ rows

    def represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return self.represent_block(graph, nodes, slice(0, graph.num_features))

    def column_blocks(self, graph: Graph, nodes: IntArray | None, memory: int) -> list[slice] | None:
        """All columns, or as many as leave the rows of all nodes a quarter of the memory."""
        count = graph.num_nodes if nodes is None else nodes.size
        width = max(1, memory // (16 * max(1, count)))
        columns = graph.num_features
        return [slice(first, min(columns, first + width)) for first in range(0, columns, width)]

    def _row_scale(self, graph: Graph, power: float) -> FloatArray:
        """The factor of each node's features: ``d^-power``, times what brings them to ``feature_norm``."""
        scale, scales = graph.degrees**-power, row_scales(graph.features, self.feature_norm)
        return (scale if scales is None else scale * scales).astype(np.float32)

    def _over_columns(
        self, graph: Graph, block: slice, power: float, work: Callable[[int, FloatArray], FloatArray], held: int
    ) -> FloatArray:
        """The rows that ``work`` makes of narrow blocks of columns, one block per thread.

        ``work`` takes the number of the first column and the features of the block, scaled by :meth:`_row_scale`.
        ``held``: arrays of a block's size that it has at a time. A column's numbers must not depend on its block.
        """
        threads, nodes, scale = thread_count(self.threads), graph.num_nodes, self._row_scale(graph, power)
        width = max(1, min(COLUMNS, memory_budget(self.memory) // (4 * held * nodes * threads)))
        given: Any = graph.features
        features = given.tocsc() if sp.issparse(given) else given

        def run(first: int) -> FloatArray:
            last = min(first + width, block.stop)
            rows = np.empty((nodes, last - first), np.float32)
            exact.fill(features, slice(first, last), scale, rows, 0, nodes)
            return work(first, rows)

        return np.concatenate(map_chunks(run, range(block.start, block.stop, width), threads), axis=1)

    # ------------------------------------------------------------------ the estimator

    def _fit(self, task: Task, **how: Any) -> FloatArray:
        started = time.perf_counter()
        rows = self._rows_of_task(task)
        prepared = time.perf_counter()
        device = choose_device(self.device)
        learned, judged = (
            (torch.from_numpy(part).to(device), self._labels(task, nodes).to(device))
            for part, nodes in zip(rows, (task.train, task.val), strict=False)
        )
        make = partial(self._make_network, self.n_features_in_, self._classes.ids.size)
        self._keep(*trainer.train(make, learned, judged if task.val.size else None, self._config()))
        self.val_f1_ = self._val_f1(task, self._proba_of_rows(rows[1]))
        self.seconds_ = {"preparation": prepared - started, "training": time.perf_counter() - prepared}
        return self._proba_of_rows(rows[2])

    def _rows_of_task(self, task: Task) -> list[FloatArray]:
        """Rows of the nodes to train on, validate on and predict; the first see what training sees."""
        parts = [task.train, task.val, task.asked]
        alone = [self.rows(*task.seen(task.train))] if task.inductive else []
        together = parts[len(alone) :]
        rows = self.rows(task.graph, np.concatenate(together))
        return [*alone, *np.split(rows, np.cumsum([part.size for part in together[:-1]]))]

    def _proba(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return np.concatenate([self._proba_of_rows(rows) for rows in self.rows_in_steps(graph, nodes)])

    @torch.no_grad()
    def _proba_of_rows(self, rows: FloatArray) -> FloatArray:
        device = next(self.networks_.parameters()).device
        logits = self.networks_(torch.from_numpy(rows).to(device))[0]
        return np.asarray(self._classes.proba(logits).cpu().numpy())

    def _make_network(self, inputs: int, outputs: int, draw: torch.Generator | None = None) -> Heads:
        return Heads(1, inputs, outputs, self.hidden, self.layers, self.dropout, self.bias, draw=draw)


def column_norms(rows: FloatArray) -> DoubleArray:
    """The L1 norm of each column."""
    parts = range(0, rows.shape[0], exact.ROWS_AT_ONCE)
    norms = [np.abs(rows[i : i + exact.ROWS_AT_ONCE]).sum(0, dtype=np.float64) for i in parts]
    return np.asarray(np.sum(norms, axis=0))
