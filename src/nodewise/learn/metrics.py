"""Scores."""

from __future__ import annotations

import numpy as np

from nodewise._typing import AnyArray


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
