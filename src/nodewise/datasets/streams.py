"""What the readers of layouts share: parts of edges, features and labels, checked as they pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nodewise._typing import AnyArray, IntArray
from nodewise.checks import checked_labels, checked_nodes
from nodewise.datasets.archive import Member
from nodewise.datasets.npy import NpyMember
from nodewise.errors import InputError
from nodewise.ingest.raw import FeatureStream

KEPT = ("float16", "float32")  # the types that features are kept in


def checked_ends(label: str, ends: AnyArray, first: int, num_nodes: int) -> AnyArray:
    """``ends`` ``(2, k)``, edges ``first`` and on, if all of them name nodes that exist."""
    if ends.size and (ends.min() < 0 or ends.max() >= num_nodes):
        edge, side = np.argwhere(((ends < 0) | (ends >= num_nodes)).T)[0]
        raise InputError(
            f"{label}: edge {first + edge:,} names node {ends[side, edge]}; there are {num_nodes:,}, numbered from 0. "
            f"The file is damaged or of another graph: fetch or write it again"
        )
    return ends


def check_count(label: str, found: int, expected: int, what: str) -> None:
    """Refuse a file with more or fewer of something than another file says."""
    if found != expected:
        raise InputError(
            f"{label}: has {found:,} {what}, expected {expected:,}; it is cut off or of another graph. "
            f"Fetch or write it again"
        )


def feature_stream(
    label: str, parts: Callable[[int], Iterator[AnyArray]], shape: tuple[int, int], dtype: Any
) -> FeatureStream:
    """A stream of one row a node: float16 as it is, all else as float32; each value finite, no row too few."""
    num_nodes, width = shape
    kept = np.dtype(dtype).name if np.dtype(dtype).name in KEPT else "float32"

    def checked(rows: int) -> Iterator[AnyArray]:
        first = 0
        for part in parts(rows):
            with np.errstate(over="ignore"):
                values = part.astype(kept, copy=False)
            _check_finite(label, values, first)
            first += values.shape[0]
            yield values
        check_count(label, first, num_nodes, "rows of features")

    return FeatureStream(checked, width, kept)


def npy_features(member: Member, num_nodes: int) -> FeatureStream:
    """The features in an ``.npy`` member."""
    array = NpyMember(member)
    if len(array.shape) != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{array.label}: an array of {array.dtype} and shape {array.shape}; expected numbers, a row a node"
        )
    check_count(array.label, array.shape[0], num_nodes, "rows of features")
    return feature_stream(array.label, array.parts, (num_nodes, array.shape[1]), array.dtype)


def node_labels(label: str, values: AnyArray, num_nodes: int) -> AnyArray:
    """Labels as a graph keeps them: int64 with -1 for unknown, or 0/1 with a column a label."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    try:
        labels = checked_labels(values, num_nodes)
    except InputError as error:
        raise InputError(f"{label}: {error}") from error
    return np.empty(0, np.int64) if labels is None else labels


def split_nodes(label: str, nodes: Any, num_nodes: int, part: str) -> IntArray:
    """The nodes of a part of a split."""
    try:
        return checked_nodes(nodes, num_nodes, part)
    except InputError as error:
        raise InputError(f"{label}: {error}") from error


def _check_finite(label: str, values: AnyArray, first: int) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(
            f"{label}: node {first + row:,} has {values[row, column]} in column {column:,}; expected finite numbers. "
            f"Fill or drop the missing values first"
        )
