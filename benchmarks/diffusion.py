"""How fast the diffusion is, as ratios inside one run.

    python benchmarks/diffusion.py                  # everything; about 5 minutes and 6 GB on two cores
    python benchmarks/diffusion.py --nodes 1000000  # the large graph ten times smaller
    python benchmarks/diffusion.py -o docs/results/diffusion.json

Four questions: how much faster are walks that move together than one walk at a time; what does it gain to read
features in node order; does the scratch memory of a thread grow with the graph; does the planner choose well. Each
time is the best of several, engines taking turns.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

import nodewise as nw
from measuring import best_of, keep
from nodewise.diffusion.aggregate import weighted_sum
from nodewise.diffusion.kernels import walking as kernels
from nodewise.diffusion.walks import Sampling, walk
from nodewise.learn.evaluate import versions

ENGINES = ("exact", "walks", "stratified")


@njit(cache=True, nogil=True)
def one_walk_at_a_time(indptr, indices, targets, length, theta, hops, seed, weights, seen):
    """The plain loop: one walk after the other, weights in an array of the graph's length."""
    steps = 0
    for i in range(targets.size):
        state = kernels._stream(seed, targets[i])
        found = 0
        for _ in range(theta):
            at = targets[i]
            for step in range(length):
                state += kernels._GOLDEN
                degree = indptr[at + 1] - indptr[at]
                at = np.int64(indices[indptr[at] + np.int64(kernels._unit(kernels._mix(state)) * degree)])
                if weights[at] == 0.0:
                    seen[found] = at
                    found += 1
                weights[at] += hops[step + 1]
                steps += 1
        for j in range(found):
            weights[seen[j]] = 0.0
    return steps


def walk_speed(graph: nw.Graph) -> dict[str, Any]:
    """Steps a second of the engine and of the plain loop, on one thread and the same walks' number and length."""
    theta, length = 1000, 10
    targets = np.random.default_rng(0).choice(graph.num_nodes, 200, replace=False)
    hops = nw.ghd(1.15, 0.1, length)
    how = Sampling(hops, theta, np.iinfo(np.int64).max, "theta", 0, 1)
    reach = np.full(targets.size, length)
    weights, seen = np.zeros(graph.num_nodes), np.empty(theta * length, np.int64)

    def plain() -> None:
        one_walk_at_a_time(graph.indptr, graph.indices, targets, length, theta, hops, 0, weights, seen)

    def together() -> None:
        walk(graph, targets, reach, how)

    plain(), together()  # compile
    slow, fast = best_of(5, plain, together)
    steps = targets.size * theta * length
    return {
        "nodes": graph.num_nodes,
        "entries": graph.num_entries,
        "plain_million_steps_a_second": steps / slow / 1e6,
        "walks_million_steps_a_second": steps / fast / 1e6,
        "ratio": slow / fast,
    }


def sum_speed() -> dict[str, Any]:
    """Weighted sums of feature rows, in node order and target by target, two threads, the same weights."""
    import torch

    graph = nw.synthetic.dcsbm(1_000_000, 30, 20, features=128, seed=1)
    targets = np.random.default_rng(0).choice(graph.num_nodes, 1000, replace=False)
    settings = {"omega": 7.4, "rho": 1.3, "tau": 0.6, "epsilon": 0.01, "convention": "reference"}
    weights = nw.diffuse(graph, targets, engine="walks", **settings)._weights
    table = torch.from_numpy(graph.features)
    nodes, values = torch.from_numpy(weights.nodes.astype(np.int64)), torch.from_numpy(weights.values)
    starts = torch.from_numpy(weights.indptr[:-1])

    def in_node_order() -> None:
        weighted_sum(weights, graph.features, 2)

    def target_by_target() -> None:
        bag = torch.nn.functional.embedding_bag
        bag(nodes, table, starts, mode="sum", per_sample_weights=values)

    torch.set_num_threads(2)
    ours, theirs = best_of(5, in_node_order, target_by_target)
    return {"rows": int(weights.nodes.size), "width": 128, "seconds": ours, "embedding_bag_seconds": theirs}


def scratch_memory(sizes: list[int]) -> list[dict[str, Any]]:
    """Bytes that a thread's scratch takes, measured by what numpy hands out, on graphs of growing size."""
    import tracemalloc

    rows = []
    for size in sizes:
        graph = nw.synthetic.dcsbm(size, 20, seed=0)
        targets, reach = np.arange(2), np.full(2, 8)
        how = Sampling(nw.ghd(1.15, 0.1, 8), 2000, 2500, "theta", 0, 1)
        walk(graph, targets, reach, how)
        tracemalloc.start()
        walk(graph, targets, reach, how)
        rows.append({"nodes": size, "bytes": tracemalloc.get_traced_memory()[1]})
        tracemalloc.stop()
    return rows


