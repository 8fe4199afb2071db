"""From the ids in the files to nodes 0 to n-1, one part at a time.

Ids are either whole numbers, which are the nodes themselves, or names. Names are numbered in the order of the feature
file if it has a node column, then of the label file, then of the edges, row by row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import BoolArray, IntArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.tables import Source
from nodewise.graph.adjacency import MAX_NODES
from nodewise.importing.base_store import BaseStore
from nodewise.importing.hashing import mark
from nodewise.importing.name_table import NameTable

SPARSE = 10  # ids from 0 on of which fewer than one in so many occurs are taken as names
WHOLE_IDS = f"node ids are whole numbers from 0 to at most {MAX_NODES - 1:,}. If these are names, pass --ids names"
FIX = "pass --add-missing-nodes or fix the file"  # a node that no file describes
Read = Callable[[], Iterator[Column]]  # a column of ids, part by part, from the beginning


class TakenAsNamesError(InputError):
    """Ids that were not said to be numbers, and that are better taken as names."""


@dataclasses.dataclass(frozen=True)
class Numbering:
    """How ids become nodes: ids are nodes themselves or, with ``names``, names that are numbered there.

    ``doubtful``: the user did not say that ids are numbers, so that numbers may be found to be names. ``base``: the
    store whose nodes are there already.
    """

    names: NameTable | None
    doubtful: bool = False
    base: BaseStore | None = None

    @property
    def first(self) -> int:
        """The first new node."""
        return 0 if self.base is None else self.base.num_nodes

    def nodes(self, *ids: Column) -> IntArray:
        """The nodes of columns of ids, ``(columns, rows)``; new names are numbered row by row.

        With ``names``, ids must have been read as text.
        """
        if self.names is not None:
            return self.names.number(*(columns.as_text(column) for column in ids))
        for column in ids if self.doubtful else ():
            if columns.has_padding(column):
                raise TakenAsNamesError(
                    f"{column.path}: ids have leading zeros and are taken as names; if 007 is 7, pass --ids integers"
                )
            if columns.is_beyond(column, MAX_NODES - 1):
                raise TakenAsNamesError(
                    f"{column.path}: ids go beyond {MAX_NODES - 1:,}, the last number of a node, and are taken as names"
                )
        expected = WHOLE_IDS if self.base is None else f"the nodes of {self.base.path} have no names, only numbers"
        return np.stack([columns.as_whole(column, 0, expected, high=MAX_NODES - 1) for column in ids])

    def rows(self, ids: Column) -> IntArray:
        """The nodes of rows of features, counted from the first new one; an error for the first that is not new."""
        nodes: IntArray = self.nodes(ids)[0] - self.first
        old = np.flatnonzero(nodes < 0)
        if self.base is not None and old.size:
            row = int(old[0])
            raise InputError(
                f"{ids.path}: {ids.place(row)} is about node {ids.values[row].as_py()!r:.80}, which {self.base.path} "
                f"has already; features are for new nodes only. Remove the row, or import all files again"
            )
        return nodes

    def check_gaps(self, path: Source, in_use: int, count: int) -> None:
        """Raise if ids are better taken as names: those ``in_use`` are few of the ``count`` from 0 on."""
        if self.doubtful and SPARSE * in_use < count:
            raise TakenAsNamesError(
                f"{path}: only {in_use:,} of the ids from 0 to {count - 1:,} occur, so they are taken as names; if "
                f"they are node numbers, pass --ids integers"
            )

    def check_sparse(self, ids: Column, most: int) -> None:
        """Raise if ids are better taken as names: one of them is far above ``most``, the number of all in all files."""
        if self.doubtful and self.names is None and columns.is_beyond(ids, SPARSE * most):
            raise TakenAsNamesError(
                f"{ids.path}: ids go beyond {SPARSE * most:,}, ten times as many as there are, and are taken as names; "
                f"if they are node numbers, pass --ids integers"
            )


class SeenNodes:
    """A set of nodes from ``first`` on, one bit for each; others are left out."""

    def __init__(self, first: int = 0) -> None:
        self.bits = np.zeros(1 << 13, np.uint8)
        self.first, self.count = first, 0

    def add(self, nodes: IntArray) -> None:
        """Add nodes, some of which may be in the set."""
        if self.first:
            nodes = nodes[nodes >= self.first] - self.first
        needed = int(nodes.max(initial=0) >> 3) + 1
        if needed > self.bits.size:
            grown = np.zeros(max(2 * self.bits.size, needed), np.uint8)  # pages that are not written take no memory
            grown[: self.bits.size] = self.bits
            self.bits = grown
        self.count += mark(self.bits, nodes.ravel())

    def has(self, nodes: IntArray) -> BoolArray:
        """Whether each node is in the set."""
        inside = nodes >> 3 < self.bits.size
        known: BoolArray = inside & (self.bits[np.where(inside, nodes >> 3, 0)] >> (nodes & 7) & 1 != 0)
        return known

    def first_missing(self) -> int:
        """The first node that is not in the set; there must be one below the largest."""
        parts = ((first, self.bits[first : first + 4096] != 0xFF) for first in range(0, self.bits.size, 4096))
        byte = next(first + int(np.argmax(open_)) for first, open_ in parts if open_.any())
        return self.first + 8 * byte + int(np.argmin(np.unpackbits(self.bits[byte : byte + 1], bitorder="little")))


@dataclasses.dataclass(frozen=True)
class NodeRange:
    """The number of nodes, and the file that defines it."""

    count: int
    path: Source | str
    advice: str = FIX

    def check(self, nodes: IntArray, *ids: Column) -> None:
        """Raise an error that names the first row with a node outside the range."""
        outside = np.flatnonzero((nodes >= self.count).any(axis=0))
        if outside.size:
            row = int(outside[0])
            column = ids[int(np.argmax(nodes[:, row] >= self.count))]
            raise InputError(
                f"{column.path}: {column.place(row)} names node {column.values[row].as_py()!r:.80}, which is not in "
                f"{self.path}; {self.advice}"
            )


def number_rows(
    path: Source,
    read: Read,
    numbering: Numbering,
    add_missing: bool,
    several: bool = False,
    placed: list[IntArray] | None = None,
) -> tuple[int, bool]:
    """The number of new nodes in the node column of features, and whether row i is about the i-th for all rows.

    Each node must occur once, or with ``several`` at least once; none may be missing, unless ``add_missing``. The nodes
    of the rows are added to ``placed``.
    """
    seen, parts = SeenNodes(), [np.zeros(0, np.int64)] if placed is None else placed
    rows, largest, in_order = 0, -1, True
    for column in read():
        nodes = numbering.rows(column)
        largest = max(largest, int(nodes.max(initial=-1)))
        if not several:
            again = _first_repeat(nodes, seen)
            if again is not None:
                raise _repeated(column, again, int(nodes[again]), read, numbering)
            seen.add(nodes)
        if several or placed is not None:
            parts.append(nodes)
        in_order = in_order and bool(np.array_equal(nodes, np.arange(rows, rows + nodes.size)))
        rows += nodes.size
    # Of triples there are few rows for many ids, perhaps: no bit for each of the nodes up to the largest.
    present = np.unique(np.concatenate(parts)) if several else None
    found = seen.count if present is None else present.size
    numbering.check_gaps(path, found, largest + 1)
    if found <= largest and not add_missing:
        gap = seen.first_missing() if present is None else int(np.flatnonzero(present != np.arange(found))[0])
        first, new = numbering.first, " new" if numbering.base else ""
        other = f"number new nodes from {first:,} on" if new else "--ids names if the ids have gaps"
        raise InputError(
            f"{path}: node {first + gap} has no row, and ids go up to {first + largest}; expected one "
            f"row per{new} node. Pass --add-missing-nodes for rows of zeros, or {other}"
        )
    return largest + 1, in_order


def _first_repeat(nodes: IntArray, seen: SeenNodes) -> int | None:
    """The first row whose node was seen before, in these rows or in earlier ones."""
    again = np.ones(nodes.size, bool)
    again[np.unique(nodes, return_index=True)[1]] = False
    wrong = np.flatnonzero(again | seen.has(nodes))
    return int(wrong[0]) if wrong.size else None


def _repeated(column: Column, row: int, node: int, read: Read, numbering: Numbering) -> InputError:
    """The error for a second row about one node; the first is searched from the beginning of the file."""
    matches = ((part.first, np.flatnonzero(numbering.rows(part) == node)) for part in read())
    first = next(begin + int(found[0]) for begin, found in matches if found.size)
    return InputError(
        f"{column.path}: rows {first + 1:,} and {column.first + row + 1:,} are both about node "
        f"{column.values[row].as_py()!r:.80}; expected one row per node. Remove one of them"
    )
