"""Calibration: temperature scaling of logits, the expected calibration error, and conformal prediction sets.

Guo et al., "On Calibration of Modern Neural Networks", ICML 2017 (temperature scaling, expected calibration error);
Sadinle, Lei and Wasserman, "Least Ambiguous Set-Valued Classifiers with Bounded Error Levels", JASA 2019 (the sets).
"""

from __future__ import annotations

import math

import numpy as np
import torch

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, BoolArray, FloatArray

NEWTON_STEPS = 20
LEAST_SCALE, MOST_SCALE = 1e-3, 1e3
CLOSE = 1e-4  # relative step below which the search ends
LONGEST_STEP = 4.0  # factor by which a scale changes in one step
BINS = 15  # of confidence, for the expected calibration error


def log_loss(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    """Mean over rows of ``-log p``, of ``(..., rows, classes)``; over rows and labels of a 0/1 matrix.

    ``weights``: of the rows.
    """
    losses = losses_of(logits, labels)
    return losses.mean(-1) if weights is None else (losses * weights).sum(-1) / weights.sum()


def losses_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """``-log p`` of each row, of ``(..., rows, classes)``."""
    if labels.ndim == 2:
        return (torch.nn.functional.softplus(logits) - logits * labels).mean(-1)
    return torch.logsumexp(logits, -1) - logits.gather(-1, _index(logits, labels))[..., 0]


def best_scale(
    logits: torch.Tensor,
    labels: torch.Tensor,
    weights: torch.Tensor | None = None,
    offset: torch.Tensor | float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The factor (one over the temperature) for which ``offset + factor * logits`` has the least log-loss; the loss.

    The loss is convex in the factor, so a few Newton steps find it. If all rows are right, the best factor would be
    infinite, so each label is taken to be wrong with probability ``1 / (rows + 2)`` (Platt, "Probabilistic Outputs for
    Support Vector Machines", 1999). ``logits``: ``(..., rows, classes)``; one factor for each leading index. float64.
    """
    logits = logits.double()
    weights = None if weights is None else weights.double()
    doubt = 1 / (labels.shape[0] + 2)
    labels = labels.double() if labels.ndim == 2 else labels
    several = logits.shape[-2] * logits.shape[-1] > 1
    spread = logits.std((-2, -1), correction=int(several)).clamp_min(1e-12)
    scale = (1 / spread).clamp(LEAST_SCALE, MOST_SCALE)
    for _ in range(NEWTON_STEPS):
        slope, bend = _derivatives(offset + scale[..., None, None] * logits, logits, labels, weights, doubt)
        step = scale - slope / bend.clamp_min(1e-12)
        step = torch.minimum(torch.maximum(step, scale / LONGEST_STEP), scale * LONGEST_STEP)
        step = step.clamp(LEAST_SCALE, MOST_SCALE)
        moved, scale = float(((step - scale) / scale).abs().max()), step
        if moved < CLOSE:
            break
    return scale, log_loss(offset + scale[..., None, None] * logits, labels, weights)


def _derivatives(
    scaled: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None, doubt: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first and second derivative of the log-loss by the scale; labels are wrong with probability ``doubt``."""
    if labels.ndim == 2:
        proba = torch.sigmoid(scaled)
        slopes = ((proba - (labels + doubt * (0.5 - labels))) * logits).mean(-1)
        bends = (proba * (1 - proba) * logits**2).mean(-1)
    else:
        proba = torch.softmax(scaled, -1)
        mean = (proba * logits).sum(-1)
        said = logits.gather(-1, _index(logits, labels))[..., 0]
        slopes = mean - said - doubt * (logits.mean(-1) - said)
        bends = (proba * logits**2).sum(-1) - mean**2
    if weights is None:
        return slopes.mean(-1), bends.mean(-1)
    return (slopes * weights).sum(-1) / weights.sum(), (bends * weights).sum(-1) / weights.sum()


def _index(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return labels.expand(logits.shape[:-1])[..., None]


def calibration_error(proba: FloatArray, labels: AnyArray) -> float:
    """Expected calibration error: how far confidence is from the share that is right, averaged over bins of confidence.

    ``labels``: places of the true classes among the columns, or a 0/1 matrix, each of whose entries then counts.

    >>> round(calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1])), 2)
    0.4
    """
    sure, right = answers(proba, labels)
    place = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(place, sure - right, BINS)
    return float(np.abs(gaps).sum() / max(1, sure.size))


def answers(proba: FloatArray, labels: AnyArray) -> tuple[FloatArray, BoolArray]:
    """How sure each answer is, and whether it is right: one per node or, of several labels, per label too."""
    if labels.ndim == 2:
        return np.where(proba > 0.5, proba, 1 - proba).ravel(), ((proba > 0.5) == (labels == 1)).ravel()
    return proba.max(1), proba.argmax(1) == labels


def conformal_threshold(proba: FloatArray, labels: AnyArray, coverage: float) -> float:
    """The least probability that a class needs to be in a set, so that sets hold the truth as often as ``coverage``.

    ``proba`` and ``labels`` of nodes that had no part in learning or choosing. For ``n`` of them and one more that is
    exchangeable with them the chance is at least ``coverage`` and at most ``1 / (n + 1)`` more, whatever the model.
    """
    if not 0 < coverage < 1:
        raise InputError(f"coverage={coverage}: expected a number above 0 and below 1")
    truth = np.sort(proba[np.arange(labels.size), labels])[::-1]
    rank = math.ceil((labels.size + 1) * coverage)
    if rank > labels.size:
        most = labels.size / (labels.size + 1)
        raise InputError(
            f"coverage={coverage}: {labels.size:,} held-out nodes can vouch for at most {most:.3g}; ask for less, or "
            f"train with more validation nodes"
        )
    return float(truth[rank - 1])


def sets_of(proba: FloatArray, threshold: float) -> BoolArray:
    """Which classes are in each node's set: all that reach the threshold, and always the most probable one."""
    chosen = proba >= threshold
    chosen[np.arange(proba.shape[0]), proba.argmax(1)] = True
    return chosen
