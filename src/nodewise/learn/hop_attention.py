"""A network that weighs hops node by node: attention over a hop bank, for graphs where one GHD does not fit all."""

from __future__ import annotations

import torch
from torch import nn

from nodewise._typing import DoubleArray
from nodewise.learn.head import Head
from nodewise.learn.hop_weights import scaled_to


class HopAttention(nn.Module):
    """Hop ``l`` of a node weighs ``softmax over l of (b_l + <q, H_l> / |H_l|)``; then a :class:`Head`.

    It starts at the GHD's weights: ``b_l`` are their logarithms and ``q`` is zero. Hops that a node does not reach
    weigh nothing. Rows: ``features`` times as many numbers as there are hops, then what else the head sees.
    """

    def __init__(self, head: Head, features: int, shares: DoubleArray, norm: str) -> None:
        super().__init__()
        self.head = head
        self.features = features
        self.norm = norm
        self.query = nn.Parameter(torch.zeros(features))
        self.log_share = nn.Parameter(torch.tensor(shares, dtype=torch.float32).clamp_min(1e-9).log())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hops = self.log_share.numel()
        bank = rows[:, : self.features * hops].reshape(-1, self.features, hops)
        size = bank.norm(dim=1)
        score = self.log_share + torch.einsum("tfl,f->tl", bank, self.query) / size.clamp_min(1e-12)
        unreached = size == 0
        unreached[:, 0] = False
        weights = torch.softmax(score.masked_fill(unreached, -torch.inf), 1)
        mixture = scaled_to(torch.einsum("tfl,tl->tf", bank, weights), self.norm)
        out: torch.Tensor = self.head(torch.cat([mixture, rows[:, self.features * hops :]], 1))
        return out
