"""Whether the checks of files cost anything: walks, opening and importing, before and after, in one run.

    python benchmarks/before_after.py 95c3c8f -o docs/results/before-after.json    # 10 minutes; alone on the machine
    python benchmarks/before_after.py 95c3c8f --only import --rounds 12 -o docs/results/before-after.json   # these anew

Three versions of the library take turns, each in a process of its own: the one of a git revision from before the
checks, the present one, and the present one without the bounds in its kernels of walks (stratified walks have changed
otherwise since, so that only this tells what their bounds cost). The graph of the walks is a store of a million nodes.
A figure is the median over rounds of the time that a version took over the time of the present one, with quartiles.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
NOW, BARE = "present", "present, walks without bounds"
KINDS = ("npy", "csv", "names.parquet")
REPEATS = 5  # of a task in one process; the best counts
BOUNDS = (  # in kernels/walking.py: what is taken out, and how often it occurs
    (r"    if _outside\(edge, count, indices.size\):\n        return True\n", "", 1),
    (r"    return _outside\(at, count, indptr.size - 1\)\n", "    return False\n", 1),
    (r"        if node \| \(indptr.size - 2 - node\) < 0:\n            return OUTSIDE, 0\n", "", 1),
    (r" +if first \| \(degree - 1\) \| \(indices.size - last\) < 0:\n +return OUTSIDE, steps\n", "", 1),
)


def without_bounds(source: Path, folder: Path) -> None:
    """A copy of the library whose walks trust the adjacency."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "nodewise/diffusion/kernels/walking.py"
    text = file.read_text()
    for pattern, instead, expected in BOUNDS:
        text, found = re.subn(pattern, instead, text)
        if found != expected:
            raise SystemExit(f"{file.name}: {pattern!r} occurs {found} times, expected {expected}")
    file.write_text(text)


def of_revision(revision: str, folder: Path) -> None:
    archive = subprocess.run(["git", "-C", str(HERE), "archive", revision, "src"], check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")


# ---------------------------------------------------------------------- tasks, in a process of their own


def store_tasks(folder: Path) -> dict[str, float]:
    """Seconds of walks from 500 nodes by both samplers, on one thread, and of opening the store."""
    import numpy as np

    import nodewise as nw

    graph = nw.open_store(folder / "store", verify=False)
    nodes = np.random.default_rng(0).choice(graph.num_nodes, 500, replace=False)

    def walks(engine: str) -> None:
        nw.diffuse(graph, nodes, epsilon=0.01, length=10, engine=engine, threads=1, seed=0)

    return {
        "walks": best(lambda: walks("walks")),
        "stratified walks": best(lambda: walks("stratified")),
        "open": best(lambda: nw.open_store(folder / "store", verify=False), 100),
    }


def import_tasks(folder: Path) -> dict[str, float]:
    """Seconds of imports of ten million edges within 1 GB."""
    import nodewise as nw

    def once(kind: str) -> float:
        started = time.perf_counter()
        nw.import_store(folder / f"edges.{kind}", folder / "made", memory="1GB")
        taken = time.perf_counter() - started
        shutil.rmtree(folder / "made")
        return taken

    nw.import_store(folder / "few.csv", folder / "made", memory="1GB")  # compiles
    shutil.rmtree(folder / "made")
    return {f"import {kind}": once(kind) for kind in KINDS}


TASKS = {"store": store_tasks, "import": import_tasks}


def best(work: Any, repeats: int = REPEATS) -> float:
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def run(tree: Path, task: str, folder: Path) -> dict[str, float]:
    words = [sys.executable, __file__, "--task", task, "--folder", str(folder)]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(tree)}, check=True, capture_output=True)
    return dict(json.loads(done.stdout))


# ---------------------------------------------------------------------- the comparison


def make_inputs(folder: Path, nodes: int, edges: int) -> None:
    import importing
    import nodewise as nw

    nw.write_store(nw.synthetic.dcsbm(nodes, avg_degree=20, classes=10, features=8, seed=0), folder / "store")
    for kind in KINDS:
        importing.write(folder / f"edges.{kind}", kind, edges, edges // 10)
    importing.write(folder / "few.csv", "csv", 1000, 100)


def compare(trees: dict[str, Path], folder: Path, rounds: int, tasks: list[str]) -> dict[str, Any]:
    import numpy as np

    seconds: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds + 1):
        for name in list(trees) if number % 2 else reversed(trees):
            for task in tasks if name != BARE else {"store"}.intersection(tasks):
                for what, taken in run(trees[name], task, folder).items():
                    if number:  # the first round compiles
                        seconds.setdefault(what, {}).setdefault(name, []).append(taken)
    found: dict[str, Any] = {}
    for what, times in seconds.items():
        found[what] = {"rounds": rounds, NOW: {"seconds": round(float(np.median(times[NOW])), 6)}}
        for name in times.keys() - {NOW}:
            ratios = np.divide(times[NOW], times[name])
            low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75)).round(4).tolist()
            found[what][f"over {name}"] = {"median": middle, "quartiles": [low, high]}
    return found


def table(result: dict[str, Any]) -> list[str]:
    """The seconds of each task now, and over those of the other versions: medians and quartiles, for people."""
    others = [f"over {result['revision']}", f"over {BARE}"]
    lines = ["| | seconds now | over before | over now without bounds |", "| --- | ---: | ---: | ---: |"]
    for what, found in result["tasks"].items():
        ratios = [found.get(other) for other in others]
        shown = ["" if r is None else "{:.2f} ({:.2f} to {:.2f})".format(r["median"], *r["quartiles"]) for r in ratios]
        lines.append(f"| {what} | {found[NOW]['seconds']:.3g} | {' | '.join(shown)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", help="of git, from before the checks")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=TASKS, help="these tasks, beside what the output holds of the others")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.task:
        print(json.dumps(TASKS[given.task](given.folder)))
        return
    if not given.revision:
        parser.error("give a revision to compare with")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(folder, given.nodes, given.edges)
        of_revision(given.revision, folder / "before")
        without_bounds(HERE / "src", folder / "bare")
        trees = {given.revision: folder / "before/src", NOW: HERE / "src", BARE: folder / "bare"}
        found = compare(trees, folder, given.rounds, [given.only] if given.only else list(TASKS))
    there = json.loads(given.output.read_text()) if given.only and given.output and given.output.is_file() else {}
    result = {key: getattr(given, key) for key in ("revision", "nodes", "edges")}
    if there and {key: there[key] for key in result} != result:
        raise SystemExit(f"{given.output}: is of other sizes, or of another revision")
    result["tasks"] = {**there.get("tasks", {}), **found}
    print(json.dumps(result, indent=1))
    if given.output:
        given.output.write_text(json.dumps(result, indent=1) + "\n")
        head = "# What the checks cost\n\nMade by `python benchmarks/before_after.py`, with `before-after.json`.\n"
        given.output.with_suffix(".md").write_text("\n".join([head, *table(result)]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
