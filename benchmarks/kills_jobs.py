"""The commands that kills.py interrupts: small jobs on small files, and what their outputs have to hold."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NODES, NEW_NODES, CLASSES, FEATURES = 1500, 60, 3, 8
TIMES = {"seconds", "preparation_seconds", "training_seconds", "inference_seconds", "peak_memory", "made", "machine"}
OPERATIONS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree", "ctypes.dlsym"}
Items = dict[str, str]  # digests of the parts of an output


def make_inputs(folder: Path, seed: int) -> None:
    """Edges, features and labels of a synthetic graph with names, and files with new nodes to append."""
    import numpy as np

    from nodewise.graph import synthetic

    random = np.random.default_rng(seed)
    count = NODES + NEW_NODES
    graph = synthetic.dcsbm(count, avg_degree=12, classes=CLASSES, features=FEATURES, seed=seed, threads=1)
    name = np.array([f"node-{place}" for place in random.permutation(count)])
    ends = np.stack([np.repeat(np.arange(count), np.diff(graph.indptr)), graph.indices], 1)
    ends = random.permutation(ends[ends[:, 0] < ends[:, 1]])
    weight = random.random(len(ends)).round(6)
    old = ends.max(1) < NODES
    for prefix, edges, nodes in (("", old, range(NODES)), ("new-", ~old, range(NODES, count))):
        _write(folder / f"{prefix}edges.csv", "source,target,weight", name[ends[edges]], weight[edges])
        _write(folder / f"{prefix}x.csv", "node," + ",".join("abcdefgh"), name[nodes], graph.features[nodes])
        _write(
            folder / f"{prefix}y.csv", "node,label", name[nodes][::2], [f"class {k}" for k in graph.labels[nodes]][::2]
        )


def _write(path: Path, head: str, *columns: Any) -> None:
    import numpy as np

    parts = [np.asarray(column).astype(str) for column in columns]
    rows = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    path.write_text("\n".join([head, *map(",".join, rows)]) + "\n")


def small_steps() -> None:
    """Make an import write its journal after every small step, as one of hours does every few seconds."""
    from nodewise.formats import csv
    from nodewise.importing import edge_stage, feature_stage, work_folder
    from nodewise.store import blocks

    steps = [(blocks, "BLOCK_BYTES", 4096), (work_folder, "NOTE_SECONDS", -1.0), (csv, "BLOCK_BYTES", 1 << 14)]
    steps += [(feature_stage, "PART_BYTES", 1 << 13), (edge_stage, "_run_size", lambda *_: 2000)]
    for module, constant, value in steps:
        getattr(module, constant)  # fails if there is no such constant any more
        setattr(module, constant, value)


def ridges() -> None:
    """Make ensembles of ridges alone, which are quick."""
    from nodewise.learn import fitting

    fitting.ROSTER = ()


# ---------------------------------------------------------------------- what an output holds


def whole(path: Path) -> Items:
    """Every file, byte for byte."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}


def shards(path: Path) -> Items:
    """A folder of Parquet files, byte for byte; of the files about them, all but paths and times."""
    items = {name: digest for name, digest in whole(path).items() if name.endswith(".parquet")}
    for file in path.glob("_summary.json"):
        items[file.name] = _digest(json.loads(file.read_bytes()))
    return items


def study(path: Path) -> Items:
    """The trials that ended, in their order, and the preset."""
    items = {file.name: _digest(json.loads(file.read_bytes())) for file in path.glob("preset.json")}
    for file in path.glob("arguments.json"):
        trials = json.loads(file.read_bytes())["state"].get("trials", [])
        items |= {f"trial {place}": _digest(trial) for place, trial in enumerate(trials)}
    return items


def comparison(path: Path) -> Items:
    """The scores of each method and split, and the table; neither times nor memory."""
    files = [*path.rglob("split-*.json"), *path.glob("comparison.json")]
    return {str(file.relative_to(path)): _digest(json.loads(file.read_bytes())) for file in files}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(_without_times(value), sort_keys=True).encode()).hexdigest()[:16]


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_times(item) for key, item in value.items() if not _is_time(str(key))}
    return [_without_times(item) for item in value] if isinstance(value, list | tuple) else value


def _is_time(key: str) -> bool:
    return key in TIMES or "seconds" in key or "memory" in key


# ---------------------------------------------------------------------- the jobs


