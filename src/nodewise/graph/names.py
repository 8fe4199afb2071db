"""Nodes by name: a few found among millions, and the name nearest to one that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import IntArray

AT_ONCE = 1 << 22  # names
COMPARED = 2_000  # names, with one that does not exist


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
