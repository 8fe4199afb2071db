"""A classifier bound to its graph, so that ``X`` is a list of nodes, as scikit-learn's tools need it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.graph.splits import held_out_split
from nodewise.learn.estimator import NodeClassifier
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.task import check_graph


class BoundClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """``estimator`` (by default ``NIGCN()``) on ``graph``: ``fit(X, y)`` takes nodes and their labels.

    ``X`` is a list of node ids or names or, as scikit-learn likes it, one column of them. Labels may be strings. The
    labels in the graph are ignored. With ``validate``, a fifth of ``X`` is held out, by class, to choose the model,
    which then learns again from all of ``X``; otherwise training has no validation nodes.

    >>> import nodewise as nw
    >>> from sklearn.model_selection import cross_val_score
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> nodes = np.arange(200).reshape(-1, 1)
    >>> scores = cross_val_score(nw.BoundClassifier(g), nodes, g.labels[:200], cv=3)
    >>> bool(scores.mean() > 0.6)
    True
    """

    def __init__(self, graph: Graph, estimator: NodeClassifier | None = None, validate: bool = True) -> None:
        self.graph = graph
        self.estimator = estimator
        self.validate = validate

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Learn from nodes ``X`` with labels ``y``."""
        check_graph(self.graph)
        nodes, labels = self._nodes(X), np.asarray(y)
        if labels.ndim != 1 or labels.size != nodes.size:
            raise InputError(f"y: shape {labels.shape} for {nodes.size:,} nodes; expected one label per node")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        known = np.full(self.graph.num_nodes, UNKNOWN, np.int64)
        known[nodes] = codes
        graph = self.graph.replace(labels=known, label_names=None, splits={})
        self.estimator_ = NIGCN() if self.estimator is None else clone(self.estimator)
        split = held_out_split(known, self.estimator_.seed)
        held = np.concatenate([split.val, split.test])[: max(1, nodes.size // 5)]
        if self.validate and held.size and np.setdiff1d(nodes, held).size:
            self.estimator_.fit(graph, np.setdiff1d(nodes, held), held, refit=True)
        else:
            self.estimator_.fit(graph, np.unique(nodes))
        self.n_features_in_ = 1
        return self

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Probabilities of nodes ``X``, columns as in ``classes_``."""
        check_is_fitted(self, "estimator_")
        proba = self.estimator_.predict_proba(self.graph, self._nodes(X))
        whole = np.zeros((proba.shape[0], self.classes_.size), proba.dtype)
        whole[:, self.estimator_.classes_] = proba
        return whole

    def predict(self, X: AnyArray) -> AnyArray:
        """Labels of nodes ``X``."""
        proba = self.predict_proba(X)
        return np.asarray(self.classes_[proba.argmax(1)])

    def _nodes(self, X: Any) -> IntArray:
        ids = np.asarray(X)
        if ids.ndim == 2 and ids.shape[1] == 1:
            ids = ids[:, 0]
        if ids.dtype.kind == "f" and np.array_equal(ids, np.floor(ids)):  # some tools turn X into floats
            ids = ids.astype(np.int64)
        return self.graph.nodes(ids, "X")
