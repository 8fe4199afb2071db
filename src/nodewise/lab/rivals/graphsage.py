"""GraphSAGE: ``h_v = ReLU(W [h_v, mean of sampled neighbours' h])``, brought to length one, then a linear classifier.

Hamilton et al., "Inductive Representation Learning on Large Graphs", NeurIPS 2017, Algorithms 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.types import IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.base import GraphNetwork, Rival
from nodewise.lab.rivals.kernels.subgraphs import sample_entries
from nodewise.lab.rivals.layered import Layer, LayeredView, MatrixRows, dense_work, scaled_rows
from nodewise.lab.rivals.matrix import InputLinear, Inputs
from nodewise.lab.rivals.params import NonNegative, Whole


class Aggregations(nn.Module):
    """The layers: dropout before each, and the classifier on top."""

    def __init__(self, inputs: int, hidden: int, outputs: int, layers: int, dropout: float) -> None:
        super().__init__()
        widths = [inputs, *[hidden] * (layers - 1)]
        # ``W [a, b]`` is ``W' a + W'' b``: one map gives both parts, so that sparse rows are read once.
        self.maps = nn.ModuleList([InputLinear(width, 2 * hidden, dropout) for width in widths])
        self.classifier = InputLinear(hidden, outputs, dropout)
        self.hidden = hidden

    def forward(self, rows: Inputs, layers: Sequence[Layer]) -> torch.Tensor:
        out = rows
        for linear, layer in zip(self.maps, layers, strict=True):
            own, others = linear(out).split(self.hidden, 1)
            out = nn.functional.normalize(torch.relu(own[layer.own] + layer.matrix @ others))
        scores: torch.Tensor = self.classifier(out)
        return scores


class SampledView(LayeredView):
    """Rows of means over neighbours: exact ones to predict, sampled ones to train.

    Loops are left out: a layer has a weight of its own for the node itself.
    """

    def __init__(self, graph: Graph, model: Rival) -> None:
        self.adjacency = graph.to_scipy()
        self.adjacency.setdiag(0)
        self.adjacency.eliminate_zeros()
        super().__init__(graph, scaled_rows(self.adjacency), model)

    def sampled(self, most: int, seed: int, nodes: IntArray) -> sp.csr_matrix:
        """The rows of ``nodes``, each a mean over at most ``most`` of its neighbours."""
        starts, entries = sample_entries(self.adjacency.indptr, nodes, most, seed)
        drawn = (self.adjacency.data[entries], self.adjacency.indices[entries], starts)
        return scaled_rows(sp.csr_matrix(drawn, shape=(nodes.size, self.adjacency.shape[1])))


@dataclass(eq=False, repr=False, kw_only=True)
class GraphSAGE(GraphNetwork[SampledView]):
    """``fanout``: neighbours sampled for each node of a batch; ``further``: for each node beyond, in every later hop.

    Neighbours are drawn uniformly, and edge weights weigh their mean. Predictions take all neighbours.
    """

    BATCHED = True

    fanout: Whole = 25
    further: Whole = 10
    hidden: Whole = 128
    weight_decay: NonNegative = 5e-4
    batch_size: Whole | None = 512

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        return Aggregations(inputs, self.hidden, outputs, self.layers, self.dropout)

    def _view(self, graph: Graph, nodes: IntArray) -> SampledView:
        return SampledView(graph, self)

    def _out(self, network: nn.Module, view: SampledView, nodes: IntArray) -> torch.Tensor:
        out: torch.Tensor = network(*view.layers(nodes))
        return out

    def _train_out(
        self, network: nn.Module, view: SampledView, nodes: IntArray, rng: np.random.Generator
    ) -> torch.Tensor:
        out: torch.Tensor = network(*view.made_by(self._samplers(view, rng), nodes))
        return out

    def _samplers(self, view: SampledView, rng: np.random.Generator) -> list[MatrixRows]:
        """One function per layer, from the batch outwards."""
        sizes = [self.fanout, *[self.further] * (self.layers - 1)]
        return [partial(view.sampled, most, int(rng.integers(1 << 62))) for most in sizes]

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        return dense_work(graph, nodes, self.layers, self.hidden)
