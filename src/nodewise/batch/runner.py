"""The one way in: :func:`run` makes a job, has the missing pieces made, and puts together what is asked for."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from nodewise._util.atomic import beside
from nodewise._util.errors import InputError, NodewiseError, StoreError
from nodewise._util.progress import Progress, silent
from nodewise._util.types import IntArray
from nodewise.batch import folder
from nodewise.batch.folder import Summary
from nodewise.batch.job import CHUNK, Job, Kind, digest_of_nodes
from nodewise.batch.on_ray import check_installed, connected, run_on_ray
from nodewise.batch.opened import graph_id, model_id, open_graph, open_model, resolve_source, with_resources
from nodewise.batch.pieces import PieceError, Task, run_block, run_chunk
from nodewise.batch.predictions import FORMATS, check_choice, is_one_file, join_shards, read_nodes
from nodewise.diffusion.diffuse import check_params
from nodewise.diffusion.params import Engine
from nodewise.graph import Graph
from nodewise.learn.rows import DiffusedRows
from nodewise.learn.task import nodes_or_all

Place = Literal["local", "ray"]
Runner: TypeAlias = Callable[[Task, Job, Sequence[int]], Iterator[int]]

PIECE_BYTES = 1 << 28  # of columns, which are written when all of them are made
MANY = 100_000  # nodes, for which it is worth while to compare engines
PATIENCE = 60.0  # seconds, for network file systems

log = logging.getLogger("nodewise")


def run(
    kind: Kind,
    model: str | Path,
    source: str,
    output: str | Path,
    *,
    nodes: str = "all",
    data_dir: str | Path | None = None,
    coverage: float | None = None,
    min_confidence: float | None = None,
    engine: Engine | None = None,
    chunk: int = CHUNK,
    memory: int | None = None,
    threads: int | None = None,
    on: Place = "local",
    address: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Predict or embed ``nodes`` of ``source`` with a saved model, in chunks; no more than a chunk is held in memory.

    ``output`` is a folder of Parquet shards, each whole or absent: the same call goes on where a killed one stopped.
    A name that ends in .parquet or .csv is one file, put together from a hidden folder of shards beside it. ``nodes``,
    ``coverage`` and ``min_confidence``: as in :mod:`nodewise.batch.predictions`. ``engine``: another one than the model
    learned with ("auto": the cheapest for these nodes). ``memory``: bytes that a task of the exact engine may use.
    ``on="ray"``: each piece is a task of ``threads`` cores on the cluster at ``address``.
    """
    _check_place(on)
    check_choice(kind, coverage, min_confidence)
    target = Path(output)
    single = is_one_file(target, FORMATS[kind])
    place = beside(target, "parts") if single else target
    threads = 1 if on == "ray" and threads is None else threads
    job, listed = make_job(
        kind, model, source, place, nodes, data_dir, engine, chunk, memory, threads,
        crowded=on == "ray", coverage=coverage, min_confidence=min_confidence,
    )  # fmt: skip
    with folder.job_folder(job, listed, overwrite or single, keep=not single) as job:
        summary = _complete(job, on, address, progress or silent)
        if single:
            join_shards([job.shard(chunk) for chunk in range(job.num_chunks)], target)
    return summary


def make_job(
    kind: Kind,
    model: str | Path,
    source: str,
    output: Path,
    nodes: str,
    data_dir: str | Path | None,
    engine: Engine | None,
    chunk: int,
    memory: int | None,
    threads: int | None,
    crowded: bool = False,
    coverage: float | None = None,
    min_confidence: float | None = None,
) -> tuple[Job, IntArray | None]:
    """A job, and the nodes it asks about where these are not all."""
    model, (source, data_dir) = os.path.abspath(model), resolve_source(source, data_dir)
    learned, graph = open_model(model), open_graph(source, data_dir)
    if graph.num_features != learned.n_features_in_:
        raise InputError(
            f"{source} has {graph.num_features:,} features; the model in {model} was trained on "
            f"{learned.n_features_in_:,}: give the graph that it belongs to, or train another"
        )
    maker = with_resources(learned.row_maker, threads, memory, crowded, engine)
    check_params(maker.params)
    if coverage is not None:
        learned.set_threshold(coverage)  # raises where the model cannot tell
    listed = read_nodes(nodes, graph)
    if engine == "auto":
        maker = maker.settled(graph, nodes_or_all(graph, listed))
        engine = maker.params.engine
    elif engine is None:
        _advise(maker, graph, listed)
    blocks = maker.blocks(graph, listed)
    num_nodes = graph.num_nodes if listed is None else listed.size
    job = Job(
        kind=kind,
        model=model,
        source=source,
        data_dir=data_dir,
        output=os.path.abspath(output),
        model_sha256=model_id(model),
        graph=graph_id(source, graph),
        num_nodes=num_nodes,
        nodes_sha256=None if listed is None else digest_of_nodes(listed),
        chunk=chunk,
        memory=memory,
        threads=threads,
        crowded=crowded,
        engine=engine,
        blocks=None if blocks is None else _joined(blocks, 4 * num_nodes),
        coverage=coverage,
        min_confidence=min_confidence,
    )
    return job, listed


