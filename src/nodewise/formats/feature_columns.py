"""Columns of a table of features that are not plain numbers: categories, missing values, and text.

A column of words with few different values becomes one column per value. Missing numbers are filled, and marked in a
column of their own. A column of text becomes words, weighted by TF-IDF.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.memory import room_for, too_small
from nodewise._util.types import AnyArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.csv import TextTable
from nodewise.formats.tables import Table

log = logging.getLogger("nodewise")

MOST_CATEGORIES = 50
MOST_WORDS = 20_000
MANY_ROWS = 1_000  # in more, a word that occurs in one row only is left out
TEXT_TIMES = 8  # memory per byte of text: its words are counted and weighted
REPORTED = 20  # columns; of more, the number is reported
NUMBERS = "expected a finite number. If values are missing, pass --impute mean or --impute zero (Python: impute)"


@dataclasses.dataclass(frozen=True)
class ColumnPlan:
    """How one column of a table becomes columns of features: one, one per category, or one and a mark."""

    index: int  # in the table
    name: str
    categories: tuple[str, ...] | None = None
    fill: float | None = None  # for missing numbers

    @property
    def plain(self) -> bool:
        """Whether the column is taken as it is."""
        return self.categories is None and self.fill is None

    @property
    def names(self) -> list[str]:
        """The names of the columns of features."""
        if self.categories is not None:
            return [f"{self.name}={category}" for category in self.categories]
        return [self.name] if self.fill is None else [self.name, f"{self.name} is missing"]

    def encode(self, column: Column) -> AnyArray:
        """The features, ``(rows, len(names))``."""
        if self.plain:
            return numbers_in(column)[:, None]
        column = _decoded(column)
        out = np.zeros((len(column), len(self.names)), np.float32)
        present = columns.given(column, columns.MISSING_WORDS)
        if self.categories is not None:
            known = pa.array(self.categories, pa.large_string())
            out[present, pc.index_in(_trimmed(column.subset(present)), value_set=known).to_numpy()] = 1
        elif self.fill is not None:
            out[:] = self.fill, 1
            out[present, 0] = columns.as_numbers(column.subset(present), pa.float32(), NUMBERS)
            out[present, 1] = 0
        return out


def _decoded(column: Column) -> Column:
    """As :func:`columns.decoded`, but truth values stay what they are, 0 and 1."""
    return column if pa.types.is_boolean(column.values.type) else columns.decoded(column)


def numbers_in(column: Column) -> AnyArray:
    """The values of a column of finite numbers as float32."""
    as_is = pa.types.is_floating(column.values.type)
    return columns.as_numbers(column if as_is else _decoded(column), pa.float32(), NUMBERS)


def kind_to_read(plan: ColumnPlan) -> Any:
    """The Arrow type in which a text file's column is read: words may stand for what is missing."""
    return pa.float32() if plan.plain else pa.large_string()


def plan_columns(table: Table, indices: Sequence[int], impute: str | None) -> list[ColumnPlan]:
    """How each column becomes features. Reads the table only if some hold text, or missing values are to be filled."""
    text = _text_columns(table, indices)
    surveyed = [i for i in indices if i in text or impute is not None]
    seen = {i: _Seen(i in text) for i in surveyed}
    for read in table.parts(dict.fromkeys(surveyed, pa.large_string())) if surveyed else ():
        for column, mine in zip(read, seen.values(), strict=True):
            mine.add(column)
    plans, done = [], []
    for i in indices:
        plan, report = seen[i].plan(i, table, impute) if i in seen else (ColumnPlan(i, table.names[i]), "")
        plans.append(plan)
        done += [f"column {plan.name!r}: {report}"] * bool(report)
    for line in done[:REPORTED]:
        log.info("%s: %s", table.path, line)
    if len(done) > REPORTED:
        log.info("%s: and %s more columns of this kind", table.path, f"{len(done) - REPORTED:,}")
    return plans


