"""Columns of a file, in parts, as whole numbers, text or numbers; errors name the row with the wrong value.

Values stay in Arrow or numpy arrays throughout; only the value that an error shows becomes a Python object.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodewise._util.errors import InputError, warn
from nodewise._util.types import AnyArray, IntArray
from nodewise.graph.checks import LARGEST, unfit

WHOLE = r"^\s*[+-]?[0-9]+(\.0*)?\s*$"
MISSING_WORDS = ("", "nan", "na", "n/a", "#n/a", "<na>", "null", "none")  # in any case, by pandas, R, spreadsheets
WITH_COMMAS = r"^\s*[+-]?([0-9]{1,3}([. '][0-9]{3})+|[0-9]*),[0-9]+([eE][+-]?[0-9]+)?\s*%?\s*$"
NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


@dataclasses.dataclass(frozen=True)
class Column:
    """Values and their place in a file. ``values`` is a ChunkedArray: int64, double, large_string or, raw, any type."""

    path: Any  # or what else messages call the table
    name: str
    values: Any
    unit: str = "row"
    first: int = 0  # rows of the file before these
    rows: IntArray | None = None  # rows of the values after ``first``, if they are not consecutive

    def __len__(self) -> int:
        return len(self.values)

    def subset(self, rows: IntArray) -> Column:
        """Only the values in ``rows``; errors still name their rows in the file."""
        return dataclasses.replace(self, values=self.values.take(pa.array(rows)), rows=rows)

    def place(self, index: int) -> str:
        """The row of value ``index``, counted from 1."""
        row = index if self.rows is None else int(self.rows[index])
        return f"{self.unit} {self.first + row + 1:,}"

    def wrong(self, index: int, expected: str) -> InputError:
        """The error for value ``index``."""
        value = self.values[index].as_py()
        shown = "nothing" if value is None or value == "" else f"{value!r:.80}"
        return InputError(f"{self.path}: column {self.name!r} holds {shown} in {self.place(index)}; {expected}")


def of_array(path: Any, name: str, array: AnyArray, unit: str, first: int) -> Column:
    """A column over the part of a numpy array that starts at ``first``."""
    if array.dtype.kind not in "iufUb" or array.dtype.char == "g":  # Arrow has no long double
        raise InputError(f"{path}: {name} is of type {array.dtype}; expected node ids as whole numbers or names")
    return decoded(Column(path, name, pa.chunked_array([pa.array(np.ascontiguousarray(array))]), unit, first))


def decoded(column: Column) -> Column:
    """The same values as int64, double or large_string."""
    values, kind = column.values, column.values.type
    if pa.types.is_dictionary(kind):
        return decoded(dataclasses.replace(column, values=values.cast(kind.value_type)))
    if pa.types.is_floating(kind):
        return dataclasses.replace(column, values=values.cast(pa.float64()))
    try:
        if pa.types.is_integer(kind):
            with contextlib.suppress(pa.ArrowInvalid):  # beyond 2^63: too large for an id, fine for a name
                return dataclasses.replace(column, values=values.cast(pa.int64()))
        return dataclasses.replace(column, values=values.cast(pa.large_string()))
    except pa.ArrowNotImplementedError as error:
        raise InputError(
            f"{column.path}: column {column.name!r} is of type {kind}; expected numbers or text"
        ) from error
    except pa.ArrowInvalid as error:
        row = first_failure(values, lambda part: part.cast(pa.large_string()))
        raise column.wrong(row, "expected text in UTF-8. Save the file in that encoding") from error


def ids(column: Column, as_text: bool) -> Column:
    """Ids as read from a file: as text if asked for; else as int64, unless one is a word or has leading zeros."""
    column = decoded(column)
    if as_text or not _is_text(column) or has_padding(column):
        return column
    values = column.values
    with contextlib.suppress(pa.ArrowInvalid):
        if not pc.min(pc.binary_length(values)).as_py():  # an empty field
            values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.large_string()), values)
        return dataclasses.replace(column, values=values.cast(pa.int64()))
    return column


def is_beyond(column: Column, high: int) -> bool:
    """Whether all values are whole numbers from 0 on, and some are above ``high``."""
    if not pa.types.is_integer(column.values.type):
        return False
    least, most = (pc.min_max(column.values)[end].as_py() for end in ("min", "max"))
    return least is not None and least >= 0 and most > high


def has_padding(column: Column) -> bool:
    """Whether a value is a whole number with leading zeros, such as 007, which as a number would lose them."""
    if not _is_text(column):
        return False
    zeros = column.values.filter(pc.starts_with(column.values, "0"))
    return _first(pc.match_substring_regex(zeros, r"^0[0-9]+$")) is not None


def looks_whole(column: Column) -> bool:
    """Whether all values are numbers, so that a fraction among them is a mistake and not a name."""
    return not _is_text(column) or _first(pc.invert(pc.match_substring_regex(column.values, NUMBER))) is None


def has_number(column: Column) -> bool:
    """Whether any value is a number."""
    return not _is_text(column) or first_number(column) is not None


def first_number(column: Column) -> int | None:
    """The index of the first value that is a number, or None; in a part of a folder, a column may not be text."""
    if not _is_text(column):
        return 0 if len(column) else None
    return _first(pc.match_substring_regex(column.values, NUMBER))


def refuse_decimal_commas(column: Column) -> None:
    """Raise if all text is numbers with commas, as spreadsheets write them in many languages; it is not words."""
    if _is_text(column) and len(column) and pc.all(pc.match_substring_regex(column.values, WITH_COMMAS)).as_py():
        raise column.wrong(
            0, "expected numbers with a decimal point. Write the file again with those, or leave the column out"
        )


def given(column: Column, missing: Sequence[str]) -> IntArray:
    """The rows with a value: not those that are null, NaN or, as text in any case, one of the words ``missing``."""
    values = column.values
    if _is_text(column):
        words = pa.array(missing, pa.large_string())
        values = pc.if_else(pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(values)), value_set=words), None, values)
    empty = pc.is_null(values, nan_is_null=bool(pa.types.is_floating(values.type)))
    return np.flatnonzero(~empty.to_numpy())


def is_text_type(kind: Any) -> bool:
    """Whether an Arrow type is text, perhaps with a dictionary."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_text(column: Column) -> bool:
    return bool(pa.types.is_large_string(column.values.type))


