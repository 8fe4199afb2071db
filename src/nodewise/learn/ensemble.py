"""The ensemble: its members (networks and ridges), their training, and the choice of votes.

Caruana et al., "Ensemble Selection from Libraries of Models", ICML 2004: starting from nothing, the member that makes
the mean of the logits best on validation rows gets the next vote, and may get several.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import nn

from nodewise.learn.calibrate import best_scale, log_loss, losses_of
from nodewise.learn.heads import Heads
from nodewise.learn.trainer import LabelledRows, TrainConfig, train, tuned

VOTES = 8
WORSE = 2.0  # a member whose loss is this many standard errors above the best one's gets no vote
JUDGES = 4096  # at most this many validation rows give votes


@dataclass(frozen=True)
class Member:
    """A network to train: its depth, whether it learns from taught rows too, and its weight decay.

    ``own``: it sees each node's own features beside the diffused ones. ``epoch``: the one whose weights it has, once it
    is trained. ``ridge``: not a network but a solved ridge.
    """

    layers: int
    taught: bool
    weight_decay: float
    own: bool = False
    epoch: int = 0
    ridge: bool = False

    def __str__(self) -> str:
        kind = "ridge" if self.ridge else f"{self.layers} layers, weight decay {self.weight_decay:g}"
        parts = [kind.replace("1 layers", "linear"), "own features" * self.own, "taught" * self.taught]
        return ", ".join(part for part in parts if part)


# Sparse graphs with few labels want more weight decay than dense ones; narrow rows want a linear network.
ROSTER = (
    *(Member(2, True, decay, own) for decay in (0.0005, 0.005) for own in (False, True)),
    Member(2, False, 0.002),
    *(Member(1, True, decay) for decay in (0.0003, 0.003)),
    Member(1, True, 0.0003, own=True),
    *(Member(1, False, decay) for decay in (0.003, 0.03)),
)
# Many labels need no teacher, and little to keep networks from learning them by heart.
ROSTER_OF_MANY = (
    *(Member(2, False, decay, own) for decay in (0.00005, 0.0005) for own in (False, True)),
    Member(1, False, 0.0003, own=True),
    *(Member(1, False, decay) for decay in (0.003, 0.03)),
)


class Ensemble(nn.Module):
    """Networks whose logits are summed: votes and scales are part of their last layers.

    So a prediction is a sum over members that can be taken apart: ``logits(row) = sum over members of member(row)``.
    """

    def __init__(self, groups: Sequence[Heads]) -> None:
        super().__init__()
        self.groups = nn.ModuleList(groups)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits ``(rows, classes)``."""
        return torch.stack([group(rows).sum(0) for group in self.groups]).sum(0)

    def narrowed(self, inputs: int) -> Ensemble:
        """The same on the first columns of rows: no network may look at the others."""
        return Ensemble([group.narrowed(inputs) for group in self.groups]).eval()  # type: ignore[operator]

    @property
    def shapes(self) -> list[dict[str, int | bool]]:
        """What :meth:`of_shapes` needs."""
        return [group.shape for group in self.groups]  # type: ignore[misc]

    @classmethod
    def of_shapes(cls, shapes: Sequence[dict[str, int | bool]]) -> Ensemble:
        """An untrained ensemble of the same form."""
        return cls([Heads(**shape, share=0.0, random=False) for shape in shapes])  # type: ignore[arg-type]


@dataclass(frozen=True)
class Trained:
    """Members side by side: those of one depth, taught or not. ``duals``: of a ridge, as in :func:`ridge.duals`."""

    members: list[Member]
    heads: Heads
    duals: torch.Tensor | None = None


