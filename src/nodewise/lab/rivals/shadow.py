"""ShaDow-GCN: a bounded subgraph around each node, and on it a GCN of any depth.

Zeng et al., "Decoupling the Depth and Scope of Graph Neural Networks", NeurIPS 2021: ``h_v = GCN(G[v])_v``, where
``G[v]`` is the subgraph of ``v``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.base import GraphNetwork
from nodewise.lab.rivals.kernels import subgraphs as kernels
from nodewise.lab.rivals.matrix import InputLinear, Inputs, SparseMatrix, feature_rows, some_rows
from nodewise.lab.rivals.neighbourhoods import Blocks, induced, pagerank
from nodewise.lab.rivals.params import NonNegative, Restart, Tolerance, Whole

CHUNK = 64  # nodes whose neighbours a thread looks for at a time

Readout = Literal["target", "mean", "max"]


class View(NamedTuple):
    """The subgraphs of ``targets`` (in order, each once), their values; nodes are numbered as rows of ``inputs``."""

    targets: IntArray
    blocks: Blocks
    values: FloatArray
    inputs: Inputs


class Batch(NamedTuple):
    """What the network takes: one matrix per layer, the first with a column for each row of ``inputs``, the last with
    the rows that are read out; the ``sizes`` of the subgraphs; the indices of the ``targets`` among those rows."""

    inputs: Inputs
    matrices: list[SparseMatrix]
    sizes: torch.Tensor
    targets: torch.Tensor


class SubgraphGCN(nn.Module):
    """GCN layers, then the target's row, beside it the mean or the largest of its subgraph's rows, and a linear map."""

    def __init__(self, inputs: int, outputs: int, hidden: int, layers: int, dropout: float, readout: Readout) -> None:
        super().__init__()
        self.first = InputLinear(inputs, hidden, dropout)
        self.rest = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))
        self.answer = nn.Linear(hidden if readout == "target" else 2 * hidden, outputs)
        self.dropout, self.readout = dropout, readout

    def forward(self, batch: Batch) -> torch.Tensor:
        drop = partial(nn.functional.dropout, p=self.dropout, training=self.training)
        rows = torch.relu(batch.matrices[0] @ self.first(batch.inputs))
        for linear, matrix in zip(self.rest, batch.matrices[1:], strict=True):
            rows = torch.relu(matrix @ linear(drop(rows)))
        read = rows[batch.targets]
        if self.readout != "target":
            read = torch.cat((read, torch.segment_reduce(rows, self.readout, lengths=batch.sizes)), 1)
        scores: torch.Tensor = self.answer(drop(read))
        return scores


@dataclass(eq=False, repr=False, kw_only=True)
class ShaDowGCN(GraphNetwork[View]):
    """``scope``: a node's subgraph has the ``budget`` heaviest nodes of its PageRank ("ppr", by push with ``alpha`` and
    ``epsilon``), or those within ``hops`` hops along at most ``budget`` random edges of each node ("khop").
    ``readout``: "target" reads the node's own row after the last of ``layers`` layers; "mean" and "max" read, beside
    it, what they name of all rows of the subgraph.
    """

    AT_ONCE = 1 << 12
    BATCHED = True

    scope: Literal["ppr", "khop"] = "ppr"
    budget: Whole = 32
    alpha: Restart = 0.15
    epsilon: Tolerance = 1e-4
    hops: Whole = 2
    readout: Readout = "target"
    layers: Whole = 3
    weight_decay: NonNegative = 5e-4
    patience: Whole = 30

    # The authors have no setting for graphs with so few labels; validation nodes chose the features' norm.
    PRESETS: ClassVar = {"pubmed": {"feature_norm": "l2"}}

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        return SubgraphGCN(inputs, outputs, self.hidden, self.layers, self.dropout, self.readout)

    def _view(self, graph: Graph, nodes: IntArray) -> View:
        targets = np.unique(nodes)
        blocks = induced(graph, *self._scopes(graph, targets))
        used, places = np.unique(blocks.nodes, return_inverse=True)
        inputs = feature_rows(graph.features, self.feature_norm, self.threads, used)
        return View(targets, blocks._replace(nodes=places), symmetric_values(graph, blocks), inputs)

    def _scopes(self, graph: Graph, targets: IntArray) -> tuple[IntArray, IntArray]:
        """The nodes of each target's subgraph, itself first: bounds and nodes."""
        if self.scope == "khop":
            return near(graph, targets, self.hops, self.budget, self.seed, thread_count(self.threads))
        weights = pagerank(graph, targets, self.alpha, self.epsilon, self.budget, self.threads).weights
        nodes = weights.nodes.astype(np.int64)
        nodes[weights.indptr[:-1]] = targets  # they come first, unless heavier nodes fill the budget
        return weights.indptr, nodes

    def _out(self, network: nn.Module, view: View, nodes: IntArray) -> torch.Tensor:
        out: torch.Tensor = network(self._batch(view, nodes))
        return out

    def _batch(self, view: View, nodes: IntArray) -> Batch:
        """The subgraphs of some nodes side by side. A node in several of them has one row of inputs, dropped alike."""
        blocks = view.blocks._replace(entries=np.arange(view.values.size))
        blocks = blocks.some(np.searchsorted(view.targets, nodes))
        values = view.values[blocks.entries]
        used, places = np.unique(blocks.nodes, return_inverse=True)
        size = blocks.nodes.size
        square = sp.csr_matrix((values, blocks.indices.astype(np.int32), blocks.indptr), shape=(size, size))
        columns = places[blocks.indices].astype(np.int32)
        gathering = sp.csr_matrix((values, columns, blocks.indptr), shape=(size, used.size))
        first, middle = (SparseMatrix.of(m, self.threads, symmetric=m is square) for m in (gathering, square))
        matrices, targets = [first, *[middle] * (self.layers - 1)], blocks.starts[:-1]
        if self.readout == "target":  # the last layer makes no other rows
            matrices[-1], targets = matrices[-1].rows(targets), np.arange(targets.size)
        sizes = torch.from_numpy(np.diff(blocks.starts))
        return Batch(some_rows(view.inputs, used), matrices, sizes, torch.from_numpy(targets))

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        return min(self.batch_size or nodes.size, nodes.size) * self.budget * self.layers * self.hidden**2


