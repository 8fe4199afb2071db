"""What an experiment returns (tables, figures, sentences), and the record of it that is saved."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from nodewise._util.json_file import typed

Cell: TypeAlias = str | float | list[float] | None  # a list is a mean and its standard deviation
Best = Literal["", "max", "min"]


@dataclass(frozen=True)
class Column:
    """``format``: of its numbers (".2f"), empty for text; ``best``: which number of the column is marked."""

    name: str
    format: str = ""
    group: str = ""
    best: Best = ""

    @property
    def is_number(self) -> bool:
        return bool(self.format)


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    note: str = ""

    def check(self) -> None:
        """Raise ValueError if it cannot be shown."""
        if not all(re.fullmatch(r"(\+?,?(\.\d)?[fg])?", column.format) for column in self.columns):
            raise ValueError(f"{self.title:.60}: a column has no known format")
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title:.60}: a row has other cells than there are columns")
        if any(isinstance(cell, list) and len(cell) != 2 for row in self.rows for cell in row):
            raise ValueError(f"{self.title:.60}: a cell is no mean with its deviation")

    def best_row(self, number: int) -> int | None:
        """The row whose number is marked in this column, or None."""
        best = self.columns[number].best
        known = {i: score for i, row in enumerate(self.rows) if (score := middle(row[number])) is not None}
        if not best or len(known) < 2:
            return None
        return (max if best == "max" else min)(known, key=known.__getitem__)


@dataclass(frozen=True)
class Figure:
    """A picture as PNG; ``name``: of its file, without the ending."""

    name: str
    png: bytes
    caption: str


@dataclass(frozen=True)
class Result:
    """What an experiment found. ``sentences`` are made from its numbers; ``ran_on`` names the graphs and splits."""

    sentences: list[str]
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    ran_on: list[str] = field(default_factory=list)


class Machine(TypedDict):
    """As :func:`nodewise.lab.compare.machine.describe_machine` returns it."""

    cores: int
    memory: int | None
    processor: str
    system: str


class Made(TypedDict):
    """How, when and where a result was made."""

    command: str
    date: str
    seconds: float
    machine: Machine
    versions: dict[str, str]


@dataclass(frozen=True)
class Record:
    """A result as saved in ``NAME.json``, with the names of its pictures, and how it was made."""

    name: str
    asked: dict[str, Any]
    made: Made
    sentences: list[str]
    ran_on: list[str]
    tables: list[Table]
    figures: list[tuple[str, str]]  # file, caption

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Record:
        """A record from its file, which anyone may have written; ValueError if it cannot be shown."""
        record: Record = typed(cls, found, "record")
        if not all(re.fullmatch(r"[\w-]+\.png", file) for file, _ in record.figures):  # of this folder only
            raise ValueError("a picture is no file of the record")
        for table in record.tables:
            table.check()
        return record


def middle(cell: Cell) -> float | None:
    """The number in a cell, or the mean if it holds a mean and its deviation."""
    if isinstance(cell, list):
        return cell[0]
    return None if cell is None or isinstance(cell, str) else float(cell)


def difference(here: Cell, there: Cell) -> float | None:
    """``here`` minus ``there`` if both are numbers, else None."""
    a, b = middle(here), middle(there)
    return None if a is None or b is None else a - b


def shown(cell: Cell, format: str) -> str:
    """A cell as people read it.

    >>> shown([82.134, 1.08], ".2f"), shown(-1.5, "+.1f"), shown(-0.001, "+.1f"), shown(None, ".2f")
    ('82.13 ± 1.08', '−1.5', '0.0', '–')
    """
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, list):
        return " ± ".join(f"{number:{format}}" for number in cell)
    text = f"{cell:{format}}"
    return text.lstrip("+-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def listed(names: Sequence[str]) -> str:
    """A list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"
