"""What engines are held against, and the random graphs on which they are."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from nodewise import Graph


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
    weights = None if graph.edge_weight is None else np.tile(matrix.data, count)
    return Graph.from_edges(edges, n * count, edge_weight=weights)


@st.composite
def graphs(draw, max_nodes=12, features=False, connected=False):
    """Random graphs: isolated nodes, stars, bipartite, disconnected, weighted or not, down to one node."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=3 * n))
    shape = draw(st.sampled_from(["free", "star", "bipartite"]))
    if shape == "star":
        edges = [(0, v) for _, v in edges]
    if shape == "bipartite":
        edges = [(u, v) for u, v in edges if (u + v) % 2]
    if connected:
        edges += [(v, v + 1) for v in range(n - 1)]
    index = np.array(edges, np.int64).reshape(-1, 2).T
    weights = None
    if draw(st.booleans()):
        positive = st.floats(0.01, 100, allow_nan=False)
        weights = np.array(draw(st.lists(positive, min_size=len(edges), max_size=len(edges))), float)
    rows = None
    if features:
        rows = np.random.default_rng(draw(st.integers(0, 99))).standard_normal((n, draw(st.integers(1, 20))))
    return Graph.from_edges(index, n, rows, edge_weight=weights)
