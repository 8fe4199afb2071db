""":func:`run`: plan a job, make its missing pieces, and put the output together."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from nodewise._util.atomic import beside, check_new_file, new_file, real_path
from nodewise._util.errors import InputError, NodewiseError, StoreError
from nodewise._util.progress import Progress, silent
from nodewise._util.temporary import temporary_folder
from nodewise._util.types import IntArray
from nodewise.batch.job import (
    CHUNK,
    Job,
    Kind,
    Summary,
    digest_of_nodes,
    finish,
    job_folder,
    missing_shards,
    without_file,
)
from nodewise.batch.on_ray import check_place, connected, scatter
from nodewise.batch.opened import graph_id, model_id, open_graph, open_model, resolve_source, with_resources
from nodewise.batch.pieces import PieceError, Task, run_block, run_chunk
from nodewise.batch.predictions import (
    FORMATS,
    LabelChoice,
    check_known,
    is_one_file,
    join_shards,
    predicted,
    read_nodes,
    write_tables,
)
from nodewise.datasets import load
from nodewise.diffusion.diffuse import check_params
from nodewise.diffusion.params import Engine
from nodewise.graph import Graph
from nodewise.importing.new_nodes import with_new_nodes
from nodewise.learn.rows import DiffusedRows
from nodewise.learn.saved import is_model
from nodewise.learn.task import featured, nodes_or_all

Place = Literal["local", "ray"]

PIECE_BYTES = 1 << 28  # columns of one piece, which is written when all of it is made
MANY = 100_000  # nodes for which it is worth comparing engines
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
    engine: Engine | None = None,
    chunk: int = CHUNK,
    memory: int | None = None,
    threads: int | None = None,
    on: Place = "local",
    address: str | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
    **choice: Any,
) -> Summary:
    """Predict or embed ``nodes`` of ``source`` with a saved model, in chunks; no more than a chunk is held in memory.

    ``output`` is a folder of Parquet shards, each complete or absent: the same call continues where a killed one
    stopped. A name that ends in .parquet or .csv is one file, joined from a hidden folder of shards beside it;
    ``"-"`` is CSV on standard output. What another job wrote, and a file that exists, is replaced only with
    ``overwrite``. ``nodes``: ``"all"``, a file with one node per line, or ``"a,b,c"``. ``choice``: ``coverage``,
    ``min_confidence``, ``top``, ``keep_known`` and ``all_probabilities``, as in
    :class:`nodewise.batch.predictions.LabelChoice`. ``engine``: another one than the model was trained with ("auto":
    the cheapest for these nodes). ``memory``: bytes that a task of the exact engine may use. ``on="ray"``: each piece
    is a task of ``threads`` cores on the cluster at ``address``.
    """
    check_place(on, address)
    chosen = LabelChoice(**choice)
    chosen.check(kind)
    if is_model(Path(source)) and not is_model(Path(model)):
        raise InputError(f"{source}: this is a model; give the model first: nodewise {kind} {source} {model}")
    source, folder_of_data = resolve_source(source, data_dir)
    asked = Job(
        kind=kind, model=os.path.abspath(model), source=source, data_dir=folder_of_data, output="", chunk=chunk,
        memory=memory, threads=1 if on == "ray" and threads is None else threads, crowded=on == "ray", engine=engine,
        choice=chosen,
    )  # fmt: skip
    complete = partial(_complete, on=on, address=address, progress=progress)
    if str(output) != "-":
        return _write(asked, nodes, Path(output), overwrite, complete)
    if ".csv" not in FORMATS[kind]:
        raise InputError(f"-: standard output is CSV, and {kind} writes Parquet; expected a .parquet file or a folder")
    with temporary_folder() as folder:
        file = folder / "labels.csv"
        summary = _write(asked, nodes, file, overwrite, complete)
        with file.open("rb") as stream:
            shutil.copyfileobj(stream, sys.stdout.buffer)
    return summary


def predict_new(
    model: str | Path,
    source: str,
    output: str | Path,
    new_edges: str | Path,
    new_features: str | Path | None = None,
    *,
    data_dir: str | Path | None = None,
    overwrite: bool = False,
    **choice: Any,
) -> Summary:
    """Predict new nodes, which files give, as if they lay over the graph at ``source``: see :meth:`Graph.extended`.

    ``output``: a .csv or .parquet file, or "-". ``choice``: as in :class:`nodewise.batch.predictions.LabelChoice`.
    """
    chosen, target, stdout = LabelChoice(**choice), Path(output), str(output) == "-"
    chosen.check("predict")
    if not stdout and not is_one_file(target, FORMATS["predict"]):
        raise InputError(f"{target}: expected a name that ends in .csv or .parquet, or - for standard output")
    if not stdout:
        check_new_file(target, overwrite)
    started = time.perf_counter()
    fitted = open_model(os.path.abspath(model))
    graph = with_new_nodes(load(*resolve_source(source, data_dir)), new_edges, new_features)
    seen, nodes = featured(graph), graph.new_nodes
    table = predicted(fitted, graph, nodes, fitted.maker_on(seen).rows(seen, nodes), chosen)
    if stdout:
        write_tables(sys.stdout.buffer, iter([table]), ".csv")
    else:
        with new_file(target, overwrite) as temporary:
            write_tables(temporary, iter([table]), target.suffix.lower())
    spent = time.perf_counter() - started
    return Summary("predict", nodes.size, table.num_rows, 1, nodes.size, spent, table["label"].null_count)


def _write(job: Job, nodes: str, target: Path, overwrite: bool, complete: Callable[[Job], Summary]) -> Summary:
    """Do the job in the folder ``target``, or in a hidden one beside the file ``target``."""
    one_file = target if is_one_file(target, FORMATS[job.kind]) else None
    real_path(target)  # raises where nothing can be written
    folder = target if one_file is None else beside(target, "parts")
    job, listed = _planned(replace(job, output=os.path.abspath(folder)), nodes)
    replaces = overwrite or target.exists()  # what comes in the meantime is not replaced
    with job_folder(job, listed, overwrite, one_file) as job:
        summary = complete(job)
        if one_file is not None:
            join_shards([job.shard(chunk) for chunk in range(job.num_chunks)], one_file, replaces)
    return summary


def _planned(job: Job, nodes: str) -> tuple[Job, IntArray | None]:
    """The job with what its model and graph decide, and the nodes it asks about unless these are all."""
    model, graph = open_model(job.model), open_graph(job.source, job.data_dir)
    try:
        fitting = model.maker_on(graph)
    except InputError as error:
        raise InputError(f"{Path(job.source).name} does not fit the model in {job.model}: {error}") from error
    maker = with_resources(fitting, job.threads, job.memory, job.crowded, job.engine)
    check_params(maker.params)
    if job.choice.coverage is not None:
        model.set_threshold(job.choice.coverage)  # raises where the model has no such threshold
    if job.choice.keep_known:
        check_known(model, graph)
    listed = read_nodes(nodes, graph)
    if job.engine == "auto":
        maker = maker.settled(graph, nodes_or_all(graph, listed))
    elif job.engine is None:
        _advise(maker, graph, listed)
    blocks = maker.blocks(graph, listed)
    num_nodes = graph.num_nodes if listed is None else listed.size
    planned = replace(
        job,
        model_sha256=model_id(job.model),
        graph=graph_id(job.source, graph),
        num_nodes=num_nodes,
        nodes_sha256=None if listed is None else digest_of_nodes(listed),
        engine=job.engine and maker.params.engine,
        blocks=None if blocks is None else _joined(blocks, 4 * num_nodes),
    )
    return planned, listed


def _advise(maker: DiffusedRows, graph: Graph, nodes: IntArray | None) -> None:
    """Warn where the exact engine would be far faster for this many nodes than the model's own."""
    own = maker.params.engine
    if (graph.num_nodes if nodes is None else nodes.size) >= MANY and own != "exact":
        best = maker.changed(engine="auto").settled(graph, nodes_or_all(graph, nodes)).params.engine
        if best == "exact":
            log.warning(
                f"for this many nodes --engine exact is faster than the model's {own} and computes what {own} estimates"
            )


