"""What a default fit costs on graphs that are wide, or have many labels: seconds by stage, peak memory, score.

    python benchmarks/learning_scale.py -o docs/results/learning-scale.json

*wide*: 100,000 nodes, 11,000 sparse word features (about 6 per node), 2,500 labels, 45 classes. *many*: the search
alone on 1.2 million labelled nodes with 128 numbers each. Each runs in a process of
its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import nodewise as nw
from measuring import alone, keep, status_bytes


def wide() -> dict[str, Any]:
    graph = nw.synthetic.dcsbm(100_000, avg_degree=10, classes=45, homophily=0.7, features=1, seed=0)
    rng = np.random.default_rng(0)
    words = np.sort(rng.zipf(1.3, 11_000).clip(1, 1000))[::-1].astype(np.float64)  # a few common, many rare
    topics = rng.permuted(np.tile(words, (45, 1)), axis=1) + words  # half of a class's words are its own
    chosen = np.concatenate(
        [rng.choice(11_000, (int((graph.labels == c).sum()), 6), p=t / t.sum()) for c, t in enumerate(topics)]
    )
    nodes = np.argsort(graph.labels, kind="stable").repeat(6)
    features = sp.csr_matrix((np.ones(nodes.size, np.float32), (nodes, chosen.ravel())), shape=(100_000, 11_000))
    graph = graph.replace(features=features)
    known = rng.permutation(100_000)
    train, val, test = known[:2500], known[2500:3500], known[3500:5500]
    before = status_bytes("VmHWM")
    started = time.perf_counter()
    model = nw.NIGCN()
    proba = model.fit_predict_proba(graph, train, val, test)
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "stages": model.seconds_,
        "expected": nw.NIGCN().expected_seconds(graph, 2500, 1000, 2000),
        "engine": model.engine_,
        "peak_bytes": status_bytes("VmHWM"),
        "peak_bytes_before_fit": before,
        "test_f1": float(np.mean(model.labels_of_proba(proba) == graph.labels[test])),
    }


def many() -> dict[str, Any]:
    graph = nw.synthetic.dcsbm(1_500_000, avg_degree=10, classes=20, features=128, seed=0)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    started = time.perf_counter()

    def stop(stage: str, done: float, total: float | None) -> None:
        if stage == "rows":  # the search is over
            raise TimeoutError

    with contextlib.suppress(TimeoutError):
        nw.NIGCN().fit(graph, order[:1_200_000], order[1_200_000:1_300_000], progress=stop)
    return {"labels": 1_200_000, "seconds_until_rows": time.perf_counter() - started}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    found = {}
    for name, run in (("wide", wide), ("many", many)):
        found[name] = alone(run)
        print(name, found[name], flush=True)
    keep(found, args.output)


if __name__ == "__main__":
    main()
