"""How long labels take on a graph of the shape of ogbn-papers100M.

    python benchmarks/papers100m.py --scale 0.01    # 1.1 million nodes, 0.4 GB of disk
    python benchmarks/papers100m.py --scale 1.0     # 111 million nodes, 44 GB of disk
    python benchmarks/papers100m.py --scale 0.1 --predict-all -o docs/results/papers100m.json

Makes the graph first (or takes the one that an earlier run left), out of core: 1.6 billion undirected edges at scale 1,
degrees by a power law, 172 communities that are the classes, 128 float16 features that carry a little of them. Then
opens it, diffuses, trains on 20 labels a class and tests, each time in a fresh process: once with an empty page cache,
then with a warm one. Compiling is not counted; it is reported apart.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import nodewise as nw
import papers_store
from measuring import alone, keep, kept
from nodewise._util.errors import NodewiseError, StoreError
from nodewise.datasets.locate import cache_dir
from nodewise.lab.compare.settings import plain
from nodewise.learn.evaluate import versions
from nodewise.store import read_manifest
from papers_run import PARAMS, timed_run

SEED = 0
WARM_RUNS = 3
SAMPLED_NODES = 2_000


def ensure_store(store: Path, scale: float) -> float | None:
    """Make the graph unless it is there; the seconds that took."""
    if papers_store.is_there(store, scale, SEED):
        return None
    needed = papers_store.bytes_needed(scale)
    store.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(store.parent).free
    tell(f"{store}: needs {needed / 1e9:.2f} GB of disk, {free / 1e9:.1f} GB are free")
    if needed > 0.98 * free:
        raise StoreError(
            f"{store}: scale {scale:g} needs {needed / 1e9:.2f} GB and {free / 1e9:.1f} GB are free; free some, choose "
            f"another --folder, or a --scale up to {scale * 0.97 * free / needed:.2g}"
        )
    started = time.perf_counter()
    papers_store.write(store, scale, SEED, lambda done, of: tell(f"{done / of:5.0%} of {of:,} nodes written", "\r"))
    tell("")
    return time.perf_counter() - started


def describe(store: Path) -> dict[str, Any]:
    """What was made: counts, degrees, and the share of a sample's edges that stay within a class."""
    graph, manifest = nw.open_store(store, verify=False), read_manifest(store)
    sample = np.sort(np.random.default_rng(SEED).choice(graph.num_nodes, SAMPLED_NODES, replace=False))
    rows = [graph.indices[graph.indptr[u] : graph.indptr[u + 1]] for u in sample.tolist()]
    lengths = np.array([row.size for row in rows])
    others, owner = np.concatenate(rows).astype(np.int64), np.repeat(sample, lengths)
    others, owner = others[others != owner], owner[others != owner]
    order = np.argsort(others)  # labels may lie in a file larger than memory
    labels = np.asarray(graph.labels)
    alike = labels[others[order]] == labels[owner[order]]
    step = 1 << 22
    most = max(int(np.diff(graph.indptr[i : i + step + 1]).max()) for i in range(0, graph.num_nodes, step))
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "bytes": manifest.bytes,
        "neighbours": {
            "least": int(graph.least_degree) - 1,
            "median": float(np.median(lengths)) - 1,
            "mean": 2 * graph.num_edges / graph.num_nodes,
            "most": most - 1,
        },
        "homophily": float(alike.mean()),
    }


def predict_all(store: Path, model: Path, output: Path) -> dict[str, Any]:
    """Labels for every node, by the command line."""
    command = [sys.executable, "-m", "nodewise", "predict", str(model), str(store), "--nodes", "all", "-o", str(output)]
    command += ["--engine", "exact"]  # what the model learned with, walks, costs a second for some thousand nodes
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    nodes = read_manifest(store).counts["nodes"]
    return {"nodes": nodes, "seconds": seconds, "nodes_a_second": nodes / seconds}


