"""Sampled diffusion: weights estimated by random walks (Algorithm 2), or by walkers that move together (stratified)."""

from __future__ import annotations

import itertools
import math
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.memory import available_memory, show_bytes
from nodewise._util.threads import map_chunks
from nodewise._util.types import AnyArray, DoubleArray, IntArray
from nodewise.diffusion.kernels import walking as kernels
from nodewise.diffusion.params import Mass
from nodewise.graph import Graph
from nodewise.graph.checks import check_number

MASSES = get_args(Mass)
MOST_WALKS = 2**31 - 1  # walkers are counted in 32 bits
CHUNK = 16  # targets a thread takes at a time
SMALL = 64 << 20  # bytes that are always there


class Weights(NamedTuple):
    """Target ``i`` weighs ``nodes[indptr[i]:indptr[i+1]]`` by ``values`` of the same range, in order of first visit.

    With ``per_hop``, each target has as many ranges as there are hops, one after the other.
    """

    indptr: IntArray
    nodes: AnyArray
    values: AnyArray


class Sampled(NamedTuple):
    """The weights, and for each target the walks made and the edges followed."""

    weights: Weights
    walks: IntArray
    steps: IntArray


class Sampling(NamedTuple):
    """What a sampler needs to know besides the graph and its targets; ``per_hop``: the hops are not summed."""

    hops: DoubleArray
    theta: int
    first_k: int
    mass: Mass
    seed: int
    threads: int
    per_hop: bool = False

    @property
    def width(self) -> int:
        """The number of weights per node."""
        return self.hops.size if self.per_hop else 1


class _Counts(NamedTuple):
    """What a kernel counts for each target: neighbours found (by hop with ``per_hop``), walks made, edges used."""

    sizes: IntArray
    walks: IntArray
    steps: IntArray

    def of(self, part: slice) -> _Counts:
        width = self.sizes.size // max(1, self.walks.size)
        return _Counts(self.sizes[part.start * width : part.stop * width], self.walks[part], self.steps[part])


def number_of_walks(epsilon: float, eta: float = 2.0, delta: float = 0.01) -> int:
    """``theta = ceil(2 eta^2 / epsilon * ln(1 / (delta epsilon)))``, enough for Lemma 4.2.

    >>> number_of_walks(0.01)
    7369
    """
    check_epsilon(epsilon)
    check_number("eta", eta, "a number above 1", 1, strictly=True)
    check_number("delta", delta, "a number between 0 and 1", 0, 1, strictly=True)
    walks = 2 * float(eta) * float(eta) / epsilon * -(math.log(delta) + math.log(epsilon))
    if not walks < MOST_WALKS:
        raise InputError(f"epsilon={epsilon}, eta={eta}: {walks:.3g} walks per target; expected at most {MOST_WALKS:,}")
    return math.ceil(walks)


def first_k_neighbours(epsilon: float) -> int:
    """``K = 1 / epsilon^2``: as many visited nodes are enough.

    >>> first_k_neighbours(0.05)
    400
    """
    check_epsilon(epsilon)
    return math.ceil(1 / epsilon / epsilon * (1 - 1e-12))  # 1/0.07/0.07 and the like carry a rounding error


def check_epsilon(epsilon: float) -> None:
    expected = "a number between 0 and 1; less is more exact and costs more"
    check_number("epsilon", epsilon, expected, 0, 1, strictly=True)


def walk(graph: Graph, targets: IntArray, lengths: IntArray, how: Sampling) -> Sampled:
    """``theta`` independent walks per target, fewer where first-K stops them (Algorithm 2, to the letter)."""
    longest = int(lengths.max(initial=0))
    most = most_visited(graph, longest, how)

    def scratch(keys: AnyArray, values: DoubleArray, _: AnyArray, used: AnyArray) -> tuple[AnyArray, ...]:
        path = np.empty(kernels.BATCH * max(longest, 1), node_dtype(graph))
        return keys, values, used, path, np.empty(kernels.BATCH, np.int64)

    run = partial(kernels.walk, *_adjacency(graph))
    return _sample(graph, targets, lengths, how, run, MASSES.index(how.mass), scratch, most, most)


def stratify(graph: Graph, targets: IntArray, lengths: IntArray, how: Sampling) -> Sampled:
    """Walkers that move together, as many as can visit K nodes, or more (up to ``theta``) where they meet.

    Of the nodes they visit the K heaviest are kept.
    """
    longest = int(lengths.max(initial=0))
    most, adjacency = most_visited(graph, longest, how, stops=False), _adjacency(graph)
    moves = how.theta + 1
    if graph.num_entries < how.theta:  # no more moves than entries, unless rows overlap
        adjacency, moves = (graph.indptr, *adjacency[1:]), graph.num_entries + 1

    def scratch(keys: AnyArray, values: DoubleArray, waiting: AnyArray, used: AnyArray) -> tuple[AnyArray, ...]:
        frontier = np.empty(min(how.theta, most) + 1, np.int32)
        edge, amount = np.empty(moves, np.int64), np.empty(moves, np.int32)
        return keys, values, waiting, used, frontier, edge, amount, np.empty(most, np.float64)

    run = partial(kernels.stratify, *adjacency)
    return _sample(graph, targets, lengths, how, run, how.mass == "walks", scratch, most, min(most, how.first_k))


def _adjacency(graph: Graph) -> tuple[AnyArray, AnyArray, DoubleArray]:
    """What the kernels walk on: they bound what they read, unless edges have weights, which are summed as a whole."""
    return graph.unchecked("indptr"), graph.unchecked("indices"), graph.cumulative_weights


