"""Checksums inside the files that they are of, so that a job that continues knows which files are whole.

A file holds a name and, behind it, room for a CRC-32 in hexadecimal: among the metadata of Parquet, at the end of an
array. The checksum is that of the file with zeros in this room.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import BinaryIO

SEAL, ROOM = b"nodewise.crc32", b"0" * 8
_BETWEEN = 2  # bytes between a name and its value in the metadata of Parquet
TAIL = SEAL + bytes(_BETWEEN) + ROOM  # to be written behind an array
_TAILS = (1 << 16, 1 << 20, 1 << 24)  # bytes at the end of a file in which the name is searched
_READ_BYTES = 1 << 20


def seal(path: Path) -> None:
    """Fill in the checksum of a complete file."""
    with path.open("r+b") as stream:
        place = _place(stream)
        if place is not None:
            checksum = _checksum(stream, place)
            stream.seek(place)
            stream.write(checksum)


def is_whole(path: Path) -> bool:
    """Whether a file has a checksum that fits."""
    if not path.is_file():  # a pipe would never answer
        return False
    try:
        with path.open("rb") as stream:
            place = _place(stream)
            if place is None:
                return False
            stream.seek(place)
            return stream.read(len(ROOM)) == _checksum(stream, place)
    except OSError:
        return False


def _place(stream: BinaryIO) -> int | None:
    """Where the room for the checksum begins."""
    size = stream.seek(0, os.SEEK_END)
    for tail in _TAILS:
        start = max(0, size - tail)
        stream.seek(start)
        found = stream.read().rfind(SEAL)
        if found >= 0:
            place = start + found + len(SEAL) + _BETWEEN
            return place if place + len(ROOM) <= size else None
    return None


def _checksum(stream: BinaryIO, place: int) -> bytes:
    stream.seek(0)
    crc, left = 0, place
    while left and (data := stream.read(min(left, _READ_BYTES))):
        crc, left = zlib.crc32(data, crc), left - len(data)
    crc = zlib.crc32(ROOM, crc)
    stream.seek(place + len(ROOM))
    while data := stream.read(_READ_BYTES):
        crc = zlib.crc32(data, crc)
    return f"{crc:08x}".encode()