@dataclass(frozen=True)
class Job:
    """``words``: a command line that writes ``output``; ``other``: what is added to it for another result.

    ``continues``: the command adds to what a run with ``other`` wrote, and keeps it; else the other output is replaced
    with --overwrite. ``in_parts``: a folder that fills up part by part; else it appears complete or not at all.
    ``pairs_only``: not interrupted, but run twice at once. ``turns``: how often it comes before the next job does.
    """

    name: str
    words: str
    output: str
    other: str
    items: Callable[[Path], Items] = whole
    continues: bool = False
    in_parts: bool = False
    set_up: Callable[[], None] | None = None
    pairs_only: bool = False
    turns: int = 1

    @property
    def command(self) -> str:
        return self.words.split()[0]

    @property
    def resumes(self) -> bool:
        return self.command in ("import", "append")

    def line(self, inputs: Path, *, other: bool = False, more: str = "") -> list[str]:
        text = f"{self.words} -o {self.output} --quiet {self.other if other else ''} {more}"
        return [word.replace("IN/", f"{inputs}/") for word in text.split()]


FILES = "--edges IN/edges.csv --features IN/x.csv --labels IN/y.csv"
NEW = "--edges IN/new-edges.csv --features IN/new-x.csv --labels IN/new-y.csv"
NEW_NODES_OF = "--new-edges IN/new-edges.csv --new-features IN/new-x.csv"
QUICK = "--omega 1 --rho 0.2 --epsilon 0.05 --epochs 20 --patience 4 --no-teach --hidden 8 --threads 1"
SPLIT = "--per-class 20 --val 60 --test 100"
CHUNKS = "IN/model IN/store --chunk 200 --threads 1"
IN_PARTS = {"in_parts": True, "items": shards}
STUDY = {"other": "--trials 2", "items": study, "in_parts": True, "continues": True}
TABLE = {"other": "--methods SGC", "items": comparison, "in_parts": True, "continues": True}
JOBS = [
    Job("import", f"import {FILES}", "store", "--feature-dtype float16"),
    Job("import in steps", f"import {FILES}", "store", "--feature-dtype int8", set_up=small_steps),
    Job("append", f"append IN/store {NEW}", "store", "--labels IN/y.csv"),
    Job("append in steps", f"append IN/store {NEW}", "store", "--labels IN/y.csv", set_up=small_steps),
    Job("predict to CSV", f"predict {CHUNKS}", "labels.csv", "--top 2"),
    Job("predict to Parquet", f"predict {CHUNKS}", "labels.parquet", "--top 2"),
    Job("predict to shards", f"predict {CHUNKS}", "labels", "--top 2", **IN_PARTS),
    Job("predict from files", f"predict IN/model {FILES} --chunk 800 --threads 1", "labels.csv", "--top 2"),
    Job("predict new nodes", f"predict IN/model IN/store {NEW_NODES_OF}", "new.csv", "--top 2"),
    Job("embed to Parquet", f"embed {CHUNKS}", "rows.parquet", "--nodes node-1,node-2"),
    Job("embed to shards", f"embed {CHUNKS}", "rows", "--nodes node-1,node-2", **IN_PARTS),
    Job("train", f"train IN/store {QUICK}", "model", "--seed 1"),
    Job("train from files", f"train {FILES} {QUICK}", "model", "--seed 1"),
    Job("tune", f"tune IN/store {SPLIT} --trials 4 --threads 1", "study", **STUDY, set_up=ridges, turns=7),
    Job("tune in processes", f"tune IN/store {SPLIT} --trials 4 --threads 2", "study", **STUDY),
    Job("compare", f"compare IN/store {SPLIT} --splits 2 --methods SGC,AGP --threads 1", "table", **TABLE),
    Job("report", "report IN/model IN/store", "page.html", "", pairs_only=True),
    Job("explain", "explain IN/model IN/store node-1", "page.html", "--top 3", pairs_only=True),
]
COMMANDS = {"import": 5, "append": 4, "predict": 5, "embed": 3, "train": 4, "tune": 3, "compare": 1}  # shares of cases


def jobs_of(command: str, pairs: bool = False) -> list[Job]:
    found = [job for job in JOBS if job.command == command and (pairs or not job.pairs_only)]
    return [job for job in found for _ in range(job.turns)]


def listing(folder: Path) -> Iterator[str]:
    """Every name in a folder, hidden ones too."""
    return (str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))


def command_line(job: Job, words: list[str], folder: Path, die_at: int | None, count: Path | None) -> None:
    """Run a command; kill it at its ``die_at``-th operation on files in ``folder``, or count these."""
    from nodewise.cli import main

    done = 0

    def watch(event: str, args: tuple[object, ...]) -> None:
        nonlocal done
        if event not in OPERATIONS or not (event == "ctypes.dlsym" or _within(args[0], folder)):
            return
        done += 1
        if done == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    if job.set_up is not None:
        job.set_up()
    sys.argv = ["nodewise", *words]
    if die_at is not None or count is not None:
        sys.addaudithook(watch)
    try:
        main()
    finally:
        if count is not None:
            count.write_text(str(done))


def _within(path: object, folder: Path) -> bool:
    return isinstance(path, str | bytes) and os.path.abspath(os.fsdecode(path)).startswith(str(folder))
