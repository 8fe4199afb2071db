"""Scores of predicted labels: micro-F1, macro-F1, and the interval of a share."""

from __future__ import annotations

import numpy as np

from nodewise._util.types import AnyArray


def micro_f1(true: AnyArray, predicted: AnyArray) -> float:
    """Micro-F1: of single labels the share that is right, of 0/1 matrices ``2 TP / (2 TP + FP + FN)``.

    >>> micro_f1(np.array([0, 1, 2]), np.array([0, 1, 1]))
    0.6666666666666666
    """
    if true.ndim == 1:
        return float(np.mean(true == predicted))
    hits = float(np.sum((true == 1) & (predicted == 1)))
    named = float(np.sum(true == 1) + np.sum(predicted == 1))
    return 2 * hits / named if named else 1.0


def macro_f1(true: AnyArray, predicted: AnyArray) -> float:
    """Macro-F1: the mean over the classes that are there, or were predicted, of each one's F1.

    >>> macro_f1(np.array([0, 1, 2, 2]), np.array([0, 1, 1, 2]))
    0.7777777777777777
    """
    if true.ndim == 1:
        classes = np.union1d(true, predicted)
        true, predicted = (labels[:, None] == classes for labels in (true, predicted))
    hits = np.sum((true == 1) & (predicted == 1), axis=0)
    named = np.sum(true == 1, axis=0) + np.sum(predicted == 1, axis=0)
    there = named > 0
    return float(np.mean(2 * hits[there] / named[there])) if there.any() else 1.0


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95% interval of a share of ``count`` (Wilson 1927).

    >>> tuple(round(end, 3) for end in wilson_interval(0.5, 100))
    (0.404, 0.596)
    >>> wilson_interval(1.0, 7)[1]
    1.0
    """
    z = 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * ((share * (1 - share) + z * z / (4 * count)) / count) ** 0.5 / (1 + z * z / count)
    return max(0.0, min(share, middle - half)), min(
        1.0, max(share, middle + half)
    )  # rounding apart, it holds the share
