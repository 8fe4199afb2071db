"""A job: what is asked of which model and graph, cut into pieces that any process can make from the job and a number.

Two jobs are the same when the same model, graph, nodes, chunks and memory make the same answer; where these lie, and
how many threads work on them, may differ from one run to the next.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import IntArray
from nodewise.diffusion.params import Engine

Kind = Literal["predict", "embed"]
CHUNK = 1 << 16  # nodes per shard

# Readers of Parquet folders pass over names that begin so.
JOB, NODES, COLUMNS, SUMMARY = "_job.json", "_nodes.npy", ".columns", "_summary.json"


@dataclasses.dataclass(frozen=True)
class Job:
    """All that a piece of the work depends on.

    ``model_sha256`` and ``graph`` say what lay at ``model`` and ``source`` when the job began. ``nodes_sha256`` is None
    where all nodes are asked about, in order; else the nodes lie in the output folder. ``blocks`` are the columns that
    are made for all nodes at once before any shard is, or None where a few nodes' rows can be made on their own.
    ``engine`` is another one than the model learned with, or None. ``crowded``: pieces are made side by side on a
    machine, and share its memory where ``memory`` does not say. ``coverage`` and ``min_confidence``: which labels are
    written (:func:`nodewise.batch.predictions.predicted`).
    """

    kind: Kind
    model: str
    source: str
    data_dir: str | None
    output: str
    model_sha256: str
    graph: str
    num_nodes: int
    nodes_sha256: str | None
    chunk: int
    memory: int | None
    threads: int | None
    crowded: bool = False
    engine: Engine | None = None
    blocks: tuple[tuple[int, int], ...] | None = None
    coverage: float | None = None
    min_confidence: float | None = None

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise InputError(f"chunk={self.chunk}: expected a whole number of nodes, at least 1")

    @property
    def folder(self) -> Path:
        return Path(self.output)

    @property
    def num_chunks(self) -> int:
        """At least one, so that no nodes give a table without rows, not no table."""
        return max(1, -(-self.num_nodes // self.chunk))

    def range_of(self, chunk: int) -> tuple[int, int]:
        """The places, among the nodes asked about, of a chunk's first node and of the one after its last."""
        return chunk * self.chunk, min(self.num_nodes, (chunk + 1) * self.chunk)

    def nodes(self, first: int = 0, last: int | None = None) -> IntArray:
        """The nodes at these places; all of them by default."""
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
        """What decides the answer, by the names that users know; options that are not given are not named."""
        choice = {"coverage": self.coverage, "min-confidence": self.min_confidence}
        return {
            "command": self.kind,
            "model": self.model_sha256,
            "graph": self.graph,
            "nodes": self.nodes_sha256 or "all",
            "number of nodes": self.num_nodes,
            "chunk": self.chunk,
            "memory": None if self.blocks is None else self.memory,
            "engine": self.engine,
            **{name: value for name, value in choice.items() if value is not None},
        }

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()


def digest_of_nodes(nodes: IntArray) -> str:
    return hashlib.sha256(np.ascontiguousarray(nodes, "<i8").tobytes()).hexdigest()
