"""The result of a comparison: one row per method, and everything that its numbers depend on."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nodewise._util.errors import InputError
from nodewise.lab.rivals import method_name
from nodewise.learn.evaluate import SplitResult


@dataclass(frozen=True)
class FinishedSplit(SplitResult):
    """Scores and seconds of a split, and the peak memory of the process until then, in bytes."""

    peak_memory: int | None


@dataclass(frozen=True)
class MethodRow:
    """One method: the splits that it finished out of ``asked``, and in one phrase why it did not finish the others.

    ``peak_memory``: the most bytes that its process held, including Python, libraries and the graph. ``params``: all
    parameters of the method, or only those given if it finished no split.
    """

    method: str
    params: Mapping[str, Any]
    splits: list[FinishedSplit]
    asked: int
    problem: str | None = None
    peak_memory: int | None = None

    @property
    def complete(self) -> bool:
        return len(self.splits) == self.asked

    @property
    def test_f1_mean(self) -> float | None:
        return _mean(s.test_f1 for s in self.splits)

    @property
    def test_f1_std(self) -> float | None:
        return _mean((s.test_f1 for s in self.splits), statistics.pstdev)

    @property
    def val_f1_mean(self) -> float | None:
        return _mean(s.val_f1 for s in self.splits)

    @property
    def val_f1_std(self) -> float | None:
        return _mean((s.val_f1 for s in self.splits), statistics.pstdev)

    @property
    def preparation_seconds(self) -> float | None:
        """The mean over splits, as for all that follow."""
        return _mean(s.preparation_seconds for s in self.splits)

    @property
    def train_seconds(self) -> float | None:
        return _mean(s.train_seconds for s in self.splits)

    @property
    def seconds(self) -> float | None:
        """Preparation and training."""
        return _mean(s.preparation_seconds + s.train_seconds for s in self.splits)

    @property
    def epochs(self) -> float | None:
        return _mean(s.epochs for s in self.splits)

    @property
    def note(self) -> str:
        """What a reader has to know about the numbers."""
        counted = "" if self.complete or not self.splits else f"{len(self.splits)} of {self.asked} splits"
        return ": ".join(part for part in (counted, self.problem) if part)

    def to_json(self) -> dict[str, Any]:
        means = ("test_f1_mean", "test_f1_std", "val_f1_mean", "val_f1_std", "preparation_seconds", "train_seconds")
        return {
            "method": self.method,
            **{name: getattr(self, name) for name in (*means, "seconds", "epochs", "peak_memory")},
            "splits_finished": len(self.splits),
            "splits_asked": self.asked,
            "problem": self.problem,
            "params": dict(self.params),
            "splits": [asdict(s) for s in self.splits],
        }


@dataclass(frozen=True)
class Comparison:
    """All rows, in the order of the paper's tables, and how they were made."""

    dataset: str
    source: str
    graph: Mapping[str, Any]
    splits: int
    split_source: str
    inductive: bool
    budget: float | None
    seed: int
    threads: int
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    rows: list[MethodRow]

    def row(self, method: str) -> MethodRow:
        """The row of a method, by its name in any spelling."""
        name = method_name(method)
        for row in self.rows:
            if row.method == name:
                return row
        raise InputError(f"{name}: not in this comparison; it has {', '.join(row.method for row in self.rows)}")

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for ``json.dumps``."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "rows"}
        return {"format": "nodewise-comparison", "format_version": 1, **facts, "rows": [r.to_json() for r in self.rows]}

    def to_markdown(self) -> str:
        """The table. Among methods that finished all splits, the best is bold and the second best underlined."""
        from nodewise.lab.compare.table import markdown

        return markdown(self)


def _mean(values: Iterable[float | None], average: Callable[[list[float]], float] = statistics.fmean) -> float | None:
    known = [value for value in values if value is not None]
    return average(known) if known else None
