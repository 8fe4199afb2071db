"""Which engine is cheapest here.

Costs are counts of work times nanoseconds a unit, measured on an ordinary two-core machine. Only counts decide, never
a clock, so the same call makes the same choice every time. What sampling costs depends on how soon walkers meet and
first-K stops them: a pilot of a few targets counts that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy.sparse as sp

from nodewise._typing import Features, IntArray
from nodewise.diffusion.walks import Sampling, stratify, walk
from nodewise.graph import Graph

PILOT = 8  # targets whose sampling is counted before deciding
CACHE_BYTES = 4 << 20  # an adjacency of this size is walked from cache

# Nanoseconds on one core.
STEP_NEAR, STEP_FAR = 9.0, 55.0  # one step of a walker, from cache and from memory
SPARSE_ADD = 1.2  # one non-zero of a feature row
DENSE_ADD = 0.11  # one number of a dense feature row
HOP_ADD = 0.12  # one number of an exact hop


@dataclass(frozen=True)
class Plan:
    """The engine chosen, why, and the seconds each engine was expected to take (where they were compared)."""

    engine: str
    reason: str
    seconds: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.engine}: {self.reason}"


def make_plan(graph: Graph, nodes: IntArray, reach: IntArray, how: Sampling, engine: str) -> Plan:
    """The engine asked for, or the cheapest for ``nodes`` and the graph's own features."""
    if engine != "auto":
        return Plan(engine, "asked for")
    if nodes.size == 0:
        return Plan("exact", "no targets")
    seconds = {
        "exact": exact_nanoseconds(graph, reach, graph.features) / (1e9 * how.threads),
        **{name: ns / (1e9 * how.threads) for name, ns in _sampling_nanoseconds(graph, nodes, reach, how).items()},
    }
    best = min(seconds, key=lambda name: seconds[name])
    others = ", ".join(f"{name} {value:.3g} s" for name, value in seconds.items() if name != best)
    return Plan(best, f"expected to take {seconds[best]:.3g} s ({others})", seconds)


def exact_side(graph: Graph, reach: IntArray, features: Features) -> Literal["features", "targets"]:
    """Whether the exact engine propagates the features or the targets: whichever has fewer columns."""
    del graph
    return "features" if features.shape[1] <= reach.size else "targets"


def exact_nanoseconds(graph: Graph, reach: IntArray, features: Features | None) -> float:
    hops = int(reach.max(initial=0))
    targets = reach.size
    over_targets = hops * graph.num_entries * targets * HOP_ADD
    if features is None:
        return over_targets
    over_features = hops * graph.num_entries * features.shape[1] * HOP_ADD
    gather = targets * _row_nanoseconds(features) * graph.num_nodes
    return float(min(over_features, over_targets + gather))


def _sampling_nanoseconds(graph: Graph, nodes: IntArray, reach: IntArray, how: Sampling) -> dict[str, float]:
    """What ``walks`` and ``stratified`` would cost, from a pilot of evenly chosen targets."""
    chosen = np.unique(np.linspace(0, nodes.size - 1, min(PILOT, nodes.size)).astype(np.int64))
    row = 0.0 if graph.features is None else _row_nanoseconds(graph.features)
    share = nodes.size / chosen.size
    costs = {}
    for name, sampler in (("walks", walk), ("stratified", stratify)):
        weights, _, steps = sampler(graph, nodes[chosen], reach[chosen], how)
        costs[name] = share * (float(steps.sum()) * _step_nanoseconds(graph) + weights.nodes.size * row)
    return costs


def _step_nanoseconds(graph: Graph) -> float:
    size = graph.indices.nbytes + graph.indptr.nbytes
    far = np.clip(np.log2(size / CACHE_BYTES) / 8, 0, 1)  # from cache to memory over a factor of 256
    return float(STEP_NEAR + far * (STEP_FAR - STEP_NEAR))


def _row_nanoseconds(features: Features) -> float:
    """The cost of adding one feature row."""
    if sp.issparse(features):
        return SPARSE_ADD * float(features.nnz) / float(max(1, features.shape[0]))
    return DENSE_ADD * float(features.shape[1])
