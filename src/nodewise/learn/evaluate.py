"""Train and test a model on splits, or score one that is there: scores, class by class, for tables and JSON."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from nodewise._util.errors import InputError, warn
from nodewise._util.types import AnyArray, BoolArray, FloatArray, IntArray
from nodewise._util.words import counted
from nodewise._version import __version__
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.graph.splits import Split
from nodewise.importing.onto_graph import with_labels
from nodewise.learn.calibrate import calibration_error
from nodewise.learn.estimator import NodeClassifier
from nodewise.learn.metrics import macro_f1, micro_f1, micro_f1_interval
from nodewise.learn.restored import HeldOut
from nodewise.learn.task import check_learned, known_labels, names_of, widened

SCORES = ("test_f1", "test_macro_f1", "test_log_loss", "test_calibration_error")


@dataclass(frozen=True)
class SplitResult:
    """The results of one split; scores are from 0 to 1, micro-F1 unless named otherwise.

    ``sizes``: nodes in each part. ``auto_params``: the values found for parameters that are "auto".
    ``seconds``: by stage. ``members``: who votes, in words, and how much.
    """

    split: int
    sizes: dict[str, int]
    val_f1: float | None
    test_f1: float | None
    test_macro_f1: float | None
    test_log_loss: float | None
    test_calibration_error: float | None
    test_interval: tuple[float, float] | None  # of test_f1, 95%
    preparation_seconds: float
    train_seconds: float
    seconds: dict[str, float]
    epochs: int
    auto_params: dict[str, Any]
    members: dict[str, float]


@dataclass(frozen=True)
class ClassResult:
    """How well one class is found, over the test nodes of all splits."""

    label: str
    precision: float | None
    recall: float | None
    support: int


@dataclass(frozen=True)
class Evaluation:
    """The results of all splits, and the model that did best on its validation nodes.

    ``classes``: class by class. ``confusion``: for each true label (a row) how often each was predicted, in the same
    order; None where nodes have several labels.
    """

    dataset: str
    engine: str
    splits: list[SplitResult]
    classes: list[ClassResult]
    confusion: list[list[int]] | None
    params: dict[str, Any]
    best: NodeClassifier

    @property
    def test_f1(self) -> list[float]:
        """The scores of the splits that have test nodes."""
        return self._scores("test_f1")

    @property
    def test_f1_mean(self) -> float | None:
        return self.mean("test_f1")

    @property
    def test_f1_std(self) -> float | None:
        return statistics.pstdev(self.test_f1) if self.test_f1 else None

    def mean(self, name: str) -> float | None:
        """The mean of a score over the splits that have it."""
        scores = self._scores(name)
        return statistics.fmean(scores) if scores else None

    def _scores(self, name: str) -> list[float]:
        return [getattr(s, name) for s in self.splits if getattr(s, name) is not None]

    def to_json(self) -> dict[str, Any]:
        """Everything but the model, ready for ``json.dumps``."""
        return {
            "dataset": self.dataset,
            "engine": self.engine,
            "splits": [asdict(s) for s in self.splits],
            "test_f1_mean": self.test_f1_mean,
            "test_f1_std": self.test_f1_std,
            **{f"{name}_mean": self.mean(name) for name in SCORES if name != "test_f1"},
            "classes": [asdict(c) for c in self.classes],
            "confusion": self.confusion,
            "params": self.params,
            "versions": versions(),
        }


@dataclass(frozen=True)
class ModelScore:
    """How good a fitted model is on ``nodes`` labelled nodes; ``left_out``: others, which it learned from.

    ``interval``: of micro-F1, 95%. ``classes`` and ``confusion``: as in :class:`Evaluation`.
    """

    graph: str
    nodes: int
    left_out: int
    micro_f1: float
    interval: tuple[float, float]
    macro_f1: float
    log_loss: float
    calibration_error: float
    classes: list[ClassResult]
    confusion: list[list[int]] | None


def evaluate(
    model: NodeClassifier,
    graph: Graph,
    splits: Sequence[Split],
    *,
    inductive: bool = False,
    part: AnyArray | None = None,
    done: Callable[[SplitResult], None] | None = None,
    **how: Any,
) -> Evaluation:
    """Fit a clone of ``model`` on each split, and compare its predictions for the test nodes with their labels.

    ``inductive``, ``part``, ``how``: as in :meth:`NodeClassifier.fit_predict_proba`. ``done``: called after each split.
    """
    splits = checked_splits(graph, splits)
    results: list[SplitResult] = []
    truths: list[AnyArray] = []
    guesses: list[AnyArray] = []
    best: NodeClassifier | None = None
    for number, split in enumerate(splits):
        fitted = clone(model)
        truth = known_labels(graph, split.test, "test")
        val = split.val if split.val.size else None
        proba = fitted.fit_predict_proba(graph, split.train, val, split.test, inductive=inductive, part=part, **how)
        predicted = fitted.labels_of_proba(proba)
        truths.append(truth)
        guesses.append(predicted)
        scores = _scores(fitted, truth, predicted, proba) if split.test.size else {}
        results.append(_result(number, split, fitted, scores))
        if done is not None:
            done(results[-1])
        if best is None or (fitted.val_f1_ or 0.0) > (best.val_f1_ or 0.0):
            best = fitted
    assert best is not None  # there is a split
    labels = graph.present_labels
    found = by_class(labels, names_of(graph, labels), np.concatenate(truths), np.concatenate(guesses))
    params = best.get_params(deep=False).items()
    plain = {name: asdict(value) if hasattr(value, "__dataclass_fields__") else value for name, value in params}
    return Evaluation(graph.name, getattr(best, "engine_", ""), results, *found, plain, best)


def _scores(model: NodeClassifier, truth: AnyArray, predicted: AnyArray, proba: FloatArray) -> dict[str, Any]:
    """A label that the model does not know has probability 0; the log-loss then takes the log of the least float."""
    tiny = float(np.finfo(np.float32).tiny)
    if truth.ndim == 2:
        codes, chance = truth, np.where(truth == 1, proba, 1 - proba)
    else:
        ids = model._classes.ids
        codes = np.searchsorted(ids, truth).clip(0, ids.size - 1)
        known = ids[codes] == truth
        codes, chance = np.where(known, codes, -1), np.where(known, proba[np.arange(truth.size), codes], 0)
    return {
        "micro_f1": micro_f1(truth, predicted),
        "interval": micro_f1_interval(truth, predicted),
        "macro_f1": macro_f1(truth, predicted),
        "log_loss": float(-np.log(np.maximum(chance, tiny)).mean()),
        "calibration_error": calibration_error(proba, codes),
    }


def score_model(model: NodeClassifier, graph: Graph, labels: str | Path | None = None) -> ModelScore:
    """Compare a fitted model's predictions with the labels of ``graph``, or of a file of nodes and ``labels``.

    Only nodes that the model did not learn from count. Labels are matched by name where they have names.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> result = score_model(nw.NIGCN().fit(g, train=range(60), val=range(60, 120)), g)
    >>> result.nodes, result.left_out, result.interval[0] < result.micro_f1 < result.interval[1]
    (380, 120, True)
    """
    if labels is not None:
        graph = with_labels(graph, labels, model.multilabel_)
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels to compare with; pass --labels FILE (Python: labels=FILE)")
    model._classes.check_kind(graph)
    if graph.present_labels.size == 0:
        raise InputError(f"{labels or graph.name}: no node has a label; expected labels to compare with")
    every = np.flatnonzero(graph.labels.any(axis=1) if graph.multilabel else graph.labels != UNKNOWN)
    nodes = every[~_learned(model, graph, every)]
    if nodes.size == 0:
        raise InputError(
            f"{labels or graph.name}: the model learned from all {every.size:,} labelled nodes; pass --labels FILE "
            f"with labels that it has not seen, or train it with --no-refit"
        )
    truth, known, names = model._classes.truth(graph, nodes)
    if names[len(model.classes_) :]:
        new = names[len(model.classes_) :]
        warn(
            f"{labels or graph.name}: {counted(len(new), 'label')} that the model does not know and never predicts: "
            f"{', '.join(new[:5])}{', …' if len(new) > 5 else ''}"
        )
    proba = model.predict_proba(graph, nodes)
    predicted = model.labels_of_proba(proba)
    if graph.multilabel:
        proba, predicted = (widened(part, known.size) for part in (proba, predicted))
    classes, confusion = by_class(known, names, truth, predicted)
    scores = _scores(model, truth, predicted, proba)
    left_out = every.size - nodes.size
    return ModelScore(graph.name, nodes.size, left_out, **scores, classes=classes, confusion=confusion)


def held_out_score(model: NodeClassifier) -> dict[str, Any] | None:
    """Scores on the nodes that ``fit`` kept aside; on those that chose the model if there are no others.

    After a refit, what the model said before it. None where the model was trained without validation nodes.
    """
    held: HeldOut | None = getattr(model, "held_out_", None)
    if held is None or held.nodes.size == 0:
        return None
    proba, labels = held.proba[held.cleanest], held.labels[held.cleanest]
    truth = labels.astype(np.int8) if model.multilabel_ else model._classes.ids[labels]
    facts = {"nodes": int(held.cleanest.sum()), "chose_the_model": not held.chose_nothing.any()}
    return {**facts, **_scores(model, truth, model.labels_of_proba(proba), proba)}


def _learned(model: NodeClassifier, graph: Graph, nodes: IntArray) -> BoolArray:
    if model.learned_from_ is not None:
        return model.learned_from_.includes(graph, nodes)
    warn(
        "this model was saved before nodewise kept the nodes that a model learned from: all labels are used, so scores "
        "may be too good; train it again to leave those nodes out"
    )
    return np.zeros(nodes.size, bool)


def _result(number: int, split: Split, fitted: NodeClassifier, scores: dict[str, Any]) -> SplitResult:
    seconds = dict(fitted.seconds_)
    return SplitResult(
        split=number,
        sizes={"train": split.train.size, "val": split.val.size, "test": split.test.size},
        val_f1=fitted.val_f1_,
        test_f1=scores.get("micro_f1"),
        test_macro_f1=scores.get("macro_f1"),
        test_log_loss=scores.get("log_loss"),
        test_calibration_error=scores.get("calibration_error"),
        test_interval=scores.get("interval"),
        preparation_seconds=sum(value for name, value in seconds.items() if name != "training"),
        train_seconds=seconds["training"],
        seconds=seconds,
        epochs=fitted.epochs_,
        auto_params=fitted.auto_params_,
        members=votes_of(fitted),
    )


def votes_of(model: NodeClassifier) -> dict[str, float]:
    """Who votes, in words, and how much; members of one kind together."""
    votes: dict[str, float] = {}
    for member, vote in zip(getattr(model, "members_", ()), getattr(model, "votes_", ()), strict=True):
        votes[str(member)] = votes.get(str(member), 0.0) + vote
    return votes


def by_class(
    labels: IntArray, names: list[str], truth: AnyArray, predicted: AnyArray
) -> tuple[list[ClassResult], list[list[int]] | None]:
    """How well each class is found, and the confusion matrix (None where nodes have several labels)."""
    confusion = None
    if truth.ndim == 2:
        there, named = truth == 1, predicted == 1
        counts = np.stack([(there & named).sum(0), there.sum(0), named.sum(0)])
    else:
        table = np.zeros((labels.size, labels.size), np.int64)
        np.add.at(table, (np.searchsorted(labels, truth), np.searchsorted(labels, predicted)), 1)
        counts, confusion = np.stack([table.diagonal(), table.sum(1), table.sum(0)]), table.tolist()
    classes = [
        ClassResult(name, hits / named if named else None, hits / there if there else None, there)
        for name, hits, there, named in zip(names, *counts.tolist(), strict=True)
    ]
    return classes, confusion


def checked_splits(graph: Graph, splits: Sequence[Split], tested: bool = True) -> list[Split]:
    """The splits as ids; raises before training on the first split if any of them is wrong.

    ``tested``: the labels of test nodes have to be known, too.
    """
    if not splits:
        raise InputError("splits: none given; expected at least one")
    checked = []
    for number, split in enumerate(splits):
        try:
            learned = check_learned(graph, split.train, split.val if len(split.val) else None)
            checked.append(Split(*learned, graph.nodes(split.test, "test")))
            if tested:
                known_labels(graph, checked[-1].test, "test")
        except InputError as error:
            raise InputError(f"split {number}: {error}") from error
    return checked


def versions() -> dict[str, str]:
    """The versions of nodewise, Python and the libraries that the numbers depend on."""
    libraries = {name: version(name) for name in ("numpy", "scipy", "numba", "torch", "scikit-learn")}
    return {"nodewise": __version__, "python": platform.python_version(), **libraries}
