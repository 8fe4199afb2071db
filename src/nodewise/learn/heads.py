"""Small networks on rows, several of one shape side by side so that one product serves all first layers; dropout."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import nn

LEVELS = 1 << 16  # dropout shares are rounded to one of this many


class Heads(nn.Module):
    """``count`` networks of ``layers`` linear layers, ``hidden`` wide, with ReLU between and dropout before each.

    A layer that keeps its width adds its input (a residual). Every parameter has the networks along its first axis.
    ``random=False``: all are 0, to be filled. ``draw``: where random numbers come from, by default torch's generator.
    """

    def __init__(
        self,
        count: int,
        inputs: int,
        outputs: int,
        hidden: int,
        layers: int,
        share: float,
        bias: bool,
        random: bool = True,
        draw: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.shape = {
            "count": count, "inputs": inputs, "outputs": outputs, "hidden": hidden, "layers": layers, "bias": bias,
        }  # fmt: skip
        self.count, self.dropout, self.draw = count, share, draw
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in itertools.pairwise([inputs, *[hidden] * (layers - 1), outputs]):
            limit = 1 / math.sqrt(max(1, fan_in)) if random else 0.0
            shape = (count, fan_in, fan_out) if len(self.weights) else (count * fan_out, fan_in)
            self.weights.append(_drawn(shape, limit, draw))
            if bias:
                self.biases.append(_drawn((count, 1, fan_out), limit, draw))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """``(count, rows, outputs)``."""
        last = len(self.weights) - 1
        for i, weight in enumerate(self.weights):
            rows = dropout(rows, self.dropout, self.draw) if self.training else rows
            if i == 0:
                out = (rows @ weight.T).unflatten(1, (self.count, -1)).transpose(0, 1)
            else:
                out = torch.bmm(rows, weight)
            if len(self.biases):
                out = out + self.biases[i]
            if i < last:
                out = torch.relu(out + rows if i > 0 and out.shape == rows.shape else out)
            rows = out
        return rows

    def taken(self, members: torch.Tensor) -> Heads:
        """Some of the networks."""
        heads = self._like(count=members.numel())
        for mine, theirs in zip(heads.parameters(), self.parameters(), strict=True):
            mine.data.copy_(theirs.view(self.count, -1)[members].view(mine.shape))
        return heads

    def widened(self, columns: torch.Tensor, inputs: int) -> Heads:
        """The same networks on wider rows, of which they see only ``columns``."""
        if columns.numel() == inputs:
            return self
        heads = self._like(inputs=inputs)
        for mine, theirs in zip(heads.parameters(), self.parameters(), strict=True):
            mine.data[:, columns if mine is heads.weights[0] else slice(None)] = theirs
        return heads

    def narrowed(self, inputs: int) -> Heads:
        """The same networks on the first columns of their rows: they must have weights of 0 for the others."""
        heads = self._like(inputs=inputs)
        for mine, theirs in zip(heads.parameters(), self.parameters(), strict=True):
            mine.data.copy_(theirs[:, :inputs] if mine is heads.weights[0] else theirs)
        return heads

    def _like(self, **shape: int) -> Heads:
        """Networks of another shape, to be filled."""
        heads = Heads(**{**self.shape, **shape}, share=self.dropout, random=False)  # type: ignore[arg-type]
        return heads.to(self.weights[0].device).train(self.training)

    def scaled(self, factors: torch.Tensor) -> Heads:
        """These networks, their outputs multiplied by a factor each."""
        with torch.no_grad():
            last = self.weights[-1]
            last.view(self.count, -1).mul_(factors[:, None])
            if len(self.biases):
                self.biases[-1].mul_(factors[:, None, None])
        return self


def dropout(numbers: torch.Tensor, share: float, draw: torch.Generator | None = None) -> torch.Tensor:
    """Each number zero with probability ``share``, the others grown to keep the mean.

    torch draws a float per entry, which takes several times as long as 16 random bits. ``draw`` (by default torch's own
    generator) gives the seed of a separate stream.

    >>> _ = torch.manual_seed(0)
    >>> sorted(set(dropout(torch.ones(1000), 0.5).tolist()))
    [0.0, 2.0]
    """
    if share == 0:
        return numbers
    if numbers.device.type != "cpu":
        return torch.nn.functional.dropout(numbers, share)
    kept = LEVELS - round(share * LEVELS)
    random = np.random.Generator(np.random.SFC64(int(torch.randint(2**62, (), generator=draw))))
    words = random.integers(0, 1 << 64, -(-numbers.numel() // 4), np.uint64)  # which leaves other threads running
    bits = words.view(np.uint16)[: numbers.numel()].reshape(numbers.shape)
    return numbers * torch.from_numpy((bits < kept).astype(np.float32)).mul_(LEVELS / kept)


def _drawn(shape: tuple[int, ...], limit: float, draw: torch.Generator | None) -> torch.Tensor:
    return torch.zeros(shape) if limit == 0 else torch.empty(shape).uniform_(-limit, limit, generator=draw)
