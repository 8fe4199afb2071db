"""Teaching: a ridge labels unlabelled rows, for the networks to learn from.

Its most confident predictions become labels of small weight, and it is solved again with them, twice. Predictions are
first scaled to the classes' shares: a ridge that learned from 20 labels per class makes all classes equally common.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from nodewise.learn import ridge
from nodewise.learn.trainer import LabelledRows

SURE = 0.8  # the share of unlabelled rows that teach: the surest
WEIGHT = 0.2  # of a taught row in the next ridge, times its confidence
ROUNDS = 2
SCALINGS, CLOSE = 20, 1e-4  # at most; how near to the shares is near enough


class Lesson(NamedTuple):
    """``coefficients`` of the ridge that learned from its own predictions, and what it teaches.

    ``places``: of the unlabelled rows of which it is surest; ``labels``: their predicted classes.
    """

    coefficients: torch.Tensor
    places: torch.Tensor
    labels: torch.Tensor


def teach(
    train: LabelledRows,
    unlabelled: torch.Tensor,
    coefficients: torch.Tensor,
    shift: float,
    scale: float,
    shares: torch.Tensor | None,
    weights: torch.Tensor | None = None,
) -> Lesson:
    """Let a ridge, solved on ``train`` with penalty ``shift``, say what the ``unlabelled`` rows are.

    ``scale``: what makes logits of its answers. ``shares``: how common the classes are, where that is known.
    ``weights``: what each labelled row counts.
    """
    rows, labels = train
    classes = coefficients.shape[1]
    targets = class_targets(labels, classes)
    known = torch.ones(rows.shape[0], device=rows.device) if weights is None else weights.float()
    for _ in range(ROUNDS):
        places, guessed, sure = _surest(ridge.answer(unlabelled, coefficients) * scale, shares)
        both = torch.cat([targets, class_targets(guessed, classes)])
        every = torch.cat([known, WEIGHT * sure.float()])
        coefficients = ridge.solve(torch.cat([rows, unlabelled[places]]), both, shift, every)
    places, guessed, _ = _surest(ridge.answer(unlabelled, coefficients) * scale, shares)
    return Lesson(coefficients, places, guessed)


def class_targets(labels: torch.Tensor, classes: int) -> torch.Tensor:
    """What a ridge is to answer: labels as rows of classes that sum to 0, or a 0/1 matrix less each label's share."""
    if labels.ndim == 2:
        return labels - labels.mean(0)
    return torch.nn.functional.one_hot(labels, classes).float() - 1 / classes


def shares_of(labels: torch.Tensor, classes: int) -> torch.Tensor | None:
    """How common each class is, with one more label of each than there are, so that none is 0; None if unknown.

    Labels with (nearly) as many of each class were hardly drawn at random from all nodes, and say nothing about it.

    >>> shares_of(torch.tensor([0, 0, 0, 0, 1, 1]), 2).tolist()
    [0.625, 0.375]
    >>> shares_of(torch.tensor([0, 1, 0, 1, 1]), 2) is None
    True
    """
    count = torch.bincount(labels, minlength=classes)
    if int(count.max() - count.min()) <= 1:
        return None
    return (count + 1) / (labels.numel() + classes)


def brought_to(proba: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Probabilities with a factor on each class, found so that the classes' means are ``shares``.

    Scaling classes and rows in turn gets there: Sinkhorn and Knopp, 1967.
    """
    scaled, shares = proba.double().clamp_min(1e-12), shares.to(proba.device)
    for _ in range(SCALINGS):
        means = scaled.mean(0)
        if bool(((means - shares).abs() <= CLOSE).all()):
            break
        scaled = scaled * (shares / means)
        scaled = scaled / scaled.sum(1, keepdim=True)
    return scaled.to(proba.dtype)


def _surest(logits: torch.Tensor, shares: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The places of the surest rows, their classes and their confidence."""
    proba = torch.softmax(logits.double(), 1)
    sure, labels = (proba if shares is None else brought_to(proba, shares)).max(1)
    count = max(1, round(SURE * sure.numel()))
    places = torch.topk(sure, count).indices.sort().values
    return places, labels[places], sure[places]