def as_whole(column: Column, low: int, expected: str, high: int = 2**62) -> IntArray:
    """Values as int64; the first that is missing, not whole, below ``low`` or above ``high`` is an error."""
    values = column.values
    bad = _first(pc.is_null(values))
    if bad is None and pa.types.is_floating(values.type):
        values = _cast_or_wrong(column, values, expected)
    elif bad is None and _is_text(column):
        bad = _first(pc.invert(pc.match_substring_regex(values, WHOLE)))
        if bad is None:
            plain = pc.replace_substring_regex(values, r"^\s*\+?(-?[0-9]+).*$", r"\1")
            values = _cast_or_wrong(column, plain, expected)
    if bad is not None:
        raise column.wrong(bad, expected)
    array: IntArray = values.to_numpy()
    outside = np.flatnonzero((array < low) | (array > high))
    if outside.size:
        raise column.wrong(int(outside[0]), expected)
    return array


def as_text(column: Column, expected: str = "the name of a node") -> Any:
    """Values as large_string, a whole number without '.0'; the first that is missing or empty is an error."""
    values = column.values
    if pa.types.is_floating(values.type):
        values = pa.chunked_array([pa.array(as_whole(column, -(2**62), "names are text or whole numbers"))])
    text = values.cast(pa.large_string())
    bad = _first(pc.fill_null(pc.equal(text, ""), True))
    if bad is not None:
        raise column.wrong(bad, f"expected {expected}")
    if not _has_space(text):
        return text
    where = f"{column.path}: column {column.name!r} holds names"  # allowed, but probably a mistake
    if _first(pc.match_substring(text, "\n")) is not None:
        warn(f"{where} with line breaks in them; look for a stray quote, and double it")
    elif _first(pc.match_substring_regex(text, r"^\s|\s$")) is not None:
        warn(f"{where} with spaces at their ends, and 'a' and ' a' are two nodes; remove the spaces if they are one")
    return text


def _has_space(text: Any) -> bool:
    """Whether a byte of text may be a space or a line break; far faster than to search each value."""
    data = (np.frombuffer(chunk.buffers()[2] or b"", np.uint8) for chunk in text.chunks)
    return any(int(part.min(initial=255)) <= ord(" ") for part in data)


def as_numbers(column: Column, kind: Any, expected: str | None = None, most: float = LARGEST) -> AnyArray:
    """Values as an array of the Arrow type ``kind``; the first that is missing, text, or above ``most`` is an error."""
    expected = expected or f"expected a finite number of at most {most:g}"

    def convert(values: Any) -> Any:
        if pa.types.is_large_string(values.type):
            values = pc.utf8_trim_whitespace(values)
        return values.cast(kind, safe=False)

    bad = _first(pc.is_null(column.values))
    if bad is not None:
        raise column.wrong(bad, expected)
    try:
        array: AnyArray = convert(column.values).to_numpy()
    except pa.ArrowNotImplementedError as error:
        raise InputError(
            f"{column.path}: column {column.name!r} is of type {column.values.type}; expected numbers"
        ) from error
    except pa.ArrowInvalid as error:
        raise column.wrong(first_failure(column.values, convert), expected) from error
    wrong = np.flatnonzero(unfit(array, most))
    if wrong.size:
        raise column.wrong(int(wrong[0]), f"{expected}. Scale the column, or fill the missing values")
    return array


def _cast_or_wrong(column: Column, values: Any, expected: str) -> Any:
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise column.wrong(first_failure(values, lambda part: part.cast(pa.int64())), expected) from error


def _first(mask: Any) -> int | None:
    """The index of the first true value, or None."""
    index = int(pc.index(mask, True).as_py())
    return None if index < 0 else index


def first_failure(values: Any, convert: Callable[[Any], Any]) -> int:
    """The first value that ``convert`` fails on, by bisection: each step converts half as much as the last one."""
    low, high = 0, len(values)  # the first failure is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(values.slice(low, middle - low))
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low
