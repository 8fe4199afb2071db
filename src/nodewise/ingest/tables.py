"""Files that hold tables: text and Parquet, behind one interface."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nodewise.errors import InputError
from nodewise.ingest.columns import Column
from nodewise.ingest.text import TextTable, is_text, open_text, reading

PARQUET = (".parquet", ".pq")
ARRAYS = (".npy", ".npz")


@dataclasses.dataclass(frozen=True)
class ParquetTable:
    """A Parquet file, read whole."""

    path: Path
    names: list[str]
    content: Any
    named: bool = True

    def first_is_text(self) -> bool:
        """Whether the first column holds text."""
        kind = self.content.column(0).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    def read(self, kinds: Mapping[int, Any]) -> list[Column]:
        """The columns whose indices ``kinds`` has, of the types that they have in the file."""
        return [Column(self.path, self.names[i], self.content.column(i)) for i in kinds]


Table = TextTable | ParquetTable


def open_table(path: Path, header: bool | None) -> Table:
    """A table to read columns from; ``header`` is for text files."""
    if is_text(path):
        return open_text(path, header)
    with reading(path):
        if path.is_dir():
            raise IsADirectoryError
        try:
            content = pq.ParquetFile(path).read()
            content.validate(full=True)
            names = list(content.column_names)
        except (pa.ArrowException, ValueError, MemoryError) as error:  # the last two: damaged names and lengths
            raise InputError(f"{path}: is cut off or not a Parquet file ({error}); fetch or write it again") from error
    return ParquetTable(path, names, content)


def is_array_file(path: Path) -> bool:
    """Whether ``path`` holds numpy arrays; an error where it is neither that nor a table."""
    suffix = path.suffix.lower()
    if suffix in ARRAYS:
        return True
    if suffix in PARQUET or is_text(path):
        return False
    raise InputError(
        f"{path}: a file that ends in {suffix or 'nothing'!r} is of no known kind; expected .csv, .tsv or .txt (also "
        f"with .gz), .parquet, .npy or .npz"
    )
