"""Tune a graph: :func:`tune` runs the trials that are missing in the folder of a study, and picks the parameters."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nodewise._util.errors import InputError, StoreError
from nodewise._util.memory import memory_budget
from nodewise._util.os_errors import writing
from nodewise._util.progress import Progress, silent
from nodewise._util.run_folder import REFUSED, locked_run_dir
from nodewise._util.threads import thread_count
from nodewise.batch.opened import graph_id, resolve_source
from nodewise.datasets import load
from nodewise.graph import Graph
from nodewise.graph.checks import checked_seed
from nodewise.graph.splits import Split, digest_of_splits
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.presets import write_preset
from nodewise.learn.task import check_features, check_learned, check_whole, featured
from nodewise.tune.bank import affordable_hops
from nodewise.tune.judge import Verdict
from nodewise.tune.space import NAMES
from nodewise.tune.trial_plot import draw
from nodewise.tune.trials import BATCH, Trial, Trials, finished, nodes_of

STUDY, PRESET, PICTURE = "study.log", "preset.json", "trials.png"
SURE = 2.0  # standard errors by which a trial has to be better than the default


@dataclass(frozen=True)
class Tuned:
    """All trials of a study, the default first, and whether the ``best`` of them is better than the default.

    ``default_value``, ``confirmed_value``: the shares of validation labels that the default and the best trial predict
    right when both are judged once more; ``gain``: how many labels more. ``params``: those of the best trial if it is
    better, else those of the default.
    """

    dataset: str
    trials: list[Trial]
    best: Trial
    default_value: float
    confirmed_value: float
    gain: int
    standard_error: float
    params: dict[str, Any]
    preset: Path
    picture: Path | None

    @property
    def is_better(self) -> bool:
        """Whether the gain is more than chance would explain."""
        return self.gain > SURE * self.standard_error

    def to_json(self) -> dict[str, Any]:
        picture = None if self.picture is None else str(self.picture)
        return {**asdict(self), "is_better": self.is_better, "preset": str(self.preset), "picture": picture}


def tune(
    source: str,
    folder: str | Path,
    splits: Sequence[Split],
    *,
    trials: int = 50,
    timeout: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    data_dir: str | Path | None = None,
    progress: Progress = silent,
) -> Tuned:
    """Search around the default of :class:`nodewise.NIGCN` for parameters that suit ``source`` better.

    ``trials``: total number, including those that ``folder`` already holds; ``timeout``: seconds after which no more
    begin. The splits' validation nodes judge; test labels are not read. ``folder`` gets the study, a picture of the
    trials, and ``preset.json``, which ``nodewise train --preset`` and ``NIGCN(**nodewise.find_preset(file))`` take: the
    best trial if it is better than the default, else the default.
    """
    deadline = math.inf if timeout is None else time.time() + timeout
    common: dict[str, Any] = {"seed": checked_seed(seed), "threads": threads, "memory": memory}
    optuna = _optuna()
    check_whole("trials", trials)
    thread_count(threads)
    memory_budget(memory)
    if timeout is not None and not timeout > 0:
        raise InputError(f"timeout={timeout}: expected a number of seconds above 0")
    where = resolve_source(source, data_dir)
    graph, place = featured(load(*where)), Path(folder).absolute()
    check_features(graph)
    _check_splits(graph, splits)
    identity = {
        "graph": graph_id(where[0], graph),
        "splits": digest_of_splits(splits),
        "seed": common["seed"],
        "study_version": 2,  # in version 1 a trial was one network
    }
    with locked_run_dir(place, "study", identity):
        _mend(place / STUDY)
        study = _opened(optuna, place / STUDY, common["seed"])
        if trials > len(finished(study)) or _verdict(study) is None:
            if "default" not in study.user_attrs:
                study.set_user_attr("default", default_params(graph, splits, common, progress))
            progress("hop bank", 0, None)
            _continue(study, Trials(graph, splits, study.user_attrs["default"], **common), trials, deadline, progress)
        return _result(graph, study, place)


def _continue(study: Any, more: Trials, trials: int, deadline: float, progress: Progress) -> None:
    """Run the trials that are missing, and compare the best with the default."""
    progress("trials", len(finished(study)), trials)
    for _ in more.run(study, trials - len(finished(study)), deadline):
        progress("trials", len(finished(study)), trials)
    if _verdict(study) is None:
        progress("comparison with the default", 0, None)
        best = _best(study)
        study.set_user_attr("verdict", {"trial": best.number, "found": more.compare(best.point)})


def default_params(graph: Graph, splits: Sequence[Split], common: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The parameters that a model finds by itself on the first split: the search begins with them.

    ``common``: the model's seed, threads and memory.
    """
    nodes = nodes_of(graph, splits, common["seed"])
    model = NIGCN(max_hops=affordable_hops(nodes.size, graph.num_features, common["memory"]), **common)
    model.fit(
        graph, splits[0].train, splits[0].val,
        progress=lambda stage, done, total: progress(f"default: {stage}", done, total),
    )  # fmt: skip
    network = model._network.suited(splits[0].train.size)
    params = {**model.get_params(), **model.auto_params_, "hidden": network.hidden, "dropout": network.dropout}
    return {name: params[name] for name in (*NAMES, "feature_norm", "epsilon", "max_hops")}


