"""GraphSAGE: ``h_v = ReLU(W [h_v, mean of sampled neighbours' h])``, brought to length one, then a linear classifier.

Hamilton et al., "Inductive Representation Learning on Large Graphs", NeurIPS 2017, Algorithms 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.threads import thread_count
from nodewise._util.types import IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.kernels.neighbours import sample_entries
from nodewise.lab.rivals.layered import Layer, LayeredView, MatrixRows, dense_work, scaled_rows
from nodewise.lab.rivals.matrix import InputLinear, Inputs, feature_rows
from nodewise.lab.rivals.network import GraphNetwork
from nodewise.learn.task import check_whole
from nodewise.learn.trainer import loss_of


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
    """Rows of means over neighbours, loops left out: exact ones for answers, sampled ones for training."""

    def __init__(self, graph: Graph, norm: str, layers: int, threads: int | None) -> None:
        self.adjacency = without_loops(graph)
        rows = feature_rows(graph, norm, threads)
        super().__init__(rows, scaled_rows(self.adjacency), layers, thread_count(threads))

    def sampled(self, most: int, seed: int, nodes: IntArray) -> sp.csr_matrix:
        """The rows of ``nodes``, each a mean over at most ``most`` of its neighbours."""
        starts, entries = sample_entries(self.adjacency.indptr, nodes, most, seed)
        drawn = (self.adjacency.data[entries], self.adjacency.indices[entries], starts)
        return scaled_rows(sp.csr_matrix(drawn, shape=(nodes.size, self.adjacency.shape[1])))


def without_loops(graph: Graph) -> sp.csr_matrix:
    """The adjacency but for its loops: a layer has a weight of its own for the node itself."""
    adjacency = graph.to_scipy()
    adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    return adjacency


@dataclass(eq=False, repr=False, kw_only=True)
class GraphSAGE(GraphNetwork[SampledView]):
    """``fanout``: neighbours sampled for each node of a batch; ``further``: for each node beyond, in every later hop.

    Neighbours are drawn evenly, and edge weights weigh their mean. Answers take all neighbours.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> GraphSAGE(epochs=30, seed=0).fit(g, range(60), range(60, 120)).score(g, range(120, 500)) > 0.6
    True
    """

    fanout: int = 25
    further: int = 10
    hidden: int = 128
    weight_decay: float = 5e-4
    batch_size: int | None = 512

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def check_params(self) -> None:
        super().check_params()
        check_whole("fanout", self.fanout)
        check_whole("further", self.further)

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        return Aggregations(inputs, self.hidden, outputs, self.layers, self.dropout)

    def _view(self, graph: Graph, nodes: IntArray) -> SampledView:
        return SampledView(graph, self.feature_norm, self.layers, self.threads)

    def _out(self, network: nn.Module, view: SampledView, nodes: IntArray) -> torch.Tensor:
        out: torch.Tensor = network(*view.layers(nodes))
        return out

    def _losses(
        self, network: nn.Module, view: SampledView, nodes: IntArray, labels: torch.Tensor, rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        for chosen in self._batches(nodes.size, rng):
            sampled = view.made_by(self._samplers(view, rng), nodes[chosen])
            yield loss_of(network(*sampled), labels[torch.from_numpy(chosen)])

    def _samplers(self, view: SampledView, rng: np.random.Generator) -> list[MatrixRows]:
        """A function per layer, from the batch outwards."""
        sizes = [self.fanout, *[self.further] * (self.layers - 1)]
        return [partial(view.sampled, most, int(rng.integers(1 << 62))) for most in sizes]

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        return dense_work(graph, nodes, self.layers, self.hidden)
