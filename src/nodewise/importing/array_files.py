"""Temporary files of nothing but an array's bytes, read and written in parts, and feature rows put in node order.

Without memory maps: the pages that a map touches count as memory of the process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nodewise._util.errors import StoreError
from nodewise._util.types import AnyArray, IntArray


def read_at(stream: BinaryIO, place: int, shape: int | tuple[int, ...], dtype: Any) -> AnyArray:
    """A new array from byte ``place`` on."""
    array = np.empty(shape, dtype)
    read_into(stream, place, array)
    return array


def read_into(stream: BinaryIO, place: int, array: AnyArray) -> None:
    """Fill a contiguous array from byte ``place`` on."""
    stream.seek(place)
    if stream.readinto(array.data) != array.nbytes:  # type: ignore[attr-defined]
        raise StoreError(f"{stream.name}: ends too early; start over with --overwrite (Python: overwrite=True)")


def write_rows(path: Path, num_nodes: int, width: int, nodes: Iterator[IntArray], rows: Iterator[AnyArray]) -> None:
    """Write rows of float32 in node order; nodes without a row get zeros.

    ``nodes`` yields the node of each row, in parts that need not be those of ``rows``.
    """
    waiting = np.zeros(0, np.int64)
    with path.open("wb") as stream:
        stream.truncate(4 * width * num_nodes)
        for part in rows:
            while waiting.size < part.shape[0]:
                waiting = np.concatenate((waiting, next(nodes)))
            mine, waiting = np.split(waiting, [part.shape[0]])
            order = np.argsort(mine)
            places, values = mine[order], part[order].astype(np.float32, copy=False)
            cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), places.size]
            for first, last in itertools.pairwise(cuts):  # stretches of consecutive nodes
                stream.seek(4 * width * int(places[first]))
                stream.write(values[first:last].data)


def read_rows(path: Path, width: int, count: int) -> Iterator[AnyArray]:
    """The rows that :func:`write_rows` wrote, up to ``count`` at a time."""
    total = path.stat().st_size // (4 * width)
    with path.open("rb") as stream:
        for first in range(0, total, count):
            yield read_at(stream, 4 * width * first, (min(count, total - first), width), np.float32)
