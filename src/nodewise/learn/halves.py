"""Validation rows in two halves: each tells when to stop, and is judged by the weights at which the other did."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from nodewise._typing import AnyArray
from nodewise.learn.metrics import macro_f1, micro_f1
from nodewise.learn.trainer import WINDOW, Recipe, Rows, Score, balancing_weights, score_of

UNEVEN = 3.0  # standard errors by which a class may lie in one half more than in the other


def halves(rows: Rows) -> list[Rows]:
    """Every other row, and those between; in the order of their classes, where classes alternate in that of the rows.

    >>> [labels.tolist() for _, labels in halves((torch.zeros(8), torch.tensor([0, 0, 0, 1, 1, 0, 1, 1])))]
    [[0, 0, 1, 1], [0, 1, 0, 1]]
    """
    labels = rows[1]
    if labels.ndim == 1:
        count, even = (torch.bincount(part, minlength=int(labels.max()) + 1) for part in (labels, labels[::2]))
        if ((2 * even - count).abs() > UNEVEN * count.sqrt()).any():
            order = torch.argsort(labels, stable=True)
            rows = rows[0][order], labels[order]
    return [(rows[0][half::2], rows[1][half::2]) for half in (0, 1)]


class CrossedHalves:
    """A score to train by that both halves have a say in, and an honest value beside it.

    Training does not depend on validation rows, only its end does. So one network serves both halves: ``value`` is the
    mean of the micro-F1 (or, if the recipe is balanced, macro-F1) that two networks of the same seed would get, each
    stopped by one half and judged by the other. ``tell`` is called after every epoch with its number and the value so
    far.
    """

    def __init__(self, val: Rows, recipe: Recipe, tell: Callable[[int, float], None] = lambda epoch, value: None):
        self._rows, self._labels = zip(*halves(val), strict=True)
        self._known = [part.cpu().numpy() for part in self._labels]
        self._weights = balancing_weights(val[1]) if recipe.balanced else None
        self._measure = macro_f1 if recipe.balanced else micro_f1
        self._patience = recipe.patience
        self._tell = tell
        self._best: list[Score] = [(-1.0, -float("inf"))] * 2
        self._best_epoch = [0, 0]
        self._judged = [0.0, 0.0]
        self._epoch = self._gains = 0

    @property
    def value(self) -> float:
        return sum(self._judged) / 2

    @torch.no_grad()
    def score(self, network: nn.Module) -> Score:
        """What grows as long as either half gets better, within its patience."""
        self._epoch += 1
        said = [torch.cat([network(part) for part in torch.split(rows, WINDOW)]) for rows in self._rows]
        for half in (0, 1):
            if self._epoch - self._best_epoch[half] > self._patience:
                continue
            now = score_of(said[half], self._labels[half], self._weights)
            if now > self._best[half]:
                self._best[half], self._best_epoch[half] = now, self._epoch
                other = self._known[1 - half]
                self._judged[half] = self._measure(other, _labels_of(said[1 - half], other))
                self._gains += 1
        self._tell(self._epoch, self.value)
        return float(self._gains), 0.0


def _labels_of(out: torch.Tensor, like: AnyArray) -> AnyArray:
    """What a network says, as labels of the same kind as ``like``."""
    labels = out.argmax(1) if like.ndim == 1 else (out > 0).float()
    return labels.cpu().numpy()