def benchmark(store: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """All measurements on one store."""
    result: dict[str, Any] = {"graph": describe(store)}
    with tempfile.TemporaryDirectory(dir=store.parent, prefix=".papers100m-") as folder:
        small, model = Path(folder, "small"), Path(folder, "model")
        papers_store.write(small, papers_store.LEAST_SCALE, SEED, lambda *_: None)
        result["cold"] = alone(timed_run, store, small, cold=True, save=model)
        result["warm"] = [alone(timed_run, store, small) for _ in range(WARM_RUNS)]
        if arguments.profile:
            result["profile"] = alone(timed_run, store, small, profiled=True)["profile"]
        if arguments.predict_all:
            result["predict_all"] = predict_all(store, model, Path(folder, "labels"))
    return result


def show(result: dict[str, Any]) -> None:
    graph = result["graph"]
    degrees = ", ".join(f"{name} {value:,.4g}" for name, value in graph["neighbours"].items())
    print(f"{graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['bytes'] / 1e9:.2f} GB; neighbours: {degrees}")
    print(f"homophily {graph['homophily']:.3f}; made in {_seconds(result['generate_seconds'])}")
    print(f"{'page cache':10} {'open':>8} {'diffuse':>8} {'train':>8} {'total s':>8} {'test F1':>8} ", end="")
    print(f"{'resident':>9} {'anonymous':>9} {'from disk':>9}  GB   compiling s, apart")
    for name, run in (("cold", result["cold"]), *(("warm", run) for run in result["warm"])):
        print(
            f"{name:10} {run['open_seconds']:8.3f} {run['diffuse_seconds']:8.2f} {run['train_seconds']:8.2f} ", end=""
        )
        print(f"{run['total_seconds']:8.2f} {run['test_f1']:8.3f} {run['peak_resident_bytes'] / 1e9:9.2f} ", end="")
        disk = "unknown" if run["disk_bytes"] is None else f"{run['disk_bytes'] / 1e9:.2f}"
        print(f"{run['peak_anonymous_bytes'] / 1e9:9.2f} {disk:>9} {run['compile_seconds']:12.1f}")
    best = min(run["total_seconds"] for run in result["warm"])
    print(f"page cache emptied by {result['cold']['page_cache']}; best warm total {best:.2f} s")
    for line in result.get("profile", ()):
        print(f"  {line['seconds']:8.3f} s, {line['own_seconds']:8.3f} own, {line['calls']:7,} x {line['function']}")
    if "predict_all" in result:
        every = result["predict_all"]
        print(f"all {every['nodes']:,} nodes in {every['seconds']:.1f} s: {every['nodes_a_second']:,.0f} a second")


def show_growth(results: dict[str, Any]) -> None:
    """How the time for the same number of targets grows with the graph, over the scales measured so far."""
    times = {float(scale): min(run["total_seconds"] for run in found["warm"]) for scale, found in results.items()}
    if len(times) > 1:
        low, high = min(times), max(times)
        print(f"from scale {low:g} to {high:g}, warm: {times[high] / times[low]:.2f} times the seconds")


def keep_scale(path: Path, scale: float, result: dict[str, Any]) -> dict[str, Any]:
    """Put the result beside those of other scales; all of them."""
    found = kept(path).get("scales", {}) | {f"{scale:g}": result}
    scales = dict(sorted(found.items(), key=lambda item: float(item[0])))
    keep({"params": plain(PARAMS), "scales": scales}, path)
    return scales


def tell(message: str, end: str = "\n") -> None:
    print(message, end=end, file=sys.stderr, flush=True)


def _seconds(value: float | None) -> str:
    return "an earlier run" if value is None else f"{value:.1f} s"


def _scale(text: str) -> float:
    scale = float(text)
    if not papers_store.LEAST_SCALE <= scale <= 1:
        raise argparse.ArgumentTypeError(f"{text}: expected {papers_store.LEAST_SCALE:g} to 1")
    return scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--scale", type=_scale, default=0.01, help="1.0, 0.1, 0.01: the fraction of the nodes and edges"
    )
    parser.add_argument("--folder", type=Path, default=cache_dir(), help="where the graph is kept (%(default)s)")
    parser.add_argument("--remove", action="store_true", help="delete the graph afterwards")
    parser.add_argument("--profile", action="store_true", help="say where the time of a warm run goes")
    parser.add_argument("--predict-all", action="store_true", help="predict the labels of all nodes too")
    parser.add_argument("-o", "--output", type=Path, help="keep the result in this JSON file, scale by scale")
    arguments = parser.parse_args()
    store = arguments.folder / papers_store.name_of(arguments.scale)
    try:
        made = ensure_store(store, arguments.scale)
        machine = {"cores": os.cpu_count(), "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}
        result = {"generate_seconds": made, **benchmark(store, arguments), "machine": machine, "versions": versions()}
    except NodewiseError as error:
        sys.exit(str(error))
    show(result)
    if arguments.output:
        show_growth(keep_scale(arguments.output, arguments.scale, result))
    if arguments.remove:
        shutil.rmtree(store)


if __name__ == "__main__":
    main()
