"""What new features and labels become beside those of a store: the same columns, the same numbers for labels."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.memory import room_for, too_small
from nodewise._util.types import AnyArray, BoolArray, IntArray
from nodewise._util.words import counted
from nodewise.formats.columns import Column
from nodewise.formats.feature_files import TEXT_ROWS, FeatureFile
from nodewise.formats.label_files import LabelFile
from nodewise.formats.raw_graph import FeatureStream, RawFeatures
from nodewise.graph.checks import UNKNOWN
from nodewise.importing.base_store import BaseStore, mapped
from nodewise.importing.feature_stage import dense_stream
from nodewise.store.manifest import DENSE, LABELS

log = logging.getLogger("nodewise")
AGAIN = "or import all files again"


# ---------------------------------------------------------------------- features


def with_columns_of(base: BaseStore, file: FeatureFile) -> FeatureFile:
    """The file with the columns of the store in the store's order, found by name if both have names."""
    if base.graph.features is None:
        raise InputError(
            f"{file.path}: {base.path} has no features, so new nodes get none; leave --features out, {AGAIN}"
        )
    names, width = base.graph.feature_names, base.graph.num_features
    if names is None or file.names is None:
        if file.width != width:
            raise InputError(
                f"{file.path}: {counted(file.width, 'column')} of features, and {base.path} has {width:,}; expected "
                f"the same columns"
            )
        return file
    places = {name: place for place, name in enumerate(names)}
    unknown = [name for name in file.names if name not in places]
    missing = [] if file.triples else _missing(names, file.names)
    if unknown or missing:
        differ = [
            f"{names[0]!r} is in {path} only" for names, path in ((unknown, file.path), (missing, base.path)) if names
        ]
        raise InputError(
            f"{file.path}: {len(unknown) + len(missing):,} columns differ from those of {base.path}: "
            f"{', '.join(differ)}; expected the same columns in any order. Rename or add them, {AGAIN}"
        )
    if list(file.names) == list(names):
        return file
    order = np.array([places[name] for name in file.names])
    values = file.values
    if isinstance(values, FeatureStream):
        return dataclasses.replace(file, values=_reordered(values, order, width), names=names)
    matrix = sp.csr_matrix((values.data, order[values.indices], values.indptr), (values.shape[0], width))
    matrix.sort_indices()
    return dataclasses.replace(file, values=matrix, names=names)


def _reordered(stream: FeatureStream, order: IntArray, width: int) -> FeatureStream:
    """The stream with each column at its place in ``order``, and zeros in the others."""

    def parts(rows: int) -> Iterator[AnyArray]:
        for part in stream.parts(rows):
            placed = np.zeros((part.shape[0], width), part.dtype)
            placed[:, order] = part
            yield placed

    return dataclasses.replace(stream, parts=parts, width=width)


def _missing(names: Sequence[str], given: Sequence[str]) -> list[str]:
    """The names that are not given, except of categories, and of marks of missing values, that just did not occur."""
    known, categories = set(given), {name.partition("=")[0] for name in given if "=" in name}

    def may_lack(name: str) -> bool:
        column, equals, _ = name.partition("=")
        return (bool(equals) and column in categories) or name.removesuffix(" is missing") in known

    return [name for name in names if name not in known and not may_lack(name)]


def with_rows_of(base: BaseStore, new: RawFeatures | None, memory: int) -> RawFeatures | None:
    """The features of the store and ``new`` ones behind them; of sparse ones only the latter."""
    old = base.graph.features
    if old is None:
        return None
    width = int(old.shape[1])
    if sp.issparse(old):
        if new is None:
            return sp.csr_matrix((0, width), dtype=np.float32)
        return _sparse(new, memory) if isinstance(new, FeatureStream) else new
    stream = new if new is None or isinstance(new, FeatureStream) else dense_stream(new)

    def parts(rows: int) -> Iterator[AnyArray]:
        return itertools.chain(base.parts(DENSE, rows), () if stream is None else stream.parts(rows))

    return FeatureStream(parts, width, old.dtype.name, base.steps() if old.dtype == np.int8 else None)


