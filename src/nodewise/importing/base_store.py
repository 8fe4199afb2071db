"""BaseStore: the store that new nodes and edges are added to.

Its adjacency is sorted already, so to the merge it is one more run; its rows of features are copied as they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nodewise._util.types import AnyArray, DoubleArray
from nodewise.graph import Graph
from nodewise.graph.adjacency import entry_rows
from nodewise.graph.edge_keys import BOTH
from nodewise.importing.array_files import read_at
from nodewise.store import open_store, read_manifest
from nodewise.store.blocks import check_blocks
from nodewise.store.manifest import DENSE, INDICES, INDPTR, NAMES, WEIGHTS
from nodewise.store.names import name_parts
from nodewise.store.reading import check_arrays

READ_ENTRIES = 1 << 18  # of the adjacency, at a time
PART_BYTES = 8 << 20  # of other arrays


@dataclasses.dataclass(frozen=True)
class BaseStore:
    """A store, and what an import that adds to it needs to know. Arrays are never read whole."""

    path: Path
    graph: Graph

    def check(self) -> None:
        """Compare all checksums, and check all values: the new store has its own, which would hide damage in this one.

        Not through the maps of this graph: what is read through them counts as memory in use.
        """
        described = read_manifest(self.path)
        check_blocks(self.path, described.files)
        check_arrays(self.path, open_store(self.path, verify=False), described)

    @property
    def num_nodes(self) -> int:
        return self.graph.num_nodes

    @property
    def weighted(self) -> bool:
        return self.graph.unchecked("edge_weight") is not None

    def names(self) -> Iterator[Any]:
        """The names of nodes, part by part."""
        return name_parts(self.path / NAMES, read_manifest(self.path).files[NAMES])

    def steps(self) -> AnyArray:
        """Of int8 features, by column: scale, offset, and the least and greatest value that codes can stand for.

        A column of one value has steps of 1, which mean nothing: there only this value can be stood for.
        """
        scale, offset = self.graph.features.scale, self.graph.features.offset  # type: ignore[union-attr]
        alike = scale == 1
        for part in self.parts(DENSE, PART_BYTES // max(1, scale.size)):
            if not alike.any():
                break
            alike = alike & ~part.any(0)
        low, high = (np.where(alike, offset, offset + code * scale) for code in (-128, 127))
        return np.stack([scale, offset, low, high]).astype(np.float32)

    def parts(self, file: str, count: int | None = None) -> Iterator[AnyArray]:
        """An array of the store, ``count`` rows at a time."""
        path = self.path / file
        whole = mapped(path)
        total, step = whole.shape[0], count or max(1, PART_BYTES // whole.itemsize)
        del whole
        for first in range(0, total, step):
            yield mapped(path)[first : first + step]


def mapped(path: Path) -> Any:
    """An array in a file, mapped anew: what was read through another map does not count as memory in use any more."""
    return np.load(path, mmap_mode="r")


class StoredRun:
    """The adjacency of a store as a run for :class:`nodewise.importing.sorting.Merge`: one key per entry.

    Without weights, the merge drops the loops. With weights, an entry counts in both directions: a store does not keep
    that of an edge, so what is added in either direction adds to its weight. A loop of weight 1 is what nodes have
    that were given none, so it counts for nothing.
    """

    def __init__(self, base: BaseStore) -> None:
        self._base = base
        self._indptr, self._indices, self._weights = (base.path / name for name in (INDPTR, INDICES, WEIGHTS))

    def __len__(self) -> int:
        return self._base.graph.num_entries

    def samples(self, stride: int) -> AnyArray:
        """Every ``stride``-th key, the first one included."""
        places = np.arange(0, len(self), stride)
        starts = self._base.parts(INDPTR)
        rows = sum((np.searchsorted(part, places, side="right") for part in starts), np.full(places.size, -1))
        whole = mapped(self._indices)
        with self._indices.open("rb") as stream:
            at = (whole.offset + whole.itemsize * places).tolist()
            columns = np.array([read_at(stream, place, 1, whole.dtype)[0] for place in at], np.uint64)
        return _keys(rows, columns)

    def read(self, first: int, keys: AnyArray, weights: DoubleArray | None) -> None:
        """Fill ``keys``, and ``weights``, from place ``first`` on."""
        for at in range(0, keys.size, READ_ENTRIES):
            part = slice(at, at + READ_ENTRIES)
            begin, end = first + at, first + min(at + READ_ENTRIES, keys.size)
            rows, columns = entry_rows(mapped(self._indptr), begin, end), mapped(self._indices)[begin:end]
            keys[part] = _keys(rows, columns)
            if weights is not None:
                loops, stored = np.flatnonzero(rows == columns), mapped(self._weights)[begin:end]
                weights[part] = stored
                weights[part] *= BOTH
                weights[part][loops] = np.where(stored[loops] == 1, 0, stored[loops])


def _keys(rows: AnyArray, columns: AnyArray) -> AnyArray:
    keys: AnyArray = (rows.astype(np.uint64) << np.uint64(32)) | columns.astype(np.uint64)
    return keys
