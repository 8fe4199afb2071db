"""What a trial is worth: networks with its parameters learn from rows, and validation nodes judge them.

Plain functions of their arguments, so that they can run in any process.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodewise._typing import AnyArray, FloatArray
from nodewise.errors import NodewiseWarning
from nodewise.graph import Graph
from nodewise.learn.nigcn import NIGCN

EARLY = 30  # epochs of a network after which a trial may be given up


@dataclass(frozen=True)
class Task:
    """Rows and labels of a split, the ``training`` nodes first."""

    rows: FloatArray
    labels: AnyArray
    training: int


@dataclass(frozen=True)
class Judged:
    """``value``: micro-F1, so far where a trial was ``given_up``; ``reports``: the value at each step, of two a split:
    early in the training of its network, and after it."""

    value: float
    given_up: bool
    seconds: float
    reports: tuple[float, ...]


class _TooPoorError(Exception):
    pass


def judged(params: Mapping[str, Any], tasks: Sequence[Task], floors: Sequence[float], deadline: float) -> Judged | None:
    """Train a network for each of ``tasks``, until all the values so far are below the floor of a step.

    None if it is later than ``deadline`` (as of :func:`time.time`) to begin with.
    """
    started = time.time()
    if started > deadline:
        return None
    values: list[float] = []  # of the tasks that are done
    reports: list[float] = []

    def report(value: float) -> None:
        step = len(reports)
        reports.append(float(np.mean([*values, value])))
        if step < min(len(floors), 2 * len(tasks) - 1) and max(reports) < floors[step]:
            raise _TooPoorError

    def after_epoch(epoch: int, value: float) -> None:
        if epoch == EARLY:
            report(value)

    try:
        for task in tasks:
            value = _value(params, task, after_epoch)
            if len(reports) == 2 * len(values):  # its network stopped earlier still
                report(value)
            report(value)
            values.append(value)
    except _TooPoorError:
        return Judged(reports[-1], True, time.time() - started, tuple(reports))
    return Judged(reports[-1], False, time.time() - started, tuple(reports))


def _value(params: Mapping[str, Any], task: Task, after_epoch: Any) -> float:
    alone = Graph.from_edges(np.zeros((2, 0), np.int64), num_nodes=len(task.rows), labels=task.labels)
    nodes = np.split(np.arange(len(task.rows)), [task.training])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NodewiseWarning)  # the first model has told of missing classes
        return NIGCN(**params).judge_rows(alone, nodes, np.split(task.rows, [task.training]), after_epoch)
