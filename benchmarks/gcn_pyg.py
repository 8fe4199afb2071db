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
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, kept = -1.0, None
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, edges)[train], y[train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            out = model(x, edges).argmax(1)
        right = float((out[val] == y[val]).float().mean())
        if right > best:
            best, kept = right, out
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "val_f1": best, "test_f1": float((kept[test] == y[test]).float().mean())}


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