def _best(study: Any) -> Trial:
    return max((trial for trial in finished(study) if not trial.given_up), key=lambda trial: trial.value)


def _verdict(study: Any) -> Verdict | None:
    """The best trial against the default; None if that is not known yet."""
    if not finished(study):
        return None
    default, best = finished(study)[0], _best(study)
    if best == default:
        return Verdict(default.value, default.value, 0, 0.0)
    kept = study.user_attrs.get("verdict", {})
    return Verdict(*kept["found"]) if kept.get("trial") == best.number else None


def _result(graph: Graph, study: Any, place: Path) -> Tuned:
    """Write the preset and the picture."""
    verdict, best, default = _verdict(study), _best(study), study.user_attrs["default"]
    assert verdict is not None
    tuned = Tuned(
        graph.name, finished(study), best, *verdict, params=default, preset=place / PRESET, picture=place / PICTURE
    )
    if tuned.is_better:
        tuned = replace(tuned, params={**default, **best.point})
    write_preset(tuned.preset, graph.name, tuned.params)
    return tuned if draw(tuned, place / PICTURE) else replace(tuned, picture=None)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError("Optuna is not installed; run pip install 'nodewise[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _mend(file: Path) -> None:
    """Remove an incomplete last line, which a full disk leaves: the next one would be appended to it."""
    with writing(file):
        if file.is_file():
            os.truncate(file, file.read_bytes().rfind(b"\n") + 1)


def _opened(optuna: Any, file: Path, seed: int) -> Any:
    """The study in ``file``, or a new one."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        storage = JournalStorage(JournalFileBackend(str(file)))
        study = optuna.create_study(storage=storage, study_name="nodewise", direction="maximize", load_if_exists=True)
    except PermissionError as error:
        raise StoreError(f"{file}: {error.strerror}; make the folder writable, or choose another") from error
    except Exception as error:  # whatever a damaged journal makes Optuna raise
        raise StoreError(f"{file}: cannot be read as a study ({error}); {REFUSED}") from error
    # numpy's old generators, which Optuna uses, take seeds of 32 bits
    study.sampler = optuna.samplers.TPESampler(seed=(seed + len(study.trials)) % 2**32, n_startup_trials=BATCH)
    return study


def _check_splits(graph: Graph, splits: Sequence[Split]) -> None:
    if not splits:
        raise InputError("splits: none given; expected at least one")
    for number, split in enumerate(splits):
        if split.val.size < 2:
            raise InputError(
                f"split {number}: {split.val.size} validation nodes; expected at least two to judge trials"
            )
        try:
            check_learned(graph, split.train, split.val)
        except InputError as error:
            raise InputError(f"split {number}: {error}") from error
