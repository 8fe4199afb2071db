"""Diffusion lengths, the hops ``l_u`` that a node goes: in practical form (Eq. 8) and exactly (Theorem 3.2)."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, IntArray
from nodewise.diffusion.ghd import MOST_HOPS
from nodewise.diffusion.params import Convention
from nodewise.graph import Graph
from nodewise.graph.checks import check_choice, check_number
from nodewise.graph.unchecked import damaged

DENSE_UP_TO = 64  # below this many nodes a dense eigenvalue solver is faster, and ARPACK may refuse


def diffusion_lengths(graph: Graph, nodes: AnyArray, tau: float, convention: Convention = "paper") -> IntArray:
    """``l_u = ceil(tau * ln(2m / sqrt(d_min d_u)) / ln(sqrt(d_G)))`` for each of ``nodes``.

    ``convention="reference"`` is the published program's: it takes ``2m`` and ``d_G`` twice as large and rounds down.
    The published values of ``tau`` were tuned with it.

    >>> import numpy as np
    >>> path = Graph.from_edges(np.array([[0, 1, 2], [1, 2, 3]]))
    >>> diffusion_lengths(path, np.arange(4), tau=1.0)
    array([4, 4, 4, 4])
    """
    nodes = graph.nodes(nodes)
    check_tau(tau)
    check_choice("convention", convention, get_args(Convention))
    times = 2 if convention == "reference" else 1
    # Weights scale the degrees and their sum alike; density is a matter of how many neighbours there are.
    whole = graph.base
    log_lambda = math.log(math.sqrt(times * whole.num_entries / whole.num_nodes))
    if whole.num_edges == 0:
        return np.zeros(nodes.size, np.int64)  # loops only: there is nowhere to go
    spread = times * whole.total_degree / np.sqrt(whole.least_degree * graph.degrees_of(nodes))
    if graph is whole and not (spread > 1 - 1e-6).all():  # no degree is above the sum of all, which a manifest states
        array = whole.unchecked("indptr" if whole.edge_weight is None else "edge_weight")
        raise damaged(array, whole.name, "a node has a higher degree than manifest.json gives all nodes together")
    exact = np.clip(tau * np.log(spread) / log_lambda, 0, MOST_HOPS)
    return np.asarray(np.floor(exact) if convention == "reference" else np.ceil(exact), np.int64)


def tau_of_length(graph: Graph, hops: int, convention: Convention = "paper") -> float:
    """The ``tau`` by which a node of the mean degree goes ``hops`` far.

    >>> import numpy as np
    >>> path = Graph.from_edges(np.array([[0, 1, 2], [1, 2, 3]]))
    >>> diffusion_lengths(path, np.arange(4), tau_of_length(path, 6))
    array([7, 6, 6, 7])
    """
    graph = graph.base
    if graph.num_edges == 0:
        return 1.0
    times = 2 if convention == "reference" else 1
    spread = times * graph.total_degree / math.sqrt(graph.least_degree * graph.total_degree / graph.num_nodes)
    log_lambda = math.log(math.sqrt(times * graph.num_entries / graph.num_nodes))
    return max(hops, 0.5) * log_lambda / math.log(spread)


def tau_distance(graph: Graph, nodes: AnyArray, tau: float) -> IntArray:
    """The length of Theorem 3.2, ``ceil(log_lambda(tau sqrt(d_min d_u) / 2m))``, by the true ``lambda``.

    After that many steps every entry of ``P^l[u, :]`` is within ``tau`` of the stationary state, relatively. The
    eigenvalues take a few hundred passes over the adjacency: this is for study, not for large graphs.

    >>> import numpy as np
    >>> path = Graph.from_edges(np.array([[0, 1, 2], [1, 2, 3]]))
    >>> tau_distance(path, np.arange(4), tau=0.1)
    array([13, 12, 12, 13])
    """
    nodes = graph.nodes(nodes)
    check_tau(tau)
    if graph.num_nodes == 1:
        return np.zeros(nodes.size, np.int64)
    second = second_eigenvalue(graph)
    if second > 1 - 1e-13:
        raise InputError("the graph is all but disconnected (lambda = 1): no length reaches the stationary state")
    share = tau * np.sqrt(graph.least_degree * graph.degrees_of(nodes)) / graph.total_degree
    if second < 1e-12:  # one step reaches the stationary state
        return np.asarray(share < 1, np.int64)
    return np.asarray(np.maximum(0, np.ceil(np.log(share) / math.log(second))), np.int64)


def second_eigenvalue(graph: Graph) -> float:
    """``lambda = max(lambda_2, -lambda_n)`` of ``D^-1/2 A D^-1/2``."""
    adjacency = graph.to_scipy()
    parts = connected_components(adjacency, directed=False, return_labels=False)
    if parts > 1:
        raise InputError(
            f"the graph has {parts:,} components, so lambda = 1 and no length reaches the stationary state. Take the "
            f"largest component, or use diffusion_lengths, which needs no lambda"
        )
    scale = sp.diags(1 / np.sqrt(graph.degrees))
    symmetric = scale @ adjacency @ scale
    if graph.num_nodes <= DENSE_UP_TO:
        values = np.linalg.eigvalsh(symmetric.toarray())
        return float(max(values[-2], -values[0]))
    try:
        top = eigsh(symmetric, k=2, which="LA", return_eigenvectors=False)
        bottom = eigsh(symmetric, k=1, which="SA", return_eigenvectors=False)
    except ArpackNoConvergence as error:
        raise InputError(
            f"the second eigenvalue of this graph is too close to 1 to be found ({error}). Use diffusion_lengths, "
            f"which needs none"
        ) from error
    return float(max(min(top), -bottom[0]))


def check_tau(tau: float) -> None:
    check_number("tau", tau, "a number above 0; 1 is a good start, more reaches further", 0, strictly=True)
