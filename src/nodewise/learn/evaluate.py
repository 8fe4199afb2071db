"""Train and test a model on splits, and report what came out: one result object for tables and JSON alike."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from sklearn.base import clone

from nodewise._typing import AnyArray
from nodewise._version import __version__
from nodewise.errors import InputError
from nodewise.graph import Graph
from nodewise.learn.classifier import NodeClassifier, check_learned, known_labels
from nodewise.learn.metrics import macro_f1, micro_f1
from nodewise.splits import Split


@dataclass(frozen=True)
class SplitResult:
    """What one split gave; scores from 0 to 1, micro-F1 where they are not named otherwise.

    ``found``: parameters that were "auto". ``kept``: what a recipe added.
    """

    split: int
    val_f1: float | None
    test_f1: float | None
    test_macro_f1: float | None
    preparation_seconds: float
    train_seconds: float
    epochs: int
    found: dict[str, Any]
    kept: list[str]


@dataclass(frozen=True)
class Evaluation:
    """The results of all splits, and the model that did best on its validation nodes."""

    dataset: str
    engine: str
    splits: list[SplitResult]
    params: dict[str, Any]
    best: NodeClassifier

    @property
    def test_f1(self) -> list[float]:
        """The scores of the splits that have test nodes."""
        return [s.test_f1 for s in self.splits if s.test_f1 is not None]

    @property
    def test_f1_mean(self) -> float | None:
        return statistics.fmean(self.test_f1) if self.test_f1 else None

    @property
    def test_f1_std(self) -> float | None:
        return statistics.pstdev(self.test_f1) if self.test_f1 else None

    @property
    def test_macro_f1_mean(self) -> float | None:
        scores = [s.test_macro_f1 for s in self.splits if s.test_macro_f1 is not None]
        return statistics.fmean(scores) if scores else None

    def to_json(self) -> dict[str, Any]:
        """Everything but the model, ready for ``json.dumps``."""
        return {
            "dataset": self.dataset,
            "engine": self.engine,
            "splits": [asdict(s) for s in self.splits],
            "test_f1_mean": self.test_f1_mean,
            "test_f1_std": self.test_f1_std,
            "test_macro_f1_mean": self.test_macro_f1_mean,
            "params": self.params,
            "versions": versions(),
        }


def evaluate(
    model: NodeClassifier,
    graph: Graph,
    splits: list[Split],
    *,
    inductive: bool = False,
    part: AnyArray | None = None,
    progress: Callable[[SplitResult], None] | None = None,
    **how: Any,
) -> Evaluation:
    """Fit a clone of ``model`` on each split, and compare what it then says of the test nodes with their labels, once.

    ``inductive``, ``part``, ``how``: as in :meth:`NodeClassifier.fit_predict_proba`.
    """
    _check_splits(graph, splits)
    results: list[SplitResult] = []
    best: NodeClassifier | None = None
    for number, split in enumerate(splits):
        fitted = clone(model)
        truth = known_labels(graph, split.test, "test")
        val = split.val if split.val.size else None
        proba = fitted.fit_predict_proba(graph, split.train, val, split.test, inductive=inductive, part=part, **how)
        scores = {"test_f1": micro_f1, "test_macro_f1": macro_f1}
        predicted = fitted.labels_of_proba(proba)
        results.append(
            SplitResult(
                split=number,
                val_f1=fitted.val_f1_,
                **{name: score(truth, predicted) if split.test.size else None for name, score in scores.items()},
                preparation_seconds=fitted.seconds_["preparation"],
                train_seconds=fitted.seconds_["training"],
                epochs=fitted.epochs_,
                found=fitted.found,
                kept=list(getattr(fitted, "kept_", [])),
            )
        )
        if progress is not None:
            progress(results[-1])
        if best is None or (fitted.val_f1_ or 0.0) > (best.val_f1_ or 0.0):
            best = fitted
    assert best is not None  # there is a split
    return Evaluation(graph.name, getattr(best, "engine_", ""), results, best.get_params(), best)


def _check_splits(graph: Graph, splits: list[Split]) -> None:
    """Raise before the first is learned from, not at the one that is wrong."""
    if not splits:
        raise InputError("splits: none given; expected at least one")
    for number, split in enumerate(splits):
        try:
            check_learned(graph, split.train, split.val if split.val.size else None)
            known_labels(graph, split.test, "test")
        except InputError as error:
            raise InputError(f"split {number}: {error}") from error


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    libraries = {name: version(name) for name in ("numpy", "scipy", "numba", "torch", "scikit-learn")}
    return {"nodewise": __version__, "python": platform.python_version(), **libraries}