def _advise(maker: DiffusedRows, graph: Graph, nodes: IntArray | None) -> None:
    """Say so where so many nodes are asked about that another engine than the model's would be far faster."""
    own = maker.params.engine
    if (graph.num_nodes if nodes is None else nodes.size) >= MANY and own != "exact":
        best = maker.with_engine("auto").settled(graph, nodes_or_all(graph, nodes)).params.engine
        if best == "exact":
            log.warning(
                "for so many nodes --engine exact is faster than %s, with which the model learned; it computes what "
                "%s estimates",
                own,
                own,
            )


def _joined(blocks: list[slice], column_bytes: int) -> tuple[tuple[int, int], ...]:
    """Blocks that follow each other as one piece, while that is small: the engine cuts it up again as it likes."""
    pieces: list[tuple[int, int]] = []
    for block in blocks:
        if pieces and (block.stop - pieces[-1][0]) * column_bytes <= PIECE_BYTES:
            pieces[-1] = (pieces[-1][0], block.stop)
        else:
            pieces.append((block.start, block.stop))
    return tuple(pieces)


def _complete(job: Job, on: Place, address: str | None, progress: Progress) -> Summary:
    """Make what is missing."""
    started = time.perf_counter()
    missing = folder.missing_shards(job)
    there = job.num_chunks - len(missing)
    if there:
        log.info("%s: %s of %s shards are there already", job.folder, f"{there:,}", f"{job.num_chunks:,}")
    if missing:
        with _runner(on, address, job) as runner:
            if job.blocks is not None:
                _make(job, "columns", run_block, list(job.blocks), folder.missing_blocks(job), runner, progress)
            _make(job, "nodes", run_chunk, _ranges(job), missing, runner, progress)
        _wait_until_seen([job.shard(chunk) for chunk in missing])
    made = sum(last - first for first, last in map(job.range_of, missing))
    return folder.finish(job, made, time.perf_counter() - started)


def _check_place(on: Place) -> None:
    if on not in get_args(Place):
        raise InputError(f"on={on!r}: expected 'local' or 'ray'")
    if on == "ray":
        check_installed()


@contextmanager
def _runner(on: Place, address: str | None, job: Job) -> Iterator[Runner]:
    if on == "local":
        yield _run_here
    else:
        with connected(address, job.threads or 1) as ray:
            yield partial(run_on_ray, ray)


def _run_here(task: Task, job: Job, pieces: Sequence[int]) -> Iterator[int]:
    """Pieces made in this process, one after the other; threads work inside each."""
    for piece in pieces:
        try:
            task(job, piece)
        except (NodewiseError, OSError) as error:
            raise PieceError(piece, f"failed: {error}") from error
        yield piece


def _make(
    job: Job,
    unit: str,
    task: Task,
    ranges: list[tuple[int, int]],
    missing: list[int],
    runner: Runner,
    progress: Progress,
) -> None:
    """Make the missing ones of the pieces that ``ranges`` of nodes or columns are cut into."""
    size = [last - first for first, last in ranges]
    total = sum(size)
    done = total - sum(size[piece] for piece in missing)
    progress(unit, done, total)
    made = len(ranges) - len(missing)
    try:
        for piece in runner(task, job, missing):
            made += 1
            done += size[piece]
            progress(unit, done, total)
    except PieceError as error:
        first, last = ranges[error.piece]
        listed = " of the list" if unit == "nodes" and job.nodes_sha256 else ""
        raise StoreError(
            f"chunk {error.piece:,} ({unit} {first:,} to {last - 1:,}{listed}) {error.said}; {made:,} of "
            f"{len(ranges):,} chunks of {unit} are done and kept in {job.folder}: fix the cause and run the same "
            f"command again"
        ) from error


def _ranges(job: Job) -> list[tuple[int, int]]:
    return [job.range_of(chunk) for chunk in range(job.num_chunks)]


def _wait_until_seen(files: list[Path]) -> None:
    """Network file systems show here what was written elsewhere with a delay."""
    deadline = time.monotonic() + PATIENCE
    while unseen := [file for file in files if not file.is_file()]:
        if time.monotonic() > deadline:
            raise StoreError(
                f"{unseen[0]}: written by a worker, but not visible here; the output must lie on a file system that "
                f"all machines share"
            )
        time.sleep(1)
