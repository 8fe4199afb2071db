"""Arrays in ``.npy`` members, read in parts.

Only plain arrays of numbers: Python objects (pickles) and records are refused, and so is a header that speaks of
another number of bytes than there are, before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from nodewise._typing import AnyArray
from nodewise.datasets.archive import Cursor, Member
from nodewise.errors import InputError

_HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


class NpyMember:
    """An array that is still in its file: ``shape``, ``dtype``, and its rows in parts."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.label = member.label
        with member.open() as cursor:
            self.shape, self.by_columns, self.dtype = self._header(cursor)
            self._data = cursor.tell()
        expected = self._data + math.prod(self.shape) * self.dtype.itemsize
        if expected != member.size:
            raise InputError(
                f"{self.label}: is {member.size:,} bytes long, and {self._described()} takes {expected:,}; it is cut "
                f"off or damaged. Fetch or save it again"
            )

    def parts(self, rows: int) -> Iterator[AnyArray]:
        """Up to ``rows`` rows at a time, in order."""
        if self.by_columns and len(self.shape) == 2:
            yield from self._parts_of_columns(rows)
            return
        with self.member.open() as cursor:
            cursor.read(self._data)
            for first in range(0, self.shape[0], rows):
                yield self._take(cursor, (min(rows, self.shape[0] - first), *self.shape[1:]))
            self.member.check(cursor)

    def _parts_of_columns(self, rows: int) -> Iterator[AnyArray]:
        """The same of a matrix in Fortran order: a piece of each column, put side by side."""
        self.member.verify()  # it is not read front to back here
        length, width = self.shape
        with self.member.open() as cursor:
            for first in range(0, length, rows):
                k = min(rows, length - first)
                part = np.empty((k, width), self.dtype.newbyteorder("="))
                for column in range(width):
                    cursor.seek(self._data + (column * length + first) * self.dtype.itemsize)
                    part[:, column] = self._take(cursor, (k,))
                yield part

    def columns(self, count: int) -> Iterator[AnyArray]:
        """Up to ``count`` columns of a matrix of two rows at a time, in order: ``(2, k)``."""
        length = self.shape[1]
        with ExitStack() as stack:
            cursors = [stack.enter_context(self.member.open()) for _ in range(1 if self.by_columns else 2)]
            cursors[0].read(self._data)
            if not self.by_columns:
                cursors[1].seek(self._data + length * self.dtype.itemsize)
            for first in range(0, length, count):
                k = min(count, length - first)
                if self.by_columns:
                    yield np.ascontiguousarray(self._take(cursors[0], (k, 2)).T)
                else:
                    ends = np.empty((2, k), self.dtype)
                    for row, cursor in zip(ends, cursors, strict=True):
                        cursor.readinto(row.view(np.uint8))
                    yield self._native(ends)
            self.member.check(*cursors)

    def whole(self) -> AnyArray:
        """All of a small array."""
        with self.member.open() as cursor:
            cursor.read(self._data)
            array = self._take(cursor, self.shape[::-1] if self.by_columns else self.shape)
            self.member.check(cursor)
        return array.T if self.by_columns else array

    def _take(self, cursor: Cursor, shape: tuple[int, ...]) -> AnyArray:
        array = np.empty(shape, self.dtype)
        if array.size:
            cursor.readinto(array.reshape(-1).view(np.uint8))
        return self._native(array)

    def _native(self, array: AnyArray) -> AnyArray:
        return array.astype(self.dtype.newbyteorder("="), copy=False)

    def _header(self, cursor: Cursor) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        try:
            shape, by_columns, dtype = _HEADERS[npy_format.read_magic(cursor)](cursor)
        except InputError:
            raise
        except Exception as error:  # a header is evaluated as a literal, which can fail in every way
            raise InputError(
                f"{self.label}: does not begin as an .npy array does ({error}); it is damaged or something else. "
                f"Fetch or save it again"
            ) from error
        if dtype.hasobject:
            raise InputError(f"{self.label}: holds Python objects, which are not read; save it as an array of numbers")
        if dtype.kind not in "biufSU" or any(length < 0 for length in shape):
            raise InputError(f"{self.label}: is an array of {dtype} and shape {shape}; expected numbers")
        return shape, by_columns, dtype

    def _described(self) -> str:
        return f"an array {self.shape} of {self.dtype}"
