"""Synthetic graphs: a degree-corrected block model with class-dependent features, in linear time."""

from __future__ import annotations

import math

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.intrinsics import prefetch, product_high
from nodewise._util.kernels import njit
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray, FloatArray, IntArray
from nodewise.graph.checks import checked_seed
from nodewise.graph.graph import Graph

STUBS_PER_NODE = 8  # resolution of a node's share of the edges
EDGES_AT_ONCE = 1 << 20
ROWS_AT_ONCE = 1 << 16


def dcsbm(
    num_nodes: int,
    avg_degree: float = 10.0,
    classes: int = 5,
    homophily: float = 0.8,
    features: int = 0,
    *,
    exponent: float = 2.5,
    signal: float = 1.0,
    seed: int = 0,
    threads: int | None = None,
) -> Graph:
    """A graph of ``classes`` communities whose degrees follow a power law.

    A share ``homophily`` of the edges stays within a class, the rest goes to other classes. A node's share of the edges
    falls off with ``exponent``. With ``features`` columns, a node's row is its class's centre, at distance ``signal``
    from the origin, plus standard normal noise. Repeated edges are merged, so dense graphs get a little less than
    ``avg_degree``. The same seed gives the same graph on any number of threads.

    >>> dcsbm(1000, avg_degree=8, classes=4, features=16, seed=1).features.shape
    (1000, 16)
    """
    _check(num_nodes, avg_degree, classes, homophily, features, exponent)
    seed = checked_seed(seed)
    threads = thread_count(threads)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, num_nodes)
    stubs, bounds = _stubs(labels, classes, exponent, rng)
    edges = np.empty((2, round(num_nodes * avg_degree / 2)), np.int32 if num_nodes <= 2**31 else np.int64)

    def draw(first: int) -> None:
        last = min(first + EDGES_AT_ONCE, edges.shape[1])
        _draw_edges(stubs, labels, bounds, homophily, np.uint64(seed), first, last, edges)

    map_chunks(draw, range(0, edges.shape[1], EDGES_AT_ONCE), threads)
    rows = _features(labels, classes, features, signal, seed, threads) if features else None
    return Graph.from_edges(edges, num_nodes, rows, labels, name=f"dcsbm-{num_nodes}", threads=threads)


def _stubs(labels: IntArray, classes: int, exponent: float, rng: np.random.Generator) -> tuple[AnyArray, IntArray]:
    """Each node as often as its share of the edges says, class by class, and where each class begins."""
    num_nodes = labels.size
    share = (1 - rng.random(num_nodes)) ** (-1 / (exponent - 1))
    share = np.minimum(share, math.sqrt(num_nodes))  # a larger hub would draw the same neighbours again and again
    expected = share * (STUBS_PER_NODE / share.mean())
    counts = np.maximum(1, (expected + rng.random(num_nodes)).astype(np.int64))
    order = np.argsort(labels, kind="stable")
    stubs = np.repeat(order.astype(np.uint32), counts[order])
    sizes = np.bincount(labels, counts, classes).astype(np.int64)
    return stubs, np.concatenate(([0], np.cumsum(sizes)))


def _features(labels: IntArray, classes: int, width: int, signal: float, seed: int, threads: int) -> FloatArray:
    centres = np.random.default_rng([seed, 1]).standard_normal((classes, width))
    centres = (signal * centres / np.linalg.norm(centres, axis=1, keepdims=True)).astype(np.float32)
    rows = np.empty((labels.size, width), np.float32)

    def fill(first: int) -> None:
        part = rows[first : first + ROWS_AT_ONCE]
        np.random.default_rng([seed, 2, first]).standard_normal(out=part, dtype=np.float32)
        part += centres[labels[first : first + ROWS_AT_ONCE]]

    map_chunks(fill, range(0, labels.size, ROWS_AT_ONCE), threads)
    return rows


@njit(nogil=True)
def _bits(seed, number):
    """splitmix64 of a counter."""
    z = seed * np.uint64(0xD1342543DE82EF95) + number * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True)
def _draw_edges(stubs, labels, bounds, stay, seed, first, last, edges):
    """Edges ``first..last``: one end by share, the other by share within or outside its class.

    Three passes over small batches, so that their cache misses overlap.
    """
    batch = 64
    place = np.empty(batch, np.int64)
    for begin in range(first, last, batch):
        size = min(batch, last - begin)
        for i in range(size):
            bits = _bits(seed, np.uint64(3 * (begin + i) + 1))
            place[i] = product_high(bits, np.uint64(stubs.size))
            prefetch(stubs, place[i])
        for i in range(size):
            edges[0, begin + i] = stubs[place[i]]
            prefetch(labels, np.int64(edges[0, begin + i]))
        for i in range(size):
            low, high = bounds[labels[edges[0, begin + i]]], bounds[labels[edges[0, begin + i]] + 1]
            alone = high - low == stubs.size  # no other class to go to
            within = alone or np.float64(_bits(seed, np.uint64(3 * (begin + i) + 2)) >> np.uint64(11)) / 2.0**53 < stay
            bits = _bits(seed, np.uint64(3 * (begin + i) + 3))
            if within:
                place[i] = low + np.int64(product_high(bits, np.uint64(high - low)))
            else:
                place[i] = np.int64(product_high(bits, np.uint64(stubs.size - (high - low))))
                place[i] += high - low if place[i] >= low else 0
            prefetch(stubs, place[i])
        for i in range(size):
            edges[1, begin + i] = stubs[place[i]]


def _check(num_nodes: int, avg_degree: float, classes: int, homophily: float, features: int, exponent: float) -> None:
    rules = (
        (isinstance(num_nodes, int) and 1 <= num_nodes < 2**32, f"num_nodes={num_nodes}: expected 1 to 2^32 - 1"),
        (0 <= avg_degree < math.inf, f"avg_degree={avg_degree}: expected 0 or more"),
        (1 <= classes <= num_nodes, f"classes={classes}: expected 1 to num_nodes"),
        (0 <= homophily <= 1, f"homophily={homophily}: expected 0 to 1"),
        (features >= 0, f"features={features}: expected 0 or more columns"),
        (exponent > 2, f"exponent={exponent}: expected more than 2, or the mean degree does not exist"),
    )
    for holds, message in rules:
        if not holds:
            raise InputError(message)
