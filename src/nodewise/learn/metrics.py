"""Scores of predicted labels: micro-F1 and its interval, macro-F1."""

from __future__ import annotations

import numpy as np

from nodewise._util.types import AnyArray

Z = 1.96  # standard errors to each side of a 95% interval


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
    """Wilson's 95% interval of a share among ``count``.

    >>> tuple(round(end, 3) for end in wilson_interval(0.8, 100))
    (0.711, 0.867)
    >>> wilson_interval(1.0, 7)[1]  # rounding apart
    1.0
    """
    middle = (share + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z * ((share * (1 - share) + Z * Z / (4 * count)) / count) ** 0.5 / (1 + Z * Z / count)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def micro_f1_interval(true: AnyArray, predicted: AnyArray) -> tuple[float, float]:
    """The 95% interval of :func:`micro_f1` over nodes like these; at least one.

    Of single labels Wilson's. Of 0/1 matrices micro-F1 is a ratio of two sums over nodes, whose standard error is that
    of ``sum(2 TP - F1 * (2 TP + FP + FN))`` (Cochran, "Sampling Techniques", 1977, section 6.3).
    """
    score = micro_f1(true, predicted)
    if true.ndim == 1:
        return wilson_interval(score, true.size)
    hits = np.sum((true == 1) & (predicted == 1), axis=1)
    named = np.sum(true == 1, axis=1) + np.sum(predicted == 1, axis=1)
    half = Z * float(np.linalg.norm(2 * hits - score * named)) / max(1, int(named.sum()))
    return max(0.0, score - half), min(1.0, score + half)
