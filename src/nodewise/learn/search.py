"""The search behind ``"auto"``: the norm of the features and the curve of the hops, chosen by ridge regression.

The hops of some labelled nodes are kept one by one (a hop bank), so that the rows of any GHD curve (Eq. 4) are a
weighted sum of them. Ridge regression has a closed form: a candidate is judged by solving a small system, not by
training a network. The candidate with the least log-loss on validation rows, at its best scale, wins; without
validation rows, each training row is judged by a ridge that was solved without it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from nodewise._util.memory import memory_budget
from nodewise._util.threads import thread_count
from nodewise._util.types import BoolArray, DoubleArray, Features, IntArray
from nodewise.diffusion.diffuse import diffuse
from nodewise.diffusion.ghd import ghd
from nodewise.diffusion.params import DiffusionParams
from nodewise.graph import Graph
from nodewise.graph.features import row_scales
from nodewise.learn.calibrate import best_scale
from nodewise.learn.ridge import Path
from nodewise.learn.task import drawn
from nodewise.learn.teach import class_targets
from nodewise.learn.trainer import LabelledRows, row_weights, tuned

CURVES = tuple(
    (omega, rho)
    for rho, omegas in {
        0.0: (0.05, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95),
        0.1: (0.8, 1.0, 1.1, 1.2, 1.3),
        0.3: (0.5, 0.8, 1.0, 1.3, 1.6, 2.0),
        1.0: (0.5, 1.0, 2.0, 3.0, 5.0, 8.0),
    }.items()
    for omega in omegas
)
ALONE = (0.05, 0.0)  # the curve with all but a twentieth of the weight on the node itself
FEATURE_NORMS = ("l1", "none")
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # per hundred training rows
SCOUTS = 3  # every third curve is tried with each norm; the others only with the norm that does best
MOST_TO_TEACH = 3.0  # larger penalties blur what a ridge teaches
DEEPEST = 12  # hops of a bank
WORTH = 0.99  # of the weight of all hops: where a node's depth ends
COLUMNS = 2000  # of a bank: the heaviest
ROWS, ROWS_OF_NARROW, JUDGES = 800, 4096, 1000  # training rows of a bank, those where columns are few, validation rows
SAMPLED_NODES = 1 << 15  # by which columns are weighed
SURE_TO_WARN = 2.0  # standard errors by which rows without the graph must be better for a warning
COPIES = 10  # of the answers for all penalties, judged rows and classes that a candidate takes
EPSILON = 0.03  # of the walks of a bank: coarser than that of rows, for a choice between curves


@dataclass(frozen=True)
class Found:
    """The curve and its depth in hops, the norm of the features, the ridge's penalty and the one to teach with.

    ``loss``: log-loss of that ridge at its best scale; ``guide``: which nodes judged it. ``without_graph``: where
    nodes' own features alone are clearly better, the share of labels a ridge has right on them, and with the graph.
    """

    omega: float
    rho: float
    hops: int
    feature_norm: str
    penalty: float
    teach_penalty: float
    loss: float
    guide: str
    without_graph: tuple[float, float] | None = None


@dataclass(frozen=True)
class Sample:
    """Nodes in the graph in which they are seen, and their labels as a loss takes them."""

    graph: Graph
    nodes: IntArray
    labels: torch.Tensor

    def some(self, most: int, seed: int) -> Sample:
        """At most ``most`` of them, drawn at random: nodes may come class by class."""
        chosen = drawn(self.nodes.size, most, seed)
        return Sample(self.graph, self.nodes[chosen], self.labels[chosen])


def search(
    train: Sample,
    val: Sample | None,
    classes: int,
    params: DiffusionParams,
    row_norm: str,
    *,
    curves: Sequence[tuple[float, float]] = CURVES,
    norms: Sequence[str] = FEATURE_NORMS,
    columns: int = COLUMNS,
    balanced: bool = False,
    memory: int | str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """The best of ``curves`` and feature ``norms``, compared on the heaviest ``columns`` of the features.

    ``params``: of the diffusion; its omega and rho are not used. As many candidates are compared at a time as threads,
    or fewer, so that their answers fit into ``memory``. ``progress`` gets candidates done and in all.
    """
    train = train.some(most_rows(min(columns, train.graph.num_features)), params.seed)
    val = None if val is None else val.some(JUDGES, params.seed)
    depth = int(min(hops for hops in (DEEPEST, params.length, params.max_hops) if hops is not None))
    params = replace(params, omega=0.5, rho=0.0, per_hop=True, max_hops=depth)
    banks = {norm: _banks(train, val, params, norm, columns) for norm in norms}
    first = list(curves[::SCOUTS]) if len(banks) > 1 else []
    rest = [curve for curve in curves if curve not in first]
    tried: list[_Tried] = []

    def attempt(candidate: tuple[str, tuple[float, float]]) -> _Tried:
        norm, curve = candidate
        hops = torch.from_numpy(ghd(*curve, depth).astype(np.float32))
        rows = [mixed(bank, hops, row_norm) for bank in banks[norm]]
        judges = None if val is None else (rows[1], val.labels)
        return _Tried(*curve, norm, *judged((rows[0], train.labels), judges, classes, balanced))

    def attempt_all(candidates: Iterable[tuple[str, tuple[float, float]]]) -> None:
        for one in pool.map(attempt, candidates):
            tried.append(one)
            progress(len(tried), len(banks) * len(first) + len(rest))

    at_once = memory_budget(memory) // answers_bytes((train if val is None else val).nodes.size, classes)
    workers = min(thread_count(params.threads), max(1, at_once))
    with tuned(1), ThreadPoolExecutor(workers) as pool:  # a candidate is one thread's work
        attempt_all(itertools.product(banks, first))
        norm = min(tried, key=_Tried.least).norm if tried else next(iter(banks))
        attempt_all((norm, curve) for curve in rest)
    best = min(tried, key=_Tried.least)
    penalty, teach_penalty = penalties_of(best.losses)
    return Found(
        best.omega,
        best.rho,
        hops=worthwhile_hops(ghd(best.omega, best.rho, depth)),
        feature_norm=best.norm,
        penalty=penalty,
        teach_penalty=teach_penalty,
        loss=best.least(),
        guide="validation nodes" if val is not None else "training nodes, each left out in turn",
        without_graph=_without_graph(tried),
    )


def most_rows(columns: int) -> int:
    """How many training rows a search looks at."""
    return ROWS if columns >= ROWS else ROWS_OF_NARROW


def answers_bytes(rows: int, classes: int) -> int:
    """The memory that it takes to judge a candidate by its answers for so many rows."""
    return COPIES * 8 * len(PENALTIES) * rows * classes


class _Tried(NamedTuple):
    """A candidate: its log-loss for each penalty, and which labels are right with the best."""

    omega: float
    rho: float
    norm: str
    losses: list[float]
    right: BoolArray

    def least(self) -> float:
        return min(self.losses)


def _without_graph(tried: list[_Tried]) -> tuple[float, float] | None:
    """The shares of labels that are right without and with the graph, where the first is clearly more.

    Labels that are right in both or in neither say nothing. Of the ``n`` others each is a fair coin if the two are
    equally good, so the difference has a standard error of ``sqrt(n)``.
    """
    own = [one for one in tried if (one.omega, one.rho) == ALONE]
    others = [one for one in tried if (one.omega, one.rho) != ALONE]
    if not own or not others:
        return None
    alone, graph = (min(part, key=_Tried.least).right for part in (own, others))
    change = alone.astype(np.int64) - graph
    if change.sum() <= SURE_TO_WARN * np.sqrt(np.abs(change).sum()):
        return None
    return float(alone.mean()), float(graph.mean())


def worthwhile_hops(shares: DoubleArray) -> int:
    """The hop up to which the weights have all but a hundredth of their sum."""
    total = np.cumsum(shares)
    return int(np.searchsorted(total, WORTH * total[-1]))


def mixed(bank: torch.Tensor, hops: torch.Tensor, row_norm: str) -> torch.Tensor:
    """``sum over l of hops[l] H_l`` from a bank ``(nodes, hops, columns)``, rows scaled to their norm."""
    rows = torch.matmul(hops[: bank.shape[1]], bank)
    return rows if row_norm == "none" else torch.nn.functional.normalize(rows, p=1.0 if row_norm == "l1" else 2.0)


def penalties_of(losses: Sequence[float]) -> tuple[float, float]:
    """The penalty with the least loss, and the one to teach with."""
    teachable = [loss for loss, penalty in zip(losses, PENALTIES, strict=True) if penalty <= MOST_TO_TEACH]
    return PENALTIES[int(np.argmin(losses))], PENALTIES[int(np.argmin(teachable))]


def judged(
    train: LabelledRows, val: LabelledRows | None, classes: int, balanced: bool = False
) -> tuple[list[float], BoolArray]:
    """The log-loss for each of the penalties, and which labels are right with the best of them."""
    rows, known = train
    weights = row_weights(known, balanced)
    path = Path(rows, class_targets(known, classes), weights)
    shifts = [shift_of(penalty, rows.shape[0], weights) for penalty in PENALTIES]
    if val is None:
        said, labels = torch.stack([path.left_out(shift) for shift in shifts]), known
    else:
        basis, labels = path.basis(val[0]), val[1]
        said = torch.stack([path.answers(basis, shift) for shift in shifts])
    each = row_weights(labels, balanced)
    offset = prior_logits(known)
    scales, losses = best_scale(said, labels, each, offset)
    best = int(losses.argmin())
    logits = said[best] * scales[best] + offset
    right = logits.argmax(1) == labels if labels.ndim == 1 else ((logits > 0) == (labels > 0.5)).ravel()
    return losses.tolist(), right.numpy()


def shift_of(penalty: float, rows: int, weights: torch.Tensor | None = None) -> float:
    """The number to add to the diagonal: penalties are per hundred training rows, or per their weight."""
    return penalty * (rows if weights is None else float(weights.sum())) / 100


def prior_logits(labels: torch.Tensor) -> torch.Tensor | float:
    """The logits at a ridge's prediction of 0: by how common each label is, where nodes have several; else 0."""
    if labels.ndim == 1:
        return 0.0
    share = labels.double().mean(0).clamp(1e-4, 1 - 1e-4)
    return torch.log(share / (1 - share))


