"""The stages of learning: the paper's training, then what a recipe adds, each kept unless validation nodes disagree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import nn

from nodewise._typing import BoolArray, FloatArray
from nodewise.learn.consistency import Consistency
from nodewise.learn.halves import halves
from nodewise.learn.recipes import clearly_better
from nodewise.learn.self_training import PseudoLabels, brought_to, confident
from nodewise.learn.trainer import ExtraLoss, Rows, balancing_weights


class Free(NamedTuple):
    """Rows without labels to learn from: of unlabelled nodes, and draws of training and unlabelled nodes together."""

    rows: torch.Tensor
    draws: list[torch.Tensor]


MakeLoss: TypeAlias = Callable[[int], ExtraLoss]  # of a seed
Train: TypeAlias = Callable[[Sequence[Rows | None], Sequence[MakeLoss]], tuple[nn.ModuleList, int]]
Shares: TypeAlias = torch.Tensor | None  # of the classes
Proba: TypeAlias = Callable[[nn.ModuleList, torch.Tensor], torch.Tensor]


class Learner:
    """Trains networks, and tells how good they are.

    ``train(vals, losses)`` trains as many as there are to be, stopped by each of ``vals`` in turn, and answers with
    them and the epochs that took. ``proba``: what some of them make of rows together.

    Networks that stop on the validation labels cannot be judged by them: of two noisy curves the noisier has the higher
    peak. So half of the networks stop on one half of the validation rows and half on the other, and each is judged by
    the half that it did not see, if ``crossed``.
    """

    def __init__(self, train: Train, proba: Proba, val: Rows | None, crossed: bool) -> None:
        self._train = train
        self._proba = proba
        halved = crossed and val is not None and val[0].shape[0] > 1
        self._vals: list[Rows | None] = [*halves(val)] if halved and val is not None else [val]
        self._stopped_by: dict[nn.Module, int] = {}  # which of them

    def trained(self, losses: Sequence[MakeLoss]) -> tuple[nn.ModuleList, int]:
        networks, epochs = self._train(self._vals, losses)
        self._stopped_by |= {network: i % len(self._vals) for i, network in enumerate(networks)}
        return networks, epochs

    def proba(self, networks: nn.ModuleList, rows: torch.Tensor) -> torch.Tensor:
        return self._proba(networks, rows)

    def right(self, networks: nn.ModuleList) -> BoolArray | None:
        """Which validation labels are right; None where there are none."""
        if self._vals[0] is None:
            return None
        stopped = [
            nn.ModuleList([network for network in networks if self._stopped_by[network] == i])
            for i in range(len(self._vals))
        ]
        pairs = zip(stopped[::-1], self._vals, strict=True)
        return np.concatenate([hits(self._proba(judges, val[0]), val[1]) for judges, val in pairs if val is not None])

    def weights(self) -> FloatArray | None:
        """What each of these labels counts, if every class is to count the same."""
        parts = [val[1] for val in self._vals if val is not None]
        return label_weights(torch.cat(parts)) if parts else None


def hits(proba: torch.Tensor, labels: torch.Tensor) -> BoolArray:
    """Which labels are right: one a row, or every one of a 0/1 matrix."""
    found = (proba > 0.5) == (labels > 0.5) if labels.ndim == 2 else proba.argmax(1) == labels
    return np.asarray(found.ravel().cpu().numpy())


def label_weights(labels: torch.Tensor) -> FloatArray | None:
    """What each label counts if every class is to count the same; None for a 0/1 matrix."""
    if labels.ndim == 2:
        return None
    return np.asarray(balancing_weights(labels)[labels].cpu().numpy())


class Verdict(Enum):
    """Of validation labels on networks, against those before."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear"


class Stage(NamedTuple):
    """``certain``: kept whatever the validation nodes say. ``heirs``: its networks learned from what those before say
    of other nodes, so that to ask both again would count one opinion twice."""

    name: str
    certain: bool
    heirs: bool = False


@dataclass
class Lesson:
    """The networks so far, and what was kept on the way."""

    learner: Learner
    balanced: bool = False
    networks: nn.ModuleList = field(init=False)
    epochs: int = field(init=False)
    kept: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.networks, self.epochs = self.learner.trained([])
        self._always: list[MakeLoss] = []  # losses asked for by name, which later stages have too

    def try_with(self, stage: Stage, loss: MakeLoss) -> Verdict:
        """Learn afresh with one more loss, and let the validation labels decide between those networks and these.

        The better ones stay, where that is clear; where it is not, both are asked from now on, or only the heirs.
        """
        networks, epochs = self.learner.trained([*self._always, loss])
        self.epochs += epochs
        verdict = self._verdict(stage, networks)
        if verdict is not Verdict.WORSE:
            alone = stage.heirs or verdict is Verdict.BETTER
            self.networks = networks if alone else nn.ModuleList([*self.networks, *networks])
            self.kept.append(stage.name)
        return verdict

    def _verdict(self, stage: Stage, networks: nn.ModuleList) -> Verdict:
        right, before = self.learner.right(networks), self.learner.right(self.networks)
        weights = self.learner.weights() if self.balanced else None
        if stage.certain or right is None or before is None or clearly_better(right, before, weights=weights):
            return Verdict.BETTER
        return Verdict.WORSE if clearly_better(before, right, weights=weights) else Verdict.UNCLEAR

    def agree(self, draws: list[torch.Tensor], labels: torch.Tensor, weight: float, certain: bool) -> None:
        """Consistency between draws."""

        def loss(seed: int) -> Consistency:
            return Consistency(draws, labels, weight, seed, self.balanced)

        self.try_with(Stage("consistency", certain), loss)
        self._always += [loss] * certain

    def teach_itself(self, rows: torch.Tensor, most: int, certain: bool, shares: Sequence[Shares] = (None,)) -> None:
        """Self-training in at most so many stages, until one is clearly worse.

        ``shares`` of the classes, None where they are not minded: the first that are not clearly worse are used, and
        if it is ``certain`` that there is to be self-training, the last in any case.
        """
        left = list(shares)
        for number in range(most):
            name = f"self-training {number + 1}"
            while left and self._taught(Stage(name, certain and len(left) == 1, True), rows, left[0]) is Verdict.WORSE:
                left.pop(0)
            if not left:
                break
            if left[0] is not None and number == 0:
                self.kept.append("class shares")

    def _taught(self, stage: Stage, rows: torch.Tensor, shares: Shares) -> Verdict:
        proba = self.learner.proba(self.networks, rows)
        places, labels = confident(proba if shares is None else brought_to(proba, shares))
        return self.try_with(stage, _pseudo_labels(rows[places], labels, self.balanced))


def _pseudo_labels(rows: torch.Tensor, labels: torch.Tensor, balanced: bool) -> MakeLoss:
    return lambda seed: PseudoLabels(rows, labels, seed, balanced)
