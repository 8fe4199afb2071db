"""NameTable: numbers node names in order of first appearance. The table is in memory, the names themselves in files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from nodewise._util.errors import InputError
from nodewise._util.temporary import temporary_folder
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray, IntArray
from nodewise.graph.adjacency import MAX_NODES
from nodewise.importing import hashing
from nodewise.importing.array_files import read_at

LEAST_SLOTS = 1 << 16
NAMES_AT_A_TIME = 1 << 20  # when names are read back
FULL = 0.6  # share of slots in use at which the table grows


class NameTable:
    """Numbers for names, in up to ``room`` bytes; the first ``keep`` names are already in ``folder``."""

    def __init__(self, folder: Path, room: int, keep: int = 0) -> None:
        self._room = room
        self._most = _most_names(room)
        self._known = np.empty((self._most, 2), np.uint64)  # uses memory only as it fills
        self._slots = np.full(LEAST_SLOTS, hashing.EMPTY)
        self._count = 0
        self.file = NameFile(folder, keep)
        for first in range(0, keep, NAMES_AT_A_TIME):
            self.number(self.file[first : min(first + NAMES_AT_A_TIME, keep)], known=True)

    def __len__(self) -> int:
        return self._count

    @property
    def room_left(self) -> int:
        """Bytes by which the table may still grow."""
        return max(0, self._room - table_bytes(self._count))

    def release(self) -> None:
        """Free the memory; the names stay in their file."""
        self._known, self._slots = self._known[:0].copy(), self._slots[:0].copy()

    def number(self, *columns: Any, known: bool = False) -> IntArray:
        """The numbers of names in columns of equal length (``large_string``), row by row: ``(columns, rows)``."""
        hashes = np.stack([_hashes(column) for column in columns], axis=1).reshape(-1, 2)
        numbers = np.empty(hashes.shape[0], np.int64)
        before, done = self._count, 0
        while True:
            limit = min(int(FULL * self._slots.size), self._most)
            done, self._count = hashing.number(hashes, done, self._slots, self._known, self._count, limit, numbers)
            if done == hashes.shape[0]:
                break
            self._grow()
        if not known and self._count > before:
            _append_new(self.file, columns, numbers, before)
        return numbers.reshape(-1, len(columns)).T

    def _grow(self) -> None:
        if self._count == MAX_NODES:
            raise InputError(f"more than {MAX_NODES:,} names of nodes: that many do not fit into one graph")
        if self._count == self._most:
            raise TooManyNamesError(self._count)
        size = 2 * self._slots.size
        del self._slots  # its content follows from the hashes
        self._slots = np.full(size, hashing.EMPTY)
        hashing.fill_slots(self._known, self._count, self._slots)


class TooManyNamesError(Exception):
    """The table is full; the caller turns this into a message."""


def load_kernels() -> None:
    """Load or compile all kernels, so that their memory counts as in use from now on."""
    names = pa.array(["a", "b"], pa.large_string())
    estimate_names([names])
    with temporary_folder() as folder:
        table = NameTable(folder, 1 << 20)
        table.number(names)
        table._grow()
        table.file.close()


def table_bytes(names: float) -> int:
    """The memory that a table of this many names takes."""
    slots = LEAST_SLOTS
    while FULL * slots < names:
        slots *= 2
    return int(16 * names) + 4 * slots


def _most_names(room: int) -> int:
    """How many names a table of ``room`` bytes can hold."""
    sizes = [1 << bits for bits in range(LEAST_SLOTS.bit_length() - 1, 34)]
    return min(MAX_NODES, max(min(int(FULL * size), (room - 4 * size) // 16) for size in sizes))


def estimate_names(columns: Iterable[Any]) -> float:
    """About how many distinct names there are, in a few kilobytes of memory; the standard error is 0.8%."""
    registers = np.zeros(1 << 14, np.uint8)
    for column in columns:
        hashing.sketch(_hashes(column.cast(pa.large_string())), registers)
    return hashing.sketched_count(registers)


class NameFile:
    """Names in order of their numbers: lengths in one file, bytes in another. The first ``keep`` names are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        mode = "r+b" if keep else "w+b"
        self.paths = (folder / "names.lengths", folder / "names.bytes")
        self._lengths, self._bytes = (cast(BinaryIO, path.open(mode)) for path in self.paths)
        self._count = keep
        self._passed = (0, 0)  # a number of names, and of the bytes that they take
        for stream, size in ((self._lengths, 4 * keep), (self._bytes, self._offset(keep))):
            if size > os.fstat(stream.fileno()).st_size:
                raise ValueError(f"{stream.name}: has fewer bytes than {keep:,} names take")
            stream.truncate(size)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, part: slice) -> Any:
        """Names as a pyarrow array; parts taken in order do not cost more towards the end of the file."""
        first, last, _ = part.indices(self._count)
        lengths = self._read_lengths(first, last)
        start = self._offset(first)
        offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        self._passed = (last, start + int(offsets[-1]))
        data = read_at(self._bytes, start, int(offsets[-1]), np.uint8)
        return pa.LargeStringArray.from_buffers(last - first, pa.py_buffer(offsets), pa.py_buffer(data))

    def append(self, lengths: AnyArray, data: AnyArray) -> None:
        for stream, array in ((self._lengths, lengths.astype(np.uint32)), (self._bytes, data)):
            stream.seek(0, os.SEEK_END)
            stream.write(array.data)
            stream.flush()
        self._count += lengths.size

    def close(self) -> None:
        self._lengths.close()
        self._bytes.close()

    def _offset(self, name: int) -> int:
        """Where the bytes of a name begin."""
        passed, offset = self._passed if self._passed[0] <= name else (0, 0)
        for first in range(passed, name, NAMES_AT_A_TIME):
            offset += int(self._read_lengths(first, min(first + NAMES_AT_A_TIME, name)).sum(dtype=np.int64))
        self._passed = (name, offset)
        return offset

    def _read_lengths(self, first: int, last: int) -> AnyArray:
        return read_at(self._lengths, 4 * first, last - first, np.uint32)


def _strings(column: Any) -> tuple[IntArray, AnyArray]:
    """The offsets and bytes of a ``large_string`` column, in one piece."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(1, np.int64), np.zeros(1, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return ends, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)


def _hashes(column: Any) -> AnyArray:
    offsets, data = _strings(column)
    rows = offsets.size - 1
    out, threads = np.empty((rows, 2), np.uint64), thread_count(None)
    cuts = np.linspace(0, rows, threads + 1).astype(np.int64).tolist()
    map_chunks(lambda part: hashing.hash_strings(offsets, data, *part, out), itertools.pairwise(cuts), threads)
    return out


def _append_new(file: NameFile, columns: Sequence[Any], numbers: IntArray, before: int) -> None:
    """Write the names numbered from ``before`` on. Each is new where its number first exceeds all earlier ones."""
    places = np.flatnonzero(numbers >= before)
    highest = np.maximum.accumulate(numbers[places])
    places = places[highest > np.concatenate(([before - 1], highest[:-1]))]
    rows, sides = np.divmod(places, len(columns))
    lengths = np.empty(places.size, np.int64)
    strings = [_strings(column) for column in columns]
    for side, (offsets, _) in enumerate(strings):
        mine = rows[sides == side]
        lengths[sides == side] = offsets[mine + 1] - offsets[mine]
    starts = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for side, (offsets, data) in enumerate(strings):
        hashing.copy_strings(offsets, data, rows[sides == side], starts[sides == side], out)
    file.append(lengths, out)
