"""The file of a store's node names: a column of text in Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nodewise._util.errors import InputError, StoreError
from nodewise.graph.names import arrow_strings
from nodewise.graph.unchecked import REPAIR
from nodewise.store.blocks import check_blocks, check_size
from nodewise.store.manifest import StoredFile

FREE_BYTES, TIMES = 16 << 20, 32  # of names: so many, and so many times their file; Snappy makes at most 21 of one


def read_names(path: Path, file: StoredFile) -> Any:
    """The column of names. Blocks are checked first, since a damaged file must not reach the decoder."""
    import pyarrow as pa

    check_size(path, file)
    check_blocks(path.parent, {path.name: file})
    return pa.chunked_array(list(name_parts(path, file)), pa.large_string())


def name_parts(path: Path, file: StoredFile) -> Iterator[Any]:
    """The names in a file, part by part; an error where they are not those that the manifest says, or far too long.

    A name that the file holds once can stand for many, and so a small file for more than the memory.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from nodewise.formats.parquet import read_batches
    from nodewise.formats.parquet_pages import check_footer

    room, rows = TIMES * file.bytes + FREE_BYTES, 0
    try:
        check_footer(path)
        described = pq.read_metadata(path)
        kinds, count = described.schema.to_arrow_schema().types, described.num_rows
        if kinds not in ([pa.large_string()], [pa.string()]) or count != file.shape[0]:
            raise ValueError(f"{count:,} rows of {', '.join(map(str, kinds))}")
        for (names,) in read_batches(path, ["name"], [0]):
            room -= names.nbytes
            rows += len(names)
            if room < 0:
                raise ValueError("names of more bytes than such a file can hold")
            yield from arrow_strings(names).chunks
    except (pa.ArrowException, InputError, OSError, KeyError, ValueError, MemoryError) as error:
        raise StoreError(f"{path}: is not a Parquet file with a column of names ({error}); {REPAIR}") from error
    if rows != file.shape[0]:
        raise StoreError(f"{path}: holds {rows:,} names, the manifest says {file.shape[0]:,}; {REPAIR}")
