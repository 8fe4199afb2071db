"""Names: a sequence of node names over a pyarrow column, without a Python object for each name; and their file."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, SupportsIndex, overload

from nodewise._util.errors import InputError, StoreError
from nodewise._util.types import AnyArray
from nodewise.graph.names import arrow_strings
from nodewise.graph.unchecked import REPAIR
from nodewise.store.blocks import check_blocks, check_size
from nodewise.store.manifest import StoredFile

FREE_BYTES, TIMES = 16 << 20, 32  # of names: so many, and so many times their file; Snappy makes at most 21 of one


class Names(Sequence[str]):
    """A sequence of strings over a pyarrow column, which is loaded when the first name is read.

    A hundred million names must not become Python objects.

    >>> import pyarrow
    >>> names = Names.of(pyarrow.array(["a", "b", "c"]))
    >>> len(names), names[1], list(names[1:])
    (3, 'b', ['b', 'c'])
    """

    def __init__(self, load: Callable[[], Any] | None, length: int) -> None:
        self._load = load
        self._length = length
        self._column: Any = None

    @classmethod
    def of(cls, values: Any) -> Names:
        """Names over a pyarrow array, or over a sequence of strings, which is converted to one."""
        if isinstance(values, Names):
            return values
        column = arrow_strings(values)
        names = cls(None, len(column))
        names._column = column
        return names

    @property
    def arrow(self) -> Any:
        """The names as a ``pyarrow.ChunkedArray`` of type ``large_string``."""
        if self._column is None and self._load is not None:
            self._column = self._load()
        return self._column

    def __arrow_array__(self, type: Any = None) -> Any:
        """The same, for ``pyarrow.array(names)``."""
        return self.arrow

    def take(self, nodes: AnyArray) -> Any:
        """The names of ``nodes`` as a pyarrow array, for writers of tables."""
        import pyarrow as pa

        return self.arrow.take(pa.array(nodes))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Names: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | Names:
        if isinstance(index, slice):
            return Names.of(self.arrow[index])
        i = operator.index(index)
        if not -self._length <= i < self._length:
            raise IndexError(f"name {i:,} of {self._length:,}")
        return str(self.arrow[i % self._length].as_py())

    def __iter__(self) -> Iterator[str]:
        for first in range(0, self._length, 1 << 16):  # all at once would be one Python object per name
            yield from self.arrow.slice(first, 1 << 16).to_pylist()

    def __repr__(self) -> str:
        return f"Names({self._length:,})"


# ---------------------------------------------------------------------- their file


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
