"""Gzipped CSV of numbers without a header, read in blocks: what OGB keeps its raw data in."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from nodewise._typing import AnyArray
from nodewise.datasets.archive import Cursor, Member
from nodewise.errors import InputError

BLOCK_BYTES = 4 << 20  # of text; a row must fit into one


def read_table(member: Member, kind: Any, width: int | None = None) -> AnyArray:
    """A small table, ``(rows, columns)``; an empty field is NaN in a table of floats."""
    parts = list(table_parts(member, kind, 1 << 30, width))
    return np.concatenate(parts) if parts else np.empty((0, width or 0), kind)


def table_parts(member: Member, kind: Any, rows: int, width: int | None = None) -> Iterator[AnyArray]:
    """Up to ``rows`` rows at a time, as arrays ``(k, columns)`` of type ``kind``; ``width`` columns are expected."""
    found = table_width(member)
    if found == 0:
        return
    if width not in (None, found):
        raise InputError(f"{member.label}: has {found} columns; expected {width}. Fetch or write the file again")
    with member.open() as cursor, _explained(member.label):
        text = gzip.GzipFile(fileobj=io.BufferedReader(cursor, 1 << 20))
        for batch in _batches(text, found, kind):
            table = _matrix(batch, kind, member.label)
            for first in range(0, table.shape[0], rows):
                yield table[first : first + rows]
        member.check(_read_out(text, cursor))


def table_width(member: Member) -> int:
    """How many columns the first row has; 0 where there is no row."""
    with member.open() as cursor, _explained(member.label):
        line = gzip.GzipFile(fileobj=io.BufferedReader(cursor)).readline(BLOCK_BYTES)
    return line.count(b",") + 1 if line.strip() else 0


def _batches(text: gzip.GzipFile, width: int, kind: Any) -> Iterator[Any]:
    kind = pa.from_numpy_dtype(kind)
    yield from pacsv.open_csv(
        pa.PythonFile(text, mode="r"),
        pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, autogenerate_column_names=True),
        pacsv.ParseOptions(newlines_in_values=False),
        pacsv.ConvertOptions(column_types={f"f{i}": kind for i in range(width)}, null_values=[""]),
    )


def _matrix(batch: Any, kind: Any, label: str) -> AnyArray:
    table = np.empty((batch.num_rows, batch.num_columns), kind)
    for i, column in enumerate(batch.columns):
        if column.null_count and table.dtype.kind != "f":
            raise InputError(f"{label}: has an empty field in column {i + 1}; expected a whole number. Fill it")
        table[:, i] = column.to_numpy(zero_copy_only=False)  # a null among floats becomes NaN
    return table


def _read_out(text: gzip.GzipFile, cursor: Cursor) -> Cursor:
    """Read to the end, so that both the gzip's and the zip's CRC-32 are compared."""
    while text.read(1 << 20):
        pass
    while cursor.read(1 << 20):
        pass
    return cursor


@contextmanager
def _explained(label: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{label}: is cut off or no gzip file ({error}); fetch it again") from error
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{label}: {error}; expected rows of numbers. Fetch or write the file again") from error
