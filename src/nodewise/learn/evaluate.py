"""Train and test a model on splits: scores of each split, class by class, in one result for tables and JSON."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import clone

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, FloatArray
from nodewise._version import __version__
from nodewise.graph import Graph
from nodewise.graph.splits import Split
from nodewise.learn.calibrate import calibration_error
from nodewise.learn.estimator import NodeClassifier
from nodewise.learn.metrics import macro_f1, micro_f1
from nodewise.learn.task import check_learned, known_labels

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
    _check_splits(graph, splits)
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
        scores = _scores(fitted, truth, predicted, proba) if split.test.size else dict.fromkeys(SCORES)
        results.append(_result(number, split, fitted, scores))
        if done is not None:
            done(results[-1])
        if best is None or (fitted.val_f1_ or 0.0) > (best.val_f1_ or 0.0):
            best = fitted
    assert best is not None  # there is a split
    by_class = _by_class(graph, np.concatenate(truths), np.concatenate(guesses))
    return Evaluation(graph.name, getattr(best, "engine_", ""), results, *by_class, _plain_params(best), best)


def _scores(model: NodeClassifier, truth: AnyArray, predicted: AnyArray, proba: FloatArray) -> dict[str, float]:
    """A label that the model does not know has probability 0; the log-loss then takes the log of the least float."""
    tiny = float(np.finfo(np.float32).tiny)
    if truth.ndim == 2:
        codes, chance = truth, np.where(truth == 1, proba, 1 - proba)
    else:
        codes = np.searchsorted(model.classes_, truth).clip(0, model.classes_.size - 1)
        known = model.classes_[codes] == truth
        codes, chance = np.where(known, codes, -1), np.where(known, proba[np.arange(truth.size), codes], 0)
    return {
        "test_f1": micro_f1(truth, predicted),
        "test_macro_f1": macro_f1(truth, predicted),
        "test_log_loss": float(-np.log(np.maximum(chance, tiny)).mean()),
        "test_calibration_error": calibration_error(proba, codes),
    }


def _result(number: int, split: Split, fitted: NodeClassifier, scores: dict[str, Any]) -> SplitResult:
    votes: dict[str, float] = {}
    for member, vote in zip(getattr(fitted, "members_", ()), getattr(fitted, "votes_", ()), strict=True):
        votes[str(member)] = votes.get(str(member), 0.0) + vote
    seconds = dict(fitted.seconds_)
    return SplitResult(
        split=number,
        sizes={"train": split.train.size, "val": split.val.size, "test": split.test.size},
        val_f1=fitted.val_f1_,
        **scores,
        preparation_seconds=sum(value for name, value in seconds.items() if name != "training"),
        train_seconds=seconds["training"],
        seconds=seconds,
        epochs=fitted.epochs_,
        auto_params=fitted.auto_params_,
        members=votes,
    )


def _by_class(graph: Graph, truth: AnyArray, predicted: AnyArray) -> tuple[list[ClassResult], list[list[int]] | None]:
    """How well each class is found, and the confusion matrix (None where nodes have several labels)."""
    labels, confusion = graph.present_labels, None
    if graph.multilabel:
        there, named = truth == 1, predicted == 1
        counts = np.stack([(there & named).sum(0), there.sum(0), named.sum(0)])
    else:
        table = np.zeros((labels.size, labels.size), np.int64)
        np.add.at(table, (np.searchsorted(labels, truth), np.searchsorted(labels, predicted)), 1)
        counts, confusion = np.stack([table.diagonal(), table.sum(1), table.sum(0)]), table.tolist()
    names = [str(label) if graph.label_names is None else graph.label_names[label] for label in labels.tolist()]
    classes = [
        ClassResult(name, hits / named if named else None, hits / there if there else None, there)
        for name, hits, there, named in zip(names, *counts.tolist(), strict=True)
    ]
    return classes, confusion


def _plain_params(model: NodeClassifier) -> dict[str, Any]:
    """Parameters, ready for JSON."""
    params = model.get_params(deep=False)
    return {name: asdict(value) if hasattr(value, "__dataclass_fields__") else value for name, value in params.items()}


def _check_splits(graph: Graph, splits: Sequence[Split]) -> None:
    """Raise before training on the first split if any of them is wrong."""
    if not splits:
        raise InputError("splits: none given; expected at least one")
    for number, split in enumerate(splits):
        try:
            check_learned(graph, split.train, split.val if split.val.size else None)
            known_labels(graph, split.test, "test")
        except InputError as error:
            raise InputError(f"split {number}: {error}") from error


def versions() -> dict[str, str]:
    """The versions of nodewise, Python and the libraries that the numbers depend on."""
    libraries = {name: version(name) for name in ("numpy", "scipy", "numba", "torch", "scikit-learn")}
    return {"nodewise": __version__, "python": platform.python_version(), **libraries}
