"""The network on top of the representations: linear layers, ReLU, dropout before each."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from nodewise.learn.dropout import dropout


class Head(nn.Module):
    """``layers`` linear layers, ``hidden`` wide; a layer that keeps its width adds its input (a residual)."""

    def __init__(self, num_features: int, num_outputs: int, hidden: int, layers: int, share: float, bias: bool) -> None:
        super().__init__()
        widths = [num_features, *[hidden] * (layers - 1), num_outputs]
        self.linear = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b in itertools.pairwise(widths))
        self.dropout = share

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        last = len(self.linear) - 1
        for i, linear in enumerate(self.linear):
            rows = dropout(rows, self.dropout) if self.training else rows
            out: torch.Tensor = linear(rows)
            if i < last:
                out = torch.relu(out + rows if out.shape == rows.shape else out)
            rows = out
        return rows
