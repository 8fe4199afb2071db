"""GCN: ``S ReLU(S X W_1) W_2`` with ``S = D^-1/2 A D^-1/2``, by PyTorch Geometric's ``GCNConv``.

Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.errors import InputError
from nodewise._util.types import IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.base import GraphNetwork
from nodewise.lab.rivals.layered import Layer, LayeredView, dense_work
from nodewise.lab.rivals.matrix import InputLinear, Inputs, SparseMatrix, symmetric_adjacency
from nodewise.lab.rivals.params import NonNegative, Whole

_WIDE = {"hidden": 64, "epochs": 1000}


def layer_class(name: str) -> Any:
    """A class of ``torch_geometric.nn``, which is an optional dependency."""
    try:
        from torch_geometric import nn as layers
    except ImportError as error:
        raise InputError(f"{name} is a layer of torch_geometric; pip install 'nodewise[baselines]' for it") from error
    return getattr(layers, name)


class Convolutions(nn.Module):
    """Layers of ``GCNConv``: dropout before each, ReLU between them.

    They multiply with a :class:`SparseMatrix`, normalised already, in the place of an edge index: torch's own CSR
    product sorts the matrix anew in every backward pass, which takes six times as long.
    """

    def __init__(self, widths: Sequence[int], dropout: float) -> None:
        super().__init__()
        convolutions = [layer_class("GCNConv")(*pair, normalize=False) for pair in itertools.pairwise(widths)]
        for convolution in convolutions:
            convolution.propagate = _multiply
        self.layers = nn.ModuleList(convolutions)
        self.layers[0].lin = InputLinear(widths[0], widths[1], dropout, bias=False)  # takes sparse rows too
        self.dropout = dropout

    def forward(self, rows: Inputs, layers: Sequence[Layer]) -> torch.Tensor:
        """Scores of the last layer's targets; ``rows`` are the features of the first one's sources."""
        out: torch.Tensor = self.layers[0](rows, layers[0].matrix)
        for convolution, layer in zip(self.layers[1:], layers[1:], strict=True):
            out = convolution(nn.functional.dropout(torch.relu(out), self.dropout, self.training), layer.matrix)
        return out


def _multiply(matrix: SparseMatrix, x: torch.Tensor, **_: None) -> torch.Tensor:
    return matrix @ x


@dataclass(eq=False, repr=False, kw_only=True)
class GCN(GraphNetwork[LayeredView]):
    """It has the parameters of every network; the defaults are the paper's, except for weight decay on all layers."""

    hidden: Whole = 16
    weight_decay: NonNegative = 5e-4
    epochs: Whole = 200

    # Features are scaled as in the paper (Section 5.2) where that is no worse on the validation nodes.
    # The paper has none for the graphs of Shchur et al.: there 64 units did better on the validation nodes of one.
    PRESETS: ClassVar = {
        "citeseer": {"feature_norm": "l1"},
        **dict.fromkeys(("amazon-computers", "amazon-photo", "coauthor-cs", "coauthor-physics"), _WIDE),
    }

    def check_params(self) -> None:
        super().check_params()
        layer_class("GCNConv")

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        return Convolutions([inputs, *[self.hidden] * (self.layers - 1), outputs], self.dropout)

    def _matrix(self, graph: Graph, nodes: IntArray) -> sp.csr_matrix:
        """What a layer multiplies with: at least the rows that predictions of ``nodes`` need."""
        return symmetric_adjacency(graph)

    def _view(self, graph: Graph, nodes: IntArray) -> LayeredView:
        return LayeredView(graph, self._matrix(graph, nodes), self)

    def _out(self, network: nn.Module, view: LayeredView, nodes: IntArray) -> torch.Tensor:
        out: torch.Tensor = network(*view.layers(nodes))
        return out

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        return dense_work(graph, nodes, self.layers, self.hidden)
