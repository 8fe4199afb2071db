"""What epsilon and the engine cost, and what they bring: micro-F1 and milliseconds per node on large synthetic graphs.

    python benchmarks/sampling.py million papers -o docs/results/sampling.json

The graphs are those of `serving.py`, made in --folder on first use: a million nodes, and the shape of ogbn-papers100M
at a tenth of its size. A model learns from 3,000 labels, 1,000 more are for validation, and it predicts 2,000 others.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import nodewise as nw
from serving import FOLDER, prepared

ENGINES = (("auto", "auto"), ("walks", 0.01), ("stratified", 0.02))


def measure(graph: nw.Graph, engine: str, epsilon: float | str) -> dict[str, Any]:
    train, val, test = np.split(
        np.random.default_rng(0).permutation(np.flatnonzero(graph.labels >= 0))[:6000], [3000, 4000]
    )
    started = time.perf_counter()
    model = nw.NIGCN(engine=engine, epsilon=epsilon).fit(graph, train, val)
    fitted = time.perf_counter()
    score = model.score(graph, test)
    return {
        "engine": engine, "epsilon": epsilon, "chosen": model.engine_, "micro_f1": 100 * score,
        "fit_seconds": fitted - started, "ms_per_node": 1000 * (time.perf_counter() - fitted) / test.size,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=["million", "papers"])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    found = json.loads(options.output.read_text()) if options.output.exists() else {}
    for name in options.names:
        graph = nw.open_store(prepared(name, options.folder)[0], verify=False)
        measure(graph, "auto", 0.05)  # compiles, and brings the graph into memory
        found[name] = [measure(graph, *one) for one in ENGINES]
        print(name, json.dumps(found[name], indent=1), flush=True)
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
