"""Checksums of the files that an import works on, so that one that continues does not trust a damaged file.

Files grow from one journal to the next, so a checksum is of the bytes that the journal counts on, and is carried on
from the last one: each byte is read once, soon after it was written.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path

from nodewise._util.errors import StoreError
from nodewise._util.os_errors import reading
from nodewise.store.streaming import HEADER_BYTES

READ_BYTES = 1 << 20


class Checksums:
    """The checksums of files in ``folder``, by name: how many bytes count, and their CRC-32."""

    def __init__(self, folder: Path, known: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._folder = folder
        self._known = {name: (size, crc) for name, (size, crc) in (known or {}).items()}
        self._sizes: dict[str, int] = {}  # of files that have grown since

    def grown(self, path: Path) -> None:
        """From now on, the file counts as far as it goes now."""
        self._sizes[path.relative_to(self._folder).as_posix()] = path.stat().st_size

    def drop(self, path: Path) -> None:
        """The file has checksums elsewhere."""
        name = path.relative_to(self._folder).as_posix()
        self._sizes.pop(name, None)
        self._known.pop(name, None)

    def update(self) -> dict[str, tuple[int, int]]:
        """Read what files have grown by; returns all checksums."""
        for name, size in self._sizes.items():
            before, crc = self._known.get(name, (0, 0))
            self._known[name] = (size, _crc(self._folder / name, before, size, crc))
        self._sizes.clear()
        return dict(self._known)

    def check(self) -> None:
        """Raise if a file is not what it was; what others hold beyond the bytes that count is cut off."""
        for name, (size, crc) in self._known.items():
            path = self._folder / name
            with reading(path, raises=StoreError):
                found = _crc(path, 0, size)
                os.truncate(path, size)
            if found != crc:
                raise StoreError(f"{path}: does not match its checksum")


def _crc(path: Path, first: int, last: int, crc: int = 0) -> int:
    """The CRC-32 of some bytes, after that of those before; without the header of an array, which is written last."""
    first = max(first, HEADER_BYTES) if path.suffix == ".npy" else first
    buffer = memoryview(bytearray(READ_BYTES))
    with path.open("rb", buffering=0) as stream:
        stream.seek(first)
        while first < last:
            count = stream.readinto(buffer[: min(READ_BYTES, last - first)])
            if not count:
                raise StoreError(f"{path}: ends after {first:,} bytes, expected {last:,}")
            crc = zlib.crc32(buffer[:count], crc)
            first += count
    return crc
