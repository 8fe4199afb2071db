"""Which engine is cheapest here.

A cost is a count of work times nanoseconds a unit, measured on an ordinary two-core machine; how good the choices are,
``benchmarks/diffusion.py`` shows. Only counts decide, never a clock, so the same call makes the same choice every time.
What sampling costs depends on how soon walkers meet and how soon first-K stops them: a pilot of a few targets counts
that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy.sparse as sp

from nodewise._typing import Features, IntArray
from nodewise.diffusion.walks import Sampling, stratify, walk
from nodewise.graph import Graph

PILOT = 4  # targets whose sampling is counted before deciding

# Nanoseconds on one core.
STEP, STEP_FAR = 5.0, 2.7  # a step of a walk, and what each doubling of the adjacency beyond half a megabyte adds
TOGETHER = 2.1  # a stratified step, in steps of a walk: it looks its node up twice
HOP, HOP_FAR = 0.25, 0.1  # a number of an exact hop, and what each doubling beyond the cache adds
WEIGH = 2.5  # a target's weight for one node, made and scaled
SPARSE_ROW, SPARSE_PRODUCT = 2.3, 0.8  # a non-zero of a feature row, gathered for a target or multiplied in a block
DENSE_ENTRY, DENSE_ROW, DENSE_PRODUCT = 15.0, 0.2, 0.05  # a neighbour; a number of its row, gathered or multiplied


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
    exact = min(_exact_nanoseconds(graph, reach, graph.features).values())
    pilot = 2.0 * PILOT * how.theta * float(reach.max(initial=0)) * _step_nanoseconds(graph)
    if exact <= pilot:
        return Plan("exact", "cheaper than to find out what sampling would cost", {"exact": _seconds(exact, how)})
    costs = {"exact": exact, **_sampling_nanoseconds(graph, nodes, reach, how)}
    seconds = {name: _seconds(cost, how) for name, cost in costs.items()}
    best = min(seconds, key=lambda name: seconds[name])
    others = ", ".join(f"{name} {value:.3g} s" for name, value in seconds.items() if name != best)
    return Plan(best, f"expected to take {seconds[best]:.3g} s ({others})", seconds)


def exact_side(graph: Graph, reach: IntArray, features: Features) -> Literal["features", "targets"]:
    """Whether the exact engine propagates the features or the targets."""
    costs = _exact_nanoseconds(graph, reach, features)
    return "features" if costs["features"] <= costs["targets"] else "targets"


def _exact_nanoseconds(graph: Graph, reach: IntArray, features: Features | None) -> dict[str, float]:
    """What the exact hops cost over the features and over the targets."""
    hops, targets = float(reach.max(initial=0)), float(reach.size)
    block = 512 * graph.num_nodes  # 64 columns, twice
    hop = hops * graph.num_entries * (HOP + HOP_FAR * math.log2(1 + block / 2**23))
    over_targets = targets * (hop + WEIGH * graph.num_nodes)
    if features is None:
        return {"targets": over_targets}
    if sp.issparse(features):
        product = SPARSE_PRODUCT * float(features.nnz)
    else:
        product = DENSE_PRODUCT * float(features.size)
    return {"features": hop * float(features.shape[1]), "targets": over_targets + targets * product}


def _sampling_nanoseconds(graph: Graph, nodes: IntArray, reach: IntArray, how: Sampling) -> dict[str, float]:
    """What ``walks`` and ``stratified`` would cost, from a pilot of evenly chosen targets."""
    chosen = np.unique(np.linspace(0, nodes.size - 1, min(PILOT, nodes.size)).astype(np.int64))
    entry = 0.0 if graph.features is None else _entry_nanoseconds(graph.features)
    share = nodes.size / chosen.size
    costs = {}
    for name, sampler, factor in (("walks", walk, 1.0), ("stratified", stratify, TOGETHER)):
        weights, _, steps = sampler(graph, nodes[chosen], reach[chosen], how)
        stepping = factor * float(steps.sum()) * _step_nanoseconds(graph)
        costs[name] = share * (stepping + weights.nodes.size * entry)
    return costs


def _step_nanoseconds(graph: Graph) -> float:
    size = graph.indices.nbytes + graph.indptr.nbytes
    return STEP + STEP_FAR * math.log2(1 + size / 2**19)


def _entry_nanoseconds(features: Features) -> float:
    """The cost of one neighbour: its feature row added to a target's."""
    if sp.issparse(features):
        return SPARSE_ROW * float(features.nnz) / float(max(1, features.shape[0]))
    return DENSE_ENTRY + DENSE_ROW * float(features.shape[1])


def _seconds(nanoseconds: float, how: Sampling) -> float:
    return nanoseconds / (1e9 * how.threads)
