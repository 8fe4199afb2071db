"""A study: what was tried so far, kept in a folder, and what came of it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodewise.atomic import explained
from nodewise.checks import checked_seed
from nodewise.datasets import load
from nodewise.engines.opened import graph_id, placed
from nodewise.errors import InputError, StoreError
from nodewise.graph import Graph
from nodewise.held import REFUSED, held_folder
from nodewise.learn.classifier import check_features, check_learned, check_whole
from nodewise.learn.presets import write_preset
from nodewise.memory import memory_budget
from nodewise.parallel import thread_count
from nodewise.splits import Split, digest_of_splits
from nodewise.tuning.picture import draw
from nodewise.tuning.space import completed
from nodewise.tuning.trials import STARTING, Trial, Trials, finished

if TYPE_CHECKING:
    import optuna

STUDY, PRESET, PICTURE = "study.log", "preset.json", "trials.png"


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
    progress: Callable[[list[Trial]], None] = lambda trials: None,
) -> Tuned:
    """Search for parameters of :class:`nodewise.NIGCN` that suit ``source``, judged by the splits' validation nodes.

    ``trials``: how many there are to be in the end, with those that ``folder`` already holds; ``timeout``: seconds
    after which no more are begun. ``folder`` gets the study, a picture of the trials, and ``preset.json``, which
    ``nodewise train --preset`` and ``NIGCN(**nodewise.find_preset(file))`` take. ``progress`` is called with all trials
    so far, at the start and whenever one ends. Test nodes are not looked at.
    """
    started = time.time()
    optuna = _optuna()
    check_whole("trials", trials)
    seed = checked_seed(seed)
    thread_count(threads)
    memory_budget(memory)
    if timeout is not None and not timeout > 0:
        raise InputError(f"timeout={timeout}: expected a number of seconds above 0")
    graph, place = load(*placed(source, data_dir)), Path(folder).absolute()
    check_features(graph)
    _check_splits(graph, splits)
    identity = {"graph": graph_id(placed(source, data_dir)[0], graph), "splits": digest_of_splits(splits), "seed": seed}
    with held_folder(place, "study", identity):
        _mend(place / STUDY)
        study = _opened(optuna, place / STUDY, seed)
        progress(finished(study))
        missing = trials - len(finished(study))
        if missing > 0:
            more = Trials(graph, splits, seed, threads, memory, study.user_attrs.get("hops"))
            if not finished(study):
                study.set_user_attr("hops", more.bank.hops)
                study.enqueue_trial(more.first_point())
            for _ in more.run(study, missing, math.inf if timeout is None else started + timeout):
                progress(finished(study))
        return _told(graph, study, place)


def _told(graph: Graph, study: optuna.Study, place: Path) -> Tuned:
    """Write the best parameters and the picture."""
    trials = finished(study)
    best = max((trial for trial in trials if not trial.given_up), key=lambda trial: trial.value)
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


def _mend(file: Path) -> None:
    """Take away a last line that is cut short, as a full disk leaves it: the next would be appended to it."""
    with explained(file):
        if not file.is_file():
            return
        content = file.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(file, whole)


def _opened(optuna: Any, file: Path, seed: int) -> Any:
    """The study in ``file``, or a new one."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(file))),
            study_name="nodewise",
            direction="maximize",
            load_if_exists=True,
        )
    except PermissionError as error:
        raise StoreError(f"{file}: {error.strerror}; make the folder writable, or choose another") from error
    except Exception as error:  # whatever a damaged journal makes Optuna raise
        raise StoreError(f"{file}: cannot be read as a study ({error}); {REFUSED}") from error
    # numpy's old generators, which Optuna draws from, take seeds of 32 bits
    study.sampler = optuna.samplers.TPESampler(seed=(seed + len(study.trials)) % 2**32, n_startup_trials=STARTING)
    return study


def _check_splits(graph: Graph, splits: Sequence[Split]) -> None:
    if not splits:
        raise InputError("splits: none given; expected at least one")
    for number, split in enumerate(splits):
        if split.val.size < 2:
            raise InputError(f"split {number}: {split.val.size} validation nodes; expected at least two to judge by")
        try:
            check_learned(graph, split.train, split.val)
        except InputError as error:
            raise InputError(f"split {number}: {error}") from error
