"""GAT: neighbours weighed by attention, by PyTorch Geometric's ``GATConv``.

Veličković et al., "Graph Attention Networks", ICLR 2018, equations 3 and 4: ``h'_i = sum over neighbours j of
a_ij W h_j``, where ``a_ij`` is the softmax over ``j`` of ``LeakyReLU(a [W h_i, W h_j])``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from nodewise._util.types import IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.base import GraphNetwork
from nodewise.lab.rivals.gcn import layer_class
from nodewise.lab.rivals.layered import Layer, LayeredView
from nodewise.lab.rivals.matrix import InputLinear, Inputs
from nodewise.lab.rivals.params import Dropout, NonNegative, Positive, Whole


class Attention(nn.Module):
    """Layers of ``GATConv``: dropout before each and of the attention, ELU between; the last averages its heads."""

    def __init__(self, inputs: int, units: int, outputs: int, heads: list[int], dropout: float) -> None:
        super().__init__()
        self.maps, self.layers = nn.ModuleList(), nn.ModuleList()
        make = layer_class("GATConv")
        for i, count in enumerate(heads):
            last = i == len(heads) - 1
            width = outputs if last else units
            # Edge weights, if there are any, take part in the attention by PyTorch Geometric's ``edge_attr``.
            how = {"heads": count, "concat": not last, "dropout": dropout, "add_self_loops": False, "edge_dim": 1}
            layer = make(inputs, width, **how)
            layer.lin = nn.Identity()
            self.maps.append(InputLinear(inputs, count * width, dropout, bias=False))  # takes sparse rows too
            self.layers.append(layer)
            inputs = count * width

    def forward(self, rows: Inputs, layers: Sequence[Layer], weighted: bool) -> torch.Tensor:
        """Scores of the last layer's targets; ``rows`` are the features of the first one's sources."""
        out: Any = rows
        for i, (linear, attention, layer) in enumerate(zip(self.maps, self.layers, layers, strict=True)):
            mapped = linear(nn.functional.elu(out) if i else out)
            index, weight = layer.edges
            out = attention((mapped, mapped[layer.own]), index, weight if weighted else None)
        scores: torch.Tensor = out
        return scores


@dataclass(eq=False, repr=False, kw_only=True)
class GAT(GraphNetwork[LayeredView]):
    """``hidden``: units per head. ``heads``: attention heads of every layer but the last, which has ``out_heads``."""

    hidden: Whole = 8
    heads: Whole = 8
    out_heads: Whole = 1
    dropout: Dropout = 0.6
    lr: Positive = 0.005
    weight_decay: NonNegative = 5e-4
    patience: Whole = 100

    # The paper's Section 3.3; pubmed takes eight output heads there.
    PRESETS: ClassVar = {
        "citeseer": {"feature_norm": "l1"},
        "pubmed": {"out_heads": 8, "lr": 0.01, "weight_decay": 1e-3},
    }

    def check_params(self) -> None:
        super().check_params()
        layer_class("GATConv")

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        heads = [*[self.heads] * (self.layers - 1), self.out_heads]
        return Attention(inputs, self.hidden, outputs, heads, self.dropout)

    def _view(self, graph: Graph, nodes: IntArray) -> LayeredView:
        return LayeredView(graph, graph.to_scipy(), self)

    def _out(self, network: nn.Module, view: LayeredView, nodes: IntArray) -> torch.Tensor:
        out: torch.Tensor = network(*view.layers(nodes), view.weighted)
        return out
