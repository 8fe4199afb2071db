"""Arrays as numpy saves them, numbers or text, never Python objects: a checked header, and NpyFile, read in parts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray
from nodewise.graph.adjacency import MAX_NODES

ADVICE = "fetch or save it again"
MOST_DIMENSIONS = 32


class Header(NamedTuple):
    """What an array is, as the first bytes of its file say; ``offset``: where its values begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    offset: int

    def __str__(self) -> str:
        return f"an array of {self.dtype} and shape {self.shape}"


def read_header(stream: IO[bytes], label: str, size: int) -> Header:
    """The header of an array of ``size`` bytes, header included; nothing is allocated for the array.

    Refused are arrays of anything but numbers and text, and those whose values are not as many as the header says.
    """
    # A header is evaluated as a literal, which can fail in any way.
    with reading(label, "a valid .npy array", (Exception,), advice=ADVICE):
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} of the format, which is for arrays of records")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(stream)
        header = Header(tuple(map(int, shape)), dtype, by_columns, stream.tell())
    if dtype.hasobject:
        raise InputError(
            f"{label}: is an array of Python objects, which are not read since they could run code; expected numbers. "
            f"Save it with array.astype(float), or as a table"
        )
    if dtype.kind not in "biufSU" or not dtype.itemsize:
        raise InputError(f"{label}: is an array of {dtype}; expected numbers")
    if len(shape) > MOST_DIMENSIONS or min(shape, default=0) < 0 or (0 in shape and max(shape) > MAX_NODES):
        raise InputError(f"{label}: is {str(header)[:200]}, which is none; {ADVICE}")
    expected = header.offset + dtype.itemsize * math.prod(shape)
    if size < expected:
        raise InputError(
            f"{label}: is cut off or not a valid .npy array: it is {size:,} bytes long, and {header} takes "
            f"{expected:,}; {ADVICE}"
        )
    if size > expected:
        raise InputError(f"{label}: is {size:,} bytes long; {header} takes {expected:,}; {ADVICE}")
    return header


class NpyFile:
    """An array on the disk: ``file[first:last]`` reads a part of it.

    The file is mapped again for each part, so that parts read before do not count as memory in use.
    """

    def __init__(self, path: Path, label: str | None = None) -> None:
        self.path, self.label = path, label or str(path)
        with reading(self.label, advice=ADVICE), path.open("rb") as stream:
            self._header = read_header(stream, self.label, path.stat().st_size)
        self.shape = self._header.shape
        self.dtype: np.dtype[Any] = self._header.dtype.newbyteorder("=")
        self.nbytes = self.dtype.itemsize * math.prod(self.shape)

    def __getitem__(self, part: Any) -> AnyArray:
        shape, dtype, by_columns, offset = self._header
        with reading(self.label, "a valid .npy array", (ValueError,), advice=ADVICE):  # it may have been cut since
            mapped = np.memmap(self.path, dtype, "r", offset, shape, "F" if by_columns else "C")
        return np.array(mapped[part], self.dtype, order="C")

    def __str__(self) -> str:
        return f"an array of {self.dtype} and shape {self.shape}"
