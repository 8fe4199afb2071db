"""Memory-mapped arrays: how much of one is in memory already, and how to read the rest fast.

Random access reads a mapped array page by page, and a disk serves some ten thousand pages per second; front to back it
serves gigabytes. So code that will touch most of an array brings it in first (:func:`preload`), and code that passes
over it once reads it in blocks (:class:`RowBlocks`), past the page cache if that is full, so that what others need
again stays there.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nodewise._util.errors import StoreError
from nodewise._util.memory import available_memory, mapped_memory
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray

PAGE = mmap.PAGESIZE
BLOCK_BYTES = 8 << 20  # yielded at a time
READ_BYTES = 2 << 20  # per read: many small reads in flight are faster than few large ones
PRELOAD_BYTES = 64 << 20  # brought into the page cache at a time
CACHESTAT = 451  # the number of the system call, the same on all processors that have it
POPULATE_READ = 22  # MADV_POPULATE_READ, which Python does not name
READERS = 8  # requests in flight: a disk is faster with several
AHEAD = 4  # blocks that are read or waiting to be used
FREE_BYTES = 2 << 30  # memory that reading leaves free
RESIDENT = 0.95  # a share in memory that counts as all


_Block: TypeAlias = tuple[AnyArray, list[Future[Any]]]  # rows, and the reads that fill them


class FileSpan(NamedTuple):
    """The part of a file that an array is mapped from."""

    path: str
    offset: int
    size: int


def file_span(array: Any) -> FileSpan | None:
    """Where a memory-mapped array is in its file, or None for an array in memory."""
    base = _map_of(array)
    if base is None or base.filename is None:
        return None
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return FileSpan(str(base.filename), base.offset + start, array.nbytes)


def check_mapped(*arrays: Any) -> None:
    """Raise if a file that an array is mapped from was truncated since; what replaced it by name does not matter."""
    for array in arrays:
        base = _map_of(array)
        if base is not None and base.filename is not None:
            size = base._mmap.size()
            if size < base.offset + base.nbytes and (span := file_span(array)) is not None:
                _check_end(span, size)


def _map_of(array: Any) -> Any:
    """The map that an array is a part of, or None for an array in memory."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array


