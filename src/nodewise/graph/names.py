"""Names of nodes: a sequence of millions, a few found among them, and the one nearest to one that does not exist."""

from __future__ import annotations

import difflib
import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, IntArray

AT_ONCE = 1 << 22  # names
COMPARED = 2_000  # names, with one that does not exist


class Names(Sequence[str]):
    """A sequence of strings over a pyarrow column, which is loaded when the first name is read.

    A hundred million names must not become Python objects.

    >>> import pyarrow
    >>> names = Names.of(pyarrow.array(["a", "b", "c"]))
    >>> len(names), names[1], list(names[1:])
    (3, 'b', ['b', 'c'])
    """

    def __init__(self, load: Callable[[], Any], length: int) -> None:
        self._load, self._length = load, length

    @classmethod
    def of(cls, values: Any) -> Names:
        """Names over a pyarrow array, or over a sequence of strings, which is converted to one."""
        if isinstance(values, Names):
            return values
        column = arrow_strings(values)
        return cls(functools.partial(arrow_strings, column), len(column))

    @functools.cached_property
    def arrow(self) -> Any:
        """The names as a ``pyarrow.ChunkedArray`` of type ``large_string``."""
        return self._load()

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


def arrow_strings(values: Any) -> Any:
    """Strings as a ``pyarrow.ChunkedArray`` of type ``large_string``, whose offsets are not limited to 2 GB."""
    import pyarrow as pa

    try:
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            values = pa.array(values, pa.large_string())
        column = pa.chunked_array([values]) if isinstance(values, pa.Array) else values
        column = column.cast(pa.large_string())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"node_names: {error}; expected one string per node") from error
    if column.null_count:
        raise InputError("node_names: a name is missing; expected one string per node")
    return column


def named_nodes(wanted: Sequence[Any], names: Sequence[str] | None, what: str) -> IntArray:
    """The ids of nodes given by name, or an error that says which does not exist."""
    odd = next((place for place, name in enumerate(wanted) if not isinstance(name, str)), None)
    if odd is not None:
        raise InputError(f"{what}: entry {odd:,} is {wanted[odd]!r}, others are names; expected all ids or all names")
    if names is None:
        raise InputError(
            f"{what}: {wanted[0]!r} is a name, and the nodes of this graph have no names; pass ids, or give the graph "
            f"node_names"
        )
    places = places_of(wanted, names)
    if (places < 0).any():
        first = int(np.argmin(places))
        raise InputError(
            f"{what}: entry {first:,} is {wanted[first]!r}, and there is no such node; "
            f"{expected_name(wanted[first], names)}"
        )
    return places


def places_of(wanted: Sequence[str], names: Sequence[str]) -> IntArray:
    """Where each of ``wanted`` is in ``names``, -1 where it is not.

    Only ``wanted`` are hashed: one among 5 million takes 0.03 s, a table of all names would take 3 s.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column, asked = arrow_strings(names), pa.array(wanted, pa.large_string()).dictionary_encode()
    places = np.full(len(asked.dictionary), -1, np.int64)
    for first in range(0, len(column), AT_ONCE):
        found = pc.index_in(column.slice(first, AT_ONCE), value_set=asked.dictionary)
        codes = pc.fill_null(found, -1).to_numpy()
        here = np.flatnonzero(codes >= 0)
        places[codes[here]] = first + here
    return np.asarray(places[asked.indices.to_numpy()])


def expected_name(name: str, names: Sequence[str]) -> str:
    """What was expected in place of a name that does not exist: with the most similar name, if there is one.

    Of many names only some are compared: first those that begin with most of ``name``, then with half, then a letter.
    """
    import pyarrow.compute as pc

    column = arrow_strings(names)
    length = pc.utf8_length(column)
    near = pc.and_(pc.greater_equal(length, len(name) - 2), pc.less_equal(length, len(name) + 2))
    column = column.filter(near)
    for letters in (3 * len(name) // 4, len(name) // 2, 1):
        alike = column.filter(pc.starts_with(column, name[:letters], ignore_case=True)).slice(0, COMPARED)
        close = difflib.get_close_matches(name, alike.to_pylist(), n=3)
        if close:
            return f"expected a node's name. Did you mean {' or '.join(map(repr, close))}?"
    return "expected a node's name"
