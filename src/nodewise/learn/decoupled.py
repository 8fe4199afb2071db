"""What every decoupled classifier shares: rows for the nodes asked about, and a head that learns on them.

A method says how a node's row is made (``_represent``); training on rows and predicting from them live here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import torch

from nodewise._typing import AnyArray, FloatArray, IntArray
from nodewise.checks import checked_nodes
from nodewise.errors import warn
from nodewise.features import check_norm, normalize
from nodewise.graph import Graph
from nodewise.learn.classifier import (
    NodeClassifier,
    check_features,
    check_whole,
    known_labels,
    nodes_or_all,
    training_subgraph,
)
from nodewise.learn.halves import CrossedHalves
from nodewise.learn.head import Head
from nodewise.learn.metrics import micro_f1
from nodewise.learn.rows import new_rows
from nodewise.learn.stages import Free
from nodewise.learn.trainer import ExtraLoss, Recipe, Rows, choose_device, train_by
from nodewise.learn.trainer import train as train_head
from nodewise.memory import memory_budget

PREDICT_BYTES = 1 << 28  # representations held at a time while predicting
HEADS_APART = 1_000_003  # between the seeds of a model's heads, so that models of nearby seeds share none


RowMaker: TypeAlias = Callable[[Any, Graph, IntArray], FloatArray]


@dataclass(eq=False, repr=False, kw_only=True)
class DecoupledClassifier(NodeClassifier):
    """Base of the classifiers that make rows first; see :class:`nodewise.NIGCN` for what the parameters mean."""

    bias: bool = True
    heads: int = 1
    row_norm: str = "none"
    device: str = "auto"
    memory: int | str | None = None

    # ------------------------------------------------------------------ what a method says of itself

    def _represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        """A row for each of ``nodes``, from features brought to ``feature_norm``."""
        raise NotImplementedError

    def _settle(self, graph: Graph, nodes: list[IntArray], inductive: bool, part: AnyArray | None) -> None:
        """Called first in ``fit``, with the nodes to learn from (training, perhaps validation): find what is open."""

    def _unlabelled(self, graph: Graph, nodes: list[IntArray], inductive: bool, part: AnyArray | None) -> IntArray:
        """Nodes whose labels are not known and that learning asks about too."""
        return np.zeros(0, np.int64)

    def _draws(self, graph: Graph, nodes: IntArray) -> list[FloatArray]:
        """Other rows of the same nodes, the training nodes first, for learning to agree on."""
        return []

    def _take_rows(self, rows: list[FloatArray]) -> None:
        """Called first where rows were made elsewhere."""

    def _choose_network(self, train: Rows, val: Rows | None) -> None:
        """Called before training, with the rows and labels to learn from: choose what of the network is open."""

    def _teach(self, train: Rows, val: Rows | None, free: Free) -> None:
        """Make the networks learn; sets ``networks_`` and ``epochs_``."""
        self.networks_, self.epochs_ = self._trained_heads(train, [val])

    def _look_back(
        self, graph: Graph, nodes: list[IntArray], unlabelled: IntArray, asked: IntArray, rows: list[FloatArray]
    ) -> FloatArray:
        """Called last in ``fit``, with the nodes and their rows: of training and unlabelled nodes, perhaps of
        validation nodes, of ``asked``. Answers with these last, perhaps with more columns."""
        return rows[-1]

    def _prepare(self, graph: Graph, nodes: IntArray) -> None:
        """Called once in ``fit``, with all nodes that it will ask about."""

    def width(self, graph: Graph) -> int:
        """Columns of a row."""
        return graph.num_features

    def _group_size(self, graph: Graph, nodes: IntArray) -> int:
        """How many of ``nodes`` :meth:`_represent` can take at a time."""
        return graph.num_nodes

    def _column_blocks(self, graph: Graph, nodes: IntArray | None, memory: int) -> list[slice] | None:
        """Where rows of ``nodes`` (or all) are best made together, a block of columns after the other: these blocks."""
        return None

    def _represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        """The columns ``block`` of the rows: one of those that :meth:`_column_blocks` names, or several in a row."""
        raise NotImplementedError

    # ------------------------------------------------------------------ rows, for those who want to hold them

    def represent(self, graph: Graph, nodes: AnyArray | None = None) -> FloatArray:
        """The rows that the head sees, for ``nodes`` or for all."""
        nodes = nodes_or_all(graph, nodes)
        check_features(graph)
        return self._rows(graph, nodes)

    def represent_parts(
        self,
        graph: Graph,
        parts: list[IntArray],
        *,
        inductive: bool = False,
        part: AnyArray | None = None,
        make_rows: RowMaker | None = None,
    ) -> list[FloatArray]:
        """Rows for several lists of nodes, the first being the training nodes.

        ``make_rows(model, graph, nodes)`` makes them elsewhere, say on a cluster; by default they are made here.
        """
        make = make_rows or type(self)._rows
        started = time.perf_counter()
        check_features(graph)
        self._prepare(graph, np.concatenate(parts))
        alone = [self._rows(*training_subgraph(graph, parts[0], part))] if inductive else []
        together = parts[len(alone) :]
        rows = make(self, graph, np.concatenate([np.zeros(0, np.int64), *together]))
        self.seconds_ = {"preparation": time.perf_counter() - started}
        ends = np.cumsum([0, *(p.size for p in together)])
        return [*alone, *(rows[first:last] for first, last in pairwise(ends))]

    def blocks(
        self, graph: Graph, nodes: AnyArray | None = None, memory: int | str | None = None
    ) -> list[slice] | None:
        """None where rows can be made for any few nodes; else the blocks of columns in which rows of all are made."""
        check_features(graph)
        budget = memory_budget(self.memory if memory is None else memory)
        nodes = None if nodes is None else checked_nodes(nodes, graph.num_nodes, "nodes")
        return self._column_blocks(graph, nodes, budget)

    def represent_block(self, graph: Graph, nodes: AnyArray | None, block: slice) -> FloatArray:
        """The columns ``block`` of the rows of ``nodes``; :meth:`finish_rows` makes whole rows what the head sees."""
        return self._represent_block(graph, nodes_or_all(graph, nodes), block)

    def finish_rows(self, rows: FloatArray) -> FloatArray:
        """Rows put together from blocks, as the head sees them: brought to ``row_norm``."""
        return normalize(rows, self.row_norm)

    def fit_rows(self, graph: Graph, nodes: list[IntArray], rows: list[FloatArray]) -> Self:
        """Train the head on rows that :meth:`represent_parts` made, for training and perhaps validation nodes."""
        self._take_rows(rows)
        self._learn_classes(graph, nodes)
        self._fit_rows(graph, nodes, rows, rows[0][:0], [])
        self._check_bounds()
        return self

    def _fit_rows(
        self,
        graph: Graph,
        nodes: list[IntArray],
        rows: list[FloatArray],
        unlabelled: FloatArray,
        draws: list[FloatArray],
    ) -> None:
        started = time.perf_counter()
        train, val = self._labelled(graph, nodes, rows)
        self._choose_network(train, val)
        device = train[0].device
        free = Free(torch.from_numpy(unlabelled).to(device), [torch.from_numpy(draw).to(device) for draw in draws])
        self._teach(train, val, free)
        self.val_f1_ = None
        if val is not None:
            predicted = self.labels_of_proba(self.proba_of_rows(rows[1]))
            self.val_f1_ = micro_f1(known_labels(graph, nodes[1], "val"), predicted)
        self.seconds_ = {**getattr(self, "seconds_", {}), "training": time.perf_counter() - started}

    def judge_rows(
        self,
        graph: Graph,
        nodes: list[IntArray],
        rows: list[FloatArray],
        tell: Callable[[int, float], None] = lambda epoch, value: None,
    ) -> float:
        """What a head makes of validation rows, each half judged where the other stopped it (:class:`CrossedHalves`).

        ``nodes`` and ``rows`` as for :meth:`fit_rows`, training and validation; the head is not kept.
        """
        self._take_rows(rows)
        self._learn_classes(graph, nodes)
        train, val = self._labelled(graph, nodes, rows)
        assert val is not None
        self._choose_network(train, val)
        return self._judged(train, val, self._recipe(self.seed), tell)

    def _judged(
        self, train: Rows, val: Rows, recipe: Recipe, tell: Callable[[int, float], None] = lambda epoch, value: None
    ) -> float:
        judge = CrossedHalves(val, recipe, tell)
        train_by(self._make_head, train, judge.score, recipe)
        return judge.value

    def _labelled(self, graph: Graph, nodes: list[IntArray], rows: list[FloatArray]) -> tuple[Rows, Rows | None]:
        """Training and perhaps validation rows with their labels, on the device that learns."""
        self.row_width_ = rows[0].shape[1]
        device = choose_device(self.device)
        pairs = [
            (torch.from_numpy(r).to(device), self._encoded(known_labels(graph, n, what)).to(device))
            for n, r, what in zip(nodes[:2], rows[:2], ("train", "val"), strict=False)
        ]
        return pairs[0], pairs[1] if len(pairs) > 1 else None

    def _trained_heads(
        self,
        rows: Rows,
        vals: Sequence[Rows | None],
        extra: Sequence[Callable[[int], ExtraLoss]] = (),
        count: int | None = None,
    ) -> tuple[torch.nn.ModuleList, int]:
        """``count`` of them, or so many as ``heads`` says, each from a start of its own, and the epochs that took.

        They are stopped by each of ``vals`` in turn. ``extra``: makers of losses to add, which take a seed.
        """
        seeds = [self.seed + head * HEADS_APART for head in range(count or self._count_of_heads(rows[0].shape[0]))]
        trained = [
            train_head(self._make_head, rows, val, self._recipe(seed), [make(seed) for make in extra])
            for seed, val in zip(seeds, cycle(vals), strict=False)
        ]
        return torch.nn.ModuleList([network for network, _ in trained]), sum(epochs for _, epochs in trained)

    def proba_of_rows(self, rows: FloatArray) -> FloatArray:
        """Probabilities for rows already made."""
        device = next(self.networks_.parameters()).device
        return np.asarray(self._joint_proba(self.networks_, torch.from_numpy(rows).to(device)).cpu().numpy())

    @torch.no_grad()
    def _joint_proba(self, networks: torch.nn.ModuleList, rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([self._squash(network(rows)) for network in networks]).mean(0)

    # ------------------------------------------------------------------ the estimator

    def _learn(
        self, graph: Graph, nodes: list[IntArray], asked: IntArray, inductive: bool, part: AnyArray | None, **how: Any
    ) -> FloatArray:
        self._learn_classes(graph, nodes)
        started = time.perf_counter()
        self._settle(graph, nodes, inductive, part)
        free = self._unlabelled(graph, nodes, inductive, part)
        learning = np.concatenate([nodes[0], free])
        draws = self._draws(*(training_subgraph(graph, learning, part) if inductive else (graph, learning)))
        settling = time.perf_counter() - started
        rows = self.represent_parts(graph, [learning, *nodes[1:], asked], inductive=inductive, part=part, **how)
        labelled, unlabelled = np.split(rows[0], [nodes[0].size])
        self._fit_rows(graph, nodes, [labelled, *rows[1:-1]], unlabelled, draws)
        self.seconds_["preparation"] += settling
        return self.proba_of_rows(self._look_back(graph, nodes, free, asked, rows))

    def _proba(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return np.concatenate([self.proba_of_rows(rows) for rows in self._rows_in_steps(graph, nodes)])

    def _count_of_heads(self, rows: int) -> int:
        """How many learn from so many training rows."""
        return self.heads

    def _make_head(self) -> torch.nn.Module:
        return Head(self.row_width_, self.classes_.size, self.hidden, self.layers, self.dropout, self.bias)

    def _make_networks(self) -> torch.nn.ModuleList:
        return torch.nn.ModuleList(self._make_head() for _ in range(self.count_)).to(choose_device(self.device))

    @classmethod
    def load(cls, path: str | Path, device: str | None = None) -> Self:
        """A model that :meth:`save` wrote; ``device`` if it is to run on another one than it was trained on."""
        if device is not None:
            choose_device(device)
        return cls._loaded(path, **({} if device is None else {"device": device}))

    def _fitted_extras(self) -> dict[str, Any]:
        return {"row_width": self.row_width_, "networks": len(self.networks_)}

    def _restore_extras(self, fitted: dict[str, Any]) -> None:
        if self.device == "cuda" and not torch.cuda.is_available():
            warn("this model was trained with device='cuda', and this machine has no CUDA: it runs on the CPU here")
            self.device = "cpu"
        self.row_width_, self.count_ = int(fitted["row_width"]), int(fitted["networks"])

    def check_params(self) -> None:
        super().check_params()
        if self.heads is not None:
            check_whole("heads", self.heads)
        check_norm(self.row_norm, "row_norm")
        choose_device(self.device)

    # ------------------------------------------------------------------ inside

    def _rows(self, graph: Graph, nodes: IntArray) -> FloatArray:
        """Finished rows: in memory, or in a temporary file where there are too many for that."""
        nodes = nodes.astype(np.int64)
        memory = memory_budget(self.memory)
        rows = new_rows(nodes.size, self.width(graph), memory // 2)
        blocks = self._column_blocks(graph, nodes, memory)
        small = rows.nbytes <= memory // 4  # enough to make all at once: the engine cuts columns up as it likes
        if blocks is None or small:
            step = max(1, self._group_size(graph, nodes) if blocks is None else nodes.size)
            for first in range(0, nodes.size, step):
                part = slice(first, first + step)
                rows[part] = self.finish_rows(self._represent(graph, nodes[part]))
            return rows
        for block in blocks:
            rows[:, block] = self._represent_block(graph, nodes, block)
        step = max(1, PREDICT_BYTES // (4 * max(1, rows.shape[1])))
        for first in range(0, nodes.size, step):
            rows[first : first + step] = self.finish_rows(rows[first : first + step])
        return rows

    def _rows_in_steps(self, graph: Graph, nodes: IntArray) -> Iterator[FloatArray]:
        """Finished rows, a part at a time; all are made first where they are made together."""
        step = max(1, PREDICT_BYTES // (4 * max(1, self.width(graph))))
        whole = None if self.blocks(graph, nodes) is None else self._rows(graph, nodes)
        for first in range(0, nodes.size, step):
            part = slice(first, first + step)
            yield self._rows(graph, nodes[part]) if whole is None else whole[part]
