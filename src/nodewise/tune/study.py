"""Tune a graph: :func:`tune` runs the trials that are missing in the folder of a study, and picks the parameters."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nodewise._util.errors import InputError, StoreError
from nodewise._util.json_file import typed
from nodewise._util.memory import memory_budget
from nodewise._util.os_errors import writing
from nodewise._util.progress import Progress, silent
from nodewise._util.run_folder import REFUSED, RunFolder
from nodewise._util.threads import thread_count
from nodewise.batch.opened import graph_id, resolve_source
from nodewise.datasets import load
from nodewise.graph import Graph
from nodewise.graph.checks import checked_seed
from nodewise.graph.splits import Split, digest_of_splits
from nodewise.learn.evaluate import checked_splits
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.params import AUTO
from nodewise.learn.presets import write_preset
from nodewise.learn.search import DEEPEST
from nodewise.learn.task import check_features, check_whole, featured
from nodewise.tune.bank import FEWEST_HOPS, affordable_hops
from nodewise.tune.judge import Verdict
from nodewise.tune.space import NAMES, check_point
from nodewise.tune.trial_plot import draw
from nodewise.tune.trials import BATCH, Trial, Trials, add_finished, nodes_of

PRESET, PICTURE = "preset.json", "trials.png"
OTHERS = ("feature_norm", "epsilon", "max_hops")  # what a study has found besides the point that it begins with
FAR_AWAY = 1e12  # no number of a verdict is this large
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
    for number, split in enumerate(checked_splits(graph, splits, tested=False)):
        if split.val.size < 2:
            raise InputError(
                f"split {number}: {split.val.size} validation nodes; expected at least two to judge trials"
            )
    identity = {
        "graph": graph_id(where[0], graph),
        "splits": digest_of_splits(splits),
        "seed": common["seed"],
        "study_version": 3,  # in version 1 a trial was one network, in version 2 Optuna kept the study
    }
    run = RunFolder(place, "study", identity)
    with run.locked():
        study, state = _opened(optuna, run, common["seed"])
        if trials > len(state.trials) or _verdict(state) is None:
            default = state.default or default_params(graph, splits, common, progress)
            progress("hop bank", 0, None)
            more, state = Trials(graph, splits, default, **common), replace(state, default=default)
            state = _continue(study, run, state, more, trials, deadline, progress)
        return _result(graph, state, place)


@dataclass(frozen=True)
class State:
    """What is kept of a study: the parameters that it began with, its trials, and the verdict on one of them."""

    default: dict[str, Any] | None = None
    trials: list[Trial] = field(default_factory=list)
    judged: int = 0  # the trial that the verdict is on
    verdict: Verdict | None = None

    def check(self) -> None:
        """Raise ValueError for what no study writes: anyone may have written the file."""
        for number, trial in enumerate(self.trials):
            trial.check(number)
        if self.trials and (self.default is None or self.trials[0].given_up):
            raise ValueError("it has trials, and no default that was finished")
        if len({len(trial.reports) for trial in self.trials if not trial.given_up}) > 1:
            raise ValueError("its trials were judged by different splits")
        if self.verdict is not None and not all(abs(number) < FAR_AWAY for number in vars(self.verdict).values()):
            raise ValueError("its verdict is out of bounds")
        if self.default is not None:
            check_point({name: value for name, value in self.default.items() if name not in OTHERS})
            others: dict[str, Any] = {name: self.default.get(name) for name in OTHERS}
            NIGCN(**others).check_params()
            hops = others["max_hops"]
            if AUTO in others.values() or type(hops) is not int or not FEWEST_HOPS <= hops <= DEEPEST:
                raise ValueError("its default is no set of parameters that a model finds")


def _opened(optuna: Any, run: RunFolder, seed: int) -> tuple[Any, State]:
    """The study in a folder, or a new one. Optuna only proposes: what is kept of its trials, we write ourselves."""
    try:
        kept = run.read()
        state = State() if not kept else typed(State, kept, "state")
        state.check()
        study = optuna.create_study(direction="maximize")
        add_finished(study, state.trials)
    except (ValueError, ArithmeticError) as error:
        raise StoreError(f"{run.path / run.file}: cannot be read as a study ({error}); {REFUSED}") from error
    if not kept:
        run.save({})
    # numpy's old generators, which Optuna uses, take seeds of 32 bits
    study.sampler = optuna.samplers.TPESampler(seed=(seed + len(state.trials)) % 2**32, n_startup_trials=BATCH)
    return study, state


def _continue(
    study: Any, run: RunFolder, state: State, more: Trials, trials: int, deadline: float, progress: Progress
) -> State:
    """Run the trials that are missing, and compare the best with the default."""
    run.save(asdict(state))
    progress("trials", len(state.trials), trials)
    with writing(Path(tempfile.gettempdir())):  # through which workers get their rows
        for _ in more.run(study, state.trials, trials - len(state.trials), deadline):
            run.save(asdict(state))
            progress("trials", len(state.trials), trials)
        if _verdict(state) is None:
            progress("comparison with the default", 0, None)
            best = _best(state)
            state = replace(state, judged=best.number, verdict=more.compare(best.point))
            run.save(asdict(state))
    return state


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
    return {name: params[name] for name in (*NAMES, *OTHERS)}


def _best(state: State) -> Trial:
    return max((trial for trial in state.trials if not trial.given_up), key=lambda trial: trial.value)


def _verdict(state: State) -> Verdict | None:
    """The best trial against the default; None if that is not known yet."""
    if not state.trials:
        return None
    default, best = state.trials[0], _best(state)
    if best == default:
        return Verdict(default.value, default.value, 0, 0.0)
    return state.verdict if state.judged == best.number else None


def _result(graph: Graph, state: State, place: Path) -> Tuned:
    """Write the preset and the picture."""
    verdict, best, default = _verdict(state), _best(state), state.default
    assert verdict is not None
    assert default is not None
    tuned = Tuned(
        graph.name, state.trials, best, **vars(verdict), params=default, preset=place / PRESET, picture=place / PICTURE
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
