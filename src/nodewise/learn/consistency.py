"""Two draws of a node's walks are the same node: its classes should not depend on which of them the network sees.

The idea of GRAND+ (Feng et al., WWW 2022), with independent walks where it drops nodes at random. It lets nodes without
labels teach: what the network makes of several draws is averaged, sharpened, and asked back from each draw.
"""

from __future__ import annotations

import numpy as np
import torch

from nodewise.learn.trainer import LARGE, balancing_weights, loss_of, rows_a_step

TEMPERATURE = 0.5  # of the sharpening
CONFIDENT = 0.7  # averages whose largest probability is less teach nothing yet
WARM_UP = 50  # steps until the loss has its full weight


class Consistency:
    """A loss to add to a step's: ``weight`` times the disagreement of two draws on unlabelled nodes.

    ``draws``: each an array of rows, the training nodes first; ``labels``: of the training nodes, which learn from the
    draws as well.
    """

    def __init__(
        self, draws: list[torch.Tensor], labels: torch.Tensor, weight: float, seed: int, balanced: bool = False
    ) -> None:
        self.draws = draws
        self.labels = labels
        self.weight = weight
        self.class_weights = balancing_weights(labels) if balanced else None
        self.steps = 0
        self._random = np.random.default_rng(seed)

    def __call__(self, head: torch.nn.Module) -> torch.Tensor:
        labelled = self.labels.shape[0]
        self.steps += 1
        pair = [self.draws[i] for i in self._random.choice(len(self.draws), 2, replace=False)]
        free = pair[0].shape[0] - labelled
        batch = torch.from_numpy(labelled + self._random.permutation(free)[: rows_a_step(pair[0].shape[1])])
        known = torch.stack([self._known_loss(head, rows) for rows in pair]).mean()
        outs = torch.stack([head(rows[batch]) for rows in pair])
        return known + self.weight * min(1.0, self.steps / WARM_UP) * disagreement(outs, self.labels.ndim == 2)

    def _known_loss(self, head: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
        labelled = self.labels.shape[0]
        if labelled <= LARGE:
            return loss_of(head(rows[:labelled]), self.labels, self.class_weights)
        some = torch.from_numpy(self._random.choice(labelled, LARGE, replace=False))
        return loss_of(head(rows[some]), self.labels[some], self.class_weights)


def disagreement(outs: torch.Tensor, multilabel: bool) -> torch.Tensor:
    """The mean squared distance of each draw's probabilities from their sharpened average, where that is confident.

    ``outs``: ``(draws, nodes, classes)``, what the network says of the same nodes in each draw.
    """
    proba = torch.sigmoid(outs) if multilabel else torch.softmax(outs, -1)
    with torch.no_grad():
        average = proba.mean(0)
        if multilabel:
            target = (average > 0.5).to(proba.dtype)
            sure = ((average - 0.5).abs() > CONFIDENT - 0.5).to(proba.dtype)
        else:
            sharp = average ** (1 / TEMPERATURE)
            target = sharp / sharp.sum(-1, keepdim=True)
            sure = (average.max(-1, keepdim=True).values > CONFIDENT).to(proba.dtype)
    return ((proba - target) ** 2 * sure).sum(-1).mean()
