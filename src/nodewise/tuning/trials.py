"""Trials on the rows of one hop bank: Optuna proposes them, several are made at a time.

Every trial trains a network a split, each half of the validation nodes judged where the other half stopped it; the
preset averages several, which is better and takes no search. A trial that is worse than half of those before it is
given up, early in the training of a network or after it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nodewise.graph import Graph
from nodewise.learn.hop_weights import DEEPEST
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.self_tuning import EPSILON
from nodewise.parallel import thread_count
from nodewise.splits import Split
from nodewise.tuning.bank import HopBank
from nodewise.tuning.judge import Judged, Task, judged
from nodewise.tuning.space import FEATURE_NORM, completed, in_reach, suggested, within

if TYPE_CHECKING:
    import optuna

STARTING = 10  # trials before any is given up
BATCH = 8  # trials that are proposed together


@dataclass(frozen=True)
class Trial:
    """``value``: the share of validation labels that were right (micro-F1), so far where it was ``given_up``."""

    number: int
    value: float
    given_up: bool
    seconds: float
    point: dict[str, Any]


class Trials:
    """Trials on the rows of one hop bank, several at a time."""

    def __init__(
        self,
        graph: Graph,
        splits: Sequence[Split],
        seed: int,
        threads: int | None,
        memory: int | str | None,
        hops: int | None = None,
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

    def params(self, point: dict[str, Any]) -> dict[str, Any]:
        return completed(point, self.graph, self.bank.hops)

    def run(self, study: optuna.Study, count: int, deadline: float) -> Iterator[None]:
        """Make ``study`` have so many more trials, if time allows; stops for a moment after each.

        A batch is proposed at once, so that what is found does not depend on how many are tried at the same time.
        Diffusion has all threads for itself; a small network has use for one, so each trial has a process of its own.
        """
        from joblib import Parallel, delayed

        common = {**self.common, "heads": 1, "threads": 1}
        processes = min(BATCH, count, thread_count(self.common["threads"]))
        with Parallel(processes, return_as="generator", pre_dispatch="n_jobs", mmap_mode="c") as at_once:
            while count > 0 and (time.time() <= deadline or not finished(study)):
                batch = [study.ask() for _ in range(min(count, BATCH))]
                every = [self.params(suggested(trial)) for trial in batch]
                floors = _floors(study)
                ends = [deadline if finished(study) or i else math.inf for i in range(len(batch))]  # one there must be
                calls = (
                    delayed(judged)({**params, **common}, self._tasks(params), floors, end)
                    for params, end in zip(every, ends, strict=True)
                )
                for _ in _told_one_by_one(study, batch, at_once(calls)):
                    yield
                count -= len(batch)

    def _tasks(self, params: dict[str, Any]) -> list[Task]:
        labels = self.graph.labels
        assert labels is not None  # checked before
        tasks = []
        for split in self.splits:
            nodes = np.concatenate([split.train, split.val])
            tasks.append(Task(self.bank.rows(nodes, params), labels[nodes], split.train.size))
        return tasks


def _told_one_by_one(
    study: optuna.Study, batch: list[optuna.Trial], verdicts: Generator[Judged | None, None, None]
) -> Iterator[None]:
    """Tell ``study`` of each trial that ends; those that do not will not be counted."""
    from optuna.trial import TrialState

    waiting = list(batch)
    try:
        for verdict in verdicts:
            trial = waiting.pop(0)
            if verdict is None:
                study.tell(trial, state=TrialState.FAIL)
                continue
            for step, value in enumerate(verdict.reports):
                trial.report(value, step)
            trial.set_user_attr("seconds", verdict.seconds)
            if verdict.given_up:
                study.tell(trial, state=TrialState.PRUNED)
            else:
                study.tell(trial, verdict.value)
            yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that what an interrupt leaves is not used
            verdicts.close()
        for trial in waiting:
            study.tell(trial, state=TrialState.FAIL)


def _floors(study: optuna.Study) -> list[float]:
    """What half of the trials that were not given up had at each step; nothing before enough were tried."""
    if len(finished(study)) < STARTING:
        return []
    whole = [list(trial.intermediate_values.values()) for trial in study.trials if trial.state.name == "COMPLETE"]
    return [float(np.median(step)) for step in zip(*whole, strict=True)]


def finished(study: optuna.Study) -> list[Trial]:
    """The trials that ended, whether they were given up or not."""
    hops = study.user_attrs.get("hops", DEEPEST)
    states = {"COMPLETE": False, "PRUNED": True}
    return [
        Trial(t.number, float(t.value), states[t.state.name], t.user_attrs["seconds"], in_reach(t.params, hops))
        for t in study.trials
        if t.state.name in states and t.value is not None
    ]
