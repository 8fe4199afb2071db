"""Graphs to store, and what becomes of a store in the hands of one who means harm."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, settings

from nodewise import Graph
from nodewise.graph.features import Quantized

SLOW_DISK = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def everything(graph: Graph) -> dict[str, object]:
    """All that a graph holds, read to the last byte, as values that can be compared."""
    dense = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    if isinstance(dense, Quantized):
        dense = np.hstack([dense.codes.ravel().view(np.uint8), dense.scale.view(np.uint8), dense.offset.view(np.uint8)])
    arrays = {"indptr": graph.indptr, "indices": graph.indices, "weights": graph.edge_weight, "labels": graph.labels}
    arrays |= {"features": dense} | {f"split {name}": nodes for name, nodes in graph.splits.items()}
    return {
        **{k: None if a is None else (a.dtype.str, a.shape, a.tobytes()) for k, a in arrays.items()},
        "sparse": sp.issparse(graph.features),
        "names": None if graph.node_names is None else list(graph.node_names),
        "label names": None if graph.label_names is None else list(graph.label_names),
        "name": graph.name,
        "feature names": None if graph.feature_names is None else list(graph.feature_names),
    }


def full_graph() -> Graph:
    """A graph with one of everything but sparse features."""
    rng = np.random.default_rng(0)
    return Graph.from_edges(
        rng.integers(0, 30, (2, 60)),
        30,
        rng.random((30, 4)),
        rng.integers(-1, 3, 30),
        edge_weight=rng.random(60) + 0.1,
        node_names=[f"node {i}" for i in range(30)],
        label_names=["a", "b", "c"],
        splits={"train": np.arange(5), "val": np.arange(5, 9)},
        feature_names=["age", "Größe", "", "age 2"],
    )


def sparse_graph() -> Graph:
    rng = np.random.default_rng(1)
    features = sp.random(30, 9, 0.3, "csr", np.float32, rng)
    return Graph.from_edges(rng.integers(0, 30, (2, 60)), 30, features, rng.integers(0, 2, (30, 3)))


def rewrite_manifest(folder: Path, change) -> None:
    """Change the manifest and give it the checksum that fits, as one who means harm would."""
    content = json.loads((folder / "manifest.json").read_text())
    change(content)
    content.pop("checksum")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["checksum"] = hashlib.sha256(canonical.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(content))
