"""Trials on the rows of one hop bank: Optuna proposes them, and several run at a time.

The first is the default, the next differ from it in one parameter each. A trial that is worse than half of those before
it is given up, after any half of the validation labels but the last.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nodewise._util.parent import end_with
from nodewise._util.threads import thread_count
from nodewise._util.types import FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.splits import Split
from nodewise.learn.cost import UNLABELLED
from nodewise.learn.task import Task
from nodewise.tune.bank import HopBank
from nodewise.tune.judge import Answers, Judged, Problem, Verdict, answers, compared, judged
from nodewise.tune.space import NAMES, check_point, distributions, in_reach, neighbours, within

if TYPE_CHECKING:
    import optuna

STARTING = 10  # trials before any is given up
AGES = 1e9  # seconds: no trial takes so long
BATCH = 8  # trials that are proposed together

Asked: TypeAlias = "tuple[optuna.Trial, dict[str, Any]]"  # a trial of Optuna's, and the point that it tries


@dataclass(frozen=True)
class Trial(Judged):
    """A trial of a study, and how good it was."""

    number: int
    point: dict[str, Any]

    def check(self, number: int) -> None:
        """Raise ValueError unless this can be trial ``number`` of a study."""
        check_point(self.point)
        bounded = [self.value, *self.reports, self.seconds / AGES]
        if self.number != number or not self.reports or not all(0 <= value <= 1 for value in bounded):
            raise ValueError(f"trial {number} has a number or a value that it cannot have")


def unlabelled_nodes(graph: Graph, split: Split, seed: int) -> IntArray:
    """The unlabelled nodes that a model with this ``seed`` learns from."""
    task = Task(graph, split.train, split.val, np.zeros(0, np.int64))
    return task.unlabelled(0 if graph.multilabel else UNLABELLED, seed)


def nodes_of(graph: Graph, splits: Sequence[Split], seed: int) -> IntArray:
    """All nodes whose rows a trial uses, in order."""
    parts = [part for split in splits for part in (split.train, split.val, unlabelled_nodes(graph, split, seed))]
    return np.unique(np.concatenate(parts))


class Trials:
    """Trials on the rows of one hop bank. ``default``: the parameters that they differ from."""

    def __init__(
        self, graph: Graph, splits: Sequence[Split], default: dict[str, Any], seed: int, threads: int | None,
        memory: int | str | None,
    ) -> None:  # fmt: skip
        self.graph, self.splits, self.default, self.seed, self.threads = graph, splits, default, seed, threads
        self.bank = HopBank(
            graph, nodes_of(graph, splits, seed), default["feature_norm"], default["max_hops"],
            epsilon=default["epsilon"], seed=seed, threads=threads, memory=memory,
        )  # fmt: skip
        point = {name: default[name] for name in NAMES}
        self._starts = [point, *neighbours(point, self.bank.hops)]

    def run(self, study: optuna.Study, trials: list[Trial], count: int, deadline: float) -> Iterator[None]:
        """Append up to ``count`` trials that ``study`` proposes to ``trials``, in place; yields after each.

        A batch is proposed at once, so that the result does not depend on how many trials run at the same time.
        Diffusion uses all threads; small networks can use only one, so each trial has a process of its own.
        """
        from joblib import delayed

        problems = self._problems(self.seed)
        processes = max(1, min(BATCH, count, thread_count(self.threads)))
        with _in_processes(processes, return_as="generator", pre_dispatch="n_jobs") as at_once:
            while count > 0 and (time.time() <= deadline or not trials):
                batch, floors = self._asked(study, len(trials), min(count, BATCH)), _floors(trials)
                ends = [deadline if trials or i else math.inf for i in range(len(batch))]  # one there must be
                every = [{**self.default, **point} for _, point in batch]
                calls = (
                    delayed(judged)(params, self.seed, self.rows(params), problems, floors, end)
                    for params, end in zip(every, ends, strict=True)
                )
                yield from _recorded(study, trials, batch, at_once(calls))
                count -= len(batch)

    def compare(self, point: dict[str, Any]) -> Verdict:
        """Judge the default and ``point`` once more, with other halves and other initial weights.

        The best of many trials was also lucky; that luck does not come twice.
        """
        from joblib import delayed

        seed = self.seed ^ 1
        problems = self._problems(seed)
        both = [self.default, {**self.default, **point}]
        with _in_processes(min(2, thread_count(self.threads))) as at_once:
            calls = (delayed(_all_answers)(p, seed, self.rows(p), problems) for p in both)
            return compared(*at_once(calls))

    def rows(self, params: dict[str, Any]) -> FloatArray:
        return self.bank.rows(params["omega"], params["rho"], params["row_norm"])

    def _problems(self, deal: int) -> list[Problem]:
        return [
            Problem.of(self.graph, split, unlabelled_nodes(self.graph, split, self.seed), self.bank.nodes, deal)
            for split in self.splits
        ]

    def _asked(self, study: optuna.Study, first: int, count: int) -> list[Asked]:
        """New trials, from number ``first`` on."""
        batch: list[Asked] = []
        for place in range(first, first + count):
            starts = self._starts[place : place + 1]
            for start in starts:
                study.enqueue_trial(within(start))
            trial = study.ask(distributions())
            # The default may lie outside the space.
            batch.append((trial, starts[0] if starts else in_reach(trial.params, self.bank.hops)))
        return batch


def _in_processes(count: int, **how: Any) -> Any:
    """joblib's ``Parallel``, of processes that do not outlive this one."""
    from joblib import Parallel

    return Parallel(count, mmap_mode="c", initializer=end_with, initargs=(os.getpid(),), **how)


def _all_answers(*args: Any) -> list[Answers]:
    return list(answers(*args))


def _recorded(
    study: optuna.Study, trials: list[Trial], batch: list[Asked], results: Generator[Judged | None, None, None]
) -> Iterator[None]:
    """Add each trial to ``trials`` and tell ``study`` its result; trials without a result are not counted."""
    from optuna.trial import TrialState

    waiting = list(batch)
    try:
        for result in results:
            asked, point = waiting.pop(0)
            if result is None:
                study.tell(asked, state=TrialState.FAIL)
                continue
            for step, value in enumerate(result.reports):
                asked.report(value, step)
            if result.given_up:
                study.tell(asked, state=TrialState.PRUNED)
            else:
                study.tell(asked, result.value)
            trials.append(Trial(**vars(result), number=len(trials), point=point))
            yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # joblib: after an interrupt some results are not used
            results.close()
        for asked, _ in waiting:
            study.tell(asked, state=TrialState.FAIL)


def _floors(trials: Sequence[Trial]) -> list[float]:
    """The median at each step of the trials that were not given up; empty until enough trials have ended."""
    if len(trials) < STARTING:
        return []
    whole = [trial.reports for trial in trials if not trial.given_up]
    return [float(np.median(step)) for step in zip(*whole, strict=True)]


def add_finished(study: optuna.Study, trials: Sequence[Trial]) -> None:
    """Tell a new study of trials that an earlier run finished."""
    from optuna.trial import TrialState, create_trial

    for trial in trials:
        study.add_trial(
            create_trial(
                state=TrialState.PRUNED if trial.given_up else TrialState.COMPLETE,
                value=trial.value,
                params=within(trial.point),
                distributions=distributions(),
                intermediate_values=dict(enumerate(trial.reports)),
            )
        )
