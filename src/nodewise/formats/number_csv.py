"""Gzipped CSV of numbers without a header, read in blocks: what OGB keeps its raw data in."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from nodewise._util.errors import InputError
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray
from nodewise.formats.unpack import Member

BLOCK_BYTES = 4 << 20  # of text; a row must fit into one


def read_numbers(member: Member, kind: Any, width: int | None = None) -> AnyArray:
    """A small table, ``(rows, columns)``; an empty field is NaN in a table of floats."""
    parts = list(number_parts(member, kind, 1 << 30, width))
    return np.concatenate(parts) if parts else np.empty((0, width or 0), kind)


def number_parts(member: Member, kind: Any, rows: int, width: int | None = None) -> Iterator[AnyArray]:
    """Up to ``rows`` rows at a time, as arrays ``(k, columns)`` of type ``kind``; ``width`` columns are expected."""
    found = count_columns(member)
    if found == 0:
        return
    if width not in (None, found):
        raise InputError(f"{member.label}: has {found} columns; expected {width}. Fetch or write the file again")
    with _reading(member):
        batches = pacsv.open_csv(
            pa.input_stream(str(member.path), compression="gzip"),
            pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, autogenerate_column_names=True),
            convert_options=pacsv.ConvertOptions(
                column_types={f"f{i}": pa.from_numpy_dtype(kind) for i in range(found)}, null_values=[""]
            ),
        )
        for batch in batches:
            table = _matrix(batch, kind, member.label)
            for first in range(0, table.shape[0], rows):
                yield table[first : first + rows]


def count_columns(member: Member) -> int:
    """How many columns the first row has; 0 where there is no row."""
    with _reading(member), gzip.open(member.path) as stream:
        line = stream.readline(BLOCK_BYTES)
    return line.count(b",") + 1 if line.strip() else 0


def _matrix(batch: Any, kind: Any, label: str) -> AnyArray:
    table = np.empty((batch.num_rows, batch.num_columns), kind)
    for i, column in enumerate(batch.columns):
        if column.null_count and table.dtype.kind != "f":
            raise InputError(f"{label}: has an empty field in column {i + 1}; expected a whole number. Fill it")
        table[:, i] = column.to_numpy(zero_copy_only=False)  # a null among floats becomes NaN
    return table


def _reading(member: Member) -> AbstractContextManager[None]:
    damage = (pa.ArrowException, ValueError, EOFError, zlib.error)
    return reading(member.label, "gzipped rows of numbers", damage, advice="fetch or write it again")
