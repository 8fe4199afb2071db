"""What `epsilon` costs and gives where walks are sampled: scores on held-out nodes and milliseconds per node.

    python benchmarks/epsilon.py -o docs/results/epsilon.json

The synthetic graphs of `benchmarks/serving.py` (1 M and 11 M nodes). Each value of epsilon fits a model of its own on
the same 3,000 nodes and 1,000 validation nodes, and is scored on the same 4,000 others. One thread, one node at a time.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import f1_score, log_loss

import nodewise as nw
import serving
from measuring import keep, kept
from nodewise._util.types import IntArray

VALUES = (0.01, 0.015, 0.02, 0.03, 0.05)
TRAIN, VAL, HELD_OUT, TIMED = 3000, 1000, 4000, 300


def parts_of(name: str) -> tuple[nw.Graph, list[IntArray]]:
    """The graph, with its training, validation and held-out nodes."""
    graph = nw.open_store(serving.prepared(name, serving.FOLDER)[0], verify=False)
    labelled = np.random.default_rng(3).permutation(np.flatnonzero(graph.labels >= 0))
    return graph, np.split(labelled[: TRAIN + VAL + HELD_OUT], [TRAIN, TRAIN + VAL])


def measured(graph: nw.Graph, parts: list[IntArray], epsilon: float) -> dict[str, float]:
    train, val, held_out = parts
    model = nw.NIGCN(epsilon=epsilon, engine="stratified", threads=1, seed=0)
    model.fit(graph, train, val, refit=False)
    proba = model.predict_proba(graph, held_out)
    maker, spent = model.maker_on(graph), []
    for node in held_out[:TIMED]:
        started = time.perf_counter()
        maker.rows(graph, np.array([node]))
        spent.append(time.perf_counter() - started)
    truth, codes = graph.labels[held_out], np.arange(proba.shape[1])
    return {
        "f1": 100 * float(f1_score(truth, np.array(model.classes_)[proba.argmax(1)], average="micro")),
        "log_loss": float(log_loss(model.columns_of(graph, truth), proba, labels=codes)),
        "ms_per_node": 1000 * float(np.median(spent)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["million", "papers"])
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    found = kept(options.output)
    serving.FOLDER.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        graph, parts = parts_of(name)
        found[name] = {str(epsilon): measured(graph, parts, epsilon) for epsilon in VALUES}
        print(name, json.dumps(found[name], indent=1), flush=True)
        keep(found, options.output)


if __name__ == "__main__":
    main()
