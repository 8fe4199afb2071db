"""Dense matrices that the rivals are compared with, and the small random graphs that the tests share."""

import numpy as np
import scipy.sparse as sp

from nodewise import Graph


def small_graph(seed, nodes, edges, weighted=False, sparse=False, alone=1):
    """A random graph in which the last ``alone`` nodes have no neighbours, with six features and three classes."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, nodes - alone, (2, edges))
    weights = rng.uniform(0.2, 3, edges) if weighted else None
    rows = rng.standard_normal((nodes, 6)).astype(np.float32)
    features = sp.csr_matrix(rows * (rng.random(rows.shape) < 0.15)) if sparse else rows
    return Graph.from_edges(ends, nodes, features, np.arange(nodes) % 3, edge_weight=weights)


def weighted_graph():
    matrix = sp.random(40, 40, 0.15, random_state=1)
    features = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    return Graph.from_scipy(matrix + matrix.T, features)


def propagation(graph, a=0.5, b=0.5):
    """``D^-a A D^-b``."""
    adjacency = graph.to_scipy().toarray()
    degrees = adjacency.sum(1)
    return degrees[:, None] ** -a * adjacency * degrees**-b


def pagerank(matrix, alpha):
    """``alpha (I - (1 - alpha) M)^-1``, personalised PageRank where ``M`` is the random walk."""
    return alpha * np.linalg.inv(np.eye(len(matrix)) - (1 - alpha) * matrix)


def all_rows(model, graph):
    return model.rows(graph, np.arange(graph.num_nodes))
