"""GAT: neighbours weighed by attention, by PyTorch Geometric's ``GATConv``.

Veličković et al., "Graph Attention Networks", ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from nodewise._util.threads import thread_count
from nodewise._util.types import IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals import pyg
from nodewise.lab.rivals.layered import Layer, LayeredView
from nodewise.lab.rivals.matrix import InputLinear, Inputs, feature_rows
from nodewise.lab.rivals.network import GraphNetwork
from nodewise.learn.task import check_whole


class Attention(nn.Module):
    """Layers of ``GATConv``: dropout before each and of the attention, ELU between; the last averages its heads."""

    def __init__(self, inputs: int, units: int, outputs: int, heads: list[int], dropout: float) -> None:
        super().__init__()
        self.maps, self.layers, self.dropout = nn.ModuleList(), nn.ModuleList(), dropout
        make = pyg.layer_class("GATConv")
        for i, count in enumerate(heads):
            last = i == len(heads) - 1
            width = outputs if last else units
            # Edge weights, where there are some, take part in the attention by PyTorch Geometric's ``edge_attr``.
            how = {"heads": count, "concat": not last, "dropout": dropout, "add_self_loops": False, "edge_dim": 1}
            layer = make(inputs, width, **how)
            layer.lin = nn.Identity()
            self.maps.append(InputLinear(inputs, count * width, dropout, bias=False))  # takes sparse rows too
            self.layers.append(layer)
            inputs = count * width

    def forward(self, rows: Inputs, edges: Sequence[Edges]) -> torch.Tensor:
        """Scores of the last layer's targets; ``rows`` are the features of the first one's sources."""
        mapped = self.maps[0](rows)
        out: torch.Tensor = self.layers[0]((mapped, mapped[edges[0].own]), edges[0].index, edges[0].weight)
        for linear, layer, near in zip(self.maps[1:], self.layers[1:], edges[1:], strict=True):
            mapped = linear(nn.functional.elu(out))
            out = layer((mapped, mapped[near.own]), near.index, near.weight)
        return out


class Edges:
    """A layer's edges as PyTorch Geometric has them, and its targets among its sources."""

    def __init__(self, layer: Layer, weighted: bool) -> None:
        pattern = layer.matrix.pattern
        targets = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        self.index = torch.from_numpy(np.stack([pattern.indices, targets]).astype(np.int64))
        self.weight = torch.from_numpy(np.array(layer.matrix.values)) if weighted else None
        self.own = layer.own


class EdgeView(LayeredView):
    """A layered view that keeps layers as edges."""

    def __init__(self, graph: Graph, norm: str, layers: int, threads: int | None) -> None:
        rows = feature_rows(graph, norm, threads)
        super().__init__(rows, graph.to_scipy(), layers, thread_count(threads))
        self.weighted = graph.edge_weight is not None
        self._edges: dict[bytes, list[Edges]] = {}

    def edges(self, nodes: IntArray) -> list[Edges]:
        key = nodes.tobytes()
        if key not in self._edges:
            self._edges[key] = [Edges(layer, self.weighted) for layer in self.layers(nodes).layers]
        return self._edges[key]


@dataclass(eq=False, repr=False, kw_only=True)
class GAT(GraphNetwork[EdgeView]):
    """``hidden``: units per head. ``heads``: attention heads of every layer but the last, which has ``out_heads``.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> GAT(epochs=100, seed=0).fit(g, range(60), range(60, 120)).score(g, range(120, 500)) > 0.6
    True
    """

    hidden: int = 8
    heads: int = 8
    out_heads: int = 1
    dropout: float = 0.6
    lr: float = 0.005
    weight_decay: float = 5e-4
    patience: int = 100

    # The paper's Section 3.3; pubmed takes eight output heads there.
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "citeseer": {"feature_norm": "l1"},
        "pubmed": {"out_heads": 8, "lr": 0.01, "weight_decay": 1e-3},
    }

    def check_params(self) -> None:
        super().check_params()
        check_whole("heads", self.heads)
        check_whole("out_heads", self.out_heads)
        pyg.layer_class("GATConv")

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        heads = [*[self.heads] * (self.layers - 1), self.out_heads]
        return Attention(inputs, self.hidden, outputs, heads, self.dropout)

    def _view(self, graph: Graph, nodes: IntArray) -> EdgeView:
        return EdgeView(graph, self.feature_norm, self.layers, self.threads)

    def _out(self, network: nn.Module, view: EdgeView, nodes: IntArray) -> torch.Tensor:
        out: torch.Tensor = network(view.layers(nodes).inputs, view.edges(nodes))
        return out
