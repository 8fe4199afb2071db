"""GraphSAINT: a GNN trained on subgraphs that random walks visit, normalised so that they stand for the whole graph.

Zeng et al., "GraphSAINT: Graph Sampling Based Inductive Learning Method", ICLR 2020, equation 2: in a subgraph node
``v`` gets ``sum over u of P[v, u] / a_uv h_u`` with ``a_uv = C_uv / C_v``, how many subgraphs have the edge and ``v``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray, DoubleArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.base import GraphNetwork
from nodewise.lab.rivals.kernels import subgraphs as kernels
from nodewise.lab.rivals.matrix import InputLinear, Inputs, SparseMatrix, feature_rows, some_rows
from nodewise.lab.rivals.neighbourhoods import Blocks, induced
from nodewise.lab.rivals.params import NonNegative, Whole

AHEAD = 1 << 32  # seeds between those that estimate how likely nodes are and those that train


class Sampler:
    """Subgraphs induced by the nodes that ``roots`` random walks of ``length`` steps visit; one per seed."""

    def __init__(self, graph: Graph, roots: int, length: int) -> None:
        self.graph, self.roots, self.length = graph, roots, length

    @property
    def most(self) -> int:
        """The most nodes that a subgraph can have."""
        return min(self.graph.num_nodes, self.roots * (self.length + 1))

    @property
    def _walk(self) -> tuple[IntArray, AnyArray, DoubleArray, int]:
        return self.graph.indptr, self.graph.indices, self.graph.cumulative_weights, self.length

    def _scratch(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        at, edge = np.empty((2, self.roots), np.int64)
        return at, edge, np.full(self.graph.num_nodes, -1, np.int64), np.empty(self.most, np.int64)

    def draw(self, seed: int) -> Blocks:
        """The subgraph of a seed; its nodes in order of their first visit."""
        scratch = self._scratch()
        size = kernels.walked(*self._walk, seed, *scratch)
        return induced(self.graph, np.array([0, size]), scratch[-1][:size])

    def count(self, seed: int, subgraphs: int, threads: int) -> tuple[IntArray, IntArray]:
        """In how many of the subgraphs each node is (``C_v``), and each adjacency entry (``C_uv``)."""
        cuts = np.linspace(seed, seed + subgraphs, threads + 1).astype(np.int64).tolist()

        def work(i: int) -> tuple[IntArray, IntArray]:
            visits, entries = np.zeros(self.graph.num_nodes, np.int64), np.zeros(self.graph.num_entries, np.int64)
            kernels.count_walked(*self._walk, cuts[i], cuts[i + 1], *self._scratch(), visits, entries)
            return visits, entries

        parts = map_chunks(work, range(threads), threads)
        return sum(p[0] for p in parts), sum(p[1] for p in parts)  # type: ignore[return-value]


class Scales(NamedTuple):
    """Factors that correct for nodes and edges that are drawn more often than others (the paper's Sec. 3.2).

    ``loss[v] = N / C_v`` for a node of the subgraph; ``entries = C_v / C_uv`` for what ``v`` gets along an edge of it.
    A node or an edge that was in none of the ``N`` subgraphs counts as if it had been in one.
    """

    loss: FloatArray
    entries: FloatArray


def estimated(sampler: Sampler, seed: int, coverage: int, threads: int) -> Scales:
    """From enough subgraphs to have each node ``coverage`` times, if they overlapped little."""
    graph = sampler.graph
    subgraphs = -(-coverage * graph.num_nodes // sampler.most)
    visits, entries = (np.maximum(counts, 1) for counts in sampler.count(seed, subgraphs, threads))
    scale = np.repeat(visits, np.diff(graph.indptr)) / entries
    return Scales((subgraphs / visits).astype(np.float32), scale.astype(np.float32))


class View:
    """The whole graph, to predict, and its subgraphs, to train."""

    def __init__(self, graph: Graph, model: GraphSAINT) -> None:
        self.model, self.threads = model, thread_count(model.threads)
        self.inputs = feature_rows(graph.features, model.feature_norm, self.threads)
        self.sampler = Sampler(graph, min(model.roots, graph.num_nodes), model.length)
        walk = graph.to_scipy()  # D^-1 A, loops included
        walk.data /= np.repeat(graph.degrees, np.diff(graph.indptr))
        self.matrix = SparseMatrix.of(walk, self.threads)

    @cached_property
    def scales(self) -> Scales:
        """Estimated when training first needs them: predictions do not."""
        return estimated(self.sampler, self.model.seed, self.model.coverage, self.threads)

    def drawn(self, seed: int) -> tuple[IntArray, SparseMatrix]:
        """The nodes of a subgraph, and the matrix that stands for ``D^-1 A`` in it."""
        block = self.sampler.draw(seed)
        values = self.matrix.values[block.entries] * self.scales.entries[block.entries]
        size = block.nodes.size
        matrix = sp.csr_matrix((values, block.indices.astype(np.int32), block.indptr), shape=(size, size))
        return block.nodes, SparseMatrix.of(matrix, self.threads)


class ConcatGNN(nn.Module):
    """Layers whose output is half a map of a node's own row, half one of the mean of its neighbours."""

    def __init__(self, inputs: int, outputs: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.first = InputLinear(inputs, hidden, dropout)
        self.rest = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))
        self.answer = nn.Linear(hidden, outputs)
        self.own, self.dropout = hidden // 2, dropout

    def forward(self, inputs: Inputs, matrix: SparseMatrix) -> torch.Tensor:
        rows = self.first(inputs)
        for linear in [*self.rest, self.answer]:
            mixed = torch.relu(torch.cat((rows[:, : self.own], matrix @ rows[:, self.own :]), 1))
            rows = linear(nn.functional.dropout(mixed, self.dropout, self.training))
        scores: torch.Tensor = rows
        return scores


