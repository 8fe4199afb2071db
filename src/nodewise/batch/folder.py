"""The folder of a job: what lies in it, and what is still missing.

``_job.json`` comes first and ``_summary.json`` last. Shards take their names when they are whole, so whatever has a
shard's name is one.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nodewise._util.atomic import new_file
from nodewise._util.errors import StoreError
from nodewise._util.run_folder import RunFolder, write_json
from nodewise._util.types import IntArray
from nodewise.batch.job import COLUMNS, JOB, NODES, SUMMARY, Job

_OURS = rf"{NODES}|{SUMMARY}|\{COLUMNS}|part-\d{{5,}}\.parquet"
_ADVICE = "pass --overwrite to replace it, or choose another folder"
STAMP, PLACES = b"nodewise.job", b"nodewise.places"  # in the metadata of a shard: whose it is, and which


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a run did: ``made`` of the ``nodes`` in ``seconds``; the others were there already.

    ``unlabelled``: rows without a label, of nodes that are not sure enough.
    """

    kind: str
    nodes: int
    rows: int
    shards: int
    made: int
    seconds: float
    unlabelled: int = 0


@contextmanager
def job_folder(job: Job, nodes: IntArray | None, overwrite: bool, keep: bool = True) -> Iterator[Job]:
    """Make the folder, or go on in the one that an earlier run of the same job left; yields the job as it stands there.

    ``nodes`` are those asked about, or None for all. ``overwrite`` replaces what another job wrote. Unless ``keep``,
    the folder is removed when the block ends without an error.
    """
    run = RunFolder(job.folder, "job", job.identity, JOB, _OURS, _ADVICE)
    with run.locked():
        before = run.read(overwrite)
        if before is not None:
            blocks = before["blocks"]
            job = dataclasses.replace(job, blocks=blocks and tuple((first, last) for first, last in blocks))
        run.save(dataclasses.asdict(job))
        if nodes is not None:
            with new_file(job.folder / NODES) as temporary, temporary.open("wb") as stream:
                np.save(stream, nodes)
        yield job
        if not keep:
            run.clear()


def missing_shards(job: Job) -> list[int]:
    """The chunks without a shard; a shard that is not this job's, or not whole, is an error."""
    there = [chunk for chunk in range(job.num_chunks) if job.shard(chunk).is_file()]
    for chunk in there:
        rows_of_shard(job, chunk)
    return sorted(set(range(job.num_chunks)) - set(there))


def missing_blocks(job: Job) -> list[int]:
    return [block for block in range(len(job.blocks or ())) if not job.column_file(block).is_file()]


def rows_of_shard(job: Job, chunk: int) -> tuple[int, int]:
    """The number of rows in a shard, which must be this job's, and how many of them have no label."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = job.shard(chunk)
    try:
        found = pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(
            f"{file}: cannot be read as a shard ({error}); delete it, and the same command makes it again"
        ) from error
    stamp = stamp_of(job, chunk)
    if {key: (found.metadata or {}).get(key) for key in stamp} != stamp:
        raise StoreError(f"{file}: not a shard of this job; delete it, and the same command makes its own")
    return int(found.num_rows), _nulls(found, "label") if job.min_confidence is not None else 0


def _nulls(metadata: Any, column: str) -> int:
    """How many values of a column are null, as a Parquet file's metadata has it."""
    place = metadata.schema.names.index(column)
    parts = [metadata.row_group(i).column(place).statistics for i in range(metadata.num_row_groups)]
    return sum(part.null_count for part in parts if part is not None)


def stamp_of(job: Job, chunk: int) -> dict[bytes, bytes]:
    """What the metadata of a shard says."""
    first, last = job.range_of(chunk)
    return {STAMP: job.fingerprint.encode(), PLACES: f"{first}:{last}".encode()}


def finish(job: Job, made: int, seconds: float) -> Summary:
    """Write the summary, and drop all that was there for the work alone; the summary of an earlier end is kept."""
    counts = [rows_of_shard(job, chunk) for chunk in range(job.num_chunks)]
    rows, unlabelled = (sum(column) for column in zip(*counts, strict=True))
    summary = Summary(job.kind, job.num_nodes, rows, job.num_chunks, made, round(seconds, 3), unlabelled)
    if made or not (job.folder / SUMMARY).is_file():
        write_json(job.folder / SUMMARY, dataclasses.asdict(summary))
    shutil.rmtree(job.folder / COLUMNS, ignore_errors=True)
    return summary
