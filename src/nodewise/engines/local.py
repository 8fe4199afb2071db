"""Pieces made here, one after the other; threads work inside each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodewise.engines.job import Job
from nodewise.engines.tasks import PieceError, Task
from nodewise.errors import NodewiseError


def run_here(task: Task, job: Job, pieces: Sequence[int]) -> Iterator[int]:
    """Yields each piece when it is made. What is wrong with files or input is a :class:`PieceError`."""
    for piece in pieces:
        try:
            task(job, piece)
        except (NodewiseError, OSError) as error:
            raise PieceError(piece, f"failed: {error}") from error
        yield piece
