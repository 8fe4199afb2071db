"""NodeClassifier: fit, predict, score, save and load, in scikit-learn's manner, for every classifier of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from nodewise._util.errors import InputError, StoreError, warn
from nodewise._util.json_file import typed_fields
from nodewise._util.types import AnyArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.features import take_columns
from nodewise.learn import saved
from nodewise.learn.matching import NodeSet, check_nodes, column_order
from nodewise.learn.metrics import micro_f1
from nodewise.learn.task import (
    NO_NODES,
    Classes,
    LearnedFrom,
    Task,
    check_features,
    check_graph,
    known_labels,
    nodes_or_all,
    random_nodes,
    widened,
)
from nodewise.learn.trainer import choose_device

LEARNED_FROM = "learned_from"  # in a saved model


class NodeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all classifiers: a method learns from a task (``_fit``), and answers for any nodes (``_proba``).

    After ``fit``: ``classes_``, ``val_f1_`` (None without validation nodes), ``epochs_``, ``networks_``, ``seconds_``
    by stage, ``n_features_in_`` and, if the graph had ``feature_names``, ``feature_names_in_``. On another graph with
    names, columns are matched by name. ``learned_from_``: the graph and the nodes (None in models
    saved before it was kept).
    """

    seed: int
    threads: int | None
    networks_: torch.nn.Module
    nodes_in_: NodeSet | None
    _classes: Classes
    epochs_: int
    val_f1_: float | None
    seconds_: dict[str, float]
    learned_from_: LearnedFrom | None
    threshold_ = 0.5  # beyond which a node has a label, where it may have several

    # ------------------------------------------------------------------ what a method implements

    def check_params(self) -> None:
        """Raise an error for the first parameter that is wrong."""
        raise NotImplementedError

    def _fit(self, task: Task, **how: Any) -> FloatArray:
        """Learn, and return the probabilities of the nodes asked about; sets the attributes named above."""
        raise NotImplementedError

    def _proba(self, graph: Graph, nodes: IntArray) -> FloatArray:
        """Probabilities for any nodes, by the fitted networks."""
        raise NotImplementedError

    def _with_features(self, graph: Graph) -> Graph:
        """The graph as the method needs it; raises if it has no features."""
        check_features(graph)
        return graph

    def _reordered(self, graph: Graph, order: IntArray) -> Graph:
        """The graph with its features in the order of those learned from."""
        return graph.replace(features=take_columns(graph.features, order), feature_names=self._feature_names)

    def _fitted(self) -> dict[str, Any]:
        """The fitted values that are not tensors, ready for JSON."""
        return {}

    def _arrays(self) -> dict[str, torch.Tensor]:
        """Other large arrays of the fitted model."""
        return {}

    def _restore(self, fitted: dict[str, Any], tensors: dict[str, torch.Tensor]) -> torch.nn.Module:
        """The networks, untrained, after taking back what :meth:`_fitted` and :meth:`_arrays` gave.

        Nothing in a file can be trusted; ValueError if its parts disagree. ``tensors``: all of the file.
        """
        raise NotImplementedError

    @property
    def auto_params_(self) -> dict[str, Any]:
        """What ``fit`` found for the parameters that are ``"auto"``."""
        return {}

    # ------------------------------------------------------------------ the estimator

    def fit(self, graph: Graph, train: AnyArray, val: AnyArray | None = None, **how: Any) -> Self:
        """Learn from the labels of ``train``; stop when ``val`` gets no better (without ``val``, after ``epochs``).

        ``how``: as in :meth:`fit_predict_proba`.
        """
        self.fit_predict_proba(graph, train, val, np.zeros(0, np.int64), **how)
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

        ``inductive``: training sees only the subgraph that ``part`` induces (by default the graph's official training
        part where ``train`` lies in it, or else ``train`` itself).
        """
        self.check_params()
        check_graph(graph)
        graph = self._with_features(graph)
        task = Task.checked(graph, train, val, nodes, inductive, part)
        self.__dict__.pop("networks_", None)  # a fit that fails leaves no model
        self._keep_columns(graph.num_features, graph.feature_names)
        self.nodes_in_ = random_nodes(graph)
        self._classes = Classes.of(graph, task.train, task.val)
        tested = task.asked if how.get("refit_asked") else NO_NODES
        self.learned_from_ = LearnedFrom.of(graph, task.train, task.val, tested)
        return self._fit(task, **how)

    def predict_proba(self, graph: Graph, nodes: AnyArray | None = None) -> FloatArray:
        """Probabilities ``(len(nodes), len(classes_))``, columns as in ``classes_``."""
        self._check_fitted()
        check_graph(graph)
        graph = self._with_features(graph)
        nodes = nodes_or_all(graph, nodes)
        order = self._column_order(graph)
        if nodes.size == 0:
            return np.zeros((0, self.classes_.size), np.float32)
        return self._proba(graph if order is None else self._reordered(graph, order), nodes)

    def predict(self, graph: Graph, nodes: AnyArray | None = None) -> AnyArray:
        """Labels of ``nodes`` (or of all): names if labels have names, else numbers; a 0/1 matrix if training had one.

        Nodes are given as ids, by name, or as a mask, here and in all other methods.
        """
        proba = self.predict_proba(graph, nodes)
        return self.labels_of_proba(proba) if self.multilabel_ else self.classes_[proba.argmax(1)]

    def score(self, graph: Graph, nodes: AnyArray) -> float:
        """Micro-F1 on ``nodes``, whose labels the graph must know; labels with names are matched by name."""
        self._check_fitted()
        check_graph(graph)
        self._classes.check_kind(graph)
        nodes = graph.nodes(nodes)
        if nodes.size == 0:
            raise InputError("nodes: none to score; expected at least one with a known label")
        known_labels(graph, nodes, "nodes")
        truth, known, _ = self._classes.truth(graph, nodes)
        predicted = self.labels_of_proba(self.predict_proba(graph, nodes))
        return micro_f1(truth, widened(predicted, known.size))

    def labels_of_proba(self, proba: FloatArray) -> AnyArray:
        """Labels from probabilities, as the graph of training numbers them."""
        return self._classes.decoded(proba, self.threshold_)

    @property
    def classes_(self) -> AnyArray:
        """The labels learned from, in order: names if labels have names, or numbers."""
        self._check_fitted()
        return self._classes.labels

    @property
    def multilabel_(self) -> bool:
        return self._classes.multilabel

    def columns_of(self, graph: Graph, labels: IntArray) -> IntArray:
        """The columns of labels of any graph among ``classes_``, -1 for those that the model does not know."""
        return self._classes.columns_of(graph, labels)

    def _keep_columns(self, count: int, names: Sequence[str] | None) -> None:
        """Keep the number and the names of the features, as scikit-learn's estimators do."""
        self.n_features_in_ = count
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array([str(name) for name in names], object)

    @property
    def _feature_names(self) -> list[str] | None:
        return self.feature_names_in_.tolist() if hasattr(self, "feature_names_in_") else None

    def _column_order(self, graph: Graph) -> IntArray | None:
        """Where the columns learned from are in ``graph``, if in another order; raises if the graph does not fit."""
        if hasattr(self, "nodes_in_"):  # models that earlier versions saved do not know
            check_nodes(graph, random_nodes(graph), self.nodes_in_)
        return column_order(graph, self.n_features_in_, self._feature_names)

    # ------------------------------------------------------------------ saved form

    def save(self, path: str | Path) -> None:
        """Write the model to a folder: ``config.json`` and ``model.safetensors``. A model already there is replaced."""
        self._check_fitted()
        fitted = {
            "classes": self._classes.ids.tolist(),
            "label_names": self._classes.names,
            "multilabel": self._classes.multilabel,
            "n_features_in": self.n_features_in_,
            "feature_names_in": self._feature_names,
            "epochs": self.epochs_,
            "val_f1": self.val_f1_,
            **self._fitted(),
        }
        if hasattr(self, "nodes_in_"):
            fitted["nodes_in"] = self.nodes_in_ and self.nodes_in_._asdict()
        tensors = {f"{saved.NETWORKS}{name}": value for name, value in self.networks_.state_dict().items()}
        tensors |= self._arrays()
        kept = {} if self.learned_from_ is None else asdict(self.learned_from_)
        if kept:
            tensors[LEARNED_FROM] = torch.from_numpy(kept.pop("keys"))
            fitted[LEARNED_FROM] = kept
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        saved.save(Path(path), type(self).__name__, self.get_params(deep=False), fitted, plain)

    @classmethod
    def load(cls, path: str | Path, **changed: Any) -> Self:
        """A model that :meth:`save` wrote; ``changed``: parameters to change, as ``device="cpu"``."""
        if "device" in changed:
            choose_device(changed["device"])
        params, fitted, tensors = saved.load(Path(path), cls.__name__)
        try:
            model = cls(**typed_fields(cls, params, "params"))
            if getattr(model, "device", None) == "cuda" and not torch.cuda.is_available():
                model.device = "cpu"
                if "device" not in changed:
                    warn("this model was trained with device='cuda', and there is no CUDA: it runs on the CPU here")
            model.check_params()
            model._take_back(fitted, tensors)
            with torch.device("meta"):  # no memory yet: the configuration may claim any shape
                networks = model._restore(fitted, tensors)
            device = choose_device(changed.get("device", getattr(model, "device", "cpu")))
            model.networks_ = saved.fill(networks, tensors, device)
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
            raise StoreError(
                f"{path}: the parts of this model do not fit together ({error}); train it again or restore the folder"
            ) from error
        if changed:
            model.set_params(**changed)
            model.check_params()
        return model

    def _take_back(self, fitted: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        """What :meth:`save` keeps of every classifier."""
        fit = saved.Fit(**typed_fields(saved.Fit, fitted, "fitted", others=True))
        fit.check()
        self._classes = Classes(np.array(fit.classes, np.int64), fit.multilabel, fit.label_names)
        self._keep_columns(fit.n_features_in, fit.feature_names_in)
        self.epochs_, self.val_f1_ = fit.epochs, fit.val_f1
        if "nodes_in" in fitted:
            self.nodes_in_ = fit.nodes_in
        self.learned_from_ = None
        if fit.learned_from is not None:
            facts = typed_fields(LearnedFrom, fit.learned_from, LEARNED_FROM, besides=("keys",))
            self.learned_from_ = LearnedFrom(**facts, keys=saved.array(tensors, LEARNED_FROM, torch.int64, None))

    def _check_fitted(self) -> None:
        if not hasattr(self, "networks_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
