"""How many trials an hour one hop bank allows, against diffusing anew for each.

    NODEWISE_DATA=... python benchmarks/tuning.py -o docs/results/tuning.json

The same trials in both ways, in turn: points that a sampler proposes, two networks each, as ``nodewise tune`` judges
them. Anew: rows by the diffusion that the trial asks for, on the engine that is cheapest for it. On a data set, and on
synthetic graphs that grow; labels of 20 nodes a class and 500 to validate.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import optuna

import nodewise as nw
from nodewise.learn.evaluate import versions
from nodewise.splits import random_splits
from nodewise.tuning.study import Judge

TRIALS = 6
SIZES = (100_000, 1_000_000)


class Anew:
    """Stands for the bank, and diffuses for every trial."""

    def __init__(self, graph: nw.Graph, hops: int) -> None:
        self.graph = graph
        self.hops = hops

    def rows(self, nodes: Any, params: dict[str, Any]) -> Any:
        return nw.NIGCN(**params).represent(self.graph, nodes)


def measured(graph: nw.Graph) -> dict[str, Any]:
    """Seconds a trial in both ways, and what the bank takes to make."""
    split = random_splits(graph.labels, 1, seed=0)[0]
    started = time.perf_counter()
    judge = Judge(graph, [split], 0, None, None, None)
    making = time.perf_counter() - started
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    ways = {"bank": judge.bank, "anew": Anew(graph, judge.bank.hops)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    study.enqueue_trial(judge.first_point())  # which also compiles all kernels
    for _ in range(TRIALS):
        point = study.ask()
        for way, rows in ways.items():
            judge.bank = rows  # type: ignore[assignment]
            started = time.perf_counter()
            value = judge(point)
            seconds[way].append(time.perf_counter() - started)
        study.tell(point, value)
    hour = {way: 3600 / statistics.fmean(times) for way, times in seconds.items()}
    hour["bank"] *= 1 - min(1.0, making / 3600)
    return {
        "graph": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_entries // 2,
        "hops": ways["bank"].hops,
        "seconds_to_make_the_bank": making,
        "seconds_a_trial": {way: statistics.fmean(times) for way, times in seconds.items()},
        "trials_an_hour": hour,
        "times_as_many": hour["bank"] / hour["anew"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--data", default=os.environ.get("NODEWISE_DATA", "data"))
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rows = [measured(nw.load("arxiv-standin", options.data))]
    for nodes in SIZES:
        graph = nw.synthetic.dcsbm(nodes, avg_degree=20, classes=16, features=128, signal=0.3, seed=0)
        rows.append(measured(graph))
        print(json.dumps(rows[-1]), flush=True)
    result = {"trials": TRIALS, "rows": rows, "versions": versions()}
    text = json.dumps(result, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
