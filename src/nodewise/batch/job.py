"""A job (what to compute with which model and graph, in numbered pieces), and how a killed one resumes in its folder.

Two jobs are the same if model, graph, nodes, chunks and memory are, and so the results; paths and the number of threads
may differ from one run to the next. In the folder, ``_job.json`` is written first and ``_summary.json`` last. Shards
get their names when they are complete.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nodewise._util.atomic import check_new_file, new_file
from nodewise._util.errors import InputError, StoreError
from nodewise._util.os_errors import writing
from nodewise._util.run_folder import REFUSED, RunFolder, write_json
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import IntArray
from nodewise.batch.predictions import COLUMNS as TABLE_COLUMNS
from nodewise.batch.predictions import MOST_PROBABLE, LabelChoice
from nodewise.batch.seals import is_whole
from nodewise.diffusion.params import Engine

log = logging.getLogger("nodewise")
Kind = Literal["predict", "embed"]
CHUNK = 1 << 16  # nodes per shard

# Readers of Parquet folders skip names that begin with _ or a dot.
JOB, NODES, COLUMNS, SUMMARY = "_job.json", "_nodes.npy", ".columns", "_summary.json"
_OURS = rf"{NODES}|{SUMMARY}|\{COLUMNS}|part-\d{{5,}}\.parquet"
_ADVICE = "pass --overwrite to replace it, or choose another folder"
STAMP, PLACES = b"nodewise.job", b"nodewise.places"  # in the metadata of a shard: its job, and its range of nodes


@dataclasses.dataclass(frozen=True)
class Job:
    """All that a piece of the work depends on.

    ``model_sha256`` and ``graph`` identify what was at ``model`` and ``source`` when the job began. ``nodes_sha256`` is
    None for all nodes, in order; else the list of nodes is in the output folder. ``blocks``: columns that are made for
    all nodes before any shard, or None if the rows of a few nodes can be made on their own. ``engine``: another one
    than the model was trained with, or None. ``crowded``: pieces are made side by side on a machine, and share its
    memory unless ``memory`` is given. ``choice``: which labels are written.
    """

    kind: Kind
    model: str
    source: str
    data_dir: str | None
    output: str
    model_sha256: str = ""
    graph: str = ""
    num_nodes: int = 0
    nodes_sha256: str | None = None
    chunk: int = CHUNK
    memory: int | None = None
    threads: int | None = None
    crowded: bool = False
    engine: Engine | None = None
    blocks: tuple[tuple[int, int], ...] | None = None
    choice: LabelChoice = MOST_PROBABLE

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise InputError(f"chunk={self.chunk}: expected a whole number of nodes, at least 1")

    @property
    def folder(self) -> Path:
        return Path(self.output)

    @property
    def num_chunks(self) -> int:
        """At least one: without nodes there is still a table, with no rows."""
        return max(1, -(-self.num_nodes // self.chunk))

    def range_of(self, chunk: int) -> tuple[int, int]:
        """The positions of a chunk's first node, and of the one after its last, among the nodes of the job."""
        return chunk * self.chunk, min(self.num_nodes, (chunk + 1) * self.chunk)

    def nodes(self, first: int = 0, last: int | None = None) -> IntArray:
        """The nodes at these positions; all of them by default."""
        last = self.num_nodes if last is None else last
        if self.nodes_sha256 is None:
            return np.arange(first, last)
        return np.array(np.load(self.folder / NODES, mmap_mode="r")[first:last])

    def shard(self, chunk: int) -> Path:
        return self.folder / f"part-{chunk:05d}.parquet"

    def column_file(self, block: int) -> Path:
        return self.folder / COLUMNS / f"block-{block:05d}.npy"

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the results, by the names that users know."""
        columns = {"columns": ", ".join(TABLE_COLUMNS)} if self.kind == "predict" else {}
        return {
            "command": self.kind,
            "model": self.model_sha256,
            "graph": self.graph,
            "nodes": self.nodes_sha256 or "all",
            "number of nodes": self.num_nodes,
            "chunk": self.chunk,
            "memory": None if self.blocks is None else self.memory,
            "engine": self.engine,
            **columns,
            **{name.replace("_", "-"): value for name, value in self.choice.given.items()},
        }

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()


def digest_of_nodes(nodes: IntArray) -> str:
    return hashlib.sha256(np.ascontiguousarray(nodes, "<i8").tobytes()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a run did: ``made`` of the ``nodes`` in ``seconds``; the others were there already.

    ``unlabelled``: rows without a label, because no class is probable enough.
    """

    kind: str
    nodes: int
    rows: int
    shards: int
    made: int
    seconds: float
    unlabelled: int = 0


