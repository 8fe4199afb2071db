"""The one way in: :func:`compare` has every method do what is missing, and writes down what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.run_folder import write_json, write_text
from nodewise._util.threads import thread_count
from nodewise.batch.opened import graph_id, resolve_source
from nodewise.datasets import load, registry
from nodewise.graph import Graph
from nodewise.graph.splits import Split, digest_of_splits
from nodewise.lab import rivals as baselines
from nodewise.lab.compare import score_plot as picture
from nodewise.lab.compare.machine import describe_machine
from nodewise.lab.compare.process import Ending, run_worker
from nodewise.lab.compare.result_files import Folder, held, read_results
from nodewise.lab.compare.results import Comparison, MethodRow
from nodewise.lab.compare.settings import Settings, plain
from nodewise.lab.compare.worker_task import Task
from nodewise.learn.evaluate import versions


@dataclass(frozen=True)
class Step:
    """How far a method is; ``pid`` of its worker while there is one, ``row`` when the method has ended."""

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

    ``folder`` gets ``comparison.json``, ``comparison.md``, a picture, and a file for each method and split as it is
    finished: the same call goes on where a killed one stopped, and tries again what failed. ``settings``: parameters by
    method; for others those of :func:`nodewise.lab.rivals.settings`. ``split_source`` says in words where the splits
    come from. ``budget``: seconds that the process of a method may run, from its start, in this call. A method that
    fails, is killed or runs out of time is a row that says so.
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
    with held(place, identity, splits):
        for name in names:  # what is to be refused is refused before the work begins
            read_results(place, name, len(splits), chosen[name])
        rows = [
            _row(place, name, len(splits), chosen[name], where, cores, inductive, budget, progress or (lambda _: None))
            for name in names
        ]
        made = Comparison(
            dataset=dataset, source=source, graph=facts, splits=len(splits), split_source=split_source,
            inductive=inductive, budget=budget, seed=seed, threads=cores, machine=describe_machine(),
            versions=versions(), rows=rows,
        )  # fmt: skip
        _write(place, made)
    return made


def describe_graph(graph: Graph) -> dict[str, Any]:
    """Counts and types, without a look at every edge."""
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


def _row(
    place: Folder,
    name: str,
    asked: int,
    settings: Settings | None,
    where: tuple[str, str | None],
    threads: int,
    inductive: bool,
    budget: float | None,
    progress: Callable[[Step], None],
) -> MethodRow:
    """Have the missing splits of a method made, and gather all of them."""
    missing = [split for split in range(asked) if not place.result(name, split).is_file()]
    progress(Step(name, asked - len(missing), asked))
    ending = Ending(None, None)
    if missing:
        task = Task(str(place.path), *where, name, settings or {}, threads, inductive, missing)

        def look(pid: int) -> None:
            progress(Step(name, sum(place.result(name, split).is_file() for split in range(asked)), asked, pid))

        ending = run_worker(task, budget, look)
    stored = read_results(place, name, asked, settings)
    seen = None if ending.problem is None else ending.peak_memory  # of one that finished, its results say it exactly
    peaks = [peak for peak in (seen, *(s.split.peak_memory for s in stored)) if peak is not None]
    row = MethodRow(
        method=name,
        params=stored[0].params if stored else settings or {},
        splits=[s.split for s in stored],
        asked=asked,
        problem=None if len(stored) == asked else ending.problem or "ended without a result",
        peak_memory=max(peaks, default=None),
    )
    progress(Step(name, len(stored), asked, row=row))
    return row


def _write(place: Folder, made: Comparison) -> None:
    write_json(place.path / "comparison.json", made.to_json())
    write_text(place.path / "comparison.md", made.to_markdown())
    picture.draw(made, place.path / "f1-against-time.png")


def _checked_methods(methods: Sequence[str]) -> list[str]:
    """Names as tables have them, in the order of the paper."""
    asked = {baselines.method_name(name) for name in methods}
    if not asked:
        raise InputError(f"methods: none given; expected some of {', '.join(baselines.METHODS)}")
    return [name for name in baselines.METHODS if name in asked]


def _check_budget(budget: float | None) -> None:
    if budget is not None and not (math.isfinite(budget) and budget > 0):
        raise InputError(f"budget={budget}: expected seconds, more than 0, or None for as long as it takes")


def _dataset(source: str) -> str:
    """The name by which presets are known; a store has none, whatever it is called."""
    known = registry.lookup(source)
    return source if known is None else known.name


def _settings(name: str, source: str, given: Mapping[str, Mapping[str, Any]], seed: int) -> Settings | None:
    """The parameters of a method; None where its module cannot be loaded, which its worker will then explain."""
    own = {baselines.method_name(method): dict(params) for method, params in given.items()}
    try:
        params = own[name] if name in own else baselines.settings(name, _dataset(source))
    except ImportError:
        return None
    try:
        return plain({**params, "seed": seed})
    except (TypeError, ValueError) as error:
        raise InputError(f"settings of {name}: expected numbers, text, lists and the like ({error})") from error
