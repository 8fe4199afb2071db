"""The planner: which engine is cheapest for a graph and its targets.

A cost is a count of work times nanoseconds per unit, measured on an ordinary two-core machine;
``benchmarks/diffusion.py`` shows how good the choices are. Nothing is timed: the work, the memory allowed and the share
of each file that is in memory decide. What sampling costs depends on how soon walkers meet: a pilot of a few targets
counts that. The part of a file that is not in memory costs the disk's time: per page where it is read at random, per
byte where it is read front to back.

Independent walks are not among the choices: stratified walks find as much at the same cost, or more.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy.sparse as sp

from nodewise._util.memory import available_memory
from nodewise._util.pagecache import PAGE, FileSpan, file_span, preload, resident_share
from nodewise._util.types import AnyArray, Features, IntArray
from nodewise.diffusion import exact
from nodewise.diffusion.params import Engine
from nodewise.diffusion.walks import Sampling, stratify
from nodewise.graph import Graph
from nodewise.graph.features import Quantized

ENTRY_BYTES = 32  # a neighbour's weight as it is found, joined with others and put in order
PILOT = 4  # targets whose sampling is counted before deciding

# Nanoseconds on one core.
STEP, STEP_FAR = 10.5, 5.7  # a stratified step, and what each doubling of the adjacency beyond half a megabyte adds
HOP, HOP_FAR = 0.25, 0.1  # a number of an exact hop, and what each doubling beyond the cache adds
WEIGH = 2.5  # a target's weight for one node, made and scaled
SPARSE_ROW, SPARSE_PRODUCT = 2.3, 0.8  # a non-zero of a feature row, gathered for a target or multiplied in a block
DENSE_ENTRY, DENSE_ROW, DENSE_PRODUCT = 15.0, 0.2, 0.05  # a neighbour; a number of its row, gathered or multiplied
DISK_BYTE, DISK_PAGE = 0.6, 40_000.0  # a byte of a file read front to back, a page touched at random

STAYS = 60.0  # seconds
_IN_MEMORY: dict[FileSpan, float] = {}  # files that were all in memory, and until when that is taken for granted


@dataclass(frozen=True)
class Plan:
    """The engine chosen, why, and the seconds each engine was expected to take (where they were compared)."""

    engine: Engine
    reason: str
    seconds: dict[Engine, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.engine}: {self.reason}"


def make_plan(graph: Graph, nodes: IntArray, reach: IntArray, how: Sampling, engine: Engine, memory: int) -> Plan:
    """The engine asked for, or the cheapest for ``nodes`` and the graph's own features."""
    if engine != "auto":
        return Plan(engine, "asked for")
    propagating = min(_exact_nanoseconds(graph, reach, graph.features, memory, how.threads).values())
    pilot = PILOT * how.theta * float(reach.max(initial=0)) * _step_nanoseconds(graph)
    if propagating <= pilot:
        return Plan("exact", "small graph", {"exact": _seconds(propagating, how)})
    bring_in(graph, nodes.size, reach, how)  # or the pilot waits for the disk at every step
    costs: dict[Engine, float] = {
        "stratified": _sampling_nanoseconds(graph, nodes, reach, how, memory),
        "exact": propagating,
    }
    seconds = {name: _seconds(cost, how) for name, cost in costs.items()}
    best, other = sorted(seconds, key=lambda name: seconds[name])
    return Plan(best, f"expected to take {seconds[best]:.3g} s ({other} {seconds[other]:.3g} s)", seconds)


def exact_side(graph: Graph, reach: IntArray, features: Features, memory: int) -> Literal["features", "targets"]:
    """Whether the exact engine propagates the features or the targets."""
    costs = _exact_nanoseconds(graph, reach, features, memory, 1)
    return "features" if costs["features"] <= costs["targets"] else "targets"


def reads_in_order(features: Features, entries: int) -> bool:
    """Whether features in a file are better read once from front to back than where ``entries`` touch them."""
    stored = _stored(features)
    return stored is not None and _better_in_order(stored, entries)


def bring_in(graph: Graph, targets: int, reach: IntArray, how: Sampling) -> None:
    """Read an adjacency that lies in a file into memory, where that is cheaper than walking on the disk."""
    longest = float(reach.max(initial=0))
    steps = targets * min(how.theta * longest, 3.0 * how.first_k + longest)
    for array in (graph.unchecked("indptr"), graph.unchecked("indices")):
        if _better_in_order(array, steps) and array.nbytes < available_memory():
            preload(array)