def symmetric_values(graph: Graph, blocks: Blocks) -> FloatArray:
    """``D^-1/2 A D^-1/2`` of each subgraph by itself: degrees are those within it."""
    weights = np.ones(blocks.entries.size) if graph.edge_weight is None else graph.edge_weight[blocks.entries]
    scale = 1 / np.sqrt(np.add.reduceat(weights.astype(np.float64), blocks.indptr[:-1]))  # the loop is always there
    values = weights * np.repeat(scale, np.diff(blocks.indptr)) * scale[blocks.indices]
    return values.astype(np.float32)


def near(graph: Graph, targets: IntArray, hops: int, fanout: int, seed: int, threads: int) -> tuple[IntArray, IntArray]:
    """The nodes within ``hops`` hops of each target along at most ``fanout`` edges of each node, the target first."""
    most = min(graph.num_nodes, sum(fanout**hop for hop in range(hops + 1)))

    def work(chunk: IntArray) -> tuple[IntArray, IntArray]:
        places = np.full(graph.num_nodes, -1, np.int64)
        nodes, sizes = np.empty(chunk.size * most, np.int64), np.empty(chunk.size, np.int64)
        total = kernels.near(graph.indptr, graph.indices, chunk, hops, fanout, seed, places, nodes, sizes)
        return sizes, nodes[:total].copy()

    found = map_chunks(work, np.split(targets, range(CHUNK, targets.size, CHUNK)), threads)
    sizes, nodes = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))), nodes
