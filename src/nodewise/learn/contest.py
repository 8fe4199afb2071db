"""Which of several choices suits few labelled rows: learn with each, and let the rows that it did not learn from judge.

A few hundred validation labels and one training set of a few nodes a class leave much to luck. So the labelled rows are
dealt several times into rows to learn from and rows to judge by, as many as there were; every choice gets the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from nodewise._typing import IntArray
from nodewise.learn.trainer import Rows

ENOUGH = 1500  # labels to judge by, over all deals
MOST_DEALS = 3


def deals(train: Rows, val: Rows, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """First the rows as they are; then, where ``val`` has few, training and validation rows dealt anew."""
    yield train, val
    again = min(MOST_DEALS, -(-ENOUGH // val[0].shape[0])) - 1
    if not again:
        return
    rng = np.random.default_rng(seed)
    rows, labels = (torch.cat([train[i], val[i]]) for i in (0, 1))
    for _ in range(again):
        first, rest = map(torch.from_numpy, dealt(labels.cpu().numpy(), train[0].shape[0], rng))
        yield (rows[first], labels[first]), (rows[rest], labels[rest])


def dealt(labels: IntArray, training: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Places of training rows, as many of each class as among the first ``training`` labels, and those of all others.

    Where rows have several labels (a 0/1 matrix) only their number is kept.

    >>> first, rest = dealt(np.array([0, 0, 1, 1, 0, 1]), 3, np.random.default_rng(0))
    >>> sorted([0, 0, 1, 1, 0, 1][i] for i in first)
    [0, 0, 1]
    """
    order = rng.permutation(labels.shape[0])
    if labels.ndim == 2:
        return np.sort(order[:training]), np.sort(order[training:])
    wanted = np.bincount(labels[:training], minlength=labels.max(initial=0) + 1)
    by_class = order[np.argsort(labels[order], kind="stable")]  # shuffled within a class
    classes = labels[by_class]
    place = np.arange(labels.size) - np.searchsorted(classes, classes)  # within its class
    chosen = place < wanted[classes]
    return np.sort(by_class[chosen]), np.sort(by_class[~chosen])
