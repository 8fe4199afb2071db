"""Correct and smooth: predictions mended by what is known in reach of a target, by the weights of its diffusion.

Huang et al., "Combining Label Propagation and Simple Models Out-performs Graph Neural Networks", ICLR 2021, made
node-wise: what is known are the labels of the training nodes, how wrong the network is about them, and what it says of
some unlabelled nodes. None of it depends on which targets are asked about together.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from nodewise._typing import AnyArray, FloatArray, IntArray
from nodewise.learn.known import Known

CORRECTIONS, SMOOTHINGS = (0.0, 0.5, 1.0), (0.0, 0.2, 0.4, 0.6, 0.8)  # that are tried


class Mending(NamedTuple):
    """How much of the nearby residual is added, and how much of a prediction is its neighbours'."""

    correct: float
    smooth: float


def to_mend_by(train: Known, train_proba: FloatArray, free: Known) -> Known:
    """Columns: residuals of training nodes, how many of these there are, and labels or what stands for them.

    ``train``: training nodes with their labels as shares; ``free``: unlabelled nodes with their probabilities.
    """
    classes = train.values.shape[1]
    known = np.hstack([train.values - train_proba, np.ones((train.nodes.size, 1), np.float32), train.values])
    guessed = np.hstack([np.zeros((free.nodes.size, classes + 1), np.float32), free.values])
    return Known(np.concatenate([train.nodes, free.nodes]), np.concatenate([known, guessed]))


def mended(proba: FloatArray, columns: FloatArray, how: Mending) -> FloatArray:
    """Probabilities, corrected by the mean residual in reach and then mixed with the mean label in reach.

    ``columns``: what :func:`to_mend_by` gave, summed by the targets' weights; a target that reaches nothing known stays
    as it is.
    """
    classes = proba.shape[1]
    residual, count, guess = np.split(columns, [classes, classes + 1], axis=1)
    better = np.maximum(proba + how.correct * _mean(residual, count), 0)
    better /= np.maximum(better.sum(1, keepdims=True), 1e-12)
    mass = guess.sum(1, keepdims=True)
    return np.where(mass > 0, (1 - how.smooth) * better + how.smooth * _mean(guess, mass), better).astype(np.float32)


def best_mending(
    proba: FloatArray, columns: FloatArray, labels: IntArray, weights: FloatArray | None = None
) -> Mending:
    """The one with most labels right; of equals the one that changes least. ``weights``: what each label counts."""

    def right(how: Mending) -> tuple[float, float]:
        return float(np.average(mended(proba, columns, how).argmax(1) == labels, weights=weights)), -sum(how)

    return max((Mending(*pair) for pair in product(CORRECTIONS, SMOOTHINGS)), key=right)


def _mean(sums: AnyArray, count: AnyArray) -> AnyArray:
    return np.divide(sums, count, out=np.zeros_like(sums), where=count > 0)
