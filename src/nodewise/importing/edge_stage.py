"""The stage of an import that writes the adjacency: edges to sorted runs, runs to ``indptr.npy`` and the rest."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nodewise._util.errors import InputError, StoreError
from nodewise._util.memory import RESERVE, resident_memory, room_for, too_small
from nodewise._util.progress import Progress
from nodewise._util.threads import thread_count
from nodewise._util.types import AnyArray, DoubleArray
from nodewise.formats.raw_graph import EdgeStream
from nodewise.graph.adjacency import MAX_NODES
from nodewise.graph.edge_keys import ROW, CsrRows, degree_sums, rows_of, sorted_edges
from nodewise.importing.name_table import NameTable
from nodewise.importing.sorting import RUN_BYTES, Merge, Run, RunFile, least_room, write_run
from nodewise.importing.work_folder import Work
from nodewise.store.manifest import INDICES, INDPTR, WEIGHTS
from nodewise.store.streaming import WRITER_BYTES, ArrayWriter

PART_EDGES = 1 << 19  # read at a time
PART_BYTES = 96 << 20  # memory for reading
LEAST_RUN = 1 << 18  # edges; shorter runs would be too many


# ---------------------------------------------------------------------- edges to runs


def sort_into_runs(
    edges: EdgeStream,
    work: Work,
    memory: int,
    names: NameTable | None,
    progress: Progress,
    check: Callable[[int], None],
) -> int:
    """Write all edges as sorted runs. Returns the largest id, -1 where there are no edges.

    ``check`` gets the largest id once all edges have been read, and so never in an import that continues after that.
    """
    runs: list[int] = work.done.get("runs", [])  # the edges in each
    largest = int(work.done.get("largest", -1))
    if work.done.get("sorted"):
        return largest

    def note(*written: Path, **done: Any) -> None:
        written = written if names is None else (*written, *names.file.paths)
        work.note(*written, runs=runs, largest=largest, names=0 if names is None else len(names), **done)

    # Load or compile the kernels first, so that their memory is counted as in use.
    ends = np.array([[0, 1], [1, 2]], np.uint32)
    rows_of(sorted_edges(ends[0], ends[1], np.ones(2) if edges.weighted else None, 3, 1), 1)
    capacity = _run_size(edges, work, memory, names)
    threads = thread_count(None)
    for ends, weights in _collected(edges, capacity, sum(runs), progress):
        run = RunFile(work.runs, len(runs), edges.weighted)
        write_run(run, ends, weights, threads)
        largest = max(largest, int(ends.max(initial=0)))
        runs = [*runs, ends.shape[1]]
        note(*run.paths)
    check(largest)
    note(sorted=True)
    return largest


def _run_size(edges: EdgeStream, work: Work, memory: int, names: NameTable | None) -> int:
    """The number of edges per run. It stays the same if an import continues with the same memory: sums depend on it."""
    begun = work.done.get("run_size")
    if begun is not None and begun["memory"] == memory:
        return int(begun["edges"])
    room = _sorting_room(edges.weighted, edges.count, memory, 0 if names is None else names.room_left)
    size = room // RUN_BYTES[edges.weighted]
    work.note(run_size={"memory": memory, "edges": size})
    return size


def names_room(weighted: bool, count: int | None, memory: int) -> int:
    """The bytes that a table of names may use while ``count`` edges are sorted: half of what is free."""
    half = (memory - resident_memory() - RESERVE - PART_BYTES) // 2
    _sorting_room(weighted, count, memory, max(1, half))
    return half


def _sorting_room(weighted: bool, count: int | None, memory: int, names: int) -> int:
    """The bytes left for sorting beside ``names`` for a table; an error if they are too few, now or for the merge."""
    held, run = resident_memory() + RESERVE, RUN_BYTES[weighted]
    left = memory - held - PART_BYTES - names
    # With r bytes, runs have r / run edges; and the fewer runs there are, the less memory it takes to merge them.
    least = max(LEAST_RUN * run, math.isqrt(least_room(1, weighted) * run * (count or 0)))
    sorting = memory + (2 if names else 1) * (least - left)  # names would get half of any more memory
    merging = held + least_room(1, weighted) + (3 if weighted else 2) * WRITER_BYTES
    if max(sorting, merging) > memory:
        raise too_small("sorting edges", memory, max(sorting, merging))
    return left


def _collected(
    edges: EdgeStream, capacity: int, skip: int, progress: Progress
) -> Iterator[tuple[AnyArray, DoubleArray | None]]:
    """The edges after the first ``skip``, ``capacity`` at a time, in arrays that are reused."""
    ends = np.empty((2, capacity), np.uint32)
    weights = np.empty(capacity, np.float64) if edges.weighted else None
    filled = read = 0
    for part, part_weights in edges.parts(PART_EDGES):
        _check_ids(edges, part)
        first, read = max(0, skip - read), read + part.shape[1]
        while first < part.shape[1]:
            count = min(capacity - filled, part.shape[1] - first)
            ends[:, filled : filled + count] = part[:, first : first + count]
            if weights is not None and part_weights is not None:
                weights[filled : filled + count] = part_weights[first : first + count]
            first, filled = first + count, filled + count
            if filled == capacity:
                yield ends, weights
                filled = 0
        progress("reading and sorting edges", read, edges.count or edges.estimate(read))
    if filled:
        yield ends[:, :filled], None if weights is None else weights[:filled]


def _check_ids(edges: EdgeStream, ends: AnyArray) -> None:
    for node in (int(ends.min(initial=0)), int(ends.max(initial=0))):
        if not 0 <= node < MAX_NODES:
            raise InputError(f"{edges.source}: node {node}; ids are whole numbers from 0 to {MAX_NODES - 1:,}")


# ---------------------------------------------------------------------- runs to rows


@dataclasses.dataclass
class Merged:
    """The progress of the merge: ``key`` is next, and ``open`` entries of its row are written."""

    key: int = 0
    keys: int = 0  # read so far
    rows: int = 0  # numbers in indptr
    entries: int = 0
    open: int = 0
    open_weight: float = 0.0
    total_degree: float = 0.0
    least_degree: float = 0.0  # 0: not known yet

    def add(self, end: int, rows: CsrRows, keys: int) -> AnyArray:
        """Add the rows up to the key ``end``; returns where each complete one ends."""
        complete = end // ROW - rows.first
        degrees = rows.degrees.copy()
        degrees[0] += self.open
        ends = self.entries - self.open + np.cumsum(degrees[:complete])
        known = (self.open_weight, self.total_degree, self.least_degree)
        weights = np.zeros(0, np.float32) if rows.weights is None else rows.weights
        self.open_weight, self.total_degree, self.least_degree = degree_sums(rows.degrees, weights, complete, *known)
        self.open = int(degrees[-1]) if complete < degrees.size else 0
        self.key, self.keys = end, self.keys + keys
        self.entries += rows.columns.size
        self.rows += complete
        return ends


def merge_runs(
    work: Work, num_nodes: int, weighted: bool, memory: int, progress: Progress, more: Sequence[Run] = ()
) -> None:
    """Write the adjacency of all runs, ``more`` first. The sum and minimum of its degrees go to the journal."""
    if INDPTR in work.files:
        return
    runs = [*more, *(RunFile(work.runs, number, weighted) for number in range(len(work.done["runs"])))]
    merge = Merge(runs, num_nodes, weighted, thread_count(None))
    at = Merged(**work.done.get("merged", {}))
    files = {INDPTR: np.int64, INDICES: np.uint32} | ({WEIGHTS: np.float32} if weighted else {})
    try:
        room = room_for("merging edges", memory, merge.least, len(files) * WRITER_BYTES)
    except InputError as error:
        raise StoreError(f"{error}. With --resume, the edges are not sorted again") from error
    kept = {INDPTR: at.rows, INDICES: at.entries, WEIGHTS: at.entries}
    with contextlib.ExitStack() as stack:
        writers = {
            name: stack.enter_context(ArrayWriter(work.store / name, kind, keep=kept[name] if at.rows else None))
            for name, kind in files.items()
        }
        if not at.rows:
            writers[INDPTR].append(np.zeros(1, np.int64))
            at.rows = 1
        for end, rows, keys in merge.ranges(at.key, room):
            writers[INDPTR].append(at.add(end, rows, keys))
            writers[INDICES].append(rows.columns)
            if rows.weights is not None:
                writers[WEIGHTS].append(rows.weights)
            del rows  # frees memory for the next range
            work.note(*(work.store / name for name in writers), merged=dataclasses.asdict(at))
            progress("merging edges", at.keys, merge.num_keys)
        work.add_files({name: writer.finish() for name, writer in writers.items()})