def _better_in_order(array: AnyArray, touches: float) -> bool:
    """Whether what is not in memory of an array is read sooner front to back than by this many random reads.

    Both times grow with what is absent, so that decides only if there is any.
    """
    return _in_order(array.nbytes) < _at_random(array.nbytes, touches, array) and _absent(array) > 0


def _stored(features: Features) -> AnyArray | None:
    """The array that dense features lie in."""
    if features is None or sp.issparse(features):
        return None
    return features.codes if isinstance(features, Quantized) else features


def _absent(array: AnyArray) -> float:
    """The bytes of an array that are not in memory.

    To ask the system takes milliseconds for a large file, longer than one node. So an array that was all in memory is
    taken to be so for another :data:`STAYS` seconds.
    """
    span, now = file_span(array), time.monotonic()
    if span is not None and now < _IN_MEMORY.get(span, 0.0):
        return 0.0
    absent = (1.0 - resident_share(array)) * array.nbytes
    if absent == 0 and span is not None:
        _IN_MEMORY[span] = now + STAYS
    return absent


def _in_order(absent: float) -> float:
    """Nanoseconds to read this many bytes front to back."""
    return absent * DISK_BYTE


def _at_random(absent: float, touches: float, array: AnyArray) -> float:
    """Nanoseconds of disk time for this many random reads in an array; each page is read at most once."""
    return min(touches * absent / max(1, array.nbytes), absent / PAGE) * DISK_PAGE


def _exact_nanoseconds(
    graph: Graph, reach: IntArray, features: Features | None, memory: int, threads: int
) -> dict[str, float]:
    """What the exact hops cost over the features and over the targets, on one core; the disk is as fast for many."""
    hops, targets = float(reach.max(initial=0)), float(reach.size)
    block = 512 * graph.num_nodes  # 64 columns, twice
    hop = hops * graph.num_entries * (HOP + HOP_FAR * math.log2(1 + block / 2**23))
    over_targets = targets * (hop + WEIGH * graph.num_nodes)
    passes = hops * threads * _in_order(_absent(graph.unchecked("indices")))
    stored = _stored(features)
    reading = 0.0 if stored is None else threads * _in_order(_absent(stored))
    over_targets += _blocks(graph, targets, memory) * (passes + reading)
    if features is None:
        return {"targets": over_targets}
    if sp.issparse(features):
        product = SPARSE_PRODUCT * float(features.nnz)
    else:
        product = DENSE_PRODUCT * float(features.size)
    width = float(features.shape[1])
    over_features = hop * width + _blocks(graph, width, memory) * (passes + reading)
    return {"features": over_features, "targets": over_targets + targets * product}


def _blocks(graph: Graph, columns: float, memory: int) -> float:
    """How often a hop reads the adjacency: once for each block of columns that fits the memory."""
    return math.ceil(columns * exact.COLUMN_BYTES * graph.num_nodes / max(1, memory))


def _sampling_nanoseconds(graph: Graph, nodes: IntArray, reach: IntArray, how: Sampling, memory: int) -> float:
    """What stratified walks would cost, from a pilot of evenly chosen targets."""
    chosen = np.unique(np.linspace(0, nodes.size - 1, min(PILOT, nodes.size)).astype(np.int64))
    share = nodes.size / chosen.size
    weights, _, steps = stratify(graph, nodes[chosen], reach[chosen], how)
    entries = share * weights.nodes.size
    passes = math.ceil(entries * ENTRY_BYTES / max(1, memory))
    disk = _disk_nanoseconds(graph.features, entries, passes)
    summing = 0.0 if graph.features is None else entries * _entry_nanoseconds(graph.features)
    return share * float(steps.sum()) * _step_nanoseconds(graph) + summing + disk * how.threads


def _disk_nanoseconds(features: Features | None, entries: float, passes: int) -> float:
    """Reading features that lie in a file: front to back for each group of targets, or where entries touch them."""
    stored = _stored(features)
    if stored is None:
        return 0.0
    absent = _absent(stored)
    return min(passes * _in_order(absent), _at_random(absent, entries, stored))


def _step_nanoseconds(graph: Graph) -> float:
    size = graph.unchecked("indices").nbytes + graph.unchecked("indptr").nbytes
    return STEP + STEP_FAR * math.log2(1 + size / 2**19)


def _entry_nanoseconds(features: Features) -> float:
    """The cost of one neighbour: its feature row added to a target's."""
    if sp.issparse(features):
        return SPARSE_ROW * float(features.nnz) / float(max(1, features.shape[0]))
    return DENSE_ENTRY + DENSE_ROW * float(features.shape[1])


def _seconds(nanoseconds: float, how: Sampling) -> float:
    return nanoseconds / (1e9 * how.threads)
