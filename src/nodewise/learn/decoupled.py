"""What every decoupled classifier shares: rows for the nodes asked about, and a head that learns on them.

A method says how a node's row is made (``_represent``); checking, training, scoring and saving live here.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from nodewise._typing import AnyArray, FloatArray, IntArray
from nodewise.checks import UNKNOWN, checked_nodes
from nodewise.errors import InputError, NodewiseWarning, StoreError
from nodewise.features import check_norm, normalize
from nodewise.graph import Graph
from nodewise.learn import bundle
from nodewise.learn.head import Head
from nodewise.learn.metrics import micro_f1
from nodewise.learn.rows import new_rows
from nodewise.learn.trainer import Recipe, choose_device, train
from nodewise.memory import memory_budget
from nodewise.parallel import thread_count

PREDICT_BYTES = 1 << 28  # representations held at a time while predicting
HEADS_APART = 1_000_003  # between the seeds of a model's heads, so that models of nearby seeds share none


RowMaker: TypeAlias = Callable[[Any, Graph, IntArray], FloatArray]


class DecoupledClassifier(BaseEstimator):  # type: ignore[misc]
    """Base of the classifiers; see :class:`nodewise.NIGCN` for what the parameters mean."""

    hidden: int
    layers: int
    bias: bool
    heads: int
    dropout: float
    lr: float
    weight_decay: float
    epochs: int
    patience: int
    batch_size: int | None
    feature_norm: str
    row_norm: str
    device: str
    seed: int
    threads: int | None
    memory: int | str | None

    # ------------------------------------------------------------------ what a method says of itself

    def _represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        """A row for each of ``nodes``, from features brought to ``feature_norm``."""
        raise NotImplementedError

    def _prepare(self, graph: Graph, nodes: IntArray) -> None:
        """Called once in ``fit``, with all nodes that it will ask about."""

    def _group_size(self, graph: Graph) -> int:
        """How many nodes :meth:`_represent` can take at a time."""
        return graph.num_nodes

    def _column_blocks(self, graph: Graph, nodes: IntArray | None, memory: int) -> list[slice] | None:
        """Where rows of ``nodes`` (or all) are best made together, a block of columns after the other: these blocks."""
        return None

    def _represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        """The columns ``block`` of all rows, where :meth:`_column_blocks` names them."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the estimator

    def fit(
        self,
        graph: Graph,
        train: AnyArray,
        val: AnyArray | None = None,
        *,
        inductive: bool = False,
        part: AnyArray | None = None,
    ) -> Self:
        """Learn from the labels of ``train``; stop when ``val`` gets no better (without ``val``, after ``epochs``).

        ``inductive``: training rows see only the subgraph that ``part`` induces (by default the graph's official
        training part where ``train`` lies in it, or else ``train`` itself).
        """
        nodes = [checked_nodes(train, graph.num_nodes, "train")]
        if val is not None:
            nodes.append(checked_nodes(val, graph.num_nodes, "val"))
        self._check_fit(graph, *nodes)
        rows = self.represent_parts(graph, nodes, inductive=inductive, part=part)
        return self.fit_rows(graph, nodes, rows)

    def represent(self, graph: Graph, nodes: AnyArray | None = None) -> FloatArray:
        """The rows that the head sees, for ``nodes`` or for all."""
        nodes = nodes_or_all(graph, nodes)
        _check_features(graph)
        return self._rows(graph, nodes)

    def predict_proba(self, graph: Graph, nodes: AnyArray | None = None) -> FloatArray:
        """Probabilities ``(len(nodes), len(classes_))``, columns as in ``classes_``."""
        self._check_fitted()
        nodes = nodes_or_all(graph, nodes)
        if graph.num_features != self.n_features_in_:
            raise InputError(
                f"{graph.name} has {graph.num_features:,} features; this model was trained on {self.n_features_in_:,}"
            )
        _check_features(graph)
        proba = [self.proba_of_rows(rows) for rows in self._rows_in_steps(graph, nodes)]
        return np.concatenate(proba) if proba else np.zeros((0, self.classes_.size), np.float32)

    def predict(self, graph: Graph, nodes: AnyArray | None = None) -> AnyArray:
        """Labels of ``nodes`` (or of all): one a node, or a 0/1 matrix where training labels were one."""
        return self.labels_of_proba(self.predict_proba(graph, nodes))

    def score(self, graph: Graph, nodes: AnyArray) -> float:
        """Micro-F1 on ``nodes``, whose labels the graph must know."""
        self._check_fitted()
        nodes = checked_nodes(nodes, graph.num_nodes, "nodes")
        if nodes.size == 0:
            raise InputError("nodes: none to score; expected at least one with a known label")
        return micro_f1(known_labels(graph, nodes, "nodes"), self.predict(graph, nodes))

    # ------------------------------------------------------------------ its steps, for those who hold the rows

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
        if part is not None and not inductive:
            raise InputError("part: only inductive training has one; pass inductive=True too, or leave it out")
        started = time.perf_counter()
        _check_features(graph)
        everything = np.concatenate(parts)
        self._prepare(graph, everything)
        if inductive:
            rows = [self._inductive_rows(graph, parts[0], part), make(self, graph, everything[parts[0].size :])]
        else:
            rows = [make(self, graph, everything)]
        self.seconds_ = {"diffusion": time.perf_counter() - started}
        cuts = np.cumsum([p.size for p in parts])[:-1]
        return np.split(rows[0] if len(rows) == 1 else np.concatenate(rows), cuts)

    def blocks(
        self, graph: Graph, nodes: AnyArray | None = None, memory: int | str | None = None
    ) -> list[slice] | None:
        """None where rows can be made for any few nodes; else the blocks of columns in which rows of all are made."""
        _check_features(graph)
        budget = memory_budget(self.memory if memory is None else memory)
        nodes = None if nodes is None else checked_nodes(nodes, graph.num_nodes, "nodes")
        return self._column_blocks(graph, nodes, budget)

    def represent_block(self, graph: Graph, nodes: AnyArray | None, block: slice) -> FloatArray:
        """The columns ``block`` of the rows of ``nodes``; :meth:`finish_rows` makes whole rows what the head sees."""
        return self._represent_block(graph, nodes_or_all(graph, nodes), block)

    def finish_rows(self, rows: FloatArray) -> FloatArray:
        """Rows put together from blocks, brought to ``row_norm``."""
        return normalize(rows, self.row_norm)

    def fit_rows(self, graph: Graph, nodes: list[IntArray], rows: list[FloatArray]) -> Self:
        """Train the head on rows that :meth:`represent_parts` made, for training and perhaps validation nodes."""
        started = time.perf_counter()
        self._learn_classes(graph, nodes[0])
        self.n_features_in_ = graph.num_features
        device = choose_device(self.device)
        pairs = [
            (torch.from_numpy(r).to(device), self._encoded(known_labels(graph, n, what)).to(device))
            for n, r, what in zip(nodes[:2], rows[:2], ("train", "val"), strict=False)
        ]
        val = pairs[1] if len(pairs) > 1 else None
        trained = [
            train(lambda: self._make_head(rows[0].shape[1]), pairs[0], val, self._recipe(head))
            for head in range(self.heads)
        ]
        self.networks_ = torch.nn.ModuleList([network for network, _ in trained])
        self.row_width_ = rows[0].shape[1]
        self.epochs_ = sum(epochs for _, epochs in trained)
        self.val_f1_ = None
        if val is not None:
            predicted = self.labels_of_proba(self.proba_of_rows(rows[1]))
            self.val_f1_ = micro_f1(known_labels(graph, nodes[1], "val"), predicted)
        self.seconds_["training"] = time.perf_counter() - started
        return self

    def proba_of_rows(self, rows: FloatArray) -> FloatArray:
        """Probabilities for rows already made."""
        device = next(self.networks_.parameters()).device
        squash = torch.sigmoid if self.multilabel_ else partial(torch.softmax, dim=1)
        with torch.no_grad():
            there = torch.from_numpy(rows).to(device)
            proba = torch.stack([squash(network(there)) for network in self.networks_]).mean(0)
        return np.asarray(proba.cpu().numpy())

    def labels_of_proba(self, proba: FloatArray) -> AnyArray:
        """The labels that probabilities stand for."""
        if self.multilabel_:
            return (proba > 0.5).astype(np.int8)
        return np.asarray(self.classes_[proba.argmax(1)])

    # ------------------------------------------------------------------ saved form

    def save(self, path: str | Path) -> None:
        """Write the model to a folder: ``config.json`` and ``model.safetensors``. A model already there is replaced."""
        self._check_fitted()
        fitted = {
            "classes": self.classes_.tolist(),
            "label_names": self.label_names_,
            "multilabel": self.multilabel_,
            "n_features_in": self.n_features_in_,
            "row_width": self.row_width_,
            "epochs": self.epochs_,
            "val_f1": self.val_f1_,
            **self._fitted_extras(),
        }
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.networks_.state_dict().items()}
        bundle.save(Path(path), type(self).__name__, self.get_params(), fitted, tensors)

    @classmethod
    def load(cls, path: str | Path, device: str | None = None) -> Self:
        """A model that :meth:`save` wrote; ``device`` if it is to run on another one than it was trained on."""
        params, fitted, tensors = bundle.load(Path(path), cls.__name__)
        try:
            model = cls(**(params if device is None else {**params, "device": device}))
            model.classes_ = np.asarray(fitted["classes"], np.int64)
            model.label_names_, model.multilabel_ = fitted["label_names"], bool(fitted["multilabel"])
            model.n_features_in_ = int(fitted["n_features_in"])
            model.epochs_, model.val_f1_ = fitted["epochs"], fitted["val_f1"]
            model._restore_extras(fitted)
            model.row_width_ = int(fitted["row_width"])
            model.networks_ = torch.nn.ModuleList(model._make_head(model.row_width_) for _ in range(model.heads))
            model.networks_.load_state_dict(tensors)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StoreError(
                f"{path}: the parts of this model do not fit together ({error}); train it again or restore the folder"
            ) from error
        model.networks_.to(choose_device(model.device)).eval()
        return model

    def _fitted_extras(self) -> dict[str, Any]:
        """What a method learned in ``_prepare`` and needs again."""
        return {}

    def _restore_extras(self, fitted: dict[str, Any]) -> None:
        """Take back what :meth:`_fitted_extras` gave."""

    # ------------------------------------------------------------------ inside

    def _rows(self, graph: Graph, nodes: IntArray) -> FloatArray:
        """Finished rows: in memory, or in a temporary file where there are too many for that."""
        nodes = nodes.astype(np.int64)
        memory = memory_budget(self.memory)
        rows = new_rows(nodes.size, graph.num_features, memory // 2)
        blocks = self._column_blocks(graph, nodes, memory)
        if blocks is None:
            step = max(1, self._group_size(graph))
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
        step = max(1, PREDICT_BYTES // (4 * max(1, graph.num_features)))
        whole = None if self.blocks(graph, nodes) is None else self._rows(graph, nodes)
        for first in range(0, nodes.size, step):
            part = slice(first, first + step)
            yield self._rows(graph, nodes[part]) if whole is None else whole[part]

    def _inductive_rows(self, graph: Graph, train: IntArray, part: AnyArray | None) -> FloatArray:
        if part is None:
            official = graph.splits.get("train", train)
            part = official if np.isin(train, official).all() else train
        inside = np.unique(checked_nodes(part, graph.num_nodes, "part"))
        if inside.size == 0:
            raise InputError("part: no node; expected the nodes of the training part, the training nodes among them")
        position = np.searchsorted(inside, train)
        outside = (position == inside.size) | (inside[np.minimum(position, inside.size - 1)] != train)
        if outside.any():
            raise InputError(f"train: node {train[outside][0]:,} is not in the training part; expected every one there")
        return self._rows(graph.subgraph(inside), position)

    def _make_head(self, width: int) -> Head:
        outputs = self.classes_.size
        return Head(width, outputs, self.hidden, self.layers, self.dropout, self.bias)

    def _recipe(self, head: int) -> Recipe:
        seed, threads = self.seed + head * HEADS_APART, thread_count(self.threads)
        return Recipe(self.lr, self.weight_decay, self.epochs, self.patience, self.batch_size, seed, threads)

    def _learn_classes(self, graph: Graph, train: IntArray) -> None:
        labels = graph.labels
        if labels is None:
            raise InputError(f"{graph.name} has no labels to learn from")
        self.multilabel_ = graph.multilabel
        self.label_names_ = None if graph.label_names is None else list(graph.label_names)
        if self.multilabel_:
            self.classes_ = np.arange(labels.shape[1])
            seen = np.flatnonzero(labels[train].any(0))
        else:
            self.classes_ = graph.present_labels
            seen = np.unique(labels[train])
        missing = np.setdiff1d(self.classes_, seen)
        if missing.size:
            named = ", ".join(str(self._label_name(c)) for c in missing[:5]) + (", …" if missing.size > 5 else "")
            warnings.warn(
                f"{missing.size} of {self.classes_.size} classes have no training node and will not be predicted "
                f"reliably: {named}",
                NodewiseWarning,
                stacklevel=4,
            )

    def _label_name(self, label: int) -> str | int:
        return self.label_names_[label] if self.label_names_ is not None else int(label)

    def _encoded(self, labels: AnyArray) -> torch.Tensor:
        if self.multilabel_:
            return torch.from_numpy(labels.astype(np.float32))
        return torch.from_numpy(np.searchsorted(self.classes_, labels).astype(np.int64))

    def _check_fit(self, graph: Graph, train: IntArray, val: IntArray | None = None) -> None:
        if train.size == 0:
            raise InputError("train: no training node; expected at least one with a known label")
        known_labels(graph, train, "train")
        if val is not None:
            if val.size == 0:
                raise InputError("val: no validation node; leave val out to train without")
            known_labels(graph, val, "val")
            both = np.intersect1d(train, val)
            if both.size:
                raise InputError(
                    f"val: node {both[0]:,} is in train too; a node used to learn cannot tell when to stop"
                )
        _check_numbers(self)

    def _check_fitted(self) -> None:
        if not hasattr(self, "networks_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")


def _check_features(graph: Graph) -> None:
    if graph.features is None:
        raise InputError(
            f"{graph.name} has no features to diffuse. Give it some, or let each node be its own feature: "
            f"graph.replace(features=scipy.sparse.identity(graph.num_nodes, format='csr'))"
        )


def known_labels(graph: Graph, nodes: IntArray, what: str) -> AnyArray:
    """The labels of ``nodes``, all of which must be known."""
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels; {what} needs them")
    labels: AnyArray = graph.labels[nodes]
    if labels.ndim == 1 and (unknown := np.flatnonzero(labels == UNKNOWN)).size:
        raise InputError(f"{what}: the label of node {nodes[unknown[0]]:,} is not known; expected labelled nodes")
    return labels


def nodes_or_all(graph: Graph, nodes: AnyArray | None) -> IntArray:
    return np.arange(graph.num_nodes) if nodes is None else checked_nodes(nodes, graph.num_nodes, "nodes")


def _check_numbers(model: DecoupledClassifier) -> None:
    """The head's parameters, checked where they are used first."""
    for name in ("hidden", "layers", "heads", "epochs", "patience", "batch_size"):
        value = getattr(model, name)
        if name == "batch_size" and value is None:
            continue
        if not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name}={value!r}: expected a whole number of at least 1")
    for name in ("feature_norm", "row_norm"):
        check_norm(getattr(model, name))
    choose_device(model.device)
    if not 0 <= model.dropout < 1:
        raise InputError(f"dropout={model.dropout}: expected a number of at least 0 and below 1")
    if not model.lr > 0:
        raise InputError(f"lr={model.lr}: expected a number above 0")
    if not model.weight_decay >= 0:
        raise InputError(f"weight_decay={model.weight_decay}: expected a number of at least 0")
