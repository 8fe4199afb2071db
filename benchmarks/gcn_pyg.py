"""Seconds of a two-layer GCN written with PyTorch Geometric: 64 hidden units, 200 epochs, validation after each.

    NODEWISE_DATA=... python benchmarks/gcn_pyg.py -o docs/results/gcn-pyg.json [NAME ...]

What a user of PyTorch Geometric would write first, on the first of the ten splits; run it alone.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.nn import GCNConv

import nodewise as nw
from learning import NAMES, splits_of
from measuring import keep, kept

EPOCHS, HIDDEN = 200, 64


class GCN(torch.nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = GCNConv(inputs, HIDDEN), GCNConv(HIDDEN, outputs)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.dropout(x, 0.5, self.training)
        x = torch.relu(self.first(x, edges))
        return self.second(torch.nn.functional.dropout(x, 0.5, self.training), edges)


def trained(
    model: torch.nn.Module, x: torch.Tensor, edges: torch.Tensor, y: torch.Tensor, train: Any, val: Any
) -> float:
    """Train ``model`` and give it the weights that were best on ``val``, the last among equals; their score there."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, weights = 0.0, model.state_dict()
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, edges)[train], y[train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = float((model(x, edges)[val].argmax(1) == y[val]).float().mean())
        if right >= best:
            best, weights = right, {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    return best


def run(name: str) -> dict[str, Any]:
    graph, split = nw.load(name), splits_of(name)[0]
    features = graph.features.toarray() if sp.issparse(graph.features) else np.asarray(graph.features)
    x = torch.from_numpy(features.astype(np.float32))
    edges = torch.from_numpy(np.stack(graph.to_scipy().nonzero()).astype(np.int64))
    y = torch.from_numpy(graph.labels.astype(np.int64))
    train, val, test = map(torch.from_numpy, split)
    torch.manual_seed(0)
    started = time.perf_counter()
    model = GCN(x.shape[1], int(y.max()) + 1)
    best = trained(model, x, edges, y, train, val)
    seconds = time.perf_counter() - started
    with torch.no_grad():
        right = model(x, edges)[test].argmax(1) == y[test]
    return {"seconds": seconds, "val_f1": best, "test_f1": float(right.float().mean())}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    found = kept(args.output)
    for name in args.names or NAMES:
        found[name] = run(name)
        print(name, found[name], flush=True)
        keep(found, args.output)


if __name__ == "__main__":
    main()
