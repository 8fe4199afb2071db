"""Names: a sequence of node names over a pyarrow column, without a Python object for each name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex, overload

from nodewise._util.types import AnyArray
from nodewise.graph.names import arrow_strings


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
