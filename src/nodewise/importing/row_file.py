"""Feature rows in any order -> a file in the order of the nodes, for those that cannot hold them all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nodewise._util.types import AnyArray, IntArray
from nodewise.importing import plain


class RowFile:
    """Rows of ``width`` float32 by node; those that nobody writes are zeros."""

    def __init__(self, path: Path, width: int) -> None:
        self.path, self._width = path, width

    def fill(self, num_nodes: int, parts: Iterator[tuple[IntArray, AnyArray]]) -> None:
        """Write ``(nodes, rows)``, in any order."""
        with self.path.open("wb", buffering=0) as stream:
            stream.truncate(4 * self._width * num_nodes)
            for nodes, rows in parts:
                order = np.argsort(nodes)
                places, values = nodes[order], rows[order].astype(np.float32, copy=False)
                cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), places.size]
                for first, last in itertools.pairwise(cuts):  # stretches of nodes in a row
                    plain.write_at(stream, 4 * self._width * int(places[first]), values[first:last])

    def parts(self, count: int) -> Iterator[AnyArray]:
        """Up to ``count`` rows at a time."""
        size = 4 * self._width
        with self.path.open("rb", buffering=0) as stream:
            total = self.path.stat().st_size // size
            for first in range(0, total, count):
                shape = (min(count, total - first), self._width)
                yield plain.read_at(stream, size * first, shape, np.float32)


def paired(ids: Iterator[IntArray], rows: Iterator[AnyArray]) -> Iterator[tuple[IntArray, AnyArray]]:
    """Rows and as many ids each, from two readers that keep different steps."""
    waiting = np.zeros(0, np.int64)
    for part in rows:
        while waiting.size < part.shape[0]:
            waiting = np.concatenate((waiting, next(ids)))
        yield waiting[: part.shape[0]], part
        waiting = waiting[part.shape[0] :]
