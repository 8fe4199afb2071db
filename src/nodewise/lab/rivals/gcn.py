"""GCN: ``S ReLU(S X W_1) W_2`` with ``S = D^-1/2 A D^-1/2``, by PyTorch Geometric's ``GCNConv``.

Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.threads import thread_count
from nodewise._util.types import IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals import pyg
from nodewise.lab.rivals.layered import LayeredView, dense_work
from nodewise.lab.rivals.matrix import InputLinear, Inputs, SparseMatrix, feature_rows, symmetric_adjacency
from nodewise.lab.rivals.network import GraphNetwork

_WIDE = {"hidden": 64, "epochs": 1000}


class Convolutions(nn.Module):
    """Layers of ``GCNConv``: dropout before each, ReLU between them."""

    def __init__(self, widths: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList([pyg.graph_convolution(*pair) for pair in itertools.pairwise(widths)])
        self.layers[0].lin = InputLinear(widths[0], widths[1], dropout, bias=False)  # takes sparse rows too
        self.dropout = dropout

    def forward(self, rows: Inputs, matrices: Sequence[SparseMatrix]) -> torch.Tensor:
        """Scores of the last matrix's rows; ``rows`` are the features of the first one's columns."""
        out: torch.Tensor = self.layers[0](rows, matrices[0])
        for layer, matrix in zip(self.layers[1:], matrices[1:], strict=True):
            out = layer(nn.functional.dropout(torch.relu(out), self.dropout, self.training), matrix)
        return out


@dataclass(eq=False, repr=False, kw_only=True)
class GCN(GraphNetwork[LayeredView]):
    """All parameters are those of every network; the defaults are the paper's, but for weight decay on all layers.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> GCN(epochs=50, seed=0).fit(g, range(60), range(60, 120)).score(g, range(120, 500)) > 0.6
    True
    """

    hidden: int = 16
    weight_decay: float = 5e-4
    epochs: int = 200

    # Features are scaled as in the paper (Section 5.2) where that is no worse on the validation nodes.
    # The paper has none for the graphs of Shchur et al.: there 64 units did better on the validation nodes of one.
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "citeseer": {"feature_norm": "l1"},
        **dict.fromkeys(("amazon-computers", "amazon-photo", "coauthor-cs", "coauthor-physics"), _WIDE),
    }

    def check_params(self) -> None:
        super().check_params()
        pyg.layer_class("GCNConv")

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        return Convolutions([inputs, *[self.hidden] * (self.layers - 1), outputs], self.dropout)

    def _matrix(self, graph: Graph, nodes: IntArray) -> sp.csr_matrix:
        """What a layer multiplies with: at least the rows that answers for ``nodes`` need."""
        return symmetric_adjacency(graph, self.threads).csr

    def _view(self, graph: Graph, nodes: IntArray) -> LayeredView:
        rows = feature_rows(graph, self.feature_norm, self.threads)
        return LayeredView(rows, self._matrix(graph, nodes), self.layers, thread_count(self.threads))

    def _out(self, network: nn.Module, view: LayeredView, nodes: IntArray) -> torch.Tensor:
        needed = view.layers(nodes)
        out: torch.Tensor = network(needed.inputs, needed.matrices)
        return out

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        return dense_work(graph, nodes, self.layers, self.hidden)
