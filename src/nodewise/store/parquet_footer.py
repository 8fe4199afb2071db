"""How a Parquet file is compressed, read without pyarrow, which ends the process at a kind that it does not know.

The footer is Thrift's compact protocol, of which this reads any structure as ``{field number: value}``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

PLAIN_KINDS = {0, 2, 3, 4, 8}  # encodings: plain, by a dictionary, by runs; others make much of little
SNAPPY_OR_NONE = {0, 1}  # compression, likewise
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
TAIL = 8  # bytes: the length of the footer, and four letters


def check_footer(path: Path) -> None:
    """Raise ValueError unless all columns are encoded and compressed in the ways that stores use."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - TAIL))
        length = int.from_bytes(stream.read(4), "little")
        stream.seek(max(0, size - TAIL - length))
        data = stream.read(length)
    try:
        footer = _Reader(data).struct()
        columns = [column[3] for group in footer[4] for column in group[1]]
        fits = all(column[4] in SNAPPY_OR_NONE and PLAIN_KINDS.issuperset(column[2]) for column in columns)
    except (IndexError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("its footer cannot be read") from error
    if not fits:
        raise ValueError("compressed or encoded in a way that stores do not use")


class _Reader:
    """A place in bytes that moves as they are read."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._number()
            found[field] = head & 15 == TRUE if head & 15 in (TRUE, FALSE) else self._value(head & 15)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind in (DOUBLE, BINARY):
            return self._skip(8 if kind == DOUBLE else self._varint())
        if kind in (LIST, SET):
            head = self._byte()
            return [self._value(head & 15) for _ in range(self._varint() if head >> 4 == 15 else head >> 4)]
        if kind == MAP:
            size = self._varint()
            kinds = self._byte() if size else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(size)]
        return self.struct() if kind == STRUCT else self._number()

    def _number(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 128:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _skip(self, count: int) -> None:
        self._at += count
