"""Tables in text or Parquet files, behind one interface."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nodewise._util.errors import InputError
from nodewise._util.os_errors import reading
from nodewise.formats.columns import Column, is_text_type
from nodewise.formats.csv import TextTable, is_text, open_text

PARQUET = (".parquet", ".pq")
ARRAYS = (".npy", ".npz")
HIDDEN = ("_", ".")  # folders whose names begin with these hold no part of a table
PART_ROWS = 1 << 18  # of Parquet, at a time
PART_VALUES = 1 << 20
BUFFER_BYTES = 16 << 20  # of all columns


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """What the user says about tables; see :func:`nodewise.import_store`."""

    header: bool | None = None  # of text files
    text: str | None = None  # the column of features that holds text
    impute: str | None = None  # how missing features are filled


@dataclasses.dataclass(frozen=True)
class ParquetTable:
    """A Parquet file, or several in a folder, one after the other."""

    path: Path
    files: list[Path]
    schema: Any
    rows: int
    named: bool = True

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def first_is_text(self) -> bool:
        """Whether the first column holds text."""
        return is_text_type(self.schema.types[0])

    def parts(self, kinds: Mapping[int, Any]) -> Iterator[list[Column]]:
        """The columns with the indices in ``kinds``, of the types in the file, some rows at a time."""
        for path in self.files:
            first = 0
            for batch in _batches(path, self.names, list(kinds)):
                columns = [pa.chunked_array([column]) for column in batch]
                yield [Column(path, self.names[i], c, first=first) for i, c in zip(kinds, columns, strict=True)]
                first += len(batch[0])


Table = TextTable | ParquetTable


def open_table(path: Path, options: ReadOptions) -> Table:
    """A table to read columns from."""
    if is_text(path) and not path.is_dir():
        return open_text(path, options.header)
    files = _parquet_files(path)
    opened = [_opened(file) for file in files]
    schema = opened[0].schema_arrow
    for file, content in zip(files, opened, strict=True):
        if content.schema_arrow.names != schema.names:
            raise InputError(
                f"{file}: has the columns {', '.join(content.schema_arrow.names)[:80]}, {files[0].name} has "
                f"{', '.join(schema.names)[:80]}; the files of a folder must have the same columns"
            )
    return ParquetTable(path, files, schema, sum(content.metadata.num_rows for content in opened))


def _parquet_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in PARQUET and file.is_file())
    inner = [folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith(HIDDEN)]
    deeper = next((file for folder in inner for file in folder.rglob("*") if file.suffix.lower() in PARQUET), None)
    if files and deeper is not None:
        raise InputError(f"{path}: has .parquet files of its own and in {deeper.parent}; put them all into one folder")
    if not files:
        raise InputError(f"{path}: this is a folder without .parquet files; expected a file, or a folder of those")
    return files


def _opened(path: Path) -> Any:
    """Open a file whose columns are read through a small buffer, since a row group may be larger than memory."""
    with _reading(path):
        columns = pq.read_metadata(path).num_columns
        small = max(1 << 14, BUFFER_BYTES // max(16, columns))
        return pq.ParquetFile(path, buffer_size=small, pre_buffer=False)  # a pre-buffer would hold the whole file


def _batches(path: Path, names: list[str], columns: list[int]) -> Iterator[list[Any]]:
    rows = max(256, min(PART_ROWS, PART_VALUES // max(1, len(columns))))
    with _reading(path):
        content = _opened(path)
        unique = len(set(names)) == len(names)  # else a name does not identify a column
        wanted = [names[i] for i in columns] if unique else None
        for batch in content.iter_batches(rows, columns=wanted):
            batch.validate(full=True)
            yield [batch.column(names[i]) if unique else batch.column(i) for i in columns]


def _reading(path: Path) -> AbstractContextManager[None]:
    damage = (pa.ArrowException, ValueError, MemoryError)  # the last two: damaged names and lengths
    return reading(path, "a Parquet file", damage, advice="fetch or write it again")


def is_array_file(path: Path) -> bool:
    """Whether ``path`` holds numpy arrays; an error if it holds neither those nor a table."""
    suffix = path.suffix.lower()
    if path.is_dir():
        return False
    if suffix in ARRAYS:
        return True
    if suffix in PARQUET or is_text(path):
        return False
    raise InputError(
        f"{path}: files that end in {suffix or 'nothing'!r} are not read; expected .csv, .tsv or .txt (also "
        f"with .gz), .parquet (or a folder of those), .npy or .npz"
    )
