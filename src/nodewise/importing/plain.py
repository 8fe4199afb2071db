"""Arrays in files of nothing but their bytes: read and written where one says, without memory maps.

What a map touches counts as memory of the process; what is read and written so does not.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np

from nodewise._util.errors import StoreError
from nodewise._util.types import AnyArray


def write_at(stream: BinaryIO, place: int, array: AnyArray) -> None:
    """Write all of a contiguous array from byte ``place`` on."""
    stream.seek(place)
    append(stream, array)


def append(stream: BinaryIO, array: AnyArray) -> None:
    """Write all of a contiguous array where the stream stands."""
    left = array.reshape(-1).view(np.uint8).data
    while left.nbytes:
        left = left[stream.write(left) :]


def read_at(stream: BinaryIO, place: int, shape: int | tuple[int, ...], dtype: Any) -> AnyArray:
    """A new array from byte ``place`` on."""
    array = np.empty(shape, dtype)
    read_into(stream, place, array)
    return array


def read_into(stream: BinaryIO, place: int, array: AnyArray) -> None:
    """Fill a contiguous array from byte ``place`` on."""
    left = array.reshape(-1).view(np.uint8).data
    stream.seek(place)
    while left.nbytes:
        done = stream.readinto(left)  # type: ignore[attr-defined]
        if not done:
            raise StoreError(f"{stream.name}: ends too early; start over with --overwrite (Python: overwrite=True)")
        left = left[done:]
