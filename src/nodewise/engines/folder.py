"""The folder of a job: what lies in it, what is still missing, and when it may be gone on with or replaced.

``_job.json`` comes first and ``_summary.json`` last. Shards take their names when they are whole, so whatever has a
shard's name is one, and a run that is killed at any moment leaves nothing worse than files that were to become shards.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from nodewise._typing import IntArray
from nodewise.atomic import check_new_folder, new_file
from nodewise.engines.job import COLUMNS, JOB, NODES, SUMMARY, Job
from nodewise.errors import StoreError

SHARD = re.compile(r"part-\d{5,}\.parquet")
_WRITTEN = "|".join([*map(re.escape, (JOB, NODES, SUMMARY)), SHARD.pattern])
PARTIAL = re.compile(rf"\.({_WRITTEN})\.partial-[0-9a-f]{{8}}")
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


def is_job_folder(path: Path) -> bool:
    """Whether a folder was written by a job and holds nothing else."""
    try:
        names = {entry.name for entry in path.iterdir()}
        rest = {name for name in names if not PARTIAL.fullmatch(name)}
        if rest:
            Job.read(path)
    except OSError:  # StoreError is one
        return False
    return all(name in (JOB, NODES, COLUMNS, SUMMARY) or SHARD.fullmatch(name) for name in rest)


def begin(job: Job, nodes: IntArray | None, overwrite: bool) -> Job:
    """Make the folder, or go on in the one that an earlier run of the same job left; the job as it stands there.

    ``nodes`` are those asked about, or None for all. ``overwrite`` replaces what another job wrote.
    """
    folder = job.folder
    before = Job.read(folder) if (folder / JOB).is_file() else None
    if before is not None and before.fingerprint == job.fingerprint:
        job = dataclasses.replace(job, blocks=before.blocks)
    elif before is not None and not overwrite:
        raise StoreError(f"{folder}: {_difference(before, job)}; pass --overwrite to replace it or choose another")
    else:
        check_new_folder(folder, overwrite=True, ours=is_job_folder, inside=True)
        if before is not None:
            _clear(folder)
    with new_file(folder / JOB) as temporary:
        temporary.write_text(job.to_json(), encoding="utf-8")
    if nodes is not None:
        with new_file(folder / NODES) as temporary, temporary.open("wb") as stream:
            np.save(stream, nodes)
    return job


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
        with new_file(job.folder / SUMMARY) as temporary:
            temporary.write_text(json.dumps(dataclasses.asdict(summary), indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(job.folder / COLUMNS, ignore_errors=True)
    _drop_partial(job.folder)
    return summary


def _difference(before: Job, job: Job) -> str:
    """What tells two jobs apart, in words."""
    there, here = before.identity, job.identity
    differing = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    parts = [f"{name} ({_short(there.get(name))} there, {_short(here.get(name))} here)" for name in differing]
    return f"holds the work of another job, which differs in {', '.join(parts)}"


def _short(value: Any) -> str:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else str(value)


def _clear(folder: Path) -> None:
    """Remove all that a job wrote, ``_job.json`` last: cut short, what is left is still known as a job's."""
    for entry in sorted(folder.glob("*"), key=lambda entry: entry.name == JOB):
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _drop_partial(folder: Path) -> None:
    """Remove what killed writers left; a run of the same job beside this one finds its shards there and is content."""
    for entry in folder.iterdir():
        if PARTIAL.fullmatch(entry.name):
            with contextlib.suppress(OSError):
                entry.unlink()
