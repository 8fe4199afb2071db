"""Models and graphs opened by path, once per process, and checked to be those that the work began with."""

from __future__ import annotations

import functools
import hashlib
import os
import socket
from pathlib import Path

from nodewise._util.errors import StoreError
from nodewise._util.json_file import read_json
from nodewise._util.memory import memory_budget
from nodewise._util.threads import thread_count
from nodewise.datasets import load, registry
from nodewise.diffusion.params import Engine
from nodewise.graph import Graph
from nodewise.learn import saved
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.rows import DiffusedRows
from nodewise.learn.task import featured


def resolve_source(source: str, data_dir: str | Path | None) -> tuple[str, str | None]:
    """A source, and the folder of data sets if it is the name of one, as absolute paths for other processes."""
    if registry.lookup(source) is None:
        return os.path.abspath(Path(source).expanduser()), None
    folder = data_dir or os.environ.get("NODEWISE_DATA")
    return source, None if folder is None else os.path.abspath(Path(folder).expanduser())


def model_id(path: str) -> str:
    """What identifies a model: the checksum of its configuration, which contains that of its weights."""
    return str(saved.read_config(Path(path))["config_sha256"])


def graph_id(source: str, graph: Graph) -> str:
    """What identifies the graph at ``source``, where another may be on another day or machine."""
    counts = f"{graph.num_nodes} nodes, {graph.num_entries} entries, {graph.num_features} features"
    return ", ".join(part for part in (counts, _checksum(source)) if part)


def open_model(path: str, expected: str | None = None) -> NIGCN:
    """The model at ``path``, which must be the one whose :func:`model_id` is ``expected``."""
    found = model_id(path)
    _check(path, found, expected)
    return _model(path, found)


def open_graph(source: str, data_dir: str | None, expected: str | None = None) -> Graph:
    """The graph at ``source``, which must be the one whose :func:`graph_id` is ``expected``."""
    graph = _graph(source, data_dir, _checksum(source))
    _check(source, graph_id(source, graph), expected)
    return graph


def with_resources(
    maker: DiffusedRows, threads: int | None, memory: int | None, crowded: bool, engine: Engine | None = None
) -> DiffusedRows:
    """A row maker with these threads, this memory (bytes) and ``engine``; None: as the model was trained.

    ``crowded``: others of its kind work on the same machine, and share its memory.
    """
    if memory is None and crowded:
        memory = memory_budget(maker.memory) * thread_count(threads) // thread_count(None)
    made = maker.changed(threads=threads, memory=maker.memory if memory is None else memory)
    return made if engine is None else made.changed(engine=engine)


def _check(path: str, found: str, expected: str | None) -> None:
    if expected is not None and found != expected:
        raise StoreError(
            f"{path}: not what the work began with (on {socket.gethostname()} it is {found}, expected {expected}); "
            f"bring the same files to every machine, and leave them as they are until the work is done"
        )


# The checksum is part of the key: a file that changed is opened again.
@functools.lru_cache(maxsize=1)
def _model(path: str, checksum: str) -> NIGCN:
    return NIGCN.load(path)


@functools.lru_cache(maxsize=1)
def _graph(source: str, data_dir: str | None, checksum: str) -> Graph:
    return featured(load(source, data_dir))


def _checksum(source: str) -> str:
    """The checksum of a store or a file; data sets known by name never change and need none."""
    if registry.lookup(source) is not None:
        return ""
    path = Path(source)
    try:
        if path.is_dir():
            return str(read_json(path / "manifest.json")["checksum"])
        if path.is_file():
            found = path.stat()
            return _sha256(source, found.st_size, found.st_mtime_ns)
    except (OSError, ValueError, LookupError):
        pass
    return ""  # load says what is wrong with it


@functools.lru_cache(maxsize=1)
def _sha256(path: str, size: int, changed: int) -> str:
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
