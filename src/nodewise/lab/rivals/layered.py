"""The part of a graph that an answer needs, layer by layer, from the nodes asked about outwards.

A network of ``L`` layers answers for a node from the nodes within ``L`` steps of it. Leaving the others out changes no
answer and no gradient: training stays full batch, at the cost of the neighbourhood and not of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from nodewise._util.types import AnyArray, IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.matrix import Inputs, SparseMatrix, some_rows

MatrixRows = Callable[[IntArray], sp.csr_matrix]  # from nodes to their rows of an aggregation matrix


class Layer(NamedTuple):
    """The matrix from a layer's source nodes to its target nodes, and where the targets are among the sources."""

    matrix: SparseMatrix
    own: torch.Tensor


class Layers(NamedTuple):
    """What a network computes from: the features of the farthest nodes, and its layers from there inwards."""

    inputs: Inputs
    layers: list[Layer]

    @property
    def matrices(self) -> list[SparseMatrix]:
        return [layer.matrix for layer in self.layers]


class LayeredView:
    """A graph as its aggregation matrix and its feature rows; what a set of nodes needs is made once and kept."""

    def __init__(self, inputs: Inputs, matrix: sp.csr_matrix, depth: int, threads: int) -> None:
        self.inputs, self.matrix, self.depth, self.threads = inputs, matrix, depth, threads
        self._made: dict[bytes, Layers] = {}

    def layers(self, nodes: IntArray) -> Layers:
        """All that answers for ``nodes`` depend on."""
        key = nodes.tobytes()
        if key not in self._made:
            self._made[key] = self.made_by([self.matrix.__getitem__] * self.depth, nodes)
        return self._made[key]

    def made_by(self, makers: Iterable[MatrixRows], nodes: IntArray) -> Layers:
        """Layers whose matrices come from ``makers``, the last layer's first."""
        layers = []
        for rows_of in makers:
            layer, nodes = _layer(rows_of(nodes), nodes, self.threads)
            layers.append(layer)
        return Layers(some_rows(self.inputs, nodes), layers[::-1])


def _layer(rows: sp.csr_matrix, targets: IntArray, threads: int) -> tuple[Layer, IntArray]:
    """Rows over all nodes as a layer over the nodes that they name, and these nodes; targets are among them."""
    sources = np.unique(np.concatenate([rows.indices, targets])).astype(np.int64)
    columns = np.searchsorted(sources, rows.indices).astype(np.int32)
    small = sp.csr_matrix((rows.data, columns, rows.indptr), shape=(targets.size, sources.size))
    return Layer(SparseMatrix.of(small, threads), torch.from_numpy(np.searchsorted(sources, targets))), sources


def dense_work(graph: Graph, nodes: IntArray, depth: int, hidden: int) -> int:
    """Multiplications that torch does in a step, roughly; sparse products have threads of their own."""
    reached = min(graph.num_nodes, nodes.size * (graph.num_entries / graph.num_nodes) ** depth)
    return int(reached * hidden * (hidden if sp.issparse(graph.features) else graph.num_features))


def scaled_rows(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Each row divided by its sum; rows without entries stay so."""
    sums: AnyArray = np.asarray(matrix.sum(1), np.float64).ravel()
    shares = np.divide(1.0, sums, out=np.zeros(sums.size), where=sums > 0)
    data = matrix.data * np.repeat(shares, np.diff(matrix.indptr))
    return sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)
