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
        "plan": {"targets": chosen.size, "engine": plan.engine, "reason": plan.reason},
    }


def edge_homophily(graph: Graph) -> float | None:
    """The share of edges, without loops, that join equal labels, among edges between two labelled nodes."""
    if graph.labels is None or graph.multilabel:
        return None
    same, known = homophily_counts(graph)
    return float(same.sum() / known.sum()) if known.any() else None


def homophily_counts(graph: Graph) -> tuple[IntArray, IntArray]:
    """By label: labelled neighbours of its nodes that have the same label, and all of them. Loops do not count."""
    assert graph.labels is not None
    labels, places = graph.present_labels, np.full(graph.num_nodes, UNKNOWN)
    known_nodes = graph.labels != UNKNOWN
    places[known_nodes] = np.searchsorted(labels, graph.labels[known_nodes])
    same, known = np.zeros(labels.size, np.int64), np.zeros(labels.size, np.int64)
    step = max(1, int(ENTRIES_AT_ONCE // max(1, graph.num_entries / graph.num_nodes)))
    for first in range(0, graph.num_nodes, step):
        last = min(first + step, graph.num_nodes)
        rows = np.repeat(np.arange(first, last), np.diff(graph.indptr[first : last + 1]))
        columns = graph.indices[graph.indptr[first] : graph.indptr[last]]
        ours, theirs = places[rows], places[columns]
        counted = (rows != columns) & (ours != UNKNOWN) & (theirs != UNKNOWN)
        known += np.bincount(ours[counted], minlength=labels.size)
        same += np.bincount(ours[counted & (ours == theirs)], minlength=labels.size)
    return same, known


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
        return {"classes": int(graph.labels.shape[1]), "per_node": per_node, "edge_homophily": None}
    known = graph.labels[graph.labels != UNKNOWN]
    return {
        "classes": graph.present_labels.size,
        "known": int(known.size),
        "coverage": known.size / graph.num_nodes,
        "edge_homophily": edge_homophily(graph),
    }
