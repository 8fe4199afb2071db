"""Adam with L2 weight decay: torch's own loads its compiler first, which takes longer than training a small head.

Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """As ``torch.optim.Adam(parameters, lr, weight_decay=weight_decay)``, to the last bit of its plain loop."""

    def __init__(self, parameters: Iterable[torch.Tensor], lr: float, weight_decay: float) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.weight_decay = weight_decay
        self.steps = 0
        self.means = [torch.zeros_like(weight) for weight in self.parameters]
        self.squares = [torch.zeros_like(weight) for weight in self.parameters]

    def zero_grad(self) -> None:
        for weight in self.parameters:
            weight.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients that the parameters hold."""
        self.steps += 1
        size = self.lr / (1 - BETA1**self.steps)
        root = math.sqrt(1 - BETA2**self.steps)
        for weight, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            if weight.grad is None:
                continue
            gradient = weight.grad.add(weight, alpha=self.weight_decay)
            mean.lerp_(gradient, 1 - BETA1)
            square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            weight.addcdiv_(mean, (square.sqrt() / root).add_(EPSILON), value=-size)
