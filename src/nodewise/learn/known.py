"""What is known of some nodes, brought to targets by the weights of their diffusion: labels, residuals, guesses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nodewise._typing import FloatArray, IntArray
from nodewise.diffusion.diffuse import Diffusion, diffuse


class Known(NamedTuple):
    """Numbers that belong to ``nodes``: ``values[i]`` to ``nodes[i]``."""

    nodes: IntArray
    values: FloatArray

    def matrix(self, num_nodes: int) -> sp.csr_matrix:
        """A row for every node, empty where nothing is known."""
        columns = self.values.shape[1]
        place = np.repeat(self.nodes, columns), np.tile(np.arange(columns), self.nodes.size)
        made = sp.csr_matrix((self.values.ravel(), place), shape=(num_nodes, columns), dtype=np.float32)
        made.eliminate_zeros()
        return made


def reached(found: Diffusion, known: Known) -> FloatArray:
    """``sum over v of weight(u, v) * values[v]`` for each target ``u``."""
    return found.apply(known.matrix(found.graph.num_nodes))


def reached_without_own(found: Diffusion, known: Known, how: dict[str, Any], group: int) -> FloatArray:
    """As :func:`reached`, but over ``v != u``: what is known of a target itself says nothing about it.

    To take a target's own part out of a sum leaves its rounding behind, so it is left out before summing. That needs
    the weights one by one; where the exact engine has none, such targets are walked from, by ``how``, and a ``group``
    at a time.
    """
    sums = reached(found, known)
    inside = np.flatnonzero(np.isin(found.nodes, known.nodes))
    values = known.matrix(found.graph.num_nodes)
    for first in range(0, inside.size, group):
        part = inside[first : first + group]
        nodes = found.nodes[part]
        sampled = found.matrix[part] if found.engine != "exact" else diffuse(found.graph, nodes, **how).matrix
        row = np.repeat(np.arange(part.size), np.diff(sampled.indptr))
        sampled.data[sampled.indices == nodes[row]] = 0
        sums[part] = (sampled @ values).toarray()
    return sums
