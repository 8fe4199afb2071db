"""Self-training: nodes whose class the network is surest of become training nodes, and it learns again.

Training nodes are often chosen class by class, so many of each, and the network comes to give rare classes too many
nodes; what it then teaches itself makes that worse. Validation nodes that were drawn from all nodes show how common
each class is, and what is taught is brought to these shares first.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from nodewise.learn.trainer import balancing_weights, loss_of, rows_a_step

SHARE = 0.6  # of the unlabelled nodes given to a class, the surest first
SCALINGS, CLOSE = 200, 1e-6  # of classes, at most; how near to the shares is near enough


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


def shares_of(labels: torch.Tensor, classes: int) -> torch.Tensor | None:
    """How common each class is, where that can be told: one more label of each than there are, so that none is 0.

    As many labels of one class as of any other were hardly drawn from all nodes, and do not tell.

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
