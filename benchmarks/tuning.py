"""How many trials an hour one hop bank allows, against diffusing anew for each.

    NODEWISE_DATA=... python benchmarks/tuning.py -o docs/results/tuning.json     # about 8 minutes and 14 GB

A study as ``nodewise tune`` makes it, and then the rows of the same nodes by the diffusion that its trials ask for, on
the engine that is cheapest for each, on all cores, which is what the bank saves. On a data set, and on synthetic graphs
that grow; labels of 20 nodes a class, and 500 or 5,000 to validate.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna

import nodewise as nw
from nodewise.learn.evaluate import versions
from nodewise.splits import Split, random_splits
from nodewise.tuning.trials import Trials

WARM = 8
TRIALS = 64
ANEW = 16  # of them, diffused anew
VALS = (500, 5000)
SIZES = ((1_000_000, 20), (10_000_000, 30))  # nodes, and edges a node


def measured(graph: nw.Graph, split: Split) -> dict[str, Any]:
    """Seconds a trial in both ways, and what the bank takes to make."""
    started = time.perf_counter()
    trials = Trials(graph, [split], 0, None, None)
    making = time.perf_counter() - started
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.enqueue_trial(trials.first_point())
    for _ in trials.run(study, WARM, math.inf):  # the kernels are compiled, the processes have begun
        pass
    started = time.perf_counter()
    for _ in trials.run(study, TRIALS, math.inf):
        pass
    bank = (time.perf_counter() - started) / TRIALS
    points = [trials.params(trial.params) for trial in study.trials[WARM:]]
    nodes = np.concatenate([split.train, split.val])
    mixing = seconds_of(lambda params: trials.bank.rows(nodes, params), points)
    diffusing = seconds_of(lambda params: nw.NIGCN(**params).represent(graph, nodes), points[:: TRIALS // ANEW])
    anew = bank - mixing + diffusing
    return {
        "graph": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_entries // 2,
        "labels": nodes.size,
        "hops": trials.bank.hops,
        "given_up": sum(trial.state.name == "PRUNED" for trial in study.trials[WARM:]),
        "seconds_to_make_the_bank": making,
        "seconds_a_trial": {"bank": bank, "anew": anew},
        "trials_an_hour": {"bank": (3600 - making) / bank, "anew": 3600 / anew},
        "times_as_many": (3600 - making) / bank * anew / 3600,
    }


def seconds_of(make: Callable[[dict[str, Any]], Any], points: list[dict[str, Any]]) -> float:
    started = time.perf_counter()
    for params in points:
        make(params)
    return (time.perf_counter() - started) / len(points)


def graphs(data: str) -> Iterator[nw.Graph]:
    yield nw.load("arxiv-standin", data)
    for nodes, degree in SIZES:
        yield nw.synthetic.dcsbm(nodes, avg_degree=degree, classes=16, features=128, signal=0.3, seed=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--data", default=os.environ.get("NODEWISE_DATA", "data"))
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rows = []
    for graph in graphs(options.data):
        for val in VALS:
            rows.append(measured(graph, random_splits(graph.labels, 1, seed=0, val=val)[0]))
            print(json.dumps(rows[-1]), flush=True)
    text = json.dumps({"trials": TRIALS, "rows": rows, "versions": versions()}, indent=2)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