# ---------------------------------------------------------------------- banks


def _banks(
    train: Sample, val: Sample | None, params: DiffusionParams, norm: str, most_columns: int
) -> Sequence[torch.Tensor]:
    """The hop banks of the training nodes and of the validation nodes, if there are any, on the heaviest columns."""
    parts = [train] if val is None else [train, val]
    columns = heaviest_columns(parts[-1].graph.features, norm, most_columns, params.seed)
    if val is not None and val.graph is train.graph:  # one diffusion for both
        both = np.concatenate([train.nodes, val.nodes])
        return _bank(train.graph, both, params, norm, columns).tensor_split([train.nodes.size])
    return [_bank(part.graph, part.nodes, params, norm, columns) for part in parts]


def _bank(graph: Graph, nodes: IntArray, params: DiffusionParams, norm: str, columns: IntArray | None) -> torch.Tensor:
    if columns is not None:
        graph, norm = graph.replace(features=narrowed(graph.features, norm, columns)), "none"
    return torch.from_numpy(diffuse(graph, nodes, **vars(params)).apply(graph.features, norm))


def heaviest_columns(features: Features, norm: str, most: int, seed: int) -> IntArray | None:
    """The columns with the largest sum of squares over some nodes; None where there are no more than ``most``."""
    if features.shape[1] <= most:
        return None
    rows = features[drawn(features.shape[0], SAMPLED_NODES, seed)]
    scales = row_scales(rows, norm)
    squares = rows.multiply(rows) if sp.issparse(rows) else np.square(np.asarray(rows, np.float32))
    each = np.ones(rows.shape[0]) if scales is None else np.square(scales.astype(np.float64))
    energy = np.asarray(squares.T @ each).ravel()
    return np.sort(np.argsort(-energy, kind="stable")[:most])


def narrowed(features: Features, norm: str, columns: IntArray) -> Features:
    """Features scaled to ``norm`` over all columns, then reduced to ``columns``."""
    scales = row_scales(features, norm)
    cut = features[:, columns]
    if sp.issparse(features):
        return sp.csr_matrix(cut if scales is None else sp.diags(scales) @ cut, dtype=np.float32)
    cut = np.asarray(cut, np.float32)
    return cut if scales is None else cut * scales[:, None]
