"""Run a method on a tiny graph of the same kind first, so that no measured second goes into compiling kernels."""

from __future__ import annotations

import logging
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from nodewise._util.types import Features
from nodewise.diffusion.params import Engine
from nodewise.graph import Graph, synthetic
from nodewise.graph.features import Quantized
from nodewise.graph.splits import Split
from nodewise.learn.estimator import NodeClassifier
from nodewise.learn.evaluate import evaluate

NODES, COLUMNS = 240, 12
PARTS = Split(np.arange(60), np.arange(60, 120), np.arange(120, 180))

log = logging.getLogger("nodewise")


def warm_up(model: NodeClassifier, graph: Graph, split: Split, inductive: bool) -> None:
    """Fit clones of ``model`` for two epochs. An error is only logged: the real fit raises it again, or works.

    ``engine="auto"`` may choose differently on a tiny graph, so every engine is run.
    """
    like = tiny_graph(graph)
    parts = Split(*(nodes if given.size else given for nodes, given in zip(PARTS, split, strict=True)))
    is_auto = getattr(model, "engine", None) == "auto"
    variants = [{"engine": engine} for engine in get_args(Engine) if engine != "auto"] if is_auto else [{}]
    for changes in variants:
        try:
            evaluate(clone(model).set_params(epochs=2, **changes), like, [parts], inductive=inductive)
        except Exception as error:
            log.info("the warm-up failed, so times may include compilation: %s: %s", type(error).__name__, error)


def tiny_graph(graph: Graph) -> Graph:
    """A small graph whose features, weights, labels and adjacency have the types of those of ``graph``."""
    tiny = synthetic.dcsbm(NODES, avg_degree=8, classes=3, features=COLUMNS, seed=0)
    changes: dict[str, Any] = {"indices": tiny.indices.astype(graph.indices.dtype)}
    if graph.edge_weight is not None:
        changes["edge_weight"] = np.ones(tiny.num_entries, graph.edge_weight.dtype)
    if graph.multilabel:
        changes["labels"] = np.eye(3, dtype=np.int8)[tiny.labels]
    if graph.features is not None:
        changes["features"] = _features_like(tiny.features, graph.features)
    return tiny.replace(**changes)


def _features_like(rows: Features, features: Features) -> Features:
    if isinstance(features, Quantized):
        return Quantized.of(rows)
    if not sp.issparse(features):
        return rows.astype(features.dtype)
    filled = features.nnz / max(1, features.shape[0] * features.shape[1])  # networks take well-filled ones as dense
    kept = np.random.default_rng(0).random(rows.shape) < min(0.5, max(filled, 0.05))
    sparse = sp.csr_matrix(np.abs(rows) * kept, dtype=features.dtype)
    sparse.indptr, sparse.indices = (
        getattr(sparse, part).astype(getattr(features, part).dtype) for part in ("indptr", "indices")
    )
    return sparse
