"""Rows for more nodes than memory holds: an array in a temporary file that nobody else sees."""

from __future__ import annotations

import shutil
import tempfile

import numpy as np

from nodewise._typing import FloatArray
from nodewise.errors import StoreError
from nodewise.memory import show_bytes


def new_rows(count: int, width: int, memory: int) -> FloatArray:
    """float32 ``(count, width)``, in memory, or in a temporary file where it would take more than ``memory`` bytes.

    The file has no name and goes with the array. Its folder is the system's for temporary files (``$TMPDIR``).
    """
    size = 4 * count * width
    if size <= memory:
        return np.empty((count, width), np.float32)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < size:
        raise StoreError(
            f"{folder}: rows for {count:,} nodes take {show_bytes(size)}, and {show_bytes(free)} are free; free some "
            f"space, set TMPDIR to a larger disk, or allow more memory"
        )
    with tempfile.TemporaryFile(dir=folder, prefix="nodewise-rows-") as file:
        file.truncate(size)
        return np.memmap(file, np.float32, "r+", shape=(count, width))
