"""The pieces of a job, made from the job and a number by any process on any machine that sees the same files.

It does not matter how often a piece is made, or by how many processes: each writes the same bytes to a file of its own,
which gets the piece's name when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from nodewise._util.atomic import new_file
from nodewise._util.errors import StoreError
from nodewise._util.types import AnyArray, FloatArray, IntArray
from nodewise.batch.job import Job, stamp_of
from nodewise.batch.opened import open_graph, open_model, with_resources
from nodewise.batch.predictions import predicted, represented, write_tables
from nodewise.batch.seals import ROOM, SEAL, TAIL, seal
from nodewise.graph import Graph
from nodewise.learn.rows import DiffusedRows
from nodewise.learn.trainer import tuned

Task = Callable[[Job, int], None]
ROWS_BYTES = 1 << 28  # representations held at a time


class PieceError(Exception):
    """A piece could not be made; ``args``: its number, and why ("failed: the disk is full")."""


def run_block(job: Job, block: int) -> None:
    """Make a block of columns for all nodes of the job."""
    file = job.column_file(block)
    if not file.is_file():
        (maker, graph), columns = _opened(job), slice(*(job.blocks or ())[block])
        with new_file(file) as temporary, temporary.open("wb") as stream:
            rows = np.ascontiguousarray(maker.represent_block(graph, job.nodes(), columns))
            np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(rows))
            stream.write(rows.data)  # np.save would not say why a disk takes no more
            stream.write(TAIL)
            stream.flush()
            seal(temporary)


def run_chunk(job: Job, chunk: int) -> None:
    """Make a shard: the predictions or representations of a chunk of nodes."""
    if not job.shard(chunk).is_file():
        with new_file(job.shard(chunk)) as temporary:
            write_tables(temporary, _tables(job, chunk), ".parquet", {**stamp_of(job, chunk), SEAL: ROOM})
            seal(temporary)


def _tables(job: Job, chunk: int) -> Iterator[pa.Table]:
    model, (maker, graph) = open_model(job.model, job.model_sha256), _opened(job)
    for nodes, rows in _rows(job, chunk, maker, graph):
        if job.kind == "embed":
            yield represented(graph, nodes, rows)
        else:
            # The order of a sum depends on the number of threads, and no bit may depend on where a piece is made.
            with tuned(1, flush=False):
                table = predicted(model, graph, nodes, rows, job.choice)
            yield table


def _opened(job: Job) -> tuple[DiffusedRows, Graph]:
    """The row maker of the job's model, and the graph."""
    model = open_model(job.model, job.model_sha256)
    graph = open_graph(job.source, job.data_dir, job.graph)
    return with_resources(model.maker_on(graph), job.threads, job.memory, job.crowded, job.engine), graph


def _rows(job: Job, chunk: int, maker: DiffusedRows, graph: Graph) -> Iterator[tuple[IntArray, FloatArray]]:
    """Nodes of a chunk and their final rows, up to ROWS_BYTES at a time; at least once, even without nodes."""
    columns = None if job.blocks is None else [_columns(job, block) for block in range(len(job.blocks))]
    if columns is not None and sum(part.shape[1] for part in columns) != graph.num_features:
        raise StoreError(f"{job.output}: its columns are not those of the graph; delete the folder to start again")
    first, end = job.range_of(chunk)
    step = max(1, ROWS_BYTES // (4 * max(1, maker.width(graph))))
    for start in range(first, max(end, first + 1), step):
        last = min(end, start + step)
        nodes = job.nodes(start, last)
        if columns is None:
            yield nodes, maker.rows(graph, nodes)
        else:
            yield nodes, maker.finish(graph, nodes, np.concatenate([part[start:last] for part in columns], axis=1))


def _columns(job: Job, block: int) -> AnyArray:
    file, (first, last) = job.column_file(block), (job.blocks or ())[block]
    try:
        columns: AnyArray = np.load(file, mmap_mode="r")
        if columns.shape != (job.num_nodes, last - first):
            raise ValueError(f"shape {columns.shape}, expected {(job.num_nodes, last - first)}")
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(f"{file}: cannot be read ({error}); delete it, and the same command makes it again") from error
    return columns
