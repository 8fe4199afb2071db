"""Training on a million labelled nodes within a memory allowance.

    python benchmarks/full_supervision.py -o docs/results/full-supervision.json

A synthetic graph is written to a store; a fresh process opens it, diffuses from a million training nodes and learns,
once with all the memory it wants and once with ``memory="512MB"``, where the rows go to a temporary file and training
streams batches from it. Shown for both: seconds, how many cores were busy, the most anonymous memory, and test F1,
which must not differ by more than the order of batches explains.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import nodewise as nw
from measuring import Watch, alone, keep, status_bytes
from nodewise.learn.evaluate import versions
from nodewise.learn.rows import DiffusedRows
from nodewise.store import open_store, write_store

EPOCHS = 10


class Seen:
    """What a fit shows of itself: whether its rows are in a file, its epochs, and the processor time as it begins."""

    in_file, epochs, cpu = False, 0.0, 0.0

    def make_rows(self, maker: DiffusedRows, graph: nw.Graph, nodes: np.ndarray) -> np.ndarray:
        rows = maker.rows(graph, nodes)
        self.in_file = isinstance(rows, np.memmap)
        return rows

    def progress(self, stage: str, done: float, total: float | None) -> None:
        if stage == "training" and total is None:  # it begins
            self.cpu = time.process_time()
        elif stage == "training":
            self.epochs = done


def run(store: Path, labelled: int, memory: str | None) -> dict[str, Any]:
    """One measurement, in this process."""
    graph = open_store(store)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    train, val, test = np.split(order[: labelled + 20_000], [labelled, labelled + 10_000])
    model = nw.NIGCN(
        omega=0.9,
        rho=1.0,
        tau=0.5,
        epsilon=0.05,
        lr=0.05,
        dropout=0.1,
        layers=2,
        feature_norm="none",
        weight_decay=0.0,
        teach=False,
        epochs=EPOCHS,
        patience=EPOCHS,
        memory=memory,
        seed=0,
    )
    seen = Seen()
    with Watch() as watch:
        before = status_bytes("RssAnon")
        model.fit(graph, train, val, make_rows=seen.make_rows, progress=seen.progress)
        cpu = time.process_time() - seen.cpu
    wall = model.seconds_["training"]
    return {
        "memory": memory or "a quarter of what is available",
        "rows_in_file": seen.in_file,
        "engine": model.engine_,
        "diffusion_seconds": model.seconds_["rows"],
        "training_seconds": wall,
        "epochs": seen.epochs,
        "rows_a_second": labelled * seen.epochs / wall,
        "cores_busy": cpu / wall,
        "anonymous_bytes_before": before,
        "anonymous_bytes_most": watch.peak,
        "test_f1": model.score(graph, test),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_200_000)
    parser.add_argument("--labelled", type=int, default=1_000_000)
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        graph = nw.synthetic.dcsbm(arguments.nodes, 20, 50, features=128, signal=0.7, seed=0)
        write_store(graph, Path(folder, "store"))
        for memory in (None, "512MB"):
            results.append(alone(run, Path(folder, "store"), arguments.labelled, memory))
            print(json.dumps(results[-1], indent=1))
    content = {"nodes": arguments.nodes, "labelled": arguments.labelled, "runs": results}
    keep({**content, "versions": versions()}, arguments.output)


if __name__ == "__main__":
    main()
