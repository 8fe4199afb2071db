"""Parquet files, or folders of them, in parts of rows that fit in memory, whatever their pages unpack to."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget, show_bytes
from nodewise._util.os_errors import reading
from nodewise.formats.parquet_pages import Chunk, read_chunks, read_pages

SUFFIXES = (".parquet", ".pq")
HIDDEN = ("_", ".")  # files and folders whose names begin with these are no part of a table
PART_ROWS = 1 << 18  # at a time
PART_VALUES = 1 << 20
PART_BYTES = 16 << 20  # of text, at a time
PAGE_BYTES = 64 << 20  # of the pages of all columns; if more, then
PAGES_SHARE = 0.25  # of the memory, at most
BUFFER_BYTES = 16 << 20  # of all columns

Identity = tuple[Path, int, int]  # of a file: where it is, its size and time


def parquet_files(path: Path) -> list[Path]:
    """The file at ``path``, or those in that folder."""
    if not path.is_dir():
        return [path]
    inside = [inner for inner in path.iterdir() if not inner.name.startswith(HIDDEN)]
    files = sorted(file for file in inside if file.suffix.lower() in SUFFIXES and file.is_file())
    inner = [folder for folder in inside if folder.is_dir()]
    deeper = next((file for folder in inner for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES), None)
    if files and deeper is not None:
        raise InputError(f"{path}: has .parquet files of its own and in {deeper.parent}; put them all into one folder")
    if not files:
        raise InputError(f"{path}: this is a folder without .parquet files; expected a file, or a folder of those")
    return files


def open_parquet(path: Path) -> Any:
    """Open a file whose columns are read through a small buffer, since a row group may be larger than memory."""
    with reading_parquet(path):
        columns = pq.read_metadata(path).num_columns
        small = max(1 << 14, BUFFER_BYTES // max(16, columns))
        return pq.ParquetFile(path, buffer_size=small, pre_buffer=False)  # a pre-buffer would hold the whole file


def read_batches(path: Path, names: list[str], columns: list[int], memory: int | None = None) -> Iterator[list[Any]]:
    """The columns with these indices, some rows at a time: as many as fit in memory, however long their text is."""
    most = max(256, min(PART_ROWS, PART_VALUES // max(1, len(columns))))
    with reading_parquet(path):
        content = open_parquet(path)
        unique = len(set(names)) == len(names)  # else a name does not identify a column
        wanted = [names[i] for i in columns] if unique else None
        state = path.stat()
        identity = (path, state.st_size, state.st_mtime_ns)
        rows = _fitting(identity, None if wanted is None else tuple(wanted), most, memory_budget(memory))
        for batch in _joined(content.iter_batches(rows, columns=wanted), most):
            batch.validate(full=True)
            yield [batch.column(names[i]) if unique else batch.column(i) for i in columns]


def _joined(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """The same rows, as many batches together as hold up to ``rows`` of them and not too much text."""
    waiting: list[Any] = []
    held = size = 0
    for batch in map(_spelled_out, batches):
        if waiting and (held + batch.num_rows > rows or size + batch.nbytes > PART_BYTES):
            yield _concatenated(waiting)
            waiting, held, size = [], 0, 0
        waiting.append(batch)
        held, size = held + batch.num_rows, size + batch.nbytes
    if waiting:
        yield _concatenated(waiting)


def _concatenated(batches: list[Any]) -> Any:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]  # which is not copied


def _spelled_out(batch: Any) -> Any:
    """The same values without dictionaries, so that their size is seen."""
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in batch.schema.types]
    return batch if kinds == batch.schema.types else batch.cast(pa.schema(zip(batch.schema.names, kinds, strict=True)))


def reading_parquet(path: Path) -> AbstractContextManager[None]:
    damage = (pa.ArrowException, ValueError, MemoryError, KeyError)  # the last three: damaged names and lengths
    return reading(path, "a Parquet file", damage, advice="fetch or write it again")


@functools.lru_cache(maxsize=4)
def _chunks(identity: Identity) -> list[list[Chunk]]:
    """As :func:`read_chunks`; ``identity`` changes when the file does."""
    return read_chunks(identity[0])


@functools.lru_cache(maxsize=64)  # an import reads a file several times
def _fitting(identity: Identity, names: tuple[str, ...] | None, rows: int, memory: int) -> int:
    """How many rows of the file fit; ``rows`` at most."""
    path, groups = identity[0], _chunks(identity)
    schema = open_parquet(path).schema
    width = len(schema)
    if any(len(group) != width for group in groups):
        raise ValueError(f"its schema has {width} columns, and not all of its row groups do")
    wanted = None if names is None else {*names}  # which may have dots, as the paths of what is inside a column do
    pages = []
    with path.open("rb") as stream:
        for i in range(width):
            column = schema.column(i)
            if wanted is None or not wanted.isdisjoint(accumulate(column.path.split("."), "{}.{}".format)):
                length = {"BYTE_ARRAY": None, "FIXED_LEN_BYTE_ARRAY": column.length}.get(column.physical_type, 0)
                pages.append(read_pages(stream, [group[i] for group in groups], length))
    buffers = sum(found.buffer for found in pages)
    if buffers > max(PAGE_BYTES, PAGES_SHARE * memory):
        raise InputError(
            f"{path}: a page of each column, {show_bytes(buffers)} unpacked, is more than a quarter of the memory "
            f"that may be used; raise --memory, or write the file with smaller pages"
        )
    while rows > 1 and sum(found.most_text(rows) for found in pages) > PART_BYTES:
        rows //= 2
    return rows
