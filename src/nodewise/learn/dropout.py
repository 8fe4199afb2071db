"""Dropout of large arrays: torch draws a float an entry, which takes several times as long as 16 random bits."""

from __future__ import annotations

import numpy as np
import torch

LEVELS = 1 << 16  # a share is rounded to one of so many


def dropout(numbers: torch.Tensor, share: float, draw: torch.Generator | None = None) -> torch.Tensor:
    """Each number zero with probability ``share``, the others grown to keep the mean.

    ``draw`` (by default torch's own generator) gives the seed of a stream of its own.

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
    mask = torch.from_numpy((bits < kept).astype(np.float32)).mul_(LEVELS / kept)
    return numbers * mask
