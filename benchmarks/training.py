"""How fast a network learns: against the paper's recipe on the same rows, and how many rows a second on all cores.

    NODEWISE_DATA=... python benchmarks/training.py -o docs/results/training.json

The paper trains for up to 1,000 epochs with a patience of 400 in batches of 32 rows. Here each data set's preset trains
on the same rows, in turn with the same networks trained so; scores are of the ten fixed splits. Throughput: a hundred
thousand rows of 128 numbers, three epochs, and how many cores were busy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import nodewise as nw
from nodewise.learn.evaluate import versions
from nodewise.learn.metrics import micro_f1
from nodewise.splits import read_split_file

DATASETS = ("cora", "citeseer", "pubmed")
PAPER = {"epochs": 1000, "patience": 400, "batch_size": 32}
ROWS, WIDTH, EPOCHS, REPEATS = 100_000, 128, 3, 5


def against_the_paper(name: str, data: str, splits: int) -> dict[str, Any]:
    """Test scores and seconds of both ways to train, split by split on the same rows."""
    graph = nw.load(name, data)
    found: dict[str, list[tuple[float, float, int]]] = {"here": [], "paper": []}
    for split in read_split_file(Path(data, "splits", f"{name}.npz"), graph.num_nodes)[:splits]:
        learned = [split.train, split.val]
        rows = nw.NIGCN(**nw.presets[name]).represent_parts(graph, [*learned, split.test])
        for way, changes in (("here", {}), ("paper", PAPER)):
            model = nw.NIGCN(**{**nw.presets[name], **changes})
            model.represent_parts(graph, learned)
            model.fit_rows(graph, learned, rows[:2])
            right = micro_f1(graph.labels[split.test], model.labels_of_proba(model.proba_of_rows(rows[2])))
            found[way].append((right, model.seconds_["training"], model.epochs_))
    means = {way: [statistics.fmean(column) for column in zip(*runs, strict=True)] for way, runs in found.items()}
    return {
        "dataset": name,
        "splits": len(found["here"]),
        **{f"{way}_{what}": value for way, mean in means.items() for what, value in zip(WHAT, mean, strict=True)},
        "share_of_the_time": means["here"][1] / means["paper"][1],
    }


WHAT = ("test_f1", "seconds", "epochs")


def throughput() -> dict[str, Any]:
    """Rows a second, and cores busy, at the best of some repeats."""
    rng = np.random.default_rng(0)
    graph = nw.synthetic.dcsbm(ROWS, avg_degree=4, classes=16, features=WIDTH, seed=0)
    rows, nodes = rng.standard_normal((ROWS, WIDTH), np.float32), np.arange(ROWS)
    best = (0.0, 0.0)
    for _ in range(REPEATS):
        model = nw.NIGCN(omega=0.9, rho=1.0, tau=1.0, layers=2, weight_decay=0.0, epochs=EPOCHS)
        model.seconds_ = {}
        wall, cpu = time.perf_counter(), time.process_time()
        model.fit_rows(graph, [nodes], [rows])
        seconds = time.perf_counter() - wall
        best = max(best, (EPOCHS * ROWS / seconds, (time.process_time() - cpu) / seconds))
    return {"rows": ROWS, "width": WIDTH, "rows_a_second": best[0], "cores_busy": best[1], "cores": os.cpu_count()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--data", default=os.environ.get("NODEWISE_DATA", "data"))
    options = parser.parse_args()
    result = {
        "throughput": throughput(),
        "recipes": [against_the_paper(name, options.data, options.splits) for name in DATASETS],
        "versions": versions(),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
