"""Compare methods: :func:`compare` runs what is missing and writes table, picture and results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.run_folder import locked_run_dir, write_json, write_text
from nodewise._util.threads import thread_count
from nodewise.batch.opened import graph_id, resolve_source
from nodewise.datasets import load, registry
from nodewise.graph import Graph
from nodewise.graph.splits import Split, digest_of_splits
from nodewise.lab import rivals
from nodewise.lab.compare import score_plot
from nodewise.lab.compare.machine import describe_machine
from nodewise.lab.compare.process import run_worker
from nodewise.lab.compare.result_files import Folder, read_results, write_splits
from nodewise.lab.compare.results import Comparison, MethodRow
from nodewise.lab.compare.settings import Settings, plain
from nodewise.lab.compare.worker import Task
from nodewise.learn.evaluate import versions


@dataclass(frozen=True)
class Step:
    """Progress of a method: ``pid`` of its worker while there is one, ``row`` once the method has ended."""

    method: str
    done: int
    total: int
    pid: int | None = None
    row: MethodRow | None = None


def compare(
    source: str,
    folder: str | Path,
    methods: Sequence[str],
    splits: Sequence[Split],
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    split_source: str = "given",
    inductive: bool = False,
    budget: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    data_dir: str | Path | None = None,
    progress: Callable[[Step], None] | None = None,
) -> Comparison:
    """Fit and test ``methods`` on the same ``splits`` of ``source``, each method in a process of its own.

    ``folder`` gets ``comparison.json``, ``comparison.md``, a picture, and a file for each finished method and split:
    the same call continues where an interrupted one stopped, and tries again what failed. ``settings``: parameters by
    method; for others those of :func:`nodewise.lab.rivals.settings`. ``split_source`` says in words where the splits
    come from. ``budget``: time limit of each method's process in this call, in seconds. A method that fails, is killed
    or runs out of time is a row that says so.
    """
    names = _checked_methods(methods)
    _check_budget(budget)
    if not splits:
        raise InputError("splits: none given; expected at least one")
    chosen = {name: _settings(name, source, settings or {}, seed) for name in names}
    cores = thread_count(threads)
    place, where = Folder(Path(folder).absolute()), resolve_source(source, data_dir)
    graph = load(*where)
    identity = {
        "graph": graph_id(where[0], graph),
        "splits": digest_of_splits(splits),
        "inductive": inductive,
        "seed": seed,
        "threads": cores,
        **{f"version of {library}": number for library, number in versions().items()},
    }
    dataset, facts = graph.name, describe_graph(graph)
    del graph  # the workers open it themselves, and need the memory
    with locked_run_dir(place.path, "comparison", identity):
        write_splits(place.splits, splits)
        for name in names:  # refuse other settings before the work begins
            read_results(place, name, len(splits), chosen[name])
        every = list(range(len(splits)))
        tasks = [Task(str(place.path), *where, name, chosen[name], cores, inductive, every) for name in names]
        rows = [_row(place, task, budget, progress or (lambda _: None)) for task in tasks]
        made = Comparison(
            dataset=dataset, source=source, graph=facts, splits=len(splits), split_source=split_source,
            inductive=inductive, budget=budget, seed=seed, threads=cores, machine=describe_machine(),
            versions=versions(), rows=rows,
        )  # fmt: skip
        write_json(place.path / "comparison.json", made.to_json())
        write_text(place.path / "comparison.md", made.to_markdown())
        score_plot.draw(made, place.path / "f1-against-time.png")
    return made


def describe_graph(graph: Graph) -> dict[str, Any]:
    """Counts and types, without reading every edge."""
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "weighted": graph.edge_weight is not None,
        "features": graph.num_features,
        "feature_type": None if graph.features is None else str(graph.features.dtype),
        "sparse_features": sp.issparse(graph.features),
        "classes": 0 if graph.labels is None else int(graph.present_labels.size),
        "several_labels_a_node": graph.multilabel,
    }


def _row(place: Folder, task: Task, budget: float | None, progress: Callable[[Step], None]) -> MethodRow:
    """Run the splits of ``task`` that are missing, and collect the results of all."""
    name, asked = task.method, len(task.splits)

    def missing() -> list[int]:
        return [split for split in task.splits if not place.result(name, split).is_file()]

    progress(Step(name, asked - len(missing()), asked))
    problem, peak = None, None
    if left := missing():
        problem, peak = run_worker(
            replace(task, splits=left), budget, lambda pid: progress(Step(name, asked - len(missing()), asked, pid))
        )
    stored = read_results(place, name, asked, task.settings)
    peaks = [held for held in (peak, *(s.split.peak_memory for s in stored)) if held is not None]
    row = MethodRow(
        method=name,
        params=stored[0].params if stored else task.settings,
        splits=[s.split for s in stored],
        asked=asked,
        problem=None if len(stored) == asked else problem or "ended without a result",
        peak_memory=max(peaks, default=None),
    )
    progress(Step(name, len(stored), asked, row=row))
    return row


def _checked_methods(methods: Sequence[str]) -> list[str]:
    """Names as tables have them, in the order of the paper."""
    asked = {rivals.method_name(name) for name in methods}
    if not asked:
        raise InputError(f"methods: none given; expected some of {', '.join(rivals.METHODS)}")
    return [name for name in rivals.METHODS if name in asked]


def _check_budget(budget: float | None) -> None:
    if budget is not None and not (math.isfinite(budget) and budget > 0):
        raise InputError(f"budget={budget}: expected a number of seconds above 0, or None for no limit")


def _settings(name: str, source: str, given: Mapping[str, Mapping[str, Any]], seed: int) -> Settings:
    """The parameters of a method: those given for it, or its preset."""
    own = {rivals.method_name(method): dict(params) for method, params in given.items()}
    known = registry.lookup(source)  # a store has no presets, whatever it is called
    params = own[name] if name in own else rivals.settings(name, source if known is None else known.name)
    try:
        return plain({**params, "seed": seed})
    except (TypeError, ValueError) as error:
        raise InputError(f"settings of {name}: expected numbers, text, lists and the like ({error})") from error
