"""ShaDow-GCN: a bounded subgraph around each node, and on it a GCN as deep as one likes.

Zeng et al., "Decoupling the Depth and Scope of Graph Neural Networks", NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.errors import InputError
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.block_diagonal import Blocks, induced, symmetric_values
from nodewise.lab.rivals.kernels import subgraphs as kernels
from nodewise.lab.rivals.matrix import InputLinear, Inputs, SparseMatrix, some_rows
from nodewise.lab.rivals.network import GraphNetwork
from nodewise.lab.rivals.pushed import check_push, inputs_of, pagerank
from nodewise.learn.task import check_whole
from nodewise.learn.trainer import loss_of

CHUNK = 64  # nodes whose neighbours a thread looks for at a time

Scope = Literal["ppr", "khop"]
Readout = Literal["target", "mean", "max"]


class View(NamedTuple):
    """The subgraphs of ``targets`` (in order, each once), their values; nodes are numbered as rows of ``inputs``."""

    targets: IntArray
    blocks: Blocks
    values: FloatArray
    inputs: Inputs


class Batch(NamedTuple):
    """What the network takes: the first layer's matrix has a column for each row of ``inputs``, the next ones are
    square, the last gives the rows that are read out; ``sizes`` of the subgraphs, ``targets`` among those rows."""

    inputs: Inputs
    first: SparseMatrix
    middle: SparseMatrix
    last: SparseMatrix
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
        matrices = [batch.first, *[batch.middle] * (len(self.rest) - 1), batch.last]
        rows = torch.relu(matrices[0] @ self.first(batch.inputs))
        for linear, matrix in zip(self.rest, matrices[1:], strict=False):
            rows = torch.relu(matrix @ linear(self._dropped(rows)))
        if self.readout == "target":
            read = rows[batch.targets]
        else:
            pooled = torch.segment_reduce(rows, self.readout, lengths=batch.sizes)
            read = torch.cat((rows[batch.targets], pooled), 1)
        answer: torch.Tensor = self.answer(self._dropped(read))
        return answer

    def _dropped(self, rows: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(rows, self.dropout, self.training)


@dataclass(eq=False, repr=False, kw_only=True)
class ShaDowGCN(GraphNetwork[View]):
    """``scope``: a node's subgraph has the ``budget`` heaviest nodes of its PageRank ("ppr", by push with ``alpha`` and
    ``epsilon``), or those within ``hops`` hops along at most ``budget`` random edges of each node ("khop").
    ``readout``: "target" reads the node's own row after the last of ``layers`` layers; "mean" and "max" read, beside
    it, what they name of all rows of the subgraph.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> ShaDowGCN(seed=0).fit(g, range(60), range(60, 120)).score(g, range(120, 500)) > 0.6
    True
    """

    AT_ONCE: ClassVar[int | None] = 1 << 12

    scope: Scope = "ppr"
    budget: int = 32
    alpha: float = 0.15
    epsilon: float = 1e-4
    hops: int = 2
    readout: Readout = "target"
    layers: int = 3
    weight_decay: float = 5e-4
    patience: int = 30

    # The authors have no setting for graphs of so few labels; features are scaled where validation asked for it.
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {"pubmed": {"feature_norm": "l2"}}

    def check_params(self) -> None:
        super().check_params()
        check_push(self.alpha, self.epsilon)
        check_whole("budget", self.budget)
        check_whole("hops", self.hops)
        for name, known in (("scope", ("ppr", "khop")), ("readout", ("target", "mean", "max"))):
            if getattr(self, name) not in known:
                raise InputError(f"{name}={getattr(self, name)!r}: expected one of {', '.join(map(repr, known))}")

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        return SubgraphGCN(inputs, outputs, self.hidden, self.layers, self.dropout, self.readout)

    def _view(self, graph: Graph, nodes: IntArray) -> View:
        targets = np.unique(nodes)
        blocks = induced(graph, *self._scopes(graph, targets))
        used, places = np.unique(blocks.nodes, return_inverse=True)
        inputs = inputs_of(graph.features, used, self.feature_norm, self.threads)
        return View(targets, blocks._replace(nodes=places), symmetric_values(graph, blocks), inputs)

    def _scopes(self, graph: Graph, targets: IntArray) -> tuple[IntArray, IntArray]:
        """The nodes of each target's subgraph, itself first: bounds and nodes."""
        if self.scope == "khop":
            return near(graph, targets, self.hops, self.budget, self.seed, thread_count(self.threads))
        weights = pagerank(graph, targets, self.alpha, self.epsilon, self.budget, self.threads).weights
        nodes = weights.nodes.astype(np.int64)
        nodes[weights.indptr[:-1]] = targets  # they come first, but where others crowd them out
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
        targets, alone = blocks.starts[:-1], self.readout == "target"
        first, middle = (SparseMatrix.of(m, self.threads, symmetric=m is square) for m in (gathering, square))
        return Batch(
            some_rows(view.inputs, used),
            first.rows(targets) if alone and self.layers == 1 else first,
            middle,
            middle.rows(targets) if alone else middle,
            torch.from_numpy(np.diff(blocks.starts)),
            torch.arange(targets.size) if alone else torch.from_numpy(targets),
        )

    def _losses(
        self, network: nn.Module, view: View, nodes: IntArray, labels: torch.Tensor, rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        for chosen in self._batches(nodes.size, rng):
            yield loss_of(self._out(network, view, nodes[chosen]), labels[torch.from_numpy(chosen)])

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        return min(self.batch_size or nodes.size, nodes.size) * self.budget * self.layers * self.hidden**2


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
