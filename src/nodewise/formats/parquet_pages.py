"""What the pages of a Parquet file unpack to, from their heads, and how the file is compressed.

A few bytes may stand for gigabytes: a page that compresses well, or a long value that many rows share. The footer and
the heads of pages are Thrift's compact protocol, of which this reads any structure as ``{field number: value}``.
"""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nodewise._util.kernels import njit
from nodewise._util.types import AnyArray

PLAIN_KINDS = {0, 2, 3, 4, 8}  # encodings: plain, by a dictionary, by runs; others make much of little
DICTIONARY_KINDS, PREFIX_KIND = (2, 8), 7  # one value stands for many; a value begins like the one before
DATA, DICTIONARY = (0, 3), 2  # types of pages
MOST_DICTIONARY_BYTES = 64 << 20  # unpacked to look at
CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}  # by their numbers; 0: not compressed
SNAPPY_OR_NONE = {0, 1}  # compression, likewise
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
TAIL = 8  # bytes: the length of the footer, and four letters
HEAD_BYTES, MOST_HEAD_BYTES = 1 << 10, 1 << 24  # of a page: read at first, and at most
LEAST_PAGE_BYTES = 4  # of a page and its head
MOST_VARINT_BITS = 70  # of a number of 64, with seven in each byte


class Pages(NamedTuple):
    """The pages of a column in the order of the file: how many values each has, and bytes of their text unpacked."""

    values: AnyArray
    all_bytes: AnyArray  # of all values at most
    longest: AnyArray  # of one value at most
    buffer: int  # bytes of the largest page, and of the largest dictionary

    def most_text(self, rows: int) -> float:
        """The bytes of text in any ``rows`` rows in a row, at most."""
        first = np.cumsum(self.values) - self.values
        ends = np.concatenate(([0.0], np.cumsum(np.minimum(self.all_bytes, rows * self.longest))))
        after = np.searchsorted(first, first + self.values - 1 + rows)  # rows from a page on reach up to this one
        return float((ends[after] - ends[:-1]).max(initial=0.0))


class _Page(NamedTuple):
    """What the head of a page says."""

    type: int
    unpacked: int
    packed: int
    values: int
    encoding: int
    head_bytes: int


class Chunk(NamedTuple):
    """The pages of a column in one row group, as the footer describes them."""

    codec: int
    values: int
    start: int
    bytes: int


def read_chunks(path: Path) -> list[list[Chunk]]:
    """The chunks of each row group, in the order of the columns; ValueError if the footer cannot be read."""
    try:
        groups = [[_chunk(column) for column in columns] for columns in _footer(path)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("its footer cannot be read") from error
    if not all(type(number) is int and number >= 0 for group in groups for chunk in group for number in chunk):
        raise ValueError("its footer says what cannot be")
    return groups


def _chunk(column: dict[int, Any]) -> Chunk:
    start, dictionary = column[9], column.get(11, 0)
    return Chunk(column[4], column[5], dictionary if 0 < dictionary < start else start, column[7])


def read_pages(stream: IO[bytes], chunks: list[Chunk], length: int | None) -> Pages:
    """The pages of a column's chunks; ValueError if a head cannot be read.

    ``length``: the bytes of each value, 0 for numbers, None for text. That of the schema, which pyarrow goes by.
    """
    values, all_bytes, longest = array("d"), array("d"), array("d")
    size = stream.seek(0, os.SEEK_END)
    largest = largest_dictionary = 0
    for chunk in chunks:
        at, end, missing, shared = chunk.start, min(size, chunk.start + chunk.bytes), chunk.values, 0
        while missing > 0 and at < end:
            page = _head(stream, at)
            at += page.head_bytes
            if len(values) > size // LEAST_PAGE_BYTES:
                raise ValueError("it has more pages than it can hold")
            if page.type == DICTIONARY:
                largest_dictionary = max(page.unpacked, largest_dictionary)
                shared = _longest_value(stream, at, page, chunk.codec) if length is None else length
            elif page.type in DATA:
                largest = max(page.unpacked, largest)
                one = shared if page.encoding in DICTIONARY_KINDS else page.unpacked
                many = page.encoding in (*DICTIONARY_KINDS, PREFIX_KIND)
                values.append(page.values)
                longest.append(0 if length == 0 else one)
                all_bytes.append(0 if length == 0 else one * page.values if many else page.unpacked)
                missing -= page.values
            at += page.packed
    return Pages(np.array(values), np.array(all_bytes), np.array(longest), largest + largest_dictionary)


def _longest_value(stream: IO[bytes], at: int, page: _Page, codec: int) -> int:
    """The bytes of the longest value in a dictionary of text; its own, where it cannot be unpacked here."""
    if max(page.packed, page.unpacked) > MOST_DICTIONARY_BYTES:
        return page.unpacked
    stream.seek(at)
    content: Any = stream.read(page.packed)
    try:
        if codec:
            content = pa.decompress(content, page.unpacked, CODECS[codec])
    except (pa.ArrowException, OSError, ValueError, LookupError):
        return page.unpacked
    return int(_longest(np.frombuffer(content, np.uint8)))


@njit(nogil=True)
def _longest(content):
    """The longest of values that each follow their length, which is four bytes."""
    at, longest = np.int64(0), np.int64(0)
    while at + 4 <= content.size:
        length = np.int64(0)
        for i in range(4):
            length |= np.int64(content[at + i]) << (8 * i)
        longest = length if length > longest else longest
        at += 4 + length
    return longest


def _head(stream: IO[bytes], at: int) -> _Page:
    """The head of the page at ``at``."""
    size = HEAD_BYTES
    while True:
        stream.seek(at)
        data = stream.read(size)
        reader = _Reader(data)
        try:
            head = reader.struct()
            kind = head[1]
            about = head[5] if kind == DATA[0] else head[8] if kind == DATA[1] else {1: 0}
            found = _Page(kind, head[2], head[3], about[1], about.get(2 if kind == DATA[0] else 4, 0), reader.at)
            if all(type(number) is int and number >= 0 for number in found):
                return found
            raise ValueError("the head of a page says what cannot be")
        except (IndexError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if len(data) < size or size >= MOST_HEAD_BYTES:
                raise ValueError("the head of a page cannot be read") from error
            size *= 16


def check_footer(path: Path) -> None:
    """Raise ValueError unless all columns are encoded and compressed in the ways that stores use."""
    columns = [column for group in _footer(path) for column in group]
    if not all(column.get(4) in SNAPPY_OR_NONE and PLAIN_KINDS.issuperset(column.get(2, [None])) for column in columns):
        raise ValueError("compressed or encoded in a way that stores do not use")


def _footer(path: Path) -> list[list[dict[int, Any]]]:
    """For each row group, what the footer says of its columns, by the numbers of fields.

    pyarrow's own view of it ends the process where a field says what cannot be.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - TAIL))
        length = int.from_bytes(stream.read(4), "little")
        stream.seek(max(0, size - TAIL - length))
        data = stream.read(length)
    try:
        found = [[column[3] for column in group[1]] for group in _Reader(data).struct()[4]]
    except (IndexError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("its footer cannot be read") from error
    if not all(isinstance(column, dict) for group in found for column in group):
        raise ValueError("its footer cannot be read")
    return found


class _Reader:
    """A place in bytes that moves as they are read."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

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
            return self._bytes(8 if kind == DOUBLE else self._varint())
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
        number = 0
        for shift in range(0, MOST_VARINT_BITS, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise IndexError("a number without an end")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self._data):
            raise IndexError("bytes after the end")
        return self._data[self.at - count : self.at]