@contextmanager
def job_folder(job: Job, nodes: IntArray | None, overwrite: bool, one_file: Path | None = None) -> Iterator[Job]:
    """Make the folder, or continue in the one of an earlier run of the same job; yields the job as saved there.

    ``nodes``: the listed ones, or None for all. ``overwrite`` replaces what another job wrote. ``one_file``: what
    the shards are joined into; the folder then is hidden, and removed when the block ends without an error.
    """
    run = RunFolder(job.folder, "job", job.identity, JOB, _OURS, _ADVICE, one_file)
    with run.locked():
        before = run.read(overwrite or (one_file is not None and not one_file.exists()))
        if one_file is not None:
            check_new_file(one_file, overwrite or before is not None)
        if before is not None:
            job = dataclasses.replace(job, blocks=_blocks_of(job, before))
        run.save(dataclasses.asdict(job))
        if nodes is not None:
            with new_file(job.folder / NODES) as temporary, temporary.open("wb") as stream:
                np.save(stream, nodes)
        yield job
        if one_file is not None:
            run.clear()


def _blocks_of(job: Job, state: Any) -> tuple[tuple[int, int], ...] | None:
    """The blocks of columns of the run that this one continues."""
    try:
        blocks = state["blocks"]
        return None if blocks is None else tuple((int(first), int(last)) for first, last in blocks)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{job.output}: does not say how its columns are divided ({error}); {REFUSED}") from error


def missing_shards(job: Job) -> list[int]:
    """The chunks without a shard; a damaged one is removed, one of another job is an error."""
    missing = without_file([job.shard(chunk) for chunk in range(job.num_chunks)])
    for chunk in sorted({*range(job.num_chunks)}.difference(missing)):
        rows_of_shard(job, chunk)
    return missing


def without_file(files: Sequence[Path]) -> list[int]:
    """The places of files that are not there; those that do not match their checksum are removed, with a warning."""
    whole = map_chunks(is_whole, files, thread_count(None))
    missing = [place for place, good in enumerate(whole) if not good]
    for file in (files[place] for place in missing):
        if file.is_file():
            log.warning(f"{file}: does not match its checksum, so it is made again")
            with writing(file):
                file.unlink()
    return missing


def rows_of_shard(job: Job, chunk: int) -> tuple[int, int]:
    """The number of rows in a shard, which must be one of this job, and how many of them have no label."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = job.shard(chunk)
    try:
        found = pq.read_metadata(file)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(
            f"{file}: cannot be read as a shard ({error}); delete it, and the same command makes it again"
        ) from error
    stamp = stamp_of(job, chunk)
    if {key: (found.metadata or {}).get(key) for key in stamp} != stamp:
        raise StoreError(f"{file}: not a shard of this job; delete it, and the same command makes its own")
    if job.choice.min_confidence is None:
        return found.num_rows, 0
    labels = found.schema.names.index("label")
    parts = [found.row_group(i).column(labels).statistics for i in range(found.num_row_groups)]
    return found.num_rows, sum(part.null_count for part in parts if part is not None)


def stamp_of(job: Job, chunk: int) -> dict[bytes, bytes]:
    """The metadata of a shard, by which it is known as this job's."""
    first, last = job.range_of(chunk)
    return {STAMP: job.fingerprint.encode(), PLACES: f"{first}:{last}".encode()}


def finish(job: Job, made: int, seconds: float) -> Summary:
    """Write the summary, unless this run had nothing to do, and remove what only the work needed."""
    counts = [rows_of_shard(job, chunk) for chunk in range(job.num_chunks)]
    rows, unlabelled = (sum(column) for column in zip(*counts, strict=True))
    summary = Summary(job.kind, job.num_nodes, rows, job.num_chunks, made, round(seconds, 3), unlabelled)
    if made or not (job.folder / SUMMARY).is_file():
        write_json(job.folder / SUMMARY, dataclasses.asdict(summary))
    shutil.rmtree(job.folder / COLUMNS, ignore_errors=True)
    return summary