def resident_share(array: AnyArray) -> float:
    """The share of an array's pages that are in memory; 1 for arrays that are not mapped."""
    span = file_span(array)
    if array.nbytes == 0 or span is None:
        return 1.0
    first, size = _pages_of(array)
    resident = _cached_pages(span)
    if resident is None:
        pages = np.zeros(-(-size // PAGE), np.uint8)
        known = _call("mincore", first, size, ctypes.c_void_p(pages.ctypes.data))
        resident = int((pages & 1).sum()) if known else pages.size  # unknown: reading ahead is no use
    return min(1.0, resident / -(-size // PAGE))


def _cached_pages(span: FileSpan) -> int | None:
    """The pages of a file that are in the page cache, by cachestat; None if the system has none (before Linux 6.5).

    A call takes microseconds whatever the size, while mincore looks at each page.
    """
    counts = (ctypes.c_uint64 * 5)()
    try:
        with open(span.path, "rb", buffering=0) as file:
            window = (ctypes.c_uint64 * 2)(span.offset, span.size)
            failed = _libc().syscall(CACHESTAT, file.fileno(), window, counts, 0)
    except (OSError, AttributeError, TypeError):
        return None
    return None if failed else int(counts[0])


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _populate(array: AnyArray) -> bool:
    """Read the pages of a mapped array and map them, in one call; False if the system cannot (before Linux 5.14)."""
    return _call("madvise", *_pages_of(array), ctypes.c_int(POPULATE_READ))


def _pages_of(array: AnyArray) -> tuple[int, int]:
    """The address of the page that an array begins in, and the bytes from there to its end."""
    address = int(array.__array_interface__["data"][0])
    first = address - address % PAGE
    return first, address + array.nbytes - first


def _call(name: str, first: int, size: int, argument: Any) -> bool:
    """Whether a call to the C library about a range of memory succeeded."""
    try:
        function = getattr(_libc(), name)
    except (OSError, AttributeError, TypeError):
        return False
    return int(function(ctypes.c_void_p(first), ctypes.c_size_t(size), argument)) == 0


def preload(array: AnyArray) -> int:
    """Bring all of a mapped array into the page cache, front to back; the number of bytes that were read."""
    span = file_span(array)
    if span is None or resident_share(array) == 1.0:
        return 0
    flat = array.reshape(-1).view(np.uint8)
    with _from_disk(span.path), open(span.path, "rb", buffering=0) as file, ThreadPoolExecutor(READERS) as pool:
        _check_end(span, os.fstat(file.fileno()).st_size)

        def read(first: int) -> None:
            part = flat[first : first + PRELOAD_BYTES]
            if not _populate(part):
                os.preadv(file.fileno(), [bytearray(part.nbytes)], span.offset + first)

        list(pool.map(read, range(0, span.size, PRELOAD_BYTES)))
    return span.size


class RowBlocks:
    """The rows of a mapped matrix in ranges, read ahead of their use by several threads.

    Iterating yields, for each ``(first, last)`` of ``ranges``, an array of these rows, valid until the next one is
    requested. Rows that are in memory are used in place; the rest is read into the page cache, to be there the next
    time, as long as that has room beside what this process has mapped, and past it from then on.
    """

    def __init__(self, rows: AnyArray, ranges: Sequence[tuple[int, int]]) -> None:
        span = file_span(rows)
        if span is None:
            raise ValueError("expected rows mapped from a file")
        self._rows, self._span, self._ranges = rows, span, ranges
        self._row_bytes = rows.itemsize * rows.shape[1]
        resident = int(resident_share(rows) * rows.nbytes)
        self._room = available_memory() - mapped_memory() - resident - FREE_BYTES
        self._most = max((last - first for first, last in ranges), default=0) * self._row_bytes + 2 * PAGE

    def __iter__(self) -> Iterator[AnyArray]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_from_disk(self._span.path))
            handle = _open_past_cache(self._span.path)
            stack.callback(os.close, handle)
            _check_end(self._span, os.fstat(handle).st_size)  # touching a missing page would end the process
            _check_same(self._rows, self._span, handle)
            pool = stack.enter_context(ThreadPoolExecutor(READERS))
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            buffers = [mmap.mmap(-1, self._most) for _ in range(AHEAD + 2)]  # one in use, one just used
            waiting: deque[_Block] = deque()
            for number, (first, last) in enumerate(self._ranges):
                if len(waiting) > AHEAD:
                    yield _finished(waiting.popleft())
                waiting.append(self._begin(pool, handle, buffers[number % len(buffers)], first, last))
            yield from map(_finished, waiting)

    def _begin(self, pool: ThreadPoolExecutor, handle: int, buffer: mmap.mmap, first: int, last: int) -> _Block:
        """Start reading a block."""
        rows = np.asarray(self._rows[first:last])
        resident = resident_share(rows) >= RESIDENT
        if resident or self._room > rows.nbytes:
            self._room -= 0 if resident else rows.nbytes
            # Read and mapped at once, not page by page as it is touched; it stays in the page cache.
            return rows, [pool.submit(_populate, rows)]
        start = self._span.offset + first * self._row_bytes
        ahead = start % PAGE  # past the cache, reads start and end at pages
        size = -(-(ahead + rows.nbytes) // PAGE) * PAGE
        values = np.frombuffer(buffer, rows.dtype, rows.size, offset=ahead).reshape(rows.shape)

        def read(offset: int) -> None:
            view = memoryview(buffer)[offset : min(offset + READ_BYTES, size)]
            self._fill(handle, view, start - ahead + offset)

        return values, [pool.submit(read, offset) for offset in range(0, size, READ_BYTES)]

    def _fill(self, handle: int, view: memoryview, start: int) -> None:
        """Fill ``view`` from byte ``start`` of the file, up to the end of the array."""
        done, end = 0, self._span.offset + self._span.size
        while done < view.nbytes and start + done < end:
            count = os.preadv(handle, [view[done:]], start + done)
            if count <= 0:
                _check_end(self._span, start + done)
            done += count


def _finished(block: _Block) -> AnyArray:
    """The rows of a block, once they are read."""
    rows, reads = block
    for read in reads:
        read.result()
    return rows


def _check_end(span: FileSpan, size: int) -> None:
    if size < span.offset + span.size:
        raise StoreError(
            f"{span.path}: ends at byte {size:,}, and its values should end at {span.offset + span.size:,}; the file "
            f"was truncated after it was opened. Restore it"
        )


def _check_same(array: AnyArray, span: FileSpan, handle: int) -> None:
    """Raise if the mapped file was replaced by another of the same name, as when a store is written again."""
    address = int(array.__array_interface__["data"][0])
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            parts = (line.split(maxsplit=5) for line in lines)
            spans = ((*(int(end, 16) for end in part[0].split("-")), int(part[4])) for part in parts)
            inode = next((inode for first, last, inode in spans if first <= address < last), None)
    except (OSError, ValueError, IndexError):
        return  # not Linux: unknown
    if inode not in (None, os.fstat(handle).st_ino):
        raise StoreError(f"{span.path}: was replaced since it was opened; open the graph again")


def _open_past_cache(path: str) -> int:
    """A handle that reads past the page cache, or through it if the file system cannot."""
    with contextlib.suppress(OSError):
        return os.open(path, os.O_RDONLY | getattr(os, "O_DIRECT", 0))
    return os.open(path, os.O_RDONLY)


def _from_disk(path: str) -> contextlib.AbstractContextManager[None]:
    return reading(path, raises=StoreError, advice="run nodewise verify to find the block, then restore it")
