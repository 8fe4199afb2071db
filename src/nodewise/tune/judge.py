"""The score of a trial: an ensemble learns with one half of the validation labels and is judged by the other.

Plain functions of their arguments, so that they can run in any process.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from nodewise._util.errors import InputError, NodewiseWarning
from nodewise._util.types import AnyArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.splits import Split
from nodewise.learn.fitting import NetworkConfig, TrainingData, known_shares, learn
from nodewise.learn.metrics import micro_f1
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.params import AUTO
from nodewise.learn.search import JUDGES, ROWS, ROWS_OF_NARROW, penalties_of
from nodewise.learn.search import judged as ridge_losses
from nodewise.learn.task import Classes
from nodewise.learn.trainer import LabelledRows, tuned


@dataclass(frozen=True)
class Problem:
    """A split as positions in the rows of a bank, with the validation nodes in two halves.

    ``labels``: of all rows; only those of training and validation nodes are read.
    """

    classes: Classes
    labels: AnyArray
    train: IntArray
    halves: tuple[IntArray, IntArray]
    unlabelled: IntArray

    @classmethod
    def of(cls, graph: Graph, split: Split, unlabelled: IntArray, nodes: IntArray, seed: int) -> Problem:
        """``nodes``: those of the bank, in order. Both halves get equally many validation nodes of each class."""
        assert graph.labels is not None  # checked before
        order = np.random.default_rng(seed).permutation(split.val)
        if not graph.multilabel:
            order = order[np.argsort(graph.labels[order], kind="stable")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NodewiseWarning)  # the default has warned of missing classes
            classes = Classes.of(graph, split.train, split.val)
        parts = (split.train, order[::2], order[1::2], unlabelled)
        train, first, second, rest = (np.searchsorted(nodes, part) for part in parts)
        return cls(classes, graph.labels[nodes], train, (first, second), rest)

    def data(self, rows: FloatArray, judge: int) -> TrainingData:
        """What a model learns from that must not see the half ``judge``."""
        train, val = (self._labelled(rows, places) for places in (self.train, self.halves[1 - judge]))
        count = self.classes.ids.size
        shares, unlabelled = known_shares(val[1], train[1], count), torch.from_numpy(rows[self.unlabelled])
        return TrainingData(count, train, val, unlabelled, shares, rows.shape[1] // 2)

    def _labelled(self, rows: FloatArray, places: IntArray) -> LabelledRows:
        return torch.from_numpy(rows[places]), self.classes.encoded(self.labels[places])


class Answers(NamedTuple):
    """The nodes of a half, as positions in the rows of a bank, their true labels and the predicted ones."""

    places: IntArray
    true: AnyArray
    predicted: AnyArray


@dataclass(frozen=True)
class Judged:
    """``value``: the share of validation labels predicted right (micro-F1), until it was ``given_up``, if it was.

    ``reports``: the value after each half of the validation labels.
    """

    value: float
    given_up: bool
    seconds: float
    reports: list[float]


def judged(
    params: Mapping[str, Any],
    seed: int,
    rows: FloatArray,
    problems: Sequence[Problem],
    floors: Sequence[float],
    deadline: float,
) -> Judged | None:
    """Judge half after half, until all values so far are below the floor of a step.

    None if ``deadline`` (a :func:`time.time`) has passed before it begins.
    """
    started = time.time()
    if started > deadline:
        return None
    values: list[float] = []
    reports: list[float] = []
    given_up = False
    for step, part in enumerate(answers(params, seed, rows, problems)):
        values.append(micro_f1(part.true, part.predicted))
        reports.append(float(np.mean(values)))
        given_up = step < min(len(floors), 2 * len(problems) - 1) and max(reports) < floors[step]
        if given_up:
            break
    return Judged(reports[-1], given_up, time.time() - started, reports)


def answers(params: Mapping[str, Any], seed: int, rows: FloatArray, problems: Sequence[Problem]) -> Iterator[Answers]:
    """What a model with ``params`` predicts for each half of each split, one at a time."""
    given = NIGCN(**params).get_params()
    own = {name: given[name] for name in ("hidden", "dropout", "lr", "epochs", "patience", "members", "teach")}
    network = NetworkConfig(**own, layers=AUTO, weight_decay=AUTO, bias=True, balanced=False, seed=seed, threads=1)
    for problem in problems:
        for judge, places in enumerate(problem.halves):
            true = problem.labels[places]
            try:
                data = problem.data(rows, judge)
                predicted = _labels(data, problem.classes, network.suited(data.train[0].shape[0]), rows[places])
            except InputError:  # training diverged: nothing is right
                predicted = np.full_like(true, -1)
            yield Answers(places, true, predicted)


def _labels(data: TrainingData, classes: Classes, network: NetworkConfig, rows: FloatArray) -> AnyArray:
    """The labels of ``rows``, predicted by an ensemble that learned from ``data``."""
    assert data.val is not None
    most, diffused = ROWS_OF_NARROW if data.diffused < ROWS else ROWS, data.without_own()
    assert diffused.val is not None
    with tuned(1):
        losses, _ = ridge_losses(_some(diffused.train, most), _some(diffused.val, JUDGES), data.classes)
        learned = learn(data, penalties_of(losses), network)
        seen = torch.from_numpy(rows if learned.own else rows[:, : data.diffused])
        with torch.no_grad():
            logits = learned.ensemble(seen) / learned.temperature
    return classes.decoded(classes.proba(logits).numpy(), learned.threshold)


def _some(part: LabelledRows, most: int) -> LabelledRows:
    """At most ``most`` rows, evenly spaced: they may be sorted by class."""
    few = slice(None, None, -(-part[0].shape[0] // most))
    return part[0][few], part[1][few]


@dataclass(frozen=True)
class Verdict:
    """Shares of labels that the default and another point predict right, how many more labels, and its error."""

    default_value: float
    confirmed_value: float
    gain: int
    standard_error: float


def compared(default: Sequence[Answers], other: Sequence[Answers]) -> Verdict:
    """Compare both on the same halves, label by label.

    Labels that both or neither predict right say nothing. Each of the ``n`` others is a fair coin if the two are
    equally good, so the difference has a standard error of ``sqrt(n)``. The results of one node in several splits are
    not independent, and are added up first.
    """
    right = [[part.predicted == part.true for part in parts] for parts in (default, other)]
    change = [new.astype(int) - old for old, new in zip(*right, strict=True)]
    each = np.concatenate([part.reshape(part.shape[0], -1).sum(1) for part in change])
    by_node = np.bincount(np.concatenate([part.places for part in default]), each)
    values = [float(np.mean([micro_f1(part.true, part.predicted) for part in parts])) for parts in (default, other)]
    return Verdict(values[0], values[1], int(by_node.sum()), float(np.sqrt(np.square(by_node).sum())))
