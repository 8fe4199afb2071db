"""Files in blocks, each with a SHA-256: written once, checked block by block."""

from __future__ import annotations

import hashlib
import io
import math
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nodewise._util.errors import StoreError
from nodewise._util.os_errors import reading
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray
from nodewise.store.manifest import REPAIR, StoredFile

BLOCK_BYTES = 16 << 20


def check_size(path: Path, file: StoredFile) -> None:
    with reading(path, raises=StoreError, advice=REPAIR):
        status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size != file.bytes:
        raise StoreError(f"{path}: has {status.st_size:,} bytes, the manifest says {file.bytes:,}; {REPAIR}")


def check_blocks(folder: Path, files: Mapping[str, StoredFile]) -> None:
    blocks = [(folder / name, file, block) for name, file in files.items() for block in range(len(file.sha256))]
    map_chunks(_check_block, blocks, thread_count(None))


def _check_block(where: tuple[Path, StoredFile, int]) -> None:
    path, file, block = where
    with reading(f"{path}: block {block}", raises=StoreError, advice=REPAIR), path.open("rb") as stream:
        stream.seek(block * file.block_bytes)
        found = hashlib.sha256(stream.read(file.block_bytes)).hexdigest()
    if found != file.sha256[block]:
        raise StoreError(
            f"{path}: block {block} of {len(file.sha256)} ({file.block_bytes:,} bytes each) does not match its "
            f"checksum; {REPAIR}"
        )


def slices(array: AnyArray, overlap: int = 0) -> Iterator[AnyArray]:
    """Views of about a block each, so that an array larger than memory goes through a small part of it."""
    step = max(1, BLOCK_BYTES // max(1, array.itemsize * math.prod(array.shape[1:])))
    for first in range(0, array.shape[0], step):
        yield array[first : first + step + overlap]


class HashedFile(io.RawIOBase):
    """A new file that keeps a SHA-256 of each block as it is written, so that nothing is read twice."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("xb", buffering=0)
        self._hash = hashlib.sha256()
        self._hashes: list[str] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = left.nbytes
        while left.nbytes:
            room = BLOCK_BYTES - self._position % BLOCK_BYTES
            written = self._stream.write(left[:room])
            self._hash.update(left[:written])
            self._position += written
            left = left[written:]
            if self._position % BLOCK_BYTES == 0:
                self._end_block()
        return size

    def _end_block(self) -> None:
        self._hashes.append(self._hash.hexdigest())
        self._hash = hashlib.sha256()

    def close(self) -> None:
        self._stream.close()
        super().close()

    def described(self, dtype: str, shape: Sequence[int]) -> StoredFile:
        if self._position % BLOCK_BYTES:
            self._end_block()
        return StoredFile(dtype, tuple(shape), self._position, BLOCK_BYTES, tuple(self._hashes))