@dataclass(eq=False, repr=False, kw_only=True)
class GraphSAINT(GraphNetwork[View]):
    """``roots`` random walks of ``length`` steps make a subgraph; the subgraphs of an epoch together have as many nodes
    as the graph. ``coverage``: how often subgraphs should have each node when the normalisation is estimated, before
    training. A subgraph without a training node is left out.
    """

    roots: Whole = 200
    length: Whole = 2
    coverage: Whole = 50
    hidden: Annotated[int, 2] = 64
    weight_decay: NonNegative = 5e-4
    patience: Whole = 20

    # The authors have no setting for graphs with so few labels: larger graphs get larger subgraphs, and the three
    # numbers of Citeseer were chosen on validation nodes.
    PRESETS: ClassVar = {
        "citeseer": {"roots": 1000, "patience": 60, "weight_decay": 5e-3},
        "pubmed": {"roots": 1000},
        "amazon-computers": {"roots": 1000, "patience": 40},
        "amazon-photo": {"roots": 1000, "patience": 40},
        "coauthor-cs": {"roots": 1000},
        "coauthor-physics": {"roots": 2000},
        "arxiv-standin": {"roots": 4000},
    }

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        return ConcatGNN(inputs, outputs, self.hidden, self.layers, self.dropout)

    def _view(self, graph: Graph, nodes: IntArray) -> View:
        return View(graph, self)

    def _out(self, network: nn.Module, view: View, nodes: IntArray) -> torch.Tensor:
        out: torch.Tensor = network(view.inputs, view.matrix)[torch.from_numpy(nodes)]
        return out

    def _losses(
        self, network: nn.Module, view: View, nodes: IntArray, labels: torch.Tensor, rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        trained = np.full(view.sampler.graph.num_nodes, -1, np.int64)
        trained[nodes] = np.arange(nodes.size)
        for _ in range(-(-trained.size // view.sampler.most)):
            drawn, matrix = view.drawn(AHEAD + int(rng.integers(AHEAD)))
            rows = np.flatnonzero(trained[drawn] >= 0)
            if rows.size:
                out = network(some_rows(view.inputs, drawn), matrix)[torch.from_numpy(rows)]
                each = _loss_of_each(out, labels[torch.from_numpy(trained[drawn[rows]])])
                yield (each * torch.from_numpy(view.scales.loss[drawn[rows]])).sum() / nodes.size

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        most = Sampler(graph, self.roots, self.length).most
        return most * (graph.num_features // 8 + self.hidden) * self.hidden


def _loss_of_each(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if labels.ndim == 2:
        return nn.functional.binary_cross_entropy_with_logits(out, labels, reduction="none").mean(1)
    return nn.functional.cross_entropy(out, labels, reduction="none")
