"""ArrayWriter: an ``.npy`` file of a store, written front to back in parts of any size."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from nodewise._util.threads import thread_count
from nodewise._util.types import AnyArray
from nodewise.store import blocks
from nodewise.store.blocks import PIECE_BYTES
from nodewise.store.manifest import StoredFile

WRITER_BYTES = 4 * blocks.BLOCK_BYTES + 4 * PIECE_BYTES  # memory of an ArrayWriter: a block is filled, three are hashed
HEADER_BYTES = 128  # room for any shape; numpy pads its own headers to a multiple of 64


class ArrayWriter:
    """An ``.npy`` file that grows by rows; its header, and with it its length, is written last.

    Blocks are hashed on other threads while the next rows are computed. Writing can continue after an interruption at
    any point: the first ``keep`` rows of the file are kept, and what follows them is dropped.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, ArrayWriter(Path(folder, "a.npy"), np.int64) as writer:
    ...     writer.append(np.arange(3))
    ...     stored = writer.finish()
    >>> stored.shape
    (3,)
    """

    def __init__(self, path: Path, dtype: Any, width: int | None = None, keep: int | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.rows = keep or 0
        self._tail = () if width is None else (width,)
        self._row_bytes = self.dtype.itemsize * (1 if width is None else width)
        self._stream = path.open("w+b" if keep is None else "r+b")
        end = HEADER_BYTES + self.rows * self._row_bytes
        if keep is not None and end > path.stat().st_size:
            raise ValueError(f"{path}: has fewer bytes than {keep:,} rows take")
        self._stream.truncate(end)
        self._pool = ThreadPoolExecutor(thread_count(None))
        # The first block waits for its header. Whole blocks of the rows kept are hashed again, the rest is read back.
        self._ready: list[Future[str]] = [
            self._pool.submit(self._hash_of, b) for b in range(1, end // blocks.BLOCK_BYTES)
        ]
        self._open = end - end % blocks.BLOCK_BYTES if end >= blocks.BLOCK_BYTES else 0
        self._pending = bytearray(os.pread(self._stream.fileno(), end - self._open, self._open))
        self._stream.seek(end)

    def append(self, array: AnyArray) -> None:
        """Add rows."""
        part = np.ascontiguousarray(array, self.dtype)
        self.rows += part.shape[0]
        data = part.reshape(-1).view(np.uint8).data.cast("B")
        for first in range(0, data.nbytes, PIECE_BYTES):
            piece = data[first : first + PIECE_BYTES]
            self._stream.write(piece)
            self._pending += piece
            while len(self._pending) >= blocks.BLOCK_BYTES:
                block = bytes(memoryview(self._pending)[: blocks.BLOCK_BYTES])
                del self._pending[: blocks.BLOCK_BYTES]
                if self._open:  # the first block is hashed at the end
                    self._ready.append(self._pool.submit(_sha256, block))
                    self._wait_for_hashes()
                self._open += blocks.BLOCK_BYTES
        self._stream.flush()

    def finish(self) -> StoredFile:
        """Write the header; returns what the manifest says about the file."""
        shape = (self.rows, *self._tail)
        self._stream.seek(0)
        self._stream.write(_header(self.dtype, shape))
        self._stream.flush()
        size = HEADER_BYTES + self.rows * self._row_bytes
        hashes = [self._hash_of(0), *(future.result() for future in self._ready)]
        if self._open and size % blocks.BLOCK_BYTES:
            hashes.append(_sha256(bytes(self._pending)))
        return StoredFile(self.dtype.str, shape, size, blocks.BLOCK_BYTES, tuple(hashes))

    def _hash_of(self, block: int) -> str:
        return _sha256(os.pread(self._stream.fileno(), blocks.BLOCK_BYTES, block * blocks.BLOCK_BYTES))

    def _wait_for_hashes(self) -> None:
        """Keep no more than a few blocks waiting in memory."""
        for future in self._ready[-4:-2]:
            future.result()

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._stream.close()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    text = repr({"descr": dtype.str, "fortran_order": False, "shape": shape}).encode("latin1")
    room = HEADER_BYTES - 10  # magic, version, length
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"
