"""The part of a graph that predictions need, layer by layer, from the predicted nodes outwards.

A network of ``L`` layers predicts a node from the nodes within ``L`` steps of it. Leaving the others out changes no
prediction and no gradient: training stays full batch, at the cost of the neighbourhood and not of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch

from nodewise._util.types import AnyArray, IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.base import Rival
from nodewise.lab.rivals.matrix import Inputs, SparseMatrix, feature_rows, some_rows

MatrixRows = Callable[[IntArray], sp.csr_matrix]  # from nodes to their rows of an aggregation matrix


@dataclass(frozen=True)
class Layer:
    """The matrix from a layer's source nodes to its target nodes, and the indices of the targets among the sources."""

    matrix: SparseMatrix
    own: torch.Tensor

    @cached_property
    def edges(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The matrix's entries as PyTorch Geometric has them: sources and targets, weights."""
        pattern = self.matrix.pattern
        targets = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        index = np.stack([pattern.indices, targets]).astype(np.int64)
        return torch.from_numpy(index), torch.from_numpy(np.array(self.matrix.values))


Layers = tuple[Inputs, list[Layer]]  # the features of the farthest nodes, and the layers from there inwards


class LayeredView:
    """A graph as its features and ``matrix``, which aggregates; what a set of nodes needs is made once and kept."""

    def __init__(self, graph: Graph, matrix: sp.csr_matrix, model: Rival) -> None:
        self.inputs = feature_rows(graph.features, model.feature_norm, model.threads)
        self.matrix, self.depth, self.threads = matrix, model.layers, model.threads
        self.weighted = graph.edge_weight is not None
        self._made: dict[bytes, Layers] = {}

    def layers(self, nodes: IntArray) -> Layers:
        """All that predictions of ``nodes`` depend on."""
        key = nodes.tobytes()
        if key not in self._made:
            self._made[key] = self.made_by([self.matrix.__getitem__] * self.depth, nodes)
        return self._made[key]

    def made_by(self, makers: Iterable[MatrixRows], nodes: IntArray) -> Layers:
        """Layers whose matrices come from ``makers``, the last layer's first."""
        layers = []
        for rows_of in makers:
            rows, targets = rows_of(nodes), nodes
            nodes = np.unique(np.concatenate([rows.indices, targets])).astype(np.int64)
            columns = np.searchsorted(nodes, rows.indices).astype(np.int32)
            small = sp.csr_matrix((rows.data, columns, rows.indptr), shape=(targets.size, nodes.size))
            own = torch.from_numpy(np.searchsorted(nodes, targets))
            layers.append(Layer(SparseMatrix.of(small, self.threads), own))
        return some_rows(self.inputs, nodes), layers[::-1]


def dense_work(graph: Graph, nodes: IntArray, depth: int, hidden: int) -> int:
    """Multiplications that torch does in a step, roughly; sparse products have threads of their own."""
    reached = min(graph.num_nodes, nodes.size * (graph.num_entries / graph.num_nodes) ** depth)
    return int(reached * hidden * (hidden if sp.issparse(graph.features) else graph.num_features))


def scaled_rows(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Each row divided by its sum; rows without entries stay empty."""
    sums: AnyArray = np.asarray(matrix.sum(1), np.float64).ravel()
    shares = np.divide(1.0, sums, out=np.zeros(sums.size), where=sums > 0)
    data = matrix.data * np.repeat(shares, np.diff(matrix.indptr))
    return sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)
