"""To and from PyTorch Geometric (pip install 'nodewise[baselines]')."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

import nodewise as nw


def main() -> None:
    made = nw.synthetic.dcsbm(1000, avg_degree=8, classes=3, homophily=0.7, features=8, seed=1)
    parts = np.split(np.random.default_rng(0).permutation(made.num_nodes), [100, 300])
    made = made.replace(splits=dict(zip(("train", "val", "test"), parts, strict=True)))

    data: Data = made.to_pyg()
    print(data)

    graph = nw.Graph.from_pyg(data)  # the same graph again, its masks as splits
    model = nw.NIGCN().fit(graph, graph.splits["train"], graph.splits["val"])
    print(f"micro-F1 {model.score(graph, graph.splits['test']):.3f}")

    rows = torch.from_numpy(model.represent(graph))  # for a network of your own
    print(f"rows for PyTorch: {tuple(rows.shape)}")


if __name__ == "__main__":
    main()
