"""Small graphs with names, and the oracle that every engine is held against."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from nodewise import Graph

settings.register_profile(
    "nodewise", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("nodewise")


def dense_weights(graph, nodes, lengths, hops):
    """``sum over l <= l_u of U(l) P^l[u, :]`` by dense matrix powers."""
    adjacency = graph.to_scipy().toarray()
    transition = adjacency / adjacency.sum(1, keepdims=True)
    power = np.eye(graph.num_nodes)
    total = np.zeros((len(nodes), graph.num_nodes))
    for hop in range(int(max(lengths, default=0)) + 1):
        weight = hops[hop] if hop < len(hops) else 0.0
        total += weight * power[nodes] * (np.asarray(lengths) >= hop)[:, None]
        power = power @ transition
    return total


def copies_of(graph, count):
    """``count`` copies of a graph side by side: as many independent draws in one call."""
    n = graph.num_nodes
    matrix = graph.to_scipy().tocoo()
    shifts = n * np.arange(count)[:, None]
    edges = np.stack([(matrix.row + shifts).ravel(), (matrix.col + shifts).ravel()])
    weights = None if graph.edge_weights is None else np.tile(matrix.data, count)
    return Graph.from_edges(edges, n * count, edge_weights=weights)


@pytest.fixture
def star():
    return Graph.from_edges(np.array([[0, 0, 0, 0], [1, 2, 3, 4]]))


@pytest.fixture
def path():
    return Graph.from_edges(np.array([[0, 1, 2, 3], [1, 2, 3, 4]]))


@pytest.fixture
def two_islands():
    return Graph.from_edges(np.array([[0, 1, 2, 4], [1, 2, 0, 5]]), num_nodes=7)


@pytest.fixture
def weighted_triangle():
    return Graph.from_edges(np.array([[0, 1, 2], [1, 2, 0]]), edge_weights=np.array([1.0, 2.0, 5.0]))


@pytest.fixture
def lollipop():
    """A clique with a tail: degrees and depths that differ."""
    clique = [(a, b) for a in range(5) for b in range(a)]
    return Graph.from_edges(np.array([*clique, (4, 5), (5, 6), (6, 7)]).T)


@pytest.fixture
def data_dir():
    """The folder of real graphs, where there is one."""
    folder = os.environ.get("NODEWISE_DATA")
    if not folder:
        pytest.skip("NODEWISE_DATA is not set")
    return Path(folder)


@st.composite
def graphs(draw, max_nodes=12, features=False):
    """Random graphs: isolated nodes, stars, bipartite, disconnected, weighted or not, down to one node."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=3 * n))
    shape = draw(st.sampled_from(["free", "star", "bipartite"]))
    if shape == "star":
        edges = [(0, v) for _, v in edges]
    if shape == "bipartite":
        edges = [(u, v) for u, v in edges if (u + v) % 2]
    index = np.array(edges, np.int64).reshape(-1, 2).T
    weights = None
    if draw(st.booleans()):
        positive = st.floats(0.01, 100, allow_nan=False)
        weights = np.array(draw(st.lists(positive, min_size=len(edges), max_size=len(edges))), float)
    rows = None
    if features:
        rows = np.random.default_rng(draw(st.integers(0, 99))).standard_normal((n, draw(st.integers(1, 20))))
    return Graph.from_edges(index, n, rows, edge_weights=weights)
