"""Arrays that lie in files: how much of one is in memory already, and how to read the rest fast.

A memory-mapped array is read a page at a time where it is touched at random, and a disk serves a few ten thousand
pages a second; front to back it serves gigabytes. So whoever will touch most of an array brings it in first
(:func:`preload`), and whoever passes over it once reads it in blocks (:class:`RowBlocks`), past the page cache where
that is full, so that what others need again stays there.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from nodewise._typing import AnyArray
from nodewise.errors import StoreError
from nodewise.memory import free_memory

PAGE = mmap.PAGESIZE
BLOCK_BYTES = 8 << 20  # read at a time
PRELOAD_BYTES = 64 << 20  # brought into the page cache at a time
POPULATE_READ = 22  # MADV_POPULATE_READ, which Python does not name
READERS = 4  # requests in flight: a disk is faster with several
FREE_BYTES = 1 << 30  # memory that reading leaves free
RESIDENT = 0.95  # a share in memory that counts as all


class FileSpan(NamedTuple):
    """Where an array lies in its file."""

    path: str
    offset: int
    size: int


def file_span(array: Any) -> FileSpan | None:
    """The file that a memory-mapped array lies in, or None for one in memory."""
    base = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    if base is None or base.filename is None:
        return None
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return FileSpan(str(base.filename), base.offset + start, array.nbytes)


def resident_share(array: AnyArray) -> float:
    """The share of an array's pages that are in memory; 1 for arrays that lie in no file."""
    if array.nbytes == 0 or file_span(array) is None:
        return 1.0
    pages = _resident_pages(array)
    return 1.0 if pages is None else float(pages.mean())


def _resident_pages(array: AnyArray) -> AnyArray | None:
    """A 0 or 1 for each page of an array; None where the system does not say."""
    first, size = _pages_of(array)
    pages = np.zeros(-(-size // PAGE), np.uint8)
    return pages & 1 if _call("mincore", first, size, ctypes.c_void_p(pages.ctypes.data)) else None


def _populate(array: AnyArray) -> bool:
    """Read the pages of a mapped array and map them, in one call; False where the system cannot (before Linux 5.14)."""
    return _call("madvise", *_pages_of(array), ctypes.c_int(POPULATE_READ))


def _pages_of(array: AnyArray) -> tuple[int, int]:
    """The address of the page that an array begins in, and the bytes from there to its end."""
    address = int(array.__array_interface__["data"][0])
    first = address - address % PAGE
    return first, address + array.nbytes - first


def _call(name: str, first: int, size: int, argument: Any) -> bool:
    """Whether a call to the C library about a range of memory succeeded."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return False
    return int(function(ctypes.c_void_p(first), ctypes.c_size_t(size), argument)) == 0


def preload(array: AnyArray) -> int:
    """Bring all of a mapped array into the page cache, front to back; the number of bytes that were read."""
    span = file_span(array)
    if span is None or resident_share(array) >= RESIDENT:
        return 0
    flat = array.reshape(-1).view(np.uint8)
    with _reading(span.path), open(span.path, "rb", buffering=0) as file, ThreadPoolExecutor(READERS) as pool:

        def read(first: int) -> None:
            part = flat[first : first + PRELOAD_BYTES]
            if not _populate(part):
                os.preadv(file.fileno(), [bytearray(part.nbytes)], span.offset + first)

        list(pool.map(read, range(0, span.size, PRELOAD_BYTES)))
    return span.size


class RowBlocks:
    """The rows of a mapped matrix in ranges, read ahead of their use by several threads.

    Iterating gives, for each ``(first, last)`` of ``ranges``, an array of these rows, good until the next one is asked
    for. What is in memory already is used where it lies; the rest is read into the page cache as long as memory is
    free, and past it from then on.
    """

    def __init__(self, rows: AnyArray, ranges: Sequence[tuple[int, int]]) -> None:
        span = file_span(rows)
        if span is None:
            raise ValueError("rows that lie in no file are read where they lie")
        self._rows, self._span, self._ranges = rows, span, ranges
        self._row_bytes = rows.itemsize * rows.shape[1]
        self._most = max((last - first for first, last in ranges), default=0) * self._row_bytes + 2 * PAGE

    def __iter__(self) -> Iterator[AnyArray]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_reading(self._span.path))
            cached = os.open(self._span.path, os.O_RDONLY)
            stack.callback(os.close, cached)
            direct = _open_direct(self._span.path)
            if direct is not None:
                stack.callback(os.close, direct)
            pool = stack.enter_context(ThreadPoolExecutor(READERS))
            buffers = [mmap.mmap(-1, self._most) for _ in range(READERS + 2)]
            waiting: deque[Future[AnyArray]] = deque()
            try:
                for number, (first, last) in enumerate(self._ranges):
                    if len(waiting) > READERS:  # a block in use, and one for each reader
                        yield waiting.popleft().result()
                    buffer = buffers[number % len(buffers)]
                    waiting.append(pool.submit(self._read, first, last, cached, direct, buffer))
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _read(self, first: int, last: int, cached: int, direct: int | None, buffer: mmap.mmap) -> AnyArray:
        block = self._rows[first:last]
        cacheable = resident_share(block) >= RESIDENT or free_memory() > FREE_BYTES
        if cacheable and _populate(block):  # read and mapped all at once, not page by page as it is touched
            return np.asarray(block)
        start = self._span.offset + first * self._row_bytes
        size = (last - first) * self._row_bytes
        ahead = start % PAGE  # past the cache, reads start and end at pages
        handle = cached if direct is None else direct
        view = memoryview(buffer)[: -(-(ahead + size) // PAGE) * PAGE]
        done = 0
        while done < ahead + size:
            count = os.preadv(handle, [view[done:]], start - ahead + done)
            if count <= 0:
                raise StoreError(f"{self._span.path}: ends before row {last:,}; the file was cut after it was opened")
            done += count
        values = np.frombuffer(buffer, self._rows.dtype, block.size, offset=ahead)
        return values.reshape(block.shape)


def _open_direct(path: str) -> int | None:
    """A handle that reads past the page cache; None where the file system has no such thing."""
    flag = getattr(os, "O_DIRECT", None)
    if flag is None:
        return None
    try:
        return os.open(path, os.O_RDONLY | flag)
    except OSError:
        return None


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Name the file where the disk cannot deliver it."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be read: {error.strerror or error}; run nodewise verify to find the block, then restore it"
        ) from error