def planner_cases(data: str | None) -> dict[str, tuple[nw.Graph, np.ndarray, dict[str, Any]]]:
    """Five graphs of different shape: dense and sparse features, short and long walks, few and many targets."""
    rng = np.random.default_rng(0)
    small = nw.synthetic.dcsbm(3_000, 4, 7, features=1400, seed=1)
    medium = nw.synthetic.dcsbm(20_000, 5, 3, features=500, seed=2)
    dense = nw.synthetic.dcsbm(50_000, 100, 10, features=100, seed=3)
    large = nw.synthetic.dcsbm(500_000, 15, 20, features=128, seed=4)
    wide = nw.synthetic.dcsbm(200_000, 3, 20, features=64, seed=5)
    cora = {"omega": 1.15, "rho": 0.06, "tau": 1.7, "epsilon": 0.02, "convention": "reference"}
    papers = {"omega": 7.4, "rho": 1.3, "tau": 0.6, "epsilon": 0.01, "convention": "reference"}
    amazon = {"omega": 0.9, "rho": 1.15, "tau": 1.5, "epsilon": 0.05, "convention": "reference"}
    cases = {
        "3 thousand nodes, 1,400 features": (small, rng.choice(3_000, 1640, replace=False), cora),
        "20 thousand nodes, 500 features": (medium, rng.choice(20_000, 1560, replace=False), cora),
        "50 thousand nodes of degree 100": (dense, rng.choice(50_000, 1500, replace=False), amazon),
        "500 thousand nodes, few targets": (large, rng.choice(500_000, 300, replace=False), papers),
        "200 thousand sparse nodes": (wide, rng.choice(200_000, 2000, replace=False), {**cora, "epsilon": 0.05}),
    }
    if data:
        citeseer = {"omega": 1.1, "rho": 0.04, "tau": 1.2, "epsilon": 0.03, "convention": "reference"}
        graph = nw.load("citeseer", data)
        cases["Citeseer (sparse features)"] = (graph, rng.choice(3327, 1620, replace=False), citeseer)
    return cases


def planner(data: str | None) -> list[dict[str, Any]]:
    """Seconds of each engine and of auto, which pays for its pilot too."""
    rows = []
    for name, (graph, nodes, params) in planner_cases(data).items():

        def run(engine: str, graph=graph, nodes=nodes, params=params) -> Callable[[], Any]:
            return lambda: nw.diffuse(graph, nodes, engine=engine, **params).apply(graph.features)

        run("walks")(), run("stratified")()  # compile
        times = dict(zip((*ENGINES, "auto"), best_of(7, *map(run, (*ENGINES, "auto"))), strict=True))
        chosen = nw.diffuse(graph, nodes, engine="auto", **params).engine
        best = min(times[engine] for engine in ENGINES)
        rows.append({"graph": name, **times, "chosen": chosen, "auto_over_best": times["auto"] / best})
    return rows


def show(result: dict[str, Any]) -> None:
    speed = result["walk_speed"]
    print(f"walks on {speed['nodes']:,} nodes, {speed['entries']:,} entries, one thread, million steps a second:")
    print(f"  one at a time {speed['plain_million_steps_a_second']:.1f}, in batches ", end="")
    print(f"{speed['walks_million_steps_a_second']:.1f}: {speed['ratio']:.2f} times")
    sums = result["sums"]
    ratio = sums["embedding_bag_seconds"] / sums["seconds"]
    print(f"weighted sums of {sums['rows']:,} rows of {sums['width']} numbers: {sums['seconds']:.3f} s, ", end="")
    print(f"embedding_bag {sums['embedding_bag_seconds']:.3f} s: {ratio:.1f} times")
    print("scratch memory of a thread:")
    for row in result["scratch"]:
        print(f"  {row['nodes']:>9,} nodes: {row['bytes'] / 2**20:.2f} MiB")
    print("the planner, seconds:")
    for row in result["planner"]:
        times = "  ".join(f"{name} {row[name]:.3f}" for name in (*ENGINES, "auto"))
        print(f"  {row['graph']:34} {times}  chose {row['chosen']}, {row['auto_over_best']:.2f} of the best")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000_000, help="nodes of the large graph, 15 edges each")
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    graph = nw.synthetic.dcsbm(arguments.nodes, 30, 10, seed=0)
    result: dict[str, Any] = {"walk_speed": walk_speed(graph)}
    del graph
    result["sums"] = sum_speed()
    result["scratch"] = scratch_memory([10_000, 100_000, 1_000_000])
    result["planner"] = planner(os.environ.get("NODEWISE_DATA"))
    result["versions"] = versions()
    show(result)
    keep(result, arguments.output)


if __name__ == "__main__":
    main()