def most_visited(graph: Graph, longest: int, how: Sampling, stops: bool = True) -> int:
    """The most nodes that one target can visit: this, not the graph's size, sets the scratch memory.

    Walks stop at first-K; walkers that move together do not, and the heaviest are kept.
    """
    most = min(graph.num_nodes, how.theta * longest + 1)
    return min(most, max(how.first_k - 1, 1) + longest) if stops else most


def most_entries(most: int, longest: int, how: Sampling) -> int:
    """The most weights of one target, who visits ``most`` nodes; with ``per_hop`` a node may have several."""
    return min(most * how.width, how.theta * longest + 1) if how.per_hop else most


_Tables: TypeAlias = tuple[AnyArray, DoubleArray, AnyArray, AnyArray]  # nodes, values, walkers waiting, slots in use
_SPARE: deque[tuple[Any, _Tables]] = deque(maxlen=4)  # tables that are clear, for the next to use, and what they fit
MOST_SPARE = 1 << 19  # slots of a table that is kept
_spare_lock = threading.Lock()


def _tables(kind: tuple[type, int, int]) -> _Tables:
    """Clear tables for nodes of a type, with so many slots, each with so many values.

    Kernels leave them clear, so they are used again: to make them takes half a millisecond, which counts for one node.
    """
    with _spare_lock:
        for place, (fits, tables) in enumerate(_SPARE):
            if fits == kind:
                del _SPARE[place]
                return tables
    dtype, size, width = kind
    return np.zeros(size, dtype), np.zeros(size * width), np.zeros(size, np.int32), np.empty(size // 2 + 1, np.int32)


def _keep(kind: tuple[type, int, int], tables: _Tables) -> None:
    if tables[1].size <= MOST_SPARE:
        with _spare_lock:
            _SPARE.append((kind, tables))


def check_room(needed: int, hops: int) -> None:
    """Raise, before numpy does, if ``needed`` bytes are more than what is available.

    ``hops``: how many are kept one by one.
    """
    if needed <= SMALL or needed <= (available := available_memory()):
        return
    kept = f"per_hop=True keeps {hops:,} hops of each node, which take" if hops > 1 else "the weights and rows take"
    advice = "bound the hops with max_hops, or " if hops > 1 else ""
    raise InputError(
        f"{kept} {show_bytes(needed)}, and {show_bytes(available)} of memory are available; {advice}ask for fewer "
        f"nodes at a time"
    )


def _slots(most: int) -> int:
    return 1 << max(4, int(2 * most - 1).bit_length())


def node_dtype(graph: Graph) -> type[np.uint32] | type[np.int64]:
    """What the kernels count nodes in: 32 bits where they are enough, else signed, which mixes with other numbers."""
    return np.uint32 if graph.unchecked("indices").dtype == np.uint32 else np.int64


def _sample(
    graph: Graph,
    targets: IntArray,
    lengths: IntArray,
    how: Sampling,
    kernel: Callable[..., int],
    mass: int,
    scratch: Callable[..., tuple[AnyArray, ...]],
    most: int,
    kept: int,
) -> Sampled:
    """Let threads take chunks of targets until none is left, and join what they found.

    ``kernel`` knows the adjacency, ``mass`` is what it does about the sum of weights, and ``scratch`` makes of a
    thread's tables the arrays that it works in. ``most``: nodes that one target may visit; ``kept``: those of them that
    get a weight.
    """
    chunks = range(0, targets.size, CHUNK)
    room, slots = CHUNK * most_entries(kept, int(lengths.max(initial=0)), how), _slots(most)
    each = slots * 8 * (how.width + 2) + room * 12  # the tables of a thread, and what it finds at a time
    check_room(min(how.threads, len(chunks)) * each + 8 * targets.size * how.width, how.width)
    counts = _Counts(*(np.zeros(targets.size * width, np.int64) for width in (how.width, 1, 1)))
    found: list[tuple[AnyArray, AnyArray]] = [(np.empty(0), np.empty(0))] * len(chunks)
    turn, stopped = itertools.count(), threading.Event()
    kind = node_dtype(graph), slots, how.width

    def work(_: int) -> None:
        tables = _tables(kind)
        arrays = scratch(*tables)
        nodes, weights = np.empty(room, node_dtype(graph)), np.empty(room, np.float32)
        while (chunk := next(turn)) < len(chunks) and not stopped.is_set():
            part = slice(chunks[chunk], chunks[chunk] + CHUNK)
            total = int(kernel(
                targets[part], lengths[part], how.hops, how.width, how.theta, how.first_k, mass, how.seed,
                *arrays, nodes, weights, *counts.of(part),
            ))  # fmt: skip
            if total == kernels.OUTSIDE:
                raise graph.damaged()
            found[chunk] = nodes[:total].copy(), weights[:total].copy()
        _keep(kind, tables)

    try:
        map_chunks(work, range(min(how.threads, len(chunks))), how.threads)
    finally:
        stopped.set()  # after an error or an interrupt no thread takes another chunk
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts.sizes)))
    joined = _joined(indptr, indptr[:: CHUNK * how.width], found, node_dtype(graph), how.threads)
    return Sampled(joined, counts.walks, counts.steps)


def _joined(
    indptr: IntArray, starts: IntArray, found: list[tuple[AnyArray, AnyArray]], dtype: type, threads: int
) -> Weights:
    """What chunks of targets found, one after the other; each part is freed as soon as it is copied."""
    joined = Weights(indptr, np.empty(indptr[-1], dtype), np.empty(indptr[-1], np.float32))

    def copy(chunk: int) -> None:
        nodes, values = found[chunk]
        start = starts[chunk]
        joined.nodes[start : start + nodes.size] = nodes
        joined.values[start : start + nodes.size] = values
        found[chunk] = nodes[:0], values[:0]

    map_chunks(copy, range(len(found)), threads)
    return joined
