"""Open a store as a graph: read-only memory maps, and the checks that make them safe to use.

Names, types, shapes and sizes are checked when a store is opened, and values when they are first used
(:mod:`nodewise.graph.unchecked`); ``verify`` checks all of them at once, and the checksums.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nodewise._util import atomic
from nodewise._util.errors import StoreError
from nodewise._util.pagecache import check_mapped
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray
from nodewise.graph import Graph
from nodewise.graph.checks import LARGEST, UNKNOWN
from nodewise.graph.features import Quantized
from nodewise.graph.names import Names
from nodewise.graph.unchecked import REPAIR, Unchecked, UncheckedRows
from nodewise.store.blocks import check_blocks, check_size, slices
from nodewise.store.manifest import (
    DENSE,
    INDICES,
    INDPTR,
    LABELS,
    NAMES,
    SPARSE,
    SPLIT_FILE,
    STEPS,
    WEIGHTS,
    Manifest,
    StoredFile,
    read_manifest,
)
from nodewise.store.names import read_names

VERIFY_UP_TO = 64 << 20  # bytes; larger stores are verified only on request, so that they open at once
MOST = float(np.float32(LARGEST))  # which is a little more
ATTEMPTS = 100  # at a store that others replace as it is opened
Arrays = dict[str, Any]  # by file name


def open_store(path: atomic.AnyPath, verify: bool | None = None) -> Graph:
    """The graph in the store at ``path``, as read-only memory maps.

    ``verify`` reads every file and compares checksums; None does so for stores of up to 64 MiB.

    >>> from tempfile import mkdtemp
    >>> import nodewise as nw
    >>> folder = mkdtemp() + "/pair"
    >>> nw.write_store(nw.Graph.from_edges([[0], [1]]), folder)
    >>> nw.open_store(folder)
    Graph(nodes=2, edges=1)
    """
    folder = Path(path)
    for left in reversed(range(ATTEMPTS)):
        before = _inode(folder)
        try:
            graph = _opened(folder, verify)
        except OSError:  # a StoreError is one, too
            if _inode(folder) == before or not left:
                raise
        else:
            if _inode(folder) == before:
                return graph
    raise StoreError(f"{folder}: is replaced again and again; open it once nothing writes to it")


def _inode(folder: Path) -> tuple[int, int]:
    """What distinguishes a folder from another that takes its name."""
    try:
        state = folder.stat()
    except OSError:
        return 0, 0
    return state.st_dev, state.st_ino


def _opened(folder: Path, verify: bool | None) -> Graph:
    described = read_manifest(folder)
    for name, file in described.files.items():
        check_size(folder / name, file)
    if verify is None:
        verify = described.bytes <= VERIFY_UP_TO
    if verify:
        check_blocks(folder, described.files)
    real = os.path.realpath(folder)  # once; and if it is a link, it may lead elsewhere later
    arrays: Arrays = {
        name: _mapped(os.path.join(real, name), folder / name, file)
        for name, file in described.files.items()
        if name != NAMES
    }
    for indptr, values in ((INDPTR, INDICES), (SPARSE[2], SPARSE[1])):
        if indptr in arrays:
            first, last, expected = arrays[indptr][0], arrays[indptr][-1], arrays[values].size
            if first != 0 or last != expected:
                raise StoreError(f"{folder / indptr}: runs from {first} to {last}, expected 0 to {expected}; {REPAIR}")
    if STEPS in arrays:
        _check_values(folder, described, [STEPS], arrays[STEPS])
    graph = _graph(folder, described, arrays)
    if verify:
        check_arrays(folder, graph, described)
        if isinstance(graph.node_names, Names):
            _ = graph.node_names.arrow  # decoding checks them
    return graph


def verify_store(path: atomic.AnyPath) -> int:
    """Check every block of every file and that the arrays make sense; return the number of bytes checked."""
    open_store(path, verify=True)
    return read_manifest(path).bytes


def _graph(folder: Path, described: Manifest, arrays: Arrays) -> Graph:
    nodes, names = described.counts["nodes"], described.files.get(NAMES)
    check = functools.partial(functools.partial, _check_values, folder, described)
    features = arrays.get(DENSE)
    if STEPS in arrays:
        features = Quantized(arrays[DENSE], *np.asarray(arrays[STEPS]))
    if described.flags["sparse_features"]:
        parts = tuple(np.asarray(arrays[part]) for part in SPARSE)
        features = UncheckedRows.of(parts, (nodes, described.counts["features"]), check(SPARSE, *parts))
    splits = {match[1]: np.asarray(arrays[match[0]]) for match in map(SPLIT_FILE.fullmatch, arrays) if match}
    lazily: dict[str, Any] = {name: Unchecked(array, check([name])) for name, array in arrays.items()}
    if LABELS in arrays:
        lazily[LABELS] = Unchecked(arrays[LABELS], functools.partial(_check_labels, folder, described))
    lazily["splits"] = Unchecked(splits, functools.partial(_check_splits, folder, described))
    graph = Graph(
        lazily[INDPTR],
        lazily[INDICES],
        lazily.get(WEIGHTS),
        features=features,
        labels=lazily.get(LABELS),
        node_names=None if names is None else Names(functools.partial(read_names, folder / NAMES, names), nodes),
        label_names=None if described.label_names is None else list(described.label_names),
        splits=lazily["splits"],
        name=described.name,
        feature_names=None if described.feature_names is None else list(described.feature_names),
    )
    if described.degrees is not None:  # saves a pass over the adjacency
        graph._cache(total_degree=described.degrees["total"], least_degree=described.degrees["least"])
    if described.present_labels is not None:
        graph._cache(present_labels=np.array(described.present_labels, np.int64))
    return graph


def _mapped(real: str, path: Path, file: StoredFile) -> AnyArray:
    try:
        array: AnyArray = np.lib.format.open_memmap(real, mode="r")  # not np.load, which also opens archives
    except Exception as error:  # numpy evaluates the header as a literal, which can fail in any way
        raise StoreError(f"{path}: is not an .npy file ({error}); {REPAIR}") from error
    if array.dtype.str != file.dtype or array.shape != file.shape or not array.flags.c_contiguous:
        raise StoreError(
            f"{path}: holds {array.dtype.str} values of shape {array.shape}, the manifest says {file.dtype} of shape "
            f"{file.shape}; {REPAIR}"
        )
    return array


# ---------------------------------------------------------------------- values


class Limits(NamedTuple):
    """What the values of an array can be: from ``low`` to ``high``, each ``rise`` or more above the one before."""

    low: float
    high: float
    rise: int | None = None

    def __str__(self) -> str:
        order = "" if self.rise is None else f", each at least {self.rise} above the one before"
        return f"numbers from {self.low:g} to {self.high:g}{order}"

    def hold(self, part: AnyArray) -> bool:
        if part.size == 0:
            return True
        within = bool(part.min().item() >= self.low and part.max().item() <= self.high)  # not a number: neither
        return within and (self.rise is None or bool((np.diff(part) >= self.rise).all()))


def _limits(described: Manifest, name: str) -> Limits:
    """What an array can hold without pointing outside another one; checksums only show that it was written so."""
    counts, files = described.counts, described.files
    if name == LABELS:
        return Limits(0, 1) if described.flags["multilabel"] else Limits(UNKNOWN, counts["classes"] - 1)
    known = {
        INDPTR: Limits(0, counts["entries"], 1),
        WEIGHTS: Limits(float(np.finfo(np.float32).smallest_subnormal), float(np.finfo(np.float32).max)),
        DENSE: Limits(-MOST, MOST),
        STEPS: Limits(-4 * MOST, 4 * MOST),
        SPARSE[0]: Limits(-MOST, MOST),
        SPARSE[1]: Limits(0, counts["features"] - 1),
        SPARSE[2]: Limits(0, files[SPARSE[0]].shape[0] if SPARSE[0] in files else 0, 0),
    }
    return known.get(name, Limits(0, counts["nodes"] - 1))  # neighbours, and the nodes of splits


def _check_values(folder: Path, described: Manifest, names: Sequence[str], *arrays: AnyArray) -> None:
    """Read arrays through, about a block at a time, and raise unless their values are possible."""
    for name, array in zip(names, arrays, strict=True):
        limits = _limits(described, name)
        check_mapped(array)
        overlap = 0 if limits.rise is None else 1
        if not all(map_chunks(limits.hold, slices(array, overlap), thread_count(None))):
            raise StoreError(f"{folder / name}: holds impossible values, expected {limits}; {REPAIR}")


def _check_labels(folder: Path, described: Manifest, labels: AnyArray) -> None:
    """Check labels, and that the manifest lists all that occur."""
    _check_values(folder, described, [LABELS], labels)
    if described.present_labels is None or described.flags["multilabel"]:
        return
    listed = np.array([UNKNOWN, *described.present_labels], np.int64)
    if not all(map_chunks(lambda part: np.isin(part, listed).all(), slices(labels), thread_count(None))):
        raise StoreError(f"{folder / LABELS}: holds labels that the manifest does not list; {REPAIR}")


def _check_splits(folder: Path, described: Manifest, splits: Mapping[str, AnyArray]) -> None:
    _check_values(folder, described, [f"splits/{split}.npy" for split in splits], *splits.values())


def check_arrays(folder: Path, graph: Graph, described: Manifest) -> None:
    """Check all values of an open store but its names."""
    _ = graph.indptr, graph.indices, graph.edge_weight, graph.labels, graph.splits  # each is checked as it is read
    if described.flags["sparse_features"]:
        _ = graph.features.indptr  # type: ignore[union-attr]
    elif DENSE in described.files and not isinstance(graph.features, Quantized):
        _check_values(folder, described, [DENSE], graph.features)  # type: ignore[arg-type]
