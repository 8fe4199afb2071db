"""Describe a graph: counts, degrees, components, labels, homophily, diffusion lengths and the plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.types import IntArray
from nodewise.diffusion.diffuse import plan_diffusion
from nodewise.diffusion.length import diffusion_lengths
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.graph.components import component_sizes

ENTRIES_AT_ONCE = 1 << 24


def describe(graph: Graph, tau: float, targets: int = 1640, **params: Any) -> dict[str, Any]:
    """What ``nodewise info`` shows; ``tau`` and ``params`` are those of a diffusion to ``targets`` nodes."""
    if targets < 1:
        raise InputError(f"targets={targets}: expected at least 1")
    degrees, nodes = np.diff(graph.indptr) - 1, np.arange(graph.num_nodes)
    chosen = np.unique(np.linspace(0, graph.num_nodes - 1, min(targets, graph.num_nodes)).astype(np.int64))
    components = component_sizes(graph.indptr, graph.indices)
    plan = plan_diffusion(graph, chosen, tau=tau, **params).plan
    return {
        "name": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "weighted": graph.edge_weight is not None,
        "neighbours": {**_spread(degrees), "mean": float(degrees.mean()), "none": int((degrees == 0).sum())},
        "components": {"count": int(components.size), "largest": int(components.max())},
        "features": _features(graph),
        "labels": _labels(graph),
        "tau": tau,
        "lengths": {c: _spread(diffusion_lengths(graph, nodes, tau, c)) for c in ("paper", "reference")},
        "plan": {"targets": chosen.size, "engine": plan.engine, "reason": plan.reason, "seconds": plan.seconds},
    }


def edge_homophily(graph: Graph) -> float | None:
    """The share of a labelled node's labelled neighbours that have its label; of several labels, the mean over these.

    Where nodes have one label, that is the share of edges that join equal labels. Loops do not count.
    """
    if graph.labels is None:
        return None
    same, known = homophily_counts(graph)
    return float(same.sum() / known.sum()) if known.any() else None


def homophily_counts(graph: Graph) -> tuple[IntArray, IntArray]:
    """By label: labelled neighbours of its nodes that have the same label, and all of them. Loops do not count."""
    labels = label_matrix(graph)
    labelled = (np.diff(labels.indptr) > 0).astype(np.int64)
    same, known = np.zeros(labels.shape[1], np.int64), np.zeros(labels.shape[1], np.int64)
    step = max(1, int(ENTRIES_AT_ONCE // max(1, graph.num_entries / graph.num_nodes)))
    for first in range(0, graph.num_nodes, step):
        last = min(first + step, graph.num_nodes)
        start, end = graph.indptr[first], graph.indptr[last]
        parts = (np.ones(end - start, np.int32), graph.indices[start:end], graph.indptr[first : last + 1] - start)
        near, own = sp.csr_matrix(parts, (last - first, graph.num_nodes)), labels[first:last]
        same += np.asarray((near @ labels - own).multiply(own).sum(0)).ravel()  # less its own loop
        known += own.T @ (near @ labelled - labelled[first:last])
    return same, known


def label_matrix(graph: Graph) -> sp.csr_matrix:
    """The labels as a 0/1 matrix with a column for each of ``present_labels``; unlabelled nodes have empty rows."""
    assert graph.labels is not None  # checked
    if graph.multilabel:
        return sp.csr_matrix(graph.labels, dtype=np.int32)
    nodes = np.flatnonzero(graph.labels != UNKNOWN)
    columns = np.searchsorted(graph.present_labels, graph.labels[nodes])
    entries = (np.ones(nodes.size, np.int32), (nodes, columns))
    return sp.csr_matrix(entries, (graph.num_nodes, graph.present_labels.size))


def _spread(values: IntArray) -> dict[str, float]:
    return {"min": int(values.min()), "median": float(np.median(values)), "max": int(values.max())}


def _features(graph: Graph) -> dict[str, Any] | None:
    if graph.features is None:
        return None
    sparse = sp.issparse(graph.features)
    filled = graph.features.nnz / max(1, np.prod(graph.features.shape)) if sparse else None
    return {"columns": graph.num_features, "dtype": str(graph.features.dtype), "sparse": sparse, "filled": filled}


def _labels(graph: Graph) -> dict[str, Any] | None:
    if graph.labels is None:
        return None
    if graph.multilabel:
        per_node = float(graph.labels.sum(1).mean())
        homophily = edge_homophily(graph)
        return {"classes": int(graph.labels.shape[1]), "per_node": per_node, "edge_homophily": homophily}
    known = graph.labels[graph.labels != UNKNOWN]
    return {
        "classes": graph.present_labels.size,
        "known": int(known.size),
        "coverage": known.size / graph.num_nodes,
        "edge_homophily": edge_homophily(graph),
    }