def train_members(
    members: Sequence[Member],
    make_heads: Callable[[Member, int, torch.Generator], Heads],
    rows_of: Callable[[Member], Sequence[LabelledRows | None]],
    config: TrainConfig,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Trained]:
    """Train all members: those of one kind side by side, each kind on a thread of its own.

    ``make_heads(member, count, draw)`` makes ``count`` of a kind, untrained; ``rows_of(member)``: labelled, taught and
    validation rows for that kind. With validation rows each keeps the weights that do best there; else those of its
    ``epoch``, or of the last where it has none. ``progress`` gets the epochs done and in all.
    """
    ordered = sorted(members, key=lambda m: (*_kind(m), m.weight_decay))
    groups = [list(group) for _, group in groupby(ordered, key=_kind)]
    workers = min(config.threads, len(groups))
    epochs_done, ended = [0] * len(groups), threading.Event()
    total = sum(max(member.epoch for member in group) or config.epochs for group in groups)

    def train_group(i: int) -> Trained:
        def after_epoch(epoch: int) -> None:
            if ended.is_set():  # the user interrupted, or another group failed
                raise CancelledError
            epochs_done[i] = epoch
            progress(sum(epochs_done), total)

        group = groups[i]
        rows, taught, val = rows_of(group[0])
        assert rows is not None
        heads, epochs = train(
            lambda draw: make_heads(group[0], len(group), draw),
            rows,
            val if val is not None else [member.epoch or config.epochs for member in group],
            replace(
                config,
                lr=config.lr if group[0].layers > 1 or config.linear_lr is None else config.linear_lr,
                weight_decay=[member.weight_decay for member in group],
                threads=config.threads // workers,
            ),
            taught if group[0].taught else None,
            after_epoch,
        )
        return Trained([replace(m, epoch=e) for m, e in zip(group, epochs, strict=True)], heads)

    with tuned(config.threads // workers), ThreadPoolExecutor(workers) as pool:
        longest_first = [pool.submit(train_group, i) for i in reversed(range(len(groups)))]
        try:
            for found in as_completed(longest_first):
                found.result()  # raises what went wrong
        finally:
            ended.set()
    return [found.result() for found in reversed(longest_first)]


def _kind(member: Member) -> tuple[int, bool, bool]:
    return member.layers, member.taught, member.own


def of_ridge(coefficients: torch.Tensor, scale: float, offset: torch.Tensor | float, taught: bool) -> Trained:
    """A solved ridge as a member, one linear layer: its logits are ``offset`` and ``scale`` times its answers."""
    inputs, outputs = coefficients.shape[0] - 1, coefficients.shape[1]
    heads = Heads(1, inputs, outputs, 1, 1, 0.0, bias=True, random=False).to(coefficients.device)
    with torch.no_grad():
        heads.weights[0].copy_(scale * coefficients[:-1].T)
        heads.biases[0].copy_((scale * coefficients[-1] + offset)[None, None])
    return Trained([Member(1, taught, 0.0, ridge=True)], heads.eval())


@torch.no_grad()
def choose(
    trained: Sequence[Trained], val: LabelledRows, weights: torch.Tensor | None
) -> tuple[list[float], list[float]]:
    """The votes of all members, which sum to 1, and the scales of their logits, by their log-loss on ``val``.

    Each is brought to its best temperature first: by raw log-loss a network that is too sure loses to one that is
    wrong more often. ``weights``: what each row counts.
    """
    rows, labels = val[0][:JUDGES], val[1][:JUDGES]
    weights = None if weights is None else weights[:JUDGES].double()
    logits = torch.cat([part.heads(rows) for part in trained]).double()
    scales, _ = best_scale(logits, labels, weights)
    logits = logits * scales[:, None, None]
    labels = labels.double() if labels.ndim == 2 else labels
    weak = _clearly_worse(losses_of(logits, labels))
    votes, total = torch.zeros(logits.shape[0]), torch.zeros_like(logits[0])
    for count in range(1, VOTES + 1):
        losses = log_loss((total + logits) / count, labels, weights)
        losses[weak] = torch.inf
        best = int(losses.argmin())
        votes[best] += 1
        total = total + logits[best]
    return (votes / VOTES).tolist(), scales.tolist()


def _clearly_worse(losses: torch.Tensor) -> torch.Tensor:
    """Which members have a mean loss more than :data:`WORSE` standard errors above the best one's.

    ``losses``: ``(members, rows)``. A weak member can be right where the better ones are wrong by chance, or because
    validation rows differ from other rows.
    """
    best = losses[losses.mean(1).argmin()]
    excess = losses - best
    return excess.mean(1) > WORSE * excess.std(1, correction=int(losses.shape[1] > 1)) / math.sqrt(losses.shape[1])


@torch.no_grad()
def assembled(trained: Sequence[Trained], votes: Sequence[float], scales: Sequence[float]) -> Ensemble:
    """The members that have votes, their last layers times vote and scale."""
    groups, factors = [], iter(vote * scale for vote, scale in zip(votes, scales, strict=True))
    for part in trained:
        mine = torch.tensor([next(factors) for _ in part.members], device=part.heads.weights[0].device)
        kept = torch.nonzero(mine).ravel()
        if kept.numel():
            groups.append(part.heads.taken(kept).scaled(mine[kept]))
    return Ensemble(groups).eval()
