"""Tables behind one interface: text files, Parquet files, the answers of databases, and frames in memory."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard, cast

import pyarrow as pa

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget
from nodewise.formats import networkx_files, parquet
from nodewise.formats.columns import Column, is_text_type
from nodewise.formats.csv import TextTable, is_text, open_text
from nodewise.formats.parquet import PART_ROWS, open_parquet, parquet_files, read_batches
from nodewise.formats.sql import Query

ARRAYS = (".npy", ".npz", ".mtx")


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """What the user says about tables; see :func:`nodewise.import_store`."""

    header: bool | tuple[str, ...] | None = None  # of text files: of all, or of these ("edges", "features", ...)
    delimiter: str | None = None  # of text files
    text: str | None = None  # the column of features that holds text
    impute: str | None = None  # how missing features are filled
    label: tuple[str, ...] = ()  # the column of labels, or one per class
    multilabel: bool = False  # nodes may have several labels, one row each

    def for_file(self, name: str) -> ReadOptions:
        """The options for the file that is given as ``name``."""
        header = name in self.header if isinstance(self.header, tuple) else self.header
        return dataclasses.replace(self, header=header)


@dataclasses.dataclass(frozen=True)
class Frame:
    """A table in memory; ``name``: what messages call it. ``path``: the file that it was read from, if any."""

    name: str
    content: Any
    path: Path | None = None

    def __str__(self) -> str:
        return self.name


Source = Path | Query | Frame  # what is read: a file or folder, the answer to a query, or a frame


def as_source(given: Any, name: str, memory: int | None = None) -> Source:
    """What the user gave as ``name``: a path, a query as ``sqlite:FILE?SELECT ...``, or anything that speaks Arrow."""
    if isinstance(given, Frame):
        return given
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        if path.suffix.lower() in networkx_files.SUFFIXES:
            edges, nodes = networkx_files.read_tables(path, memory_budget(memory))
            return Frame(str(path), edges if name == "edges" else nodes, path)
        return Query.parsed(str(given)) or path
    try:
        if hasattr(given, "__dataframe__") and not hasattr(given, "__arrow_c_stream__"):
            from pyarrow.interchange import from_dataframe

            table = from_dataframe(given)
        else:
            table = pa.table(given)
        return Frame(name, _plain(table, name))
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"{name}: a {type(given).__name__} that cannot be read as a table ({error}); expected a path, or a frame "
            f"whose columns each hold one type: numbers, or text"
        ) from error


def _plain(table: Any, name: str) -> Any:
    """The table with types that all of Arrow's functions know, and the index of pandas first, or gone from edges."""
    index = [
        column for column in (table.schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(column, str)
    ]
    others = [column for column in table.column_names if column not in index]
    if index:
        table = table.select(others if name == "edges" else [*index, *others])
    fields = [pa.field(f.name, pa.large_string()) if "string_view" in str(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields)) if fields != list(table.schema) else table  # polars has views of strings


@dataclasses.dataclass(frozen=True)
class ArrowTable:
    """A table that comes in Arrow's batches.

    ``batches(columns)`` yields arrays of the columns with these indices, and where they are: a file and a first row.
    """

    path: Source
    schema: Any
    batches: Callable[[list[int]], Iterator[tuple[Source, int, list[Any]]]]
    rows: int
    named: bool = True

    @cached_property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def first_is_text(self) -> bool:
        """Whether the first column holds text."""
        return is_text_type(self.schema.field(0).type)

    def parts(self, kinds: Mapping[int, Any]) -> Iterator[list[Column]]:
        """The columns with the indices in ``kinds``, of the types that they have, some rows at a time."""
        for path, first, arrays in self.batches(list(kinds)):
            columns = zip(kinds, arrays, strict=True)
            yield [Column(path, self.names[i], pa.chunked_array([array]), first=first) for i, array in columns]


Table = TextTable | ArrowTable


def open_table(source: Source, options: ReadOptions, memory: int | None = None) -> Table:
    """A table to read columns from, within ``memory`` or, by default, a quarter of what is available."""
    if isinstance(source, Query):
        return _parquet_table(cast(Path, source.answer), memory, source)
    if isinstance(source, Frame):
        return _frame_table(source)
    if is_text(source) and not source.is_dir():
        return open_text(source, cast(bool | None, options.header), options.delimiter, memory)
    return _parquet_table(source, memory)


def column_named(table: Table, name: str, option: str) -> int:
    """The column that the user named with an option."""
    if name not in table.names:
        raise InputError(f"{table.path}: has no column {name!r}, only {', '.join(table.names)[:80]}; check {option}")
    return table.names.index(name)


def _frame_table(frame: Frame) -> ArrowTable:
    def batches(columns: list[int]) -> Iterator[tuple[Source, int, list[Any]]]:
        first = 0
        for batch in frame.content.to_batches(max_chunksize=PART_ROWS):
            yield frame, first, [batch.column(i) for i in columns]
            first += batch.num_rows

    return ArrowTable(frame, frame.content.schema, batches, frame.content.num_rows)


# ---------------------------------------------------------------------- Parquet


def _parquet_table(path: Path, memory: int | None, query: Query | None = None) -> ArrowTable:
    """The table in a file or folder, or in the file with the answer to ``query``."""
    files = parquet_files(path)
    schema: Any = None
    rows = 0
    for file in files:
        with open_parquet(file) as content:  # closed again: a folder may have more files than can be open at a time
            found, rows = content.schema_arrow, rows + content.metadata.num_rows
        schema = found if schema is None else schema
        if found.names != schema.names:
            raise InputError(
                f"{file}: has the columns {', '.join(found.names)[:80]}, {files[0].name} has "
                f"{', '.join(schema.names)[:80]}; the files of a folder must have the same columns"
            )
    names = list(schema.names)

    def batches(columns: list[int]) -> Iterator[tuple[Source, int, list[Any]]]:
        for file in files:
            first = 0
            for arrays in read_batches(file, names, columns, memory):
                yield query or file, first, arrays
                first += len(arrays[0])

    return ArrowTable(query or path, schema, batches, rows)


def is_array_file(source: Source) -> TypeGuard[Path]:
    """Whether ``source`` is a file of arrays or of a matrix; an error if it is neither that nor a table."""
    if not isinstance(source, Path) or source.is_dir():
        return False
    suffix = source.suffix.lower()
    if suffix in ARRAYS:
        return True
    if suffix in parquet.SUFFIXES or is_text(source):
        return False
    raise InputError(
        f"{source}: files that end in {suffix or 'nothing'!r} are not read; expected .csv, .tsv, .txt or .edges (also "
        f"with .gz or .zst), .parquet (or a folder of those), .npy, .npz, .mtx, .graphml or .gexf"
    )
