"""From the ids in the files to nodes 0 to n-1, one part at a time.

Ids are either whole numbers, which are the nodes themselves, or names. Names are numbered in the order of the feature
file if it has a node column, then of the label file, then of the edges, row by row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, IntArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.graph.adjacency import MAX_NODES
from nodewise.importing.name_table import NameTable

WHOLE_IDS = f"node ids are whole numbers from 0 to at most {MAX_NODES - 1:,}. If these are names, pass --ids names"
Read = Callable[[], Iterator[Column]]  # a column of ids, part by part, from the beginning


def nodes_of(names: NameTable | None, *ids: Column) -> IntArray:
    """The nodes of columns of ids, ``(columns, rows)``: the ids themselves, or with ``names`` their numbers there.

    New names are numbered row by row. With ``names``, ids must have been read as text.
    """
    if names is None:
        return np.stack([columns.as_whole(column, 0, WHOLE_IDS, high=MAX_NODES - 1) for column in ids])
    return names.number(*(columns.as_text(column) for column in ids))


@dataclasses.dataclass(frozen=True)
class NodeRange:
    """The number of nodes, and the file that defines it."""

    count: int
    path: Path

    def check(self, nodes: IntArray, *ids: Column) -> None:
        """Raise an error that names the first row with a node outside the range."""
        outside = np.flatnonzero((nodes >= self.count).any(axis=0))
        if outside.size:
            row = int(outside[0])
            column = ids[int(np.argmax(nodes[:, row] >= self.count))]
            raise InputError(
                f"{column.path}: {column.place(row)} names node {column.values[row].as_py()!r}, which is not in "
                f"{self.path}; pass --add-missing-nodes or fix the file"
            )


def number_rows(path: Path, read: Read, names: NameTable | None, add_missing: bool) -> tuple[int, bool]:
    """The number of nodes in the node column of features, and whether row i is about node i for all rows.

    Each node must occur once; none may be missing, unless ``add_missing``.
    """
    seen = np.zeros(1 << 13, np.uint8)  # one bit per node
    rows, largest, in_order = 0, -1, True
    for column in read():
        nodes = nodes_of(names, column)[0]
        largest = max(largest, int(nodes.max(initial=-1)))
        if largest >> 3 >= seen.size:
            seen = np.concatenate((seen, np.zeros(max(seen.size, (largest >> 3) + 1 - seen.size), np.uint8)))
        again = _first_repeat(nodes, seen)
        if again is not None:
            raise _repeated(column, again, int(nodes[again]), read, names)
        np.bitwise_or.at(seen, nodes >> 3, _bits(nodes))
        in_order = in_order and bool(np.array_equal(nodes, np.arange(rows, rows + nodes.size)))
        rows += nodes.size
    if rows <= largest and not add_missing:
        byte = int(np.flatnonzero(seen != 0xFF)[0])
        missing = 8 * byte + int(np.flatnonzero(np.unpackbits(seen[byte : byte + 1], bitorder="little") == 0)[0])
        raise _missing(path, missing, largest)
    return largest + 1, in_order


def check_all_present(path: Path, nodes: IntArray, count: int) -> None:
    """Raise an error that names the first of the nodes 0 to ``count - 1`` that is not among ``nodes``."""
    absent = np.flatnonzero(np.bincount(nodes, minlength=count) == 0)
    if absent.size:
        raise _missing(path, int(absent[0]), count - 1)


def _missing(path: Path, node: int, largest: int) -> InputError:
    return InputError(
        f"{path}: node {node} has no row, and ids go up to {largest}; expected one row per node. Pass "
        f"--add-missing-nodes for rows of zeros, or --ids names if the ids have gaps"
    )


def _bits(nodes: IntArray) -> AnyArray:
    bits: AnyArray = np.left_shift(1, nodes & 7).astype(np.uint8)
    return bits


def _first_repeat(nodes: IntArray, seen: AnyArray) -> int | None:
    """The first row whose node was seen before, in these rows or in earlier ones."""
    again = np.ones(nodes.size, bool)
    again[np.unique(nodes, return_index=True)[1]] = False
    wrong = np.flatnonzero(again | ((seen[nodes >> 3] & _bits(nodes)) != 0))
    return int(wrong[0]) if wrong.size else None


def _repeated(column: Column, row: int, node: int, read: Read, names: NameTable | None) -> InputError:
    """The error for a second row about one node; the first is searched from the beginning of the file."""
    matches = ((part.first, np.flatnonzero(nodes_of(names, part)[0] == node)) for part in read())
    first = next(begin + int(found[0]) for begin, found in matches if found.size)
    return InputError(
        f"{column.path}: rows {first + 1:,} and {column.first + row + 1:,} are both about node "
        f"{column.values[row].as_py()!r}; expected one row per node. Remove one of them"
    )
