"""The pieces of a job: functions of the job and a number, for any process on any machine that sees the same files.

It does not matter how often a piece is made, or by how many at once: each writes the same bytes to a file of its own,
which takes the piece's name when it is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from nodewise._util.atomic import new_file
from nodewise._util.errors import StoreError
from nodewise._util.types import AnyArray, FloatArray, IntArray
from nodewise.batch.folder import stamp_of
from nodewise.batch.job import Job
from nodewise.batch.opened import open_graph, open_model, with_resources
from nodewise.batch.predictions import predicted, represented, write_tables
from nodewise.graph import Graph
from nodewise.learn.rows import DiffusedRows

Task = Callable[[Job, int], None]
ROWS_BYTES = 1 << 28  # representations held at a time


class PieceError(Exception):
    """A piece could not be made: which one, and what is said of it (as "failed: the disk is full")."""

    def __init__(self, piece: int, said: str) -> None:
        super().__init__(piece, said)
        self.piece = piece
        self.said = said


def run_block(job: Job, block: int) -> None:
    """Make a block of columns for all nodes of the job."""
    maker, graph = _opened(job)

    def write(file: Path) -> None:
        first, last = (job.blocks or ())[block]
        with file.open("wb") as stream:
            np.save(stream, maker.represent_block(graph, job.nodes(), slice(first, last)))

    _once(job.column_file(block), write)


def run_chunk(job: Job, chunk: int) -> None:
    """Make a shard: the rows of a chunk of nodes, and of these what the job wants."""
    _once(job.shard(chunk), lambda file: write_tables(file, _tables(job, chunk), ".parquet", stamp_of(job, chunk)))


def _tables(job: Job, chunk: int) -> Iterator[pa.Table]:
    model, (maker, graph) = open_model(job.model, job.model_sha256), _opened(job)
    for nodes, rows in _rows(job, chunk, maker, graph):
        if job.kind == "embed":
            yield represented(graph, nodes, rows)
        else:
            with _one_torch_thread():
                table = predicted(model, graph, nodes, rows, job.coverage, job.min_confidence)
            yield table


def _opened(job: Job) -> tuple[DiffusedRows, Graph]:
    """What makes the rows, and the graph that they are made of."""
    model = open_model(job.model, job.model_sha256)
    maker = with_resources(model.row_maker, job.threads, job.memory, job.crowded, job.engine)
    return maker, open_graph(job.source, job.data_dir, job.graph)


def _once(piece: Path, write: Callable[[Path], None]) -> None:
    """Make a piece that is not there."""
    if not piece.is_file():
        with new_file(piece) as temporary:
            write(temporary)


def _rows(job: Job, chunk: int, maker: DiffusedRows, graph: Graph) -> Iterator[tuple[IntArray, FloatArray]]:
    """Nodes of a chunk and their final rows, as many at a time as memory is meant for; at least once."""
    columns = None if job.blocks is None else [_columns(job, block) for block in range(len(job.blocks))]
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
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(f"{file}: cannot be read ({error}); delete it, and the same command makes it again") from error
    if columns.shape != (job.num_nodes, last - first):
        raise StoreError(
            f"{file}: has shape {columns.shape}, expected {(job.num_nodes, last - first)}; delete it, and the same "
            f"command makes it again"
        )
    return columns


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """How a product is summed up depends on the number of threads, and no bit may depend on where a piece is made."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
