"""Files in blocks, each with a SHA-256: hashed after writing, checked before reading."""

from __future__ import annotations

import hashlib
import math
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from nodewise._util.errors import StoreError
from nodewise._util.os_errors import reading
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray
from nodewise.graph.unchecked import REPAIR
from nodewise.store.manifest import StoredFile

BLOCK_BYTES = 16 << 20
PIECE_BYTES = 1 << 20  # read or written at a time


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
    with reading(f"{path}: block {block}", raises=StoreError, advice=REPAIR):
        found = _hash(path, block, file.block_bytes)
    if found != file.sha256[block]:
        raise StoreError(
            f"{path}: block {block} of {len(file.sha256)} ({file.block_bytes:,} bytes each) does not match its "
            f"checksum; {REPAIR}"
        )


def hashed(path: Path, dtype: str, shape: tuple[int, ...]) -> StoredFile:
    """What the manifest says about a finished file."""
    size = path.stat().st_size
    blocks = range(-(-size // BLOCK_BYTES))
    hashes = map_chunks(lambda block: _hash(path, block, BLOCK_BYTES), blocks, thread_count(None))
    return StoredFile(dtype, shape, size, BLOCK_BYTES, tuple(hashes))


def _hash(path: Path, block: int, block_bytes: int) -> str:
    with path.open("rb") as stream:
        stream.seek(block * block_bytes)
        digest, left = hashlib.sha256(), block_bytes
        while part := stream.read(min(left, PIECE_BYTES)):
            digest.update(part)
            left -= len(part)
        return digest.hexdigest()


def slices(array: AnyArray, overlap: int = 0) -> Iterator[AnyArray]:
    """Views of about one block each, so that an array larger than memory can be read through."""
    step = max(1, BLOCK_BYTES // max(1, array.itemsize * math.prod(array.shape[1:])))
    for first in range(0, array.shape[0], step):
        yield array[first : first + step + overlap]
