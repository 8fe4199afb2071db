"""Connected components in one pass over the adjacency, with one number per node in memory."""

from __future__ import annotations

import numpy as np

from nodewise._util.kernels import njit
from nodewise._util.types import AnyArray, IntArray


def component_sizes(indptr: IntArray, indices: AnyArray) -> IntArray:
    """The number of nodes of each component.

    >>> component_sizes(np.array([0, 2, 4, 5]), np.array([0, 1, 0, 1, 2], np.uint32))
    array([2, 1])
    """
    parent = np.arange(indptr.size - 1, dtype=np.uint32 if indptr.size <= 2**32 else np.int64)
    _join_neighbours(indptr, indices, parent)
    sizes: IntArray = np.bincount(parent)
    return sizes[sizes > 0]


@njit(nogil=True)
def _root(parent, node):
    while np.int64(parent[node]) != node:
        parent[node] = parent[np.int64(parent[node])]  # halve the way for those who come after
        node = np.int64(parent[node])
    return node


@njit(nogil=True)
def _join_neighbours(indptr, indices, parent):
    """Point each node to the first node of its component (union-find)."""
    for v in range(indptr.size - 1):
        for e in range(indptr[v], indptr[v + 1]):
            u = np.int64(indices[e])
            if u < v:
                mine, other = _root(parent, np.int64(v)), _root(parent, u)
                if mine < other:
                    parent[other] = mine
                else:
                    parent[mine] = other
    for v in range(indptr.size - 1):
        parent[v] = _root(parent, np.int64(v))
