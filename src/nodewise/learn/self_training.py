"""Self-training: nodes whose class the network is surest of become training nodes, and it learns again."""

from __future__ import annotations

import math

import numpy as np
import torch

from nodewise.learn.trainer import balancing_weights, loss_of, rows_a_step

SHARE = 0.6  # of the unlabelled nodes given to a class, the surest first


def confident(proba: torch.Tensor, share: float = SHARE) -> tuple[torch.Tensor, torch.Tensor]:
    """The places of the ``share`` surest rows of each class, and that class.

    Of each class the same share, so that classes keep their proportions among the nodes that teach.

    >>> confident(torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), share=0.5)
    (tensor([0, 2]), tensor([0, 1]))
    """
    sure, labels = proba.max(1)
    chosen = []
    for label in range(proba.shape[1]):
        given = torch.nonzero(labels == label).ravel()
        best_first = given[torch.argsort(sure[given], descending=True, stable=True)]
        chosen.append(best_first[: math.ceil(share * len(given))])
    places = torch.cat(chosen).sort().values
    return places, labels[places]


class PseudoLabels:
    """A loss to add to a step's: that of nodes with the labels that the network gave them before."""

    def __init__(self, rows: torch.Tensor, labels: torch.Tensor, seed: int, balanced: bool = False) -> None:
        self.rows = rows
        self.labels = labels
        self.class_weights = balancing_weights(labels) if balanced else None
        self._random = np.random.default_rng(seed)

    def __call__(self, head: torch.nn.Module) -> torch.Tensor:
        batch = torch.from_numpy(self._random.permutation(self.rows.shape[0])[: rows_a_step(self.rows.shape[1])])
        return loss_of(head(self.rows[batch]), self.labels[batch], self.class_weights)
