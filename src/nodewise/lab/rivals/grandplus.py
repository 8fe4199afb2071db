"""GRAND+: rows of the heaviest neighbours, some dropped at random, and a network whose predictions should agree.

Feng et al., "GRAND+: Scalable Graph Random Neural Networks", WWW 2022: where ``z_v`` is 1 with probability
``1 - drop_node``: ``x_s = sum over the k heaviest neighbours v of z_v / (1 - drop_node) Pi(s, v) x_v``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import nn

from nodewise._util.threads import thread_count
from nodewise._util.types import DoubleArray, Features, FloatArray, IntArray
from nodewise.diffusion.aggregate import weighted_sum
from nodewise.diffusion.walks import Weights
from nodewise.graph import Graph
from nodewise.graph.features import normalize
from nodewise.lab.rivals.base import GraphNetwork
from nodewise.lab.rivals.neighbourhoods import Neighbourhoods, hop_sums
from nodewise.lab.rivals.params import Dropout, NonNegative, Norm, Positive, Restart, Tolerance, Whole, WholeOrZero
from nodewise.learn.heads import Heads
from nodewise.learn.trainer import loss_of

Propagation = Literal["ppr", "avg", "single"]


class View(NamedTuple):
    """The neighbourhoods of the nodes to predict and of ``pool``, nodes for the consistency loss; the features."""

    found: Neighbourhoods
    pool: IntArray
    features: Features


@dataclass(eq=False, repr=False, kw_only=True)
class GRANDPlus(GraphNetwork[View]):
    """``propagation``: the weights of hops ``l`` up to ``order``: ``alpha (1 - alpha)^l`` ("ppr"), equal ("avg"), or
    the last hop alone ("single"). ``epsilon``: what GFPush leaves behind, per unit of degree. ``top_k``: neighbours
    kept per node. ``drop_node``: the probability that one of them is left out. ``augmentations``: draws per step, whose
    predictions of ``unlabelled_batch`` of ``unlabelled`` random nodes should agree with their mean, sharpened by
    ``temperature``, where that gives a class more than ``2 / classes``. This loss is weighted by ``consistency``,
    reached over ``warmup`` steps; where nodes have several labels it is left out. ``row_norm`` scales the rows that the
    network sees. Defaults are those of Cora in the authors' code, except for ``batch_size`` (theirs: 50), ``warmup``
    (1000) and ``epsilon`` (1e-7), which take several times as long.
    """

    AT_ONCE = 1 << 12
    BATCHED = True

    propagation: Propagation = "avg"
    order: WholeOrZero = 4
    alpha: Restart = 0.2
    epsilon: Tolerance = 1e-5
    top_k: Whole = 32
    drop_node: Dropout = 0.5
    augmentations: Whole = 2
    temperature: Positive = 0.1
    consistency: NonNegative = 1.5
    warmup: WholeOrZero = 100
    unlabelled: WholeOrZero = 1000
    unlabelled_batch: WholeOrZero = 100
    row_norm: Norm = "none"
    weight_decay: NonNegative = 1e-3

    # Propagation, order and consistency are the authors' (scripts/run_*.sh of their code, "avg"). By validation score
    # and time: a step takes all training nodes, learns faster, warms up sooner and decays more than theirs; on PubMed
    # scaled rows do for their batch normalisation, with two layers and wider neighbourhoods.
    PRESETS: ClassVar = {
        "cora": {"lr": 0.02, "weight_decay": 5e-3, "patience": 100},
        "citeseer": {"order": 2, "consistency": 0.8, "weight_decay": 5e-3, "patience": 100},
        "pubmed": {"consistency": 1.0, "top_k": 64, "feature_norm": "l2", "row_norm": "l2", "patience": 100},
    }

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        self._steps = 0
        return Heads(1, inputs, outputs, self.hidden, self.layers, self.dropout, bias=True)

    # ------------------------------------------------------------------ rows

    def _view(self, graph: Graph, nodes: IntArray) -> View:
        rng = np.random.default_rng(self.seed)
        pool = rng.permutation(graph.num_nodes)[: self.unlabelled]
        return View(self._found(graph, np.concatenate((nodes, pool))), np.sort(pool), graph.features)

    def _found(self, graph: Graph, nodes: IntArray) -> Neighbourhoods:
        hops = hop_weights(self.propagation, self.order, self.alpha)
        found = hop_sums(graph, nodes, hops, self.epsilon, self.top_k, self.threads)
        return found._replace(weights=summing_to_one(found.weights))

    def _rows(self, view: View, weights: Weights) -> torch.Tensor:
        rows = weighted_sum(weights, view.features, thread_count(self.threads), self.feature_norm)
        return torch.from_numpy(normalize(rows, self.row_norm))

    def _out(self, network: nn.Module, view: View, nodes: IntArray) -> torch.Tensor:
        out: torch.Tensor = network(self._rows(view, view.found.of(nodes)))[0]
        return out

    def _proba(self, graph: Graph, nodes: IntArray) -> FloatArray:
        parts, nothing = self._parts(nodes), np.zeros(0, np.int64)  # predictions need no pool
        views = (View(self._found(graph, part), nothing, graph.features) for part in parts)
        return np.concatenate([self._proba_in(view, part) for view, part in zip(views, parts, strict=True)])

    # ------------------------------------------------------------------ training

    def _losses(
        self, network: nn.Module, view: View, nodes: IntArray, labels: torch.Tensor, rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        pool = np.setdiff1d(view.pool, nodes)
        for chosen in self._batches(nodes.size, rng):
            others = rng.permutation(pool)[: 0 if self.multilabel_ else self.unlabelled_batch]
            found = view.found.of(np.concatenate((nodes[chosen], others)))
            rows = [self._rows(view, dropped(found, self.drop_node, rng)) for _ in range(self.augmentations)]
            outs = torch.tensor_split(network(torch.cat(rows))[0], self.augmentations)
            known = labels[torch.from_numpy(chosen)]
            loss = torch.stack([loss_of(out[: chosen.size], known) for out in outs]).mean()
            grown = min(1.0, self._steps / self.warmup) if self.warmup else 1.0
            self._steps += 1
            yield loss + self.consistency * grown * disagreement([o[chosen.size :] for o in outs], self.temperature)

    def _work(self, graph: Graph, nodes: IntArray) -> int:
        rows = self.augmentations * (min(self.batch_size or nodes.size, nodes.size) + self.unlabelled_batch)
        return rows * graph.num_features * self.hidden


def hop_weights(propagation: Propagation, order: int, alpha: float) -> DoubleArray:
    """``w_l`` for ``l`` up to ``order``, which sum to 1."""
    if propagation == "ppr":
        weights = (1 - alpha) ** np.arange(order + 1)
    else:
        weights = np.ones(order + 1)
        weights[: order if propagation == "single" else 0] = 0
    return np.asarray(weights / weights.sum())


def summing_to_one(weights: Weights) -> Weights:
    """Each target's weights, scaled to make up for the neighbours that were not kept."""
    totals = np.add.reduceat(weights.values, weights.indptr[:-1]) if weights.values.size else np.ones(0)
    return weights._replace(values=(weights.values / np.repeat(totals, np.diff(weights.indptr))).astype(np.float32))


def dropped(weights: Weights, share: float, rng: np.random.Generator) -> Weights:
    """Random propagation: each weight zero with probability ``share``, the others scaled up to keep the mean."""
    kept = rng.random(weights.values.size, np.float32) >= share
    return weights._replace(values=np.where(kept, weights.values / np.float32(1 - share), np.float32(0)))


def disagreement(outs: list[torch.Tensor], temperature: float) -> torch.Tensor:
    """The mean square distance of predictions to their sharpened mean, over the nodes that it is sure of (Eq. 9)."""
    proba = torch.stack([torch.softmax(out, 1) for out in outs])
    mean = proba.mean(0).detach()
    sharp = torch.softmax(torch.log(mean.clamp_min(1e-30)) / temperature, 1)
    sure = mean.amax(1) > 2 / mean.shape[1] if mean.shape[0] else torch.zeros(0, dtype=torch.bool)
    if not sure.any():
        return proba.sum() * 0
    return (proba - sharp).square().sum(2)[:, sure].mean()