def _joined(blocks: list[slice], column_bytes: int) -> tuple[tuple[int, int], ...]:
    """Consecutive blocks joined into pieces of up to PIECE_BYTES; the engine cuts them up again as it likes."""
    pieces: list[tuple[int, int]] = []
    for block in blocks:
        if pieces and (block.stop - pieces[-1][0]) * column_bytes <= PIECE_BYTES:
            pieces[-1] = (pieces[-1][0], block.stop)
        else:
            pieces.append((block.start, block.stop))
    return tuple(pieces)


def _complete(job: Job, on: Place, address: str | None, progress: Progress) -> Summary:
    """Make the missing columns and shards."""
    started = time.perf_counter()
    missing = missing_shards(job)
    there = job.num_chunks - len(missing)
    if there:
        log.info(f"{job.folder}: {there:,} of {job.num_chunks:,} shards are there already")
    if missing:
        with nullcontext() if on == "local" else connected(address, job.threads or 1) as ray:
            if job.blocks is not None:
                lacking = without_file([job.column_file(block) for block in range(len(job.blocks))])
                _make(job, "columns", run_block, list(job.blocks), lacking, ray, progress)
            ranges = [job.range_of(chunk) for chunk in range(job.num_chunks)]
            _make(job, "nodes", run_chunk, ranges, missing, ray, progress)
        _wait_until_seen([job.shard(chunk) for chunk in missing])
    made = sum(last - first for first, last in map(job.range_of, missing))
    return finish(job, made, time.perf_counter() - started)


def _made(task: Task, job: Job, pieces: Sequence[int], ray: Any) -> Iterator[int]:
    """Make pieces on a cluster or, without ``ray``, here, one after the other with threads inside each."""
    if ray is not None:
        shared = ray.put(job)
        for piece, _ in scatter(ray, task, {piece: (shared, piece) for piece in pieces}, job.threads or 1):
            yield piece
        return
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
    ray: Any,
    progress: Progress,
) -> None:
    """Make the missing pieces; ``ranges``: the nodes or columns of each piece."""
    size = [last - first for first, last in ranges]
    total, made = sum(size), len(ranges) - len(missing)
    done = total - sum(size[piece] for piece in missing)
    progress(unit, done, total)
    try:
        for piece in _made(task, job, missing, ray):
            made += 1
            done += size[piece]
            progress(unit, done, total)
    except PieceError as error:
        number, why = error.args
        first, last = ranges[number]
        listed = " of the list" if unit == "nodes" and job.nodes_sha256 else ""
        raise StoreError(
            f"chunk {number:,} ({unit} {first:,} to {last - 1:,}{listed}) {why}; {made:,} of {len(ranges):,} chunks of "
            f"{unit} are done and kept in {job.folder}: fix the cause and run the same command again"
        ) from error


def _wait_until_seen(files: list[Path]) -> None:
    """Wait for network file systems, which show with a delay what was written elsewhere."""
    deadline = time.monotonic() + PATIENCE
    while unseen := [file for file in files if not file.is_file()]:
        if time.monotonic() > deadline:
            raise StoreError(
                f"{unseen[0]}: written by a worker, but not visible here; the output must be on a file system that "
                f"all machines share"
            )
        time.sleep(1)
