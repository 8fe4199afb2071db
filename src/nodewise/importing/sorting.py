"""External sort of edges that do not fit into memory: sorted runs in files, merged one range of keys at a time.

The first pass (:func:`write_run`) sorts as many edges as fit into memory and writes their keys to a file. The second
(:class:`Merge`) reads the same range of keys from every run, as large as memory allows, and builds its rows. Runs are
in order, so a range of keys is one stretch of each file, found with an index of every ``STRIDE``-th key, or of more
where there are many runs and little memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from nodewise._util.threads import map_chunks
from nodewise._util.types import AnyArray, DoubleArray
from nodewise.graph.edge_keys import (
    KEYS_PER_BUCKET,
    ROW,
    CsrRows,
    Piece,
    Sorted,
    first_loop,
    rows_of,
    settled,
    sorted_edges,
)
from nodewise.importing.array_files import read_into

STRIDE = 1 << 14  # keys between two in the index
LEAST_STRIDE = 1 << 10  # the same where memory is short
CHECKED_KEYS = 1 << 18  # at a time
COLUMN = np.uint64(ROW - 1)  # of a key
INDEX_BYTES = 24  # per key in the index, while it is built
# Peak memory without and with weights, in the worst case that everything falls into one bucket.
RUN_BYTES = {False: 8 + 16, True: 16 + 32 + 48}  # per edge: its ends and weight, its two keys, room to sort them
MERGE_BYTES = {False: 8 + 8 + 4, True: 16 + 16 + 24 + 8}  # per key: as read, as distributed, room to sort, its entry
LOOP_BYTES = {False: 4 + 8 + 8, True: 8 + 8 + 16}  # per node: its loop, its degree, and where its row ends


class Run(Protocol):
    """Sorted keys, and their weights."""

    def __len__(self) -> int: ...
    def samples(self, stride: int) -> AnyArray: ...
    def read(self, first: int, keys: AnyArray, weights: DoubleArray | None) -> None: ...


class RunFile:
    """Sorted keys in a file, and their weights in another."""

    def __init__(self, folder: Path, number: int, weighted: bool) -> None:
        self.keys = folder / f"{number:06}.keys"
        self.weights = folder / f"{number:06}.weights" if weighted else None

    def __len__(self) -> int:
        return self.keys.stat().st_size // 8

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.keys,) if self.weights is None else (self.keys, self.weights)

    def samples(self, stride: int) -> AnyArray:
        """Every ``stride``-th key, the first one included."""
        samples = np.empty(-(-len(self) // stride), np.uint64)
        with self.keys.open("rb") as stream:
            for number in range(samples.size):
                read_into(stream, 8 * stride * number, samples[number : number + 1])
        return samples

    def read(self, first: int, keys: AnyArray, weights: DoubleArray | None) -> None:
        """Fill ``keys``, and ``weights``, from place ``first`` on."""
        for path, array in zip(self.paths, (keys, weights), strict=False):
            if array is not None:
                with path.open("rb") as stream:
                    read_into(stream, 8 * first, array)

    def check(self, num_nodes: int) -> None:
        """Raise ValueError unless the keys are in order and of these nodes; kernels rely on it."""
        before = 0
        with self.keys.open("rb") as stream:
            for first in range(0, len(self), CHECKED_KEYS):
                keys = np.empty(min(CHECKED_KEYS, len(self) - first), np.uint64)
                read_into(stream, 8 * first, keys)
                if keys[0] < before or (keys[1:] < keys[:-1]).any() or (keys & COLUMN).max() >= num_nodes:
                    raise ValueError(f"{self.keys}: its keys are not those of a run")
                before = int(keys[-1])
        if before >= num_nodes * ROW:
            raise ValueError(f"{self.keys}: its keys are not those of a run")


def write_run(run: RunFile, ends: AnyArray, weights: DoubleArray | None, threads: int) -> None:
    """Sort edges ``(2, k)`` and write them as ``run``."""
    pieces = sorted_edges(ends[0], ends[1], weights, int(ends.max(initial=0)) + 1, threads).pieces
    for path, part in zip(run.paths, ("keys", "weights"), strict=False):
        with path.open("wb") as stream:
            for piece in pieces:
                stream.write(getattr(piece, part).data)


def least_room(runs: int, weighted: bool, stride: int = LEAST_STRIDE) -> int:
    """Bytes needed to merge this many runs beside their index: three strides of each, in the half for keys."""
    return 2 * (3 * runs + 2) * stride * MERGE_BYTES[weighted]


def index_bytes(keys: int, stride: int = LEAST_STRIDE) -> int:
    """Bytes that the index of this many keys takes."""
    return keys // stride * INDEX_BYTES


def stride_within(room: int, runs: int, keys: int, weighted: bool) -> int:
    """The largest stride with which the index and the merge fit into ``room`` bytes, or else the least one."""
    stride = STRIDE
    while stride > LEAST_STRIDE and index_bytes(keys, stride) + least_room(runs, weighted, stride) > room:
        stride //= 2
    return stride


class Stretch(NamedTuple):
    """A part of a run."""

    keys: AnyArray
    weights: DoubleArray | None

    def part(self, first: int, last: int) -> Stretch:
        return Stretch(self.keys[first:last], None if self.weights is None else self.weights[first:last])


class Merge:
    """Rows in order from runs, in ``room`` bytes of memory; see :func:`least_room`."""

    def __init__(self, runs: Sequence[Run], num_nodes: int, weighted: bool, threads: int, room: int) -> None:
        self._runs, self._weighted, self._threads = runs, weighted, threads
        self._end = num_nodes * ROW
        self._sizes = [len(run) for run in runs]
        self.num_keys = sum(self._sizes)
        self._stride = stride_within(room, len(runs), self.num_keys, weighted)
        self._room = room - index_bytes(self.num_keys, self._stride)
        self._samples = [run.samples(self._stride) for run in runs]
        self._all = np.sort(np.concatenate([np.zeros(0, np.uint64), *self._samples]))

    def ranges(self, start: int) -> Iterator[tuple[int, CsrRows, int]]:
        """``(end, rows, keys)`` for each range of keys from ``start`` on that fits into memory.

        The last row may be cut at ``end``, where the next range begins; ``keys`` is the number of keys read.
        """
        places = [self._place(number, start) for number in range(len(self._runs))]
        while start < self._end:
            end = self._range_end(start, sum(places))
            stretches = self._read(places, end)
            counts = [stretch.keys.size for stretch in stretches]
            joined = self._joined(start, end, stretches)
            del stretches  # copied
            rows = rows_of(joined, self._threads)
            del joined
            yield end, rows, sum(counts)
            del rows  # before the next range is read
            places = [place + count for place, count in zip(places, counts, strict=True)]
            start = end

    def _place(self, number: int, key: int) -> int:
        """Where in a run the keys from ``key`` on begin."""
        before = int(np.searchsorted(self._samples[number], np.uint64(key)))  # samples below key
        first = max(0, before - 1) * self._stride
        keys = np.empty(min(self._stride, self._sizes[number] - first), np.uint64)
        self._runs[number].read(first, keys, None)
        return first + int(np.searchsorted(keys, np.uint64(key)))

    def _range_end(self, start: int, passed: int) -> int:
        """The largest key up to which memory is enough.

        Below the ``j``-th of all samples there are at most ``j`` strides of keys, ``passed`` keys of which are done.
        """
        affordable = (passed + 3 * self._room // 4 // MERGE_BYTES[self._weighted]) // self._stride
        end = int(self._all[affordable]) if affordable < self._all.size else self._end
        loops = first_loop(start) + max(1, self._room // 4 // LOOP_BYTES[self._weighted])
        return min(end, loops * ROW, self._end)

    def _read(self, places: Sequence[int], end: int) -> list[Stretch]:
        """The keys of each run from its place up to the key ``end``.

        All runs are read into one array: when freed, it goes back to the system, unlike many small ones.
        """
        samples = [int(np.searchsorted(keys, np.uint64(end))) for keys in self._samples]  # below end
        lasts = [min(count * self._stride, size) for count, size in zip(samples, self._sizes, strict=True)]
        bounds = [0, *accumulate(last - place for place, last in zip(places, lasts, strict=True))]
        keys = np.empty(bounds[-1], np.uint64)
        weights = np.empty(bounds[-1], np.float64) if self._weighted else None

        def stretch(number: int) -> Stretch:
            mine = slice(bounds[number], bounds[number + 1])
            found = Stretch(keys[mine], None if weights is None else weights[mine])
            self._runs[number].read(places[number], *found)
            return found.part(0, int(np.searchsorted(found.keys, np.uint64(end))))

        return map_chunks(stretch, range(len(self._runs)), self._threads)

    def _joined(self, start: int, end: int, stretches: Sequence[Stretch]) -> Sorted:
        """All keys of a range, in pieces cut at rows; weights of equal keys are added in the order of the runs."""
        total = sum(stretch.keys.size for stretch in stretches)
        cuts = self._cuts(start, end, total)
        inner = np.array(cuts[1:-1], np.uint64)
        places = [[0, *np.searchsorted(s.keys, inner).tolist(), s.keys.size] for s in stretches]
        bounds = [sum(place[number] for place in places) for number in range(len(cuts))]
        keys = np.empty(total, np.uint64)
        weights = np.empty(total, np.float64) if self._weighted else None

        def piece(number: int) -> Piece:
            mine, at = slice(bounds[number], bounds[number + 1]), bounds[number]
            for place, stretch in zip(places, stretches, strict=True):
                part = stretch.part(place[number], place[number + 1])
                keys[at : at + part.keys.size] = part.keys
                if weights is not None and part.weights is not None:
                    weights[at : at + part.keys.size] = part.weights
                at += part.keys.size
            carried = None if weights is None else weights[mine]
            return settled(cuts[number], cuts[number + 1], keys[mine], carried, in_runs=True)

        return Sorted(map_chunks(piece, range(len(cuts) - 1), self._threads), keys)

    def _cuts(self, start: int, end: int, num_keys: int) -> list[int]:
        """Rows between ``start`` and ``end`` with about one bucket of keys between them."""
        inside = self._all[slice(*np.searchsorted(self._all, np.array([start, end - 1], np.uint64)))]
        step = max(1, int(inside.size * KEYS_PER_BUCKET // max(1, num_keys)))
        rows = {int(key) // ROW * ROW for key in inside[::step]}
        return [start, *sorted(key for key in rows if start < key < end), end]
