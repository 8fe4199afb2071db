"""omega and rho that find themselves: GHD (Eq. 4) as a softmax over hops, moved by the loss on validation nodes.

A small network learns on the training nodes' rows, mixed from a hop bank. Every few of its steps, omega and rho take a
gradient step on the loss of the *guide*, nodes that the network does not learn from. On the training loss itself the
two fall to the node's own features, which stand out most; where rows are scaled they go nowhere in particular.

Which hops matter shows on few nodes and on a random projection of the features, so the bank is small, whatever the
graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from nodewise._typing import DoubleArray, Features, FloatArray
from nodewise.features import ROWS_AT_ONCE, row_scales
from nodewise.learn.adam import Adam
from nodewise.learn.head import Head
from nodewise.learn.trainer import balancing_weights, loss_of, seeded, tuned

DEEPEST = 10  # hops of a bank
WIDEST = 1024  # columns of a bank; wider features are projected
COLUMNS_AT_ONCE = 1 << 14  # of features, while they are projected
MOST_NODES = 2048  # of training and of guiding nodes
STEPS, WARM_UP, EVERY = 250, 20, 5  # of the network; before and between the steps of omega and rho
NETWORK_RATE, RATE, WEIGHT_DECAY = 0.01, 0.05, 5e-3
SMOOTH = 3  # guide losses averaged on either side, to find the least
START = (1.0, 0.3)
LEAST_RHO, MOST_RHO = 0.02, 2.0
LEAST_OMEGA, MOST_OMEGA = math.exp(-3), math.e
TINY = 1e-9  # stands for a rho of 0, which has no logarithm
WORTH = 0.99  # of the weight: hops beyond it are not worth their walks

Bank = tuple[torch.Tensor, torch.Tensor]


class Step(NamedTuple):
    """Where omega and rho were, and the guide's loss there."""

    loss: float
    omega: float
    rho: float


class HopWeights(nn.Module):
    """``U(l) = omega^l / (l!)^rho``, scaled to sum to one over the hops of the bank. A number given stays as it is."""

    def __init__(self, omega: float | None, rho: float | None, hops: int) -> None:
        super().__init__()
        start = START[0] if omega is None else omega, max(TINY, START[1] if rho is None else rho)
        self.log_omega, self.log_rho = (
            nn.Parameter(torch.tensor(math.log(number)), requires_grad=given is None)
            for number, given in zip(start, (omega, rho), strict=True)
        )
        self.register_buffer("hops", torch.arange(hops, dtype=torch.float32))
        self.keep_within_reach()

    def forward(self) -> torch.Tensor:
        hops = self.get_buffer("hops")
        return torch.softmax(hops * self.log_omega - self.log_rho.exp() * torch.lgamma(hops + 1), 0)

    @torch.no_grad()
    def keep_within_reach(self) -> None:
        """Keep the peak, ``omega^(1/rho)``, within the bank, and the sum over all hops finite."""
        last = math.log(max(2, self.get_buffer("hops").numel() - 1))
        if self.log_rho.requires_grad:
            least = LEAST_RHO if self.log_omega.requires_grad else max(LEAST_RHO, float(self.log_omega) / last)
            self.log_rho.clamp_(math.log(least), math.log(max(least, MOST_RHO)))
        if self.log_omega.requires_grad:
            rho = math.exp(float(self.log_rho))
            most = min(math.log(MOST_OMEGA), rho * last) if rho > TINY else math.log(0.99)
            self.log_omega.clamp_(math.log(LEAST_OMEGA), most)

    def step(self, loss: float) -> Step:
        return Step(loss, self.log_omega.exp().item(), self.log_rho.exp().item())


def learn_hop_weights(
    train: Bank,
    guide: Bank,
    make_head: Callable[[int], Head],
    norm: str,
    seed: int,
    *,
    balanced: bool = False,
    omega: float | None = None,
    rho: float | None = None,
) -> list[Step]:
    """The path of omega and rho as they are moved by the loss on ``guide``; a number given stays as it is.

    ``balanced``: every class counts the same in both losses.
    """
    class_weights = [balancing_weights(labels) if balanced else None for _, labels in (train, guide)]
    with seeded(seed), tuned(1):
        weights = HopWeights(omega, rho, train[0].shape[1])
        head = make_head(train[0].shape[2])
        learner = Adam(head.parameters(), NETWORK_RATE, WEIGHT_DECAY)
        mover = Adam([number for number in weights.parameters() if number.requires_grad], RATE, 0.0)
        path: list[Step] = []
        for step in range(STEPS):
            if step % EVERY == 0:
                if step >= WARM_UP:
                    head.eval()
                    loss = loss_of(head(mixed(guide[0], weights(), norm)), guide[1], class_weights[1])
                    path.append(weights.step(loss.item()))
                    _move(mover, loss)
                    weights.keep_within_reach()
                with torch.no_grad():
                    rows = mixed(train[0], weights(), norm)
            head.train()
            _move(learner, loss_of(head(rows), train[1], class_weights[0]))
    return path


def best_step(path: list[Step]) -> Step:
    """The step around which the guide's loss was least."""
    losses = [float(np.mean([s.loss for s in path[max(0, i - SMOOTH) : i + SMOOTH + 1]])) for i in range(len(path))]
    return path[int(np.argmin(losses))]


def worthwhile_hops(shares: DoubleArray) -> int:
    """The hop up to which the weights have all but a hundredth of their sum."""
    total = np.cumsum(shares)
    return int(np.searchsorted(total, WORTH * total[-1]))


def mixed(bank: torch.Tensor, weights: torch.Tensor, norm: str) -> torch.Tensor:
    """``sum over l of weights[l] H_l``, rows brought to ``norm``."""
    return scaled_to(torch.einsum("tlf,l->tf", bank, weights), norm)


def scaled_to(rows: torch.Tensor, norm: str) -> torch.Tensor:
    """Rows brought to ``norm``, with their gradients."""
    return rows if norm == "none" else nn.functional.normalize(rows, p=1.0 if norm == "l1" else 2.0, dim=1)


def projected(features: Features, norm: str, seed: int) -> FloatArray:
    """Features brought to ``norm``, then to :data:`WIDEST` columns that about keep distances (random projection)."""
    rng = np.random.default_rng(seed)
    made = np.zeros((features.shape[0], WIDEST), np.float32)
    for start in range(0, features.shape[1], COLUMNS_AT_ONCE):
        columns = slice(start, min(start + COLUMNS_AT_ONCE, features.shape[1]))
        directions = rng.standard_normal((columns.stop - start, WIDEST), np.float32) / np.float32(math.sqrt(WIDEST))
        for first in range(0, made.shape[0], ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            rows = features[part][:, columns]
            made[part] += (rows.astype(np.float32, copy=False) if isinstance(rows, np.ndarray) else rows) @ directions
    scales = row_scales(features, norm)
    if scales is not None:
        made *= scales[:, None]
    return made


def _move(optimizer: Adam, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