class _Seen:
    """What was seen of the values of a column."""

    def __init__(self, text: bool) -> None:
        self.text, self.categories = text, set[str]()
        self.rows = self.present = 0
        self.total = 0.0

    def add(self, column: Column) -> None:
        column = _decoded(column)
        rows = columns.given(column, columns.MISSING_WORDS)
        self.rows, self.present = self.rows + len(column), self.present + rows.size
        present = column.subset(rows)
        if not self.text:
            self.total += float(columns.as_numbers(present, pa.float64(), NUMBERS).sum())
            return
        number = columns.first_number(present)
        if number is not None:
            raise present.wrong(number, "the rows before have words. Expected words only, or numbers only")
        self.categories.update(pc.unique(_trimmed(present)).to_pylist())
        if len(self.categories) > MOST_CATEGORIES:
            raise InputError(
                f"{column.path}: column {column.name!r} holds text with more than {MOST_CATEGORIES} different values, "
                f"too many for one feature each. Pass --text {column.name!r} to use its words (Python: text), or leave "
                f"the column out"
            )

    def plan(self, index: int, table: Table, impute: str | None) -> tuple[ColumnPlan, str]:
        """The plan, and in words what it does."""
        name, missing = table.names[index], self.rows - self.present
        if self.text:
            of = f", {missing:,} of {self.rows:,} values missing" if missing else ""
            noun = "category" if len(self.categories) == 1 else "categories"
            report = f"{len(self.categories)} {noun}, one feature each{of}"
            return ColumnPlan(index, name, tuple(sorted(self.categories))), report
        if not missing:
            return ColumnPlan(index, name), ""
        if not self.present:
            raise InputError(f"{table.path}: column {name!r} has no values at all; leave it out")
        fill = self.total / self.present if impute == "mean" else 0.0
        by = f"the mean, {fill:.4g}," if impute == "mean" else "0"
        report = f"{missing:,} of {self.rows:,} values missing, filled with {by} and marked in a feature of their own"
        return ColumnPlan(index, name, fill=fill), report


def _text_columns(table: Table, indices: Sequence[int]) -> set[int]:
    """The columns that hold words and no number, judged by the first rows."""
    if isinstance(table, TextTable):
        sample = table.sample or []
        may = [i for i in indices if i < len(sample) and not re.match(columns.NUMBER, sample[i])]
    else:
        types = table.schema.types  # which is made anew each time
        may = [i for i in indices if columns.is_text_type(types[i])]
    first = next(table.parts(dict.fromkeys(may, pa.large_string())), None) if may else None
    found = set()
    for i, column in zip(may, first or [], strict=False):
        values = columns.decoded(column)
        present = values.subset(columns.given(values, columns.MISSING_WORDS))
        columns.refuse_decimal_commas(present)
        if len(present) and not columns.has_number(present) and not pc.any(_infinite(present)).as_py():
            found.add(i)
    return found


def _infinite(column: Column) -> Any:
    return pc.match_substring_regex(column.values, r"(?i)^\s*[+-]?inf(inity)?\s*$")


def _trimmed(column: Column) -> Any:
    return pc.utf8_trim_whitespace(column.values)


def words_of(table: Table, index: int, memory: int) -> tuple[sp.csr_matrix, list[str]]:
    """The words of a column of text, a row per row of the table, weighted by TF-IDF; and the words themselves."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    doing, name = f"reading the words in {table.path}", table.names[index]
    room, taken, chunks = room_for(doing, memory, 0), 0, []
    for (column,) in table.parts({index: pa.large_string()}):
        chunks += columns.decoded(column).values.cast(pa.large_string()).chunks
        taken += TEXT_TIMES * chunks[-1].nbytes
        if taken > room:
            raise too_small(doing, memory, memory + 2 * taken)
    rows = sum(map(len, chunks))
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, min_df=2 if rows > MANY_ROWS else 1, max_features=MOST_WORDS, dtype=np.float32
    )
    try:
        matrix = vectorizer.fit_transform(_texts(chunks))
    except ValueError as error:  # no word is left
        raise InputError(
            f"{table.path}: column {name!r} has no words ({error}); expected text. Name another column with --text"
        ) from error
    log.info("%s: text column %r: %s words", table.path, name, f"{matrix.shape[1]:,}")
    return sp.csr_matrix(matrix), vectorizer.get_feature_names_out().tolist()


def _texts(chunks: list[Any]) -> Iterator[str]:
    """Each text in turn; a few at a time become Python objects."""
    for chunk in chunks:
        for first in range(0, len(chunk), 1 << 12):
            yield from (text or "" for text in chunk.slice(first, 1 << 12).to_pylist())


def encoded(plans: Sequence[ColumnPlan], read: Sequence[Column]) -> AnyArray:
    """The features in some rows of a table, as float32."""
    ends = list(itertools.accumulate((len(plan.names) for plan in plans), initial=0))
    matrix = np.empty((len(read[0]), ends[-1]), np.float32)
    for plan, column, first, last in zip(plans, read, ends, ends[1:], strict=False):
        matrix[:, first:last] = plan.encode(column)
    return matrix
