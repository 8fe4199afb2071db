"""The estimator that every method is: what is checked, how labels are learned from, scores, the saved form.

A method says how it learns (``_learn``) and what it makes of nodes (``_proba``); all else is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from nodewise._typing import AnyArray, FloatArray, IntArray
from nodewise.checks import UNKNOWN, check_number, checked_nodes, checked_seed
from nodewise.errors import InputError, StoreError, warn
from nodewise.features import check_norm
from nodewise.graph import Graph
from nodewise.learn import bundle
from nodewise.learn.metrics import micro_f1
from nodewise.learn.trainer import Recipe
from nodewise.parallel import thread_count

OUT_OF_BOUNDS = 1e9  # no weight that was learned is so large, and what is not a number is not below it
AUTO = "auto"  # a parameter that is found in ``fit``


@dataclass(eq=False, repr=False, kw_only=True)
class NodeClassifier(BaseEstimator):  # type: ignore[misc]
    """Base of all classifiers. Its parameters are those of every network and its training.

    ``batch_size=None``: all training nodes at once, or as many as the method finds sensible. ``feature_norm`` ("none",
    "l1", "l2") scales each node's features first. After ``fit``: ``classes_``, ``val_f1_``, ``epochs_``, and
    ``seconds_`` with what went into ``preparation`` and ``training``.
    """

    OPEN: ClassVar[tuple[str, ...]] = ()  # the parameters that may be "auto"

    hidden: int = 64
    layers: int = 2
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 5e-3
    epochs: int = 1000
    patience: int = 60
    batch_size: int | None = None
    feature_norm: str = "none"
    seed: int = 0
    threads: int | None = None

    # ------------------------------------------------------------------ what a method says of itself

    def _learn(
        self, graph: Graph, nodes: list[IntArray], asked: IntArray, inductive: bool, part: AnyArray | None, **how: Any
    ) -> FloatArray:
        """Learn from ``nodes`` (training, perhaps validation) and answer with the probabilities of ``asked``.

        Sets ``networks_``, ``epochs_``, ``val_f1_`` and ``seconds_``.
        """
        raise NotImplementedError

    def _proba(self, graph: Graph, nodes: IntArray) -> FloatArray:
        """Probabilities for any nodes, by the fitted networks."""
        raise NotImplementedError

    def _make_networks(self) -> torch.nn.ModuleList:
        """The networks, untrained, from parameters and fitted numbers alone: a saved model is built by this."""
        raise NotImplementedError

    def _fitted_extras(self) -> dict[str, Any]:
        """What else a method fitted and needs again."""
        return {}

    def _restore_extras(self, fitted: dict[str, Any]) -> None:
        """Take back what :meth:`_fitted_extras` gave."""

    def _fitted_arrays(self) -> dict[str, torch.Tensor]:
        """As :meth:`_fitted_extras`, what is large."""
        return {}

    def _restore_arrays(self, arrays: dict[str, torch.Tensor]) -> None:
        """Take back what :meth:`_fitted_arrays` gave, from among all arrays of a saved model."""

    def check_params(self) -> None:
        """Raise at the first parameter that cannot be; a method adds its own."""
        for name in ("hidden", "layers", "epochs", "patience", "batch_size"):
            if not self._is_open(name) and (name != "batch_size" or self.batch_size is not None):
                check_whole(name, getattr(self, name))
        check_norm(self.feature_norm, "feature_norm")
        checked_seed(self.seed)
        check_number("dropout", self.dropout, "a number of at least 0 and below 1", 0, 1)
        check_number("lr", self.lr, "a number above 0", 0, strictly=True)
        if not self._is_open("weight_decay"):
            check_number("weight_decay", self.weight_decay, "a number of at least 0", 0)

    @property
    def found(self) -> dict[str, Any]:
        """What ``fit`` found for the parameters that are ``"auto"``."""
        return {}

    def _is_open(self, name: str) -> bool:
        return name in self.OPEN and getattr(self, name) == AUTO

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

        ``inductive``: training sees only the subgraph that ``part`` induces (by default the graph's official training
        part where ``train`` lies in it, or else ``train`` itself).
        """
        self.fit_predict_proba(graph, train, val, np.zeros(0, np.int64), inductive=inductive, part=part)
        return self

    def fit_predict_proba(
        self,
        graph: Graph,
        train: AnyArray,
        val: AnyArray | None,
        nodes: AnyArray,
        *,
        inductive: bool = False,
        part: AnyArray | None = None,
        **how: Any,
    ) -> FloatArray:
        """:meth:`fit`, then the probabilities of ``nodes``, prepared together with the others where that is cheaper.

        ``how``: what a method's own way of learning takes besides, as ``make_rows`` of decoupled ones.
        """
        self.check_params()
        learned = check_learned(graph, train, val)
        if part is not None and not inductive:
            raise InputError("part: only inductive training has one; pass inductive=True too, or leave it out")
        asked = checked_nodes(nodes, graph.num_nodes, "nodes")
        check_features(graph)
        proba = self._learn(graph, learned, asked, inductive, part, **how)
        self._check_bounds()
        return proba

    def predict_proba(self, graph: Graph, nodes: AnyArray | None = None) -> FloatArray:
        """Probabilities ``(len(nodes), len(classes_))``, columns as in ``classes_``."""
        self._check_fitted()
        check_graph(graph)
        nodes = nodes_or_all(graph, nodes)
        if graph.num_features != self.n_features_in_:
            raise InputError(
                f"{graph.name} has {graph.num_features:,} features; this model was trained on {self.n_features_in_:,}"
            )
        check_features(graph)
        if nodes.size == 0:
            return np.zeros((0, self.classes_.size), np.float32)
        return self._proba(graph, nodes)

    def predict(self, graph: Graph, nodes: AnyArray | None = None) -> AnyArray:
        """Labels of ``nodes`` (or of all): one a node, or a 0/1 matrix where training labels were one."""
        return self.labels_of_proba(self.predict_proba(graph, nodes))

    def score(self, graph: Graph, nodes: AnyArray) -> float:
        """Micro-F1 on ``nodes``, whose labels the graph must know."""
        self._check_fitted()
        check_graph(graph)
        nodes = checked_nodes(nodes, graph.num_nodes, "nodes")
        if nodes.size == 0:
            raise InputError("nodes: none to score; expected at least one with a known label")
        return micro_f1(known_labels(graph, nodes, "nodes"), self.predict(graph, nodes))

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
            "epochs": self.epochs_,
            "val_f1": self.val_f1_,
            **self._fitted_extras(),
        }
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.networks_.state_dict().items()}
        arrays = self._fitted_arrays()
        bundle.save(Path(path), type(self).__name__, self.get_params(), fitted, {**tensors, **arrays})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A model that :meth:`save` wrote."""
        return cls._loaded(path)

    @classmethod
    def _loaded(cls, path: str | Path, **changed: Any) -> Self:
        params, fitted, tensors = bundle.load(Path(path), cls.__name__)
        try:
            model = cls(**{**params, **changed})
            model.classes_ = np.asarray(fitted["classes"], np.int64)
            model.label_names_, model.multilabel_ = fitted["label_names"], bool(fitted["multilabel"])
            model.n_features_in_ = int(fitted["n_features_in"])
            model.epochs_, model.val_f1_ = fitted["epochs"], fitted["val_f1"]
            model._restore_extras(fitted)
            model._restore_arrays(tensors)
            model.networks_ = model._make_networks()
            model.networks_.load_state_dict({name: tensors[name] for name in tensors.keys() - model._fitted_arrays()})
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StoreError(
                f"{path}: the parts of this model do not fit together ({error}); train it again or restore the folder"
            ) from error
        model.networks_.eval()
        return model

    # ------------------------------------------------------------------ inside, for the methods

    def _recipe(self, seed: int) -> Recipe:
        """How to train a network, from the parameters."""
        threads = thread_count(self.threads)
        return Recipe(self.lr, self.weight_decay, self.epochs, self.patience, self.batch_size, seed, threads)

    def _learn_classes(self, graph: Graph, nodes: list[IntArray]) -> None:
        """The classes are those of the nodes to learn from, training and perhaps validation; no other label is read."""
        labels = graph.labels
        if labels is None:
            raise InputError(f"{graph.name} has no labels to learn from")
        self.n_features_in_ = graph.num_features
        self.multilabel_ = graph.multilabel
        self.label_names_ = None if graph.label_names is None else list(graph.label_names)
        if self.multilabel_:
            self.classes_ = np.arange(labels.shape[1])
            seen = np.flatnonzero(labels[nodes[0]].any(0))
        else:
            self.classes_ = np.unique(np.concatenate([labels[n] for n in nodes[:2]])).astype(np.int64)
            seen = np.unique(labels[nodes[0]])
        if self.classes_.size == 1:
            only = self._label_name(int(self.classes_[0]))
            warn(f"every label to learn from is {only}, so every node will get it; check the labels and the split")
        missing = np.setdiff1d(self.classes_, seen)
        if missing.size:
            named = ", ".join(str(self._label_name(c)) for c in missing[:5]) + (", …" if missing.size > 5 else "")
            warn(
                f"{missing.size} of {self.classes_.size} classes have no training node and will not be predicted "
                f"reliably: {named}"
            )

    def _label_name(self, label: int) -> str | int:
        return self.label_names_[label] if self.label_names_ is not None else int(label)

    def _encoded(self, labels: AnyArray) -> torch.Tensor:
        """Labels as the loss takes them: class numbers, or a 0/1 matrix."""
        if self.multilabel_:
            return torch.from_numpy(labels.astype(np.float32))
        return torch.from_numpy(np.searchsorted(self.classes_, labels).astype(np.int64))

    def _squash(self, out: torch.Tensor) -> torch.Tensor:
        """What a network says, as probabilities."""
        return torch.sigmoid(out) if self.multilabel_ else torch.softmax(out, dim=1)

    def _check_bounds(self) -> None:
        if not all(bool((weight.abs() < OUT_OF_BOUNDS).all()) for weight in self.networks_.parameters()):
            del self.networks_
            raise InputError(f"lr={self.lr}: training left all bounds, weights are beyond numbers; take a lower one")

    def _check_fitted(self) -> None:
        if not hasattr(self, "networks_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")


def check_learned(graph: Graph, train: AnyArray, val: AnyArray | None = None) -> list[IntArray]:
    """The nodes to learn from, training and perhaps validation, checked."""
    check_graph(graph)
    learned = [checked_nodes(train, graph.num_nodes, "train")]
    if learned[0].size == 0:
        raise InputError("train: no training node; expected at least one with a known label")
    known_labels(graph, learned[0], "train")
    if val is not None:
        learned.append(checked_nodes(val, graph.num_nodes, "val"))
        if learned[1].size == 0:
            raise InputError("val: no validation node; leave val out to train without")
        known_labels(graph, learned[1], "val")
        both = np.intersect1d(learned[0], learned[1])
        if both.size:
            raise InputError(f"val: node {both[0]:,} is in train too; a node used to learn cannot tell when to stop")
    return learned


def check_graph(graph: Any) -> None:
    if not isinstance(graph, Graph):
        raise InputError(
            f"graph: a {type(graph).__name__}; expected a nodewise.Graph, as Graph.from_edges(edge_index, "
            f"features=X, labels=y) makes, and then the training nodes"
        )


def training_part(graph: Graph, train: IntArray, part: AnyArray | None) -> IntArray:
    """The nodes that inductive training sees: ``part``, or the official ones, or the training nodes alone."""
    if part is None:
        official = graph.splits.get("train", train)
        part = official if np.isin(train, official).all() else train
    inside: IntArray = np.unique(checked_nodes(part, graph.num_nodes, "part"))
    if inside.size == 0:
        raise InputError("part: no node; expected the nodes of the training part, the training nodes among them")
    return inside


def training_subgraph(graph: Graph, train: IntArray, part: AnyArray | None) -> tuple[Graph, IntArray]:
    """What inductive training sees: the subgraph of the training part, and the training nodes in it."""
    inside = training_part(graph, train, part)
    position = np.searchsorted(inside, train)
    outside = (position == inside.size) | (inside[np.minimum(position, inside.size - 1)] != train)
    if outside.any():
        raise InputError(f"train: node {train[outside][0]:,} is not in the training part; expected every one there")
    return graph.subgraph(inside), position


def check_features(graph: Graph) -> None:
    if graph.features is None:
        raise InputError(
            f"{graph.name} has no features to diffuse. Give it some, or let each node be its own feature: "
            f"graph.replace(features=scipy.sparse.identity(graph.num_nodes, format='csr'))"
        )
    if graph.num_features == 0:
        raise InputError(f"{graph.name} has features of no columns; expected at least one")


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}={value!r}: expected a whole number of at least {least}")


def check_share(name: str, value: float) -> None:
    """Raise unless ``value`` is above 0 and at most 1."""
    if not 0 < value <= 1:
        raise InputError(f"{name}={value}: expected a number above 0 and at most 1")


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
