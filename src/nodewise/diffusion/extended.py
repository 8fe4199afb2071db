"""Diffusion from new nodes that lie over a graph, by what is known of their neighbours in it.

Let ``[B, C]`` be the steps of new nodes: ``B`` to nodes of the graph, ``C`` to new ones, loops included. A walk that
has left the new nodes never returns, so with ``H_k = P^k`` in the graph, hop ``l`` of a new node ``u`` is

    ``P^l[u] = sum over j < l of (C^j B)[u] H_(l-1-j)``, and ``C^l[u]`` among the new nodes.

The weights ``sum over l <= l_u of U(l) P^l[u]`` are linear in the hops of the neighbours, which any engine makes one by
one (``per_hop``): ``t_u = G[u] H``, with a coefficient for each neighbour and hop.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from nodewise._util.errors import InputError
from nodewise._util.types import DoubleArray, Features, FloatArray, IntArray
from nodewise.diffusion.aggregate import weighted_sum
from nodewise.diffusion.diffuse import NO_LIMIT, Diffusion, _hop_weights, _lengths, plan_diffusion
from nodewise.diffusion.params import DiffusionParams
from nodewise.diffusion.plan import reads_in_order
from nodewise.diffusion.walks import Weights, node_dtype
from nodewise.graph.extended import ExtendedGraph, JoinedRows
from nodewise.graph.features import dense_rows

LEAST_WALKS = 64  # per neighbour of a new node


class ExtendedDiffusion(Diffusion):
    """The diffusion from nodes of an :class:`ExtendedGraph`, new ones and others."""

    def __init__(self, graph: ExtendedGraph, nodes: IntArray, params: DiffusionParams) -> None:
        if params.per_hop:
            raise InputError("per_hop: new nodes have their hops summed; expected per_hop=False, or the graph below")
        first, given = graph.base.num_nodes, vars(params)
        self._is_new = nodes >= first
        lengths = _lengths(graph, nodes, params)
        self._old = plan_diffusion(graph.base, nodes[~self._is_new], **given)
        new = nodes[self._is_new] - first
        self._among = _reached(graph.links[:, first:], new)  # the new nodes that walks from these can visit
        steps = sp.diags(1 / np.asarray(graph.links.sum(1)).ravel()) @ graph.links
        steps = sp.csr_matrix(steps[self._among])
        to_graph, to_new = steps[:, :first], steps[:, first:][:, self._among]
        neighbours = np.unique(to_graph.indices).astype(np.int64)
        longest = int(lengths[self._is_new].max(initial=0))
        hops = _hop_weights(params, longest)
        reach = np.minimum(lengths[self._is_new], hops.size - 1)
        bank = dataclasses.replace(
            params, per_hop=True, length=max(0, hops.size - 2), max_hops=None, first_k=False, mass="theta"
        )
        self._bank = plan_diffusion(graph.base, neighbours, **vars(bank))
        share = float(to_graph.data.max(initial=0.0))  # of the walks of a new node that go on from one neighbour
        walks = max(LEAST_WALKS, math.ceil(share * self._bank._how.theta))
        self._bank._how = self._bank._how._replace(theta=min(self._bank._how.theta, walks), first_k=NO_LIMIT)
        plan = self._bank.plan if neighbours.size else self._old.plan
        super().__init__(graph, nodes, lengths, plan, self._old._how, self._bank._memory)
        places = np.searchsorted(self._among, new)
        known = sp.csr_matrix(to_graph[:, neighbours])
        self._coefficients, self._own = _coefficients(known, to_new, places, hops, reach)

    def _sample(self) -> None:
        for part in (self._old, self._bank):
            part._sample()
            self.phases = {name: self.phases.get(name, 0) + spent for name, spent in part.phases.items()}

    @property
    def matrix(self) -> sp.csr_matrix:
        """The weights as CSR ``(len(nodes), num_nodes)``."""
        first, count = self.graph.base.num_nodes, self.graph.num_nodes
        old, own = self._old.matrix, self._own.tocoo()
        beside = sp.csr_matrix((own.data, (own.row, self._among[own.col])), (own.shape[0], count - first))
        new = sp.hstack([self._weights_of_new(), beside], format="csr", dtype=np.float32)
        old = sp.csr_matrix((old.data, old.indices, old.indptr), (old.shape[0], count))
        back = np.argsort(np.argsort(self._is_new, kind="stable"), kind="stable")
        return sp.csr_matrix(sp.vstack([old, new], format="csr", dtype=np.float32)[back])

    def apply(self, features: Features, norm: str = "none", dtype: DTypeLike = np.float32) -> FloatArray:
        if features is not self.graph.features or not isinstance(features, JoinedRows):
            raise InputError("features: expected those of the graph itself, which new nodes have too")
        rows = np.zeros((self.nodes.size, features.shape[1]), np.float32)
        if not self._is_new.all():
            rows[~self._is_new] = self._old.apply(features.first, norm)
        if self._is_new.any():
            own = dense_rows(features.second, self._among, norm)
            rows[self._is_new] = self._rows_of_new(features.first, norm) + self._own @ own
        return rows.astype(dtype, copy=False)

    def _weights_of_new(self) -> sp.csr_matrix:
        """The weights that new nodes give to nodes of the graph."""
        return sp.csr_matrix(self._coefficients @ self._bank.matrix)

    def _rows_of_new(self, features: Features, norm: str) -> FloatArray:
        if self._bank.engine != "exact":
            found = self._weights_of_new()
            weights = Weights(
                found.indptr.astype(np.int64),
                found.indices.astype(node_dtype(self.graph)),
                found.data.astype(np.float32),
            )
            stream = reads_in_order(features, weights.nodes.size)
            return weighted_sum(weights, features, self._how.threads, norm, stream)
        width, each = features.shape[1], 4 * self._bank.nodes.size * self._bank.hops
        step = max(1, self._memory // 4 // max(1, each))
        if step >= width:  # all at once, over the targets where there are few
            return np.asarray(self._coefficients @ self._bank.apply(features, norm).reshape(-1, width))
        rows = np.empty((self._coefficients.shape[0], width), np.float32)
        for start in range(0, width, step):
            block = slice(start, min(width, start + step))
            bank = self._bank.apply_columns(features, norm, block)
            rows[:, block] = self._coefficients @ bank.reshape(-1, block.stop - block.start)
        return rows

    def apply_columns(self, *_: Any, **__: Any) -> FloatArray:
        raise InputError("exact propagation of all features does not reach new nodes; use apply")

    def blocks(self, features: Features) -> None:
        return None

    @property
    def most_neighbours(self) -> int:
        return max(self._old.most_neighbours, self._bank.most_neighbours)


def _reached(steps: sp.csr_matrix, nodes: IntArray) -> IntArray:
    """The new nodes that can be reached from some of them through new nodes alone, in order."""
    found = np.zeros(steps.shape[0], bool)
    front = np.unique(nodes)
    while front.size:
        found[front] = True
        front = np.unique(steps[front].indices)
        front = front[~found[front]]
    return np.flatnonzero(found)


def _coefficients(
    to_graph: sp.csr_matrix, to_new: sp.csr_matrix, places: IntArray, hops: DoubleArray, reach: IntArray
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """``G``, a column for each neighbour and hop ``v * hops + k``, and the weights among the new nodes."""
    width = max(1, hops.size - 1)
    at = sp.csr_matrix((np.ones(places.size), (np.arange(places.size), places)), (places.size, to_new.shape[0]))
    own = sp.csr_matrix(at.shape)
    entries: list[tuple[DoubleArray, IntArray, IntArray]] = []
    for steps in range(hops.size):  # taken among the new nodes so far
        own = own + sp.diags(np.where(reach >= steps, hops[steps], 0.0)) @ at
        leaving = sp.coo_matrix(at @ to_graph)
        for hop in range(hops.size - 1 - steps):
            factor = np.where(reach >= steps + 1 + hop, hops[steps + 1 + hop], 0.0)[leaving.row]
            entries.append((leaving.data * factor, leaving.row, leaving.col.astype(np.int64) * width + hop))
        at = at @ to_new
    values, rows, columns = (np.concatenate(part) for part in zip(*entries, strict=True)) if entries else ([], [], [])
    shape = (places.size, to_graph.shape[1] * width)
    return sp.csr_matrix((values, (rows, columns)), shape), sp.csr_matrix(own)
