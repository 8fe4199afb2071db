"""Adam with L2 weight decay. Torch's own loads a compiler first, which takes longer than training a small network.

Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """As ``torch.optim.Adam(parameters, lr, weight_decay=...)``.

    ``weight_decay``: a number, or one for each of the networks that lie along the first axis of every parameter.
    """

    def __init__(self, parameters: Iterable[torch.Tensor], lr: float, weight_decay: float | Sequence[float]) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.decays = [_decay_of(weight, weight_decay) for weight in self.parameters]
        self.steps = 0
        self.means = [torch.zeros_like(weight) for weight in self.parameters]
        self.squares = [torch.zeros_like(weight) for weight in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients that the parameters hold, and none are left for the next."""
        self.steps += 1
        size = self.lr / (1 - BETA1**self.steps)
        root = math.sqrt(1 - BETA2**self.steps)
        for weight, decay, mean, square in zip(self.parameters, self.decays, self.means, self.squares, strict=True):
            if weight.grad is None:
                continue
            gradient, weight.grad = torch.addcmul(weight.grad, weight, decay), None
            mean.lerp_(gradient, 1 - BETA1)
            square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            weight.addcdiv_(mean, (square.sqrt() / root).add_(EPSILON), value=-size)


def _decay_of(weight: torch.Tensor, decay: float | Sequence[float]) -> torch.Tensor:
    """What multiplies each number of ``weight``, in a shape that broadcasts to it."""
    if isinstance(decay, float | int):
        return weight.new_full((1,) * weight.ndim, decay)
    each = weight.new_tensor(decay).repeat_interleave(weight.shape[0] // len(decay))
    return each.view(-1, *(1,) * (weight.ndim - 1))
