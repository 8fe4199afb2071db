"""Graphs without features: random vectors against the identity matrix, where that can be computed.

    NODEWISE_DATA=... python benchmarks/no_features.py -o docs/results/no-features.json

BlogCatalog (several labels per node): half of the nodes train, 1,000 validate, 3,000 test. The ogbn-arxiv graph: 2,000
training, 500 validation and 3,000 test nodes of its official parts.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import nodewise as nw
from measuring import keep
from nodewise.learn.metrics import macro_f1, micro_f1


def run(graph: nw.Graph, parts: list[np.ndarray]) -> dict[str, Any]:
    started = time.perf_counter()
    model = nw.NIGCN()
    predicted = model.labels_of_proba(model.fit_predict_proba(graph, *parts))
    truth = graph.labels[parts[2]]
    return {
        "micro_f1": micro_f1(truth, predicted),
        "macro_f1": macro_f1(truth, predicted),
        "seconds": time.perf_counter() - started,
        "threshold": model.threshold_,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    blog = nw.load("blogcatalog-multilabel").replace(features=None)
    order = rng.permutation(blog.num_nodes)
    half = blog.num_nodes // 2
    parts = [order[:half], order[half : half + 1000], order[-3000:]]
    arxiv = nw.load("arxiv-standin").replace(features=None)
    sizes = {"train": 2000, "val": 500, "test": 3000}
    few = [rng.permutation(arxiv.splits[part])[:size] for part, size in sizes.items()]
    identity = blog.replace(features=sp.identity(blog.num_nodes, format="csr", dtype=np.float32))
    found = {}
    for name, graph, nodes in (
        ("blogcatalog", blog, parts), ("ogbn-arxiv graph", arxiv, few), ("blogcatalog, identity", identity, parts),
    ):  # fmt: skip
        found[name] = run(graph, nodes)
        print(name, found[name], flush=True)
        keep(found, args.output)


if __name__ == "__main__":
    main()
