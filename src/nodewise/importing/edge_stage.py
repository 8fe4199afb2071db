"""The stage of an import that writes the adjacency: edges to sorted runs, runs to ``indptr.npy`` and the rest."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nodewise._util.errors import InputError, StoreError
from nodewise._util.memory import RESERVE, resident_memory, room_for, too_small, trim_memory
from nodewise._util.progress import Progress
from nodewise._util.threads import thread_count
from nodewise._util.types import AnyArray, DoubleArray
from nodewise.formats.raw_graph import EdgeStream
from nodewise.graph.adjacency import MAX_NODES
from nodewise.graph.edge_keys import ROW, CsrRows, degree_sums, rows_of, sorted_edges
from nodewise.importing.name_table import NameTable, load_kernels
from nodewise.importing.sorting import RUN_BYTES, Merge, Run, RunFile, index_bytes, least_room, write_run
from nodewise.importing.work_folder import Work
from nodewise.store.manifest import INDICES, INDPTR, WEIGHTS
from nodewise.store.streaming import WRITER_BYTES, ArrayWriter

Part = TypeVar("Part")

PART_EDGES = 1 << 19  # read at a time
FIRST_PARTS = 4  # read before memory is measured: by then, a reader that reads ahead does so
GROWTH = 48 << 20  # memory by which reading may grow after that
SPREAD = 20 << 20  # by which two processes that do the same may differ
LEAST_RUN = 1 << 18  # edges; shorter runs would be too many


# ---------------------------------------------------------------------- memory


def warm_up(parts: Iterator[Part], weighted: bool) -> list[Part]:
    """Load or compile the kernels and read the first parts, so that the memory for both counts as in use."""
    ends = np.array([[0, 1], [1, 2]], np.uint32)
    rows = rows_of(sorted_edges(ends[0], ends[1], np.ones(2) if weighted else None, 3, 1), 1)
    Merged().add(3 * ROW, rows, 4)
    return list(itertools.islice(parts, FIRST_PARTS))


def least_run_bytes(weighted: bool, count: int) -> int:
    """Bytes in which runs of ``count`` edges can be sorted, and be few enough to be merged in as many bytes."""
    # With b bytes, runs have b / RUN_BYTES edges; and the fewer runs there are, the less memory it takes to merge them.
    run = RUN_BYTES[weighted]
    return max(LEAST_RUN * run, math.isqrt(least_room(1, weighted) * run * count))


def check_memory(edges: EdgeStream, memory: int, names: NameTable | None) -> None:
    """Refuse a budget in which the edges cannot be sorted and merged, before the work begins."""
    parts = edges.parts(PART_EDGES)  # stays open while memory is measured
    warm_up(parts, edges.weighted)
    _check_room(edges.weighted, edges.count or edges.most, memory, 0 if names is None else names.room_left)


def names_room(parts: Iterator[object], weighted: bool, count: int, memory: int) -> int:
    """The bytes that a table of names may use while ``count`` edges are read from ``parts`` and sorted."""
    load_kernels()
    warm_up(parts, weighted)
    memory -= GROWTH  # they may be counted first
    _check_room(weighted, count, memory, 1, GROWTH)
    return _free(memory) - least_run_bytes(weighted, count)


def _check_room(weighted: bool, count: int, memory: int, names: int, spare: int = 0) -> None:
    least = least_run_bytes(weighted, count)
    sorting = memory - _free(memory) + names + least
    merging = _held() + index_bytes(2 * count) + least + (3 if weighted else 2) * WRITER_BYTES
    if max(sorting, merging) > memory:
        raise too_small("sorting edges", memory + spare, max(sorting, merging) + spare + SPREAD)


def _free(memory: int) -> int:
    """The bytes that are left for runs and names while edges are read."""
    return memory - _held() - GROWTH


def _held() -> int:
    trim_memory()
    return resident_memory() + RESERVE


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

    parts = edges.parts(PART_EDGES)
    parts = itertools.chain(warm_up(parts, edges.weighted), parts)
    capacity = _run_size(edges, work, memory, names)
    threads = thread_count(None)
    for ends, weights in _collected(edges, parts, capacity, sum(runs), progress):
        trim_memory()  # what reading has freed makes room for keys
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
    free = _free(memory) - (0 if names is None else names.room_left)
    least = least_run_bytes(edges.weighted, edges.count or edges.most)  # which check_memory has found to be free
    size = max(least, free) // RUN_BYTES[edges.weighted]
    work.note(run_size={"memory": memory, "edges": size})
    return size


def _collected(
    edges: EdgeStream, parts: Iterator[Any], capacity: int, skip: int, progress: Progress
) -> Iterator[tuple[AnyArray, DoubleArray | None]]:
    """The edges after the first ``skip``, ``capacity`` at a time, in arrays that are reused."""
    ends = np.empty((2, capacity), np.uint32)
    weights = np.empty(capacity, np.float64) if edges.weighted else None
    filled = read = 0
    for part, part_weights in parts:
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
    sorted_runs = [RunFile(work.runs, number, weighted) for number in range(len(work.done["runs"]))]
    if work.resumed:  # a journal can be altered together with its checksums
        for run in sorted_runs:
            run.check(num_nodes)
    runs: list[Run] = [*more, *sorted_runs]
    at = Merged(**work.done.get("merged", {}))
    files = {INDPTR: np.int64, INDICES: np.uint32} | ({WEIGHTS: np.float32} if weighted else {})
    least = index_bytes(sum(map(len, runs))) + least_room(len(runs), weighted)
    trim_memory()
    try:
        room = room_for("merging edges", memory + RESERVE, least, len(files) * WRITER_BYTES)
    except InputError as error:
        raise StoreError(f"{error}. With --resume, the edges are not sorted again") from error
    room = max(least, room - RESERVE)  # part of the reserve may have been used by now
    merge = Merge(runs, num_nodes, weighted, thread_count(None), room)
    kept = {INDPTR: at.rows, INDICES: at.entries, WEIGHTS: at.entries}
    with contextlib.ExitStack() as stack:
        writers = {
            name: stack.enter_context(ArrayWriter(work.store / name, kind, keep=kept[name] if at.rows else None))
            for name, kind in files.items()
        }
        if not at.rows:
            writers[INDPTR].append(np.zeros(1, np.int64))
            at.rows = 1
        for end, rows, keys in merge.ranges(at.key):
            writers[INDPTR].append(at.add(end, rows, keys))
            writers[INDICES].append(rows.columns)
            if rows.weights is not None:
                writers[WEIGHTS].append(rows.weights)
            del rows  # frees memory for the next range
            work.note(*(work.store / name for name in writers), merged=dataclasses.asdict(at))
            progress("merging edges", at.keys, merge.num_keys)
        work.add_files({name: writer.finish() for name, writer in writers.items()})
