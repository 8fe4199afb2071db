"""How much faster two Ray workers predict than one, as a ratio inside one run.

    python benchmarks/cluster.py                                # about three minutes and 2 GB on two cores
    python benchmarks/cluster.py -o docs/results/cluster.json

The same job on clusters of one and of two worker processes on this machine, a core and a thread each, taking turns.
Workers have made a few shards before the clock starts, so that neither their start nor compiling counts. Every run's
shards are compared, byte for byte, with those made without Ray.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import ray

import nodewise as nw
from measuring import keep
from nodewise.batch import run
from nodewise.learn.evaluate import versions

WORKERS = (1, 2)


def prepare(folder: Path, nodes: int, targets: int) -> None:
    """A store, a model, and lists of the nodes to predict: many to measure, few to warm up."""
    graph = nw.synthetic.dcsbm(nodes, avg_degree=20, classes=8, features=64, seed=0)
    nw.write_store(graph, folder / "store")
    diffusion = {"omega": 1.15, "rho": 0.1, "tau": 1.9, "epsilon": 0.03, "feature_norm": "l1", "engine": "walks"}
    network = {"layers": 2, "weight_decay": 5e-3, "teach": False, "epochs": 20}
    nw.NIGCN(**diffusion, **network).fit(graph, train=range(400)).save(folder / "model")
    for name, count in (("many", targets), ("few", targets // 20)):
        (folder / f"{name}.txt").write_text("\n".join(map(str, range(count))))


def predict(folder: Path, nodes: str, output: str, chunk: int, **options: Any) -> float:
    """Nodes a second."""
    place = str(folder / "store")
    done = run(
        "predict",
        folder / "model",
        place,
        folder / output,
        nodes=str(folder / nodes),
        chunk=chunk,
        threads=1,
        **options,
    )
    return done.made / done.seconds


def measured(folder: Path, workers: int, turn: int, chunk: int) -> float:
    """Nodes a second on a new cluster of so many workers, once they are warm."""
    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        predict(folder, "few.txt", f"warm-{workers}-{turn}", chunk // 20, on="ray")
        return predict(folder, "many.txt", f"out-{workers}-{turn}", chunk, on="ray")
    finally:
        ray.shutdown()


def shards(folder: Path) -> dict[str, bytes]:
    return {shard.name: shard.read_bytes() for shard in folder.glob("part-*.parquet")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=500_000, help="of the graph")
    parser.add_argument("--targets", type=int, default=200_000, help="nodes to predict")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, help="write the results as JSON")
    args = parser.parse_args()
    chunk = args.targets // 40
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prepare(folder, args.nodes, args.targets)
        here = predict(folder, "many.txt", "here", chunk)
        rates: dict[int, list[float]] = {workers: [] for workers in WORKERS}
        for turn in range(args.repeats):
            for workers in WORKERS:
                rates[workers].append(measured(folder, workers, turn, chunk))
                print(f"{workers} workers: {rates[workers][-1]:,.0f} nodes/s", flush=True)
                if shards(folder / f"out-{workers}-{turn}") != shards(folder / "here"):
                    raise SystemExit("the shards differ from those made without Ray")
    best = {workers: max(found) for workers, found in rates.items()}
    result = {
        "nodes": args.nodes,
        "targets": args.targets,
        "chunk": chunk,
        "cores": os.cpu_count(),
        "local_nodes_per_second": round(here, 1),
        "nodes_per_second": {str(workers): [round(rate, 1) for rate in found] for workers, found in rates.items()},
        "ratio": round(best[2] / best[1], 3),
        "equal_to_local": True,
        "versions": {**versions(), "ray": ray.__version__},
    }
    print(f"two workers against one: {result['ratio']:.2f} times")
    keep(result, args.output)


if __name__ == "__main__":
    main()
