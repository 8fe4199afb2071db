"""Trials of parameters, one after the other: Optuna proposes, networks on the rows of a hop bank are judged.

Every trial trains two networks a split, each stopped by one half of the validation nodes and judged by the other; the
preset averages several, which is better and takes no search. A
trial that is worse than half of those before it is given up after any of its networks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nodewise.datasets import load
from nodewise.engines.opened import graph_id, placed
from nodewise.errors import InputError, NodewiseWarning, StoreError
from nodewise.graph import Graph
from nodewise.held import REFUSED, held_folder
from nodewise.learn.classifier import check_whole, known_labels
from nodewise.learn.metrics import micro_f1
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.presets import write_preset
from nodewise.learn.self_tuning import EPSILON
from nodewise.splits import Split, digest_of_splits
from nodewise.tuning.bank import HopBank
from nodewise.tuning.picture import draw
from nodewise.tuning.space import FEATURE_NORM, completed, suggested, within

if TYPE_CHECKING:
    import optuna

STUDY, PRESET, PICTURE = "study.log", "preset.json", "trials.png"
STARTING = 10  # trials before any is given up


@dataclass(frozen=True)
class Trial:
    """``value``: the share of validation labels that were right (micro-F1), so far where it was ``given_up``."""

    number: int
    value: float
    given_up: bool
    seconds: float
    point: dict[str, Any]


@dataclass(frozen=True)
class Tuned:
    """All trials of a study, and the parameters of the best one that was not given up."""

    dataset: str
    trials: list[Trial]
    best: Trial
    params: dict[str, Any]
    preset: Path
    picture: Path | None

    def to_json(self) -> dict[str, Any]:
        picture = None if self.picture is None else str(self.picture)
        return {**asdict(self), "preset": str(self.preset), "picture": picture}


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
    progress: Callable[[Trial], None] | None = None,
) -> Tuned:
    """Search for parameters of :class:`nodewise.NIGCN` that suit ``source``, judged by the splits' validation nodes.

    ``trials``: how many there are to be in the end, with those that ``folder`` already holds; ``timeout``: seconds
    after which no more are begun. ``folder`` gets the study, a picture of the trials, and ``preset.json``, which
    ``nodewise train --preset`` and ``NIGCN(**nodewise.find_preset(file))`` take. Test nodes are not looked at.
    """
    started = time.perf_counter()
    optuna = _optuna()
    check_whole("trials", trials)
    if timeout is not None and not timeout > 0:
        raise InputError(f"timeout={timeout}: expected a number of seconds above 0")
    graph, place = load(*placed(source, data_dir)), Path(folder).absolute()
    _check_splits(graph, splits)
    identity = {"graph": graph_id(placed(source, data_dir)[0], graph), "splits": digest_of_splits(splits), "seed": seed}
    with held_folder(place, "study", identity):
        study = _opened(optuna, place / STUDY, seed)
        missing = trials - len(finished(study))
        if missing > 0:
            judge = Judge(graph, splits, seed, threads, memory, study.user_attrs.get("hops"))
            if not study.trials:
                study.set_user_attr("hops", judge.bank.hops)
                study.enqueue_trial(judge.first_point())
            left = None if timeout is None else max(timeout - (time.perf_counter() - started), 1e-3)
            tell = (lambda _: None) if progress is None else progress
            study.optimize(judge, missing, left, callbacks=[lambda study, _: tell(finished(study)[-1])])
        return _told(graph, study, place)


class Judge:
    """The value of a trial: what networks with its parameters make of validation nodes."""

    def __init__(
        self,
        graph: Graph,
        splits: Sequence[Split],
        seed: int,
        threads: int | None,
        memory: int | str | None,
        hops: int | None,
    ) -> None:
        self.graph = graph
        self.splits = splits
        self.common: dict[str, Any] = {"seed": seed, "threads": threads, "memory": memory}
        nodes = [part for split in splits for part in (split.train, split.val)]
        self.bank = HopBank(graph, nodes, FEATURE_NORM, epsilon=EPSILON, hops=hops, **self.common)

    def first_point(self) -> dict[str, Any]:
        """What a model without any parameters finds by itself: the search begins where ``nodewise train`` ends."""
        model = NIGCN(**self.common).fit(self.graph, self.splits[0].train, self.splits[0].val)
        return within({**model.get_params(), **model.found})

    def __call__(self, trial: optuna.Trial) -> float:
        import optuna

        params = completed(suggested(trial), self.graph, self.bank.hops)
        scores: list[float] = []
        for split in self.splits:
            train, val = (self.bank.rows(nodes, params) for nodes in (split.train, split.val))
            for half in (0, 1):
                stop, judge = slice(half, None, 2), slice(1 - half, None, 2)
                model = NIGCN(**{**params, "heads": 1}, **self.common)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NodewiseWarning)  # the first model has told of missing classes
                    model.fit_rows(self.graph, [split.train, split.val[stop]], [train, val[stop]])
                predicted = model.labels_of_proba(model.proba_of_rows(val[judge]))
                scores.append(micro_f1(known_labels(self.graph, split.val[judge], "val"), predicted))
                trial.report(float(np.mean(scores)), len(scores))
                if len(scores) < 2 * len(self.splits) and trial.should_prune():
                    raise optuna.TrialPruned
        return float(np.mean(scores))


def finished(study: optuna.Study) -> list[Trial]:
    """The trials that ended, whether they were given up or not."""
    states = {"COMPLETE": False, "PRUNED": True}
    return [
        Trial(trial.number, float(trial.value), states[trial.state.name], _seconds(trial), dict(trial.params))
        for trial in study.trials
        if trial.state.name in states and trial.value is not None
    ]


def _told(graph: Graph, study: optuna.Study, place: Path) -> Tuned:
    """Write the best parameters and the picture."""
    trials = finished(study)
    whole = [trial for trial in trials if not trial.given_up]
    if not whole:
        raise InputError(f"{place}: no trial was finished in time; allow more (--timeout), and give the command again")
    best = max(whole, key=lambda trial: trial.value)
    hops = int(study.user_attrs["hops"])
    params = completed(best.point, graph, hops)
    tuned = Tuned(graph.name, trials, best, params, place / PRESET, place / PICTURE)
    write_preset(tuned.preset, graph.name, params)
    return tuned if draw(tuned, place / PICTURE) else replace(tuned, picture=None)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError("Optuna is not installed; run pip install 'nodewise[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _opened(optuna: Any, file: Path, seed: int) -> Any:
    """The study in ``file``, or a new one."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(file))),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTING),
            study_name="nodewise",
            direction="maximize",
            load_if_exists=True,
        )
        study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials), n_startup_trials=STARTING)
    except Exception as error:  # whatever a damaged journal makes Optuna raise
        raise StoreError(f"{file}: cannot be read as a study ({error}); {REFUSED}") from error
    return study


def _check_splits(graph: Graph, splits: Sequence[Split]) -> None:
    if not splits:
        raise InputError("splits: none given; expected at least one")
    for number, split in enumerate(splits):
        if split.val.size < 2:
            raise InputError(f"split {number}: {split.val.size} validation nodes; expected at least two to judge by")
        for part in (split.train, split.val):
            known_labels(graph, part, f"split {number}")


def _seconds(trial: optuna.trial.FrozenTrial) -> float:
    return 0.0 if trial.duration is None else trial.duration.total_seconds()