def _sparse(stream: FeatureStream, memory: int) -> sp.csr_matrix:
    doing = "making new features sparse, as those of the store are,"
    parts, room = [sp.csr_matrix((0, stream.width), dtype=np.float32)], room_for(doing, memory, 0)
    for part in stream.parts(TEXT_ROWS):
        parts.append(sp.csr_matrix(part, dtype=np.float32))
        taken = 2 * sum(matrix.data.nbytes + matrix.indices.nbytes for matrix in parts)
        if taken > room:
            raise too_small(doing, memory, memory + 2 * taken)
    return sp.vstack(parts, format="csr")


# ---------------------------------------------------------------------- labels


def with_labels_of(
    base: BaseStore, file: LabelFile | None, values: AnyArray | None, names: Sequence[str] | None, memory: int
) -> tuple[AnyArray | None, Sequence[str] | None]:
    """The labels of the store, replaced and followed by those of the file, and the names of both.

    ``values`` are those of the file by node or, where the file does not name nodes, of the new ones in order.
    """
    old = base.graph.labels
    if file is None or values is None:
        return old, base.graph.label_names
    first = 0 if file.nodes is not None else base.num_nodes
    rows = np.flatnonzero(_known(values))
    new, nodes = values[rows], first + rows
    if old is not None:
        new, names = _as_in_store(base, file, new, names)
    count, fill = max(base.num_nodes, first + values.shape[0]), UNKNOWN if new.ndim == 1 else 0
    room_for("adding labels", memory, 2 * count * new[:1].nbytes)
    labels = np.full((count, *new.shape[1:]), fill, new.dtype)
    if old is not None:
        labels[(slice(old.shape[0]), *(slice(width) for width in old.shape[1:]))] = mapped(base.path / LABELS)
    before = labels[nodes]
    changed = before != new if new.ndim == 1 else (before != new).any(1)
    replaced = int(np.count_nonzero(_known(before) & changed))
    if replaced:
        log.info("%s: replaces the labels of %s of %s", file.path, counted(replaced, "node"), base.path)
    labels[nodes] = new
    return labels, names


def _known(labels: AnyArray) -> BoolArray:
    return np.asarray(labels != UNKNOWN if labels.ndim == 1 else labels.any(1))


def _as_in_store(
    base: BaseStore, file: LabelFile, new: AnyArray, names: Sequence[str] | None
) -> tuple[AnyArray, Sequence[str] | None]:
    """Labels of the file with the numbers, or columns, of the store, and all names: those of the store come first."""
    old, old_names = np.asarray(base.graph.labels), base.graph.label_names
    if old.ndim != new.ndim:
        several, one = (base.path, file.path) if old.ndim == 2 else (file.path, base.path)
        raise InputError(
            f"{file.path}: nodes have several labels in {several} and one in {one}; expected the same, {AGAIN}"
        )
    in_order = old_names is None or not isinstance(file.labels, Column)
    if names is None and in_order:  # numbers, or columns in the same order
        known = None if old_names is None else len(old_names)
        if new.shape[1:] != old.shape[1:] or (known is not None and new.ndim == 1 and new.max(initial=0) >= known):
            raise InputError(
                f"{file.path}: other labels than in {base.path}; expected {known or old.shape[1]:,}, {AGAIN}"
            )
        return new, old_names
    used = np.arange(new.shape[1]) if new.ndim == 2 else np.unique(new)
    words = [str(label) if names is None else names[label] for label in used.tolist()]
    numbered = [str(column) for column in range(old.shape[1])] if old.ndim == 2 else []
    places = {name: place for place, name in enumerate(numbered if old_names is None else old_names)}
    unknown = [word for word in words if word not in places]
    if unknown and (names is None or old_names is None):
        expected = "numbers" if old_names is None else f"names such as {old_names[0]!r}"
        raise InputError(
            f"{file.path}: label {unknown[0]!r}; the labels of {base.path} are {expected}. Rename it, {AGAIN}"
        )
    for word in unknown:
        places[word] = len(places)
    order = np.array([places[word] for word in words], np.int64)
    merged = None if old_names is None else [*old_names, *unknown]
    if new.ndim == 1:
        return order[np.searchsorted(used, new)], merged
    placed = np.zeros((new.shape[0], len(places)), new.dtype)
    placed[:, order] = new
    return placed, merged
