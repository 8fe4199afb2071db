"""RawGraph: what readers pass to the importer. Edges and features are streams of arrays, never read whole.

The functions here check the parts as they are read; ``label`` is the name of the file in messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, IntArray
from nodewise.formats.npy import NpyFile
from nodewise.graph.checks import checked_labels, checked_nodes, expected_feature, unfit

MOST_FEATURES = 1 << 22  # columns: rows of a few nodes, which are dense, have to fit into memory


@dataclasses.dataclass(frozen=True)
class EdgeStream:
    """Edges by node number.

    ``parts(rows)`` starts from the beginning each time it is called and yields ``(ends, weights)`` in the order of the
    file: ``ends`` an integer array ``(2, k)`` with ``k <= rows``, ``weights`` None or an array ``(k,)``. Ids are
    checked. ``count`` is the number of edges if it is known beforehand; if not, ``most`` is about how many there are,
    rather too many, and ``share`` may say what share of the input has been read.
    """

    parts: Callable[[int], Iterator[tuple[AnyArray, AnyArray | None]]]
    count: int | None = None
    weighted: bool = False
    share: Callable[[], float] | None = None
    source: str = "edges"  # their name in messages
    most: int = 0

    def estimate(self, read: int) -> float | None:
        """About how many edges there are, once ``read`` of them have been read."""
        share = 0.0 if self.share is None else self.share()
        return read / share if share else None


@dataclasses.dataclass(frozen=True)
class FeatureStream:
    """Features in node order.

    ``parts(rows)`` starts from the beginning each time it is called and yields arrays ``(k, width)`` of finite numbers
    with ``k <= rows``, node 0 first; nodes after the last row get rows of zeros. ``dtype`` is the type to store them
    in unless the user chooses another: float32 or float16. ``steps``, where the first rows are int8 codes: scale,
    offset, least and greatest value of each column, for the rows behind them.
    """

    parts: Callable[[int], Iterator[AnyArray]]
    width: int
    dtype: str = "float32"
    steps: AnyArray | None = None


RawFeatures: TypeAlias = FeatureStream | sp.csr_matrix  # a sparse matrix in memory stays sparse


def num_columns(features: RawFeatures | None) -> int:
    if features is None:
        return 0
    return features.width if isinstance(features, FeatureStream) else int(features.shape[1])


@dataclasses.dataclass(frozen=True)
class RawGraph:
    """A graph whose edges and features are still in their files."""

    num_nodes: int | None  # None: the largest id decides
    edges: EdgeStream
    features: RawFeatures | None = None
    labels: AnyArray | None = None  # int64 with -1 for unknown, or int8 0/1 with one column per label
    label_names: Sequence[str] | None = None
    splits: Mapping[str, IntArray] = dataclasses.field(default_factory=dict)
    name: str = "graph"
    feature_names: Sequence[str] | None = None


def edge_stream(label: str, parts: Callable[[int], Iterator[AnyArray]], num_nodes: int, num_edges: int) -> EdgeStream:
    """A stream of edges without weights; checks that all ends are nodes that exist, and that no edge is missing."""

    def checked(rows: int) -> Iterator[tuple[AnyArray, None]]:
        first = 0
        for ends in parts(rows):
            if ends.size and (ends.min() < 0 or ends.max() >= num_nodes):
                edge, side = np.argwhere(((ends < 0) | (ends >= num_nodes)).T)[0]
                raise InputError(
                    f"{label}: edge {first + edge:,} names node {ends[side, edge]}; there are {num_nodes:,}, numbered "
                    f"from 0. The file is damaged or of another graph: fetch or write it again"
                )
            first += ends.shape[1]
            if first > num_edges:
                break
            yield ends, None
        check_count(label, first, num_edges, "edges")

    return EdgeStream(checked, num_edges)


def check_count(label: str | Path, found: int, expected: int, what: str) -> None:
    """Refuse a file with another number of edges or rows than expected."""
    if found != expected:
        raise InputError(
            f"{label}: has {'at least ' * (found > expected)}{found:,} {what}, expected {expected:,}; it is cut off or "
            f"of another graph. "
            f"Fetch or write it again"
        )


def feature_stream(
    label: str | Path, parts: Callable[[int], Iterator[AnyArray]], shape: Sequence[int], dtype: Any
) -> FeatureStream:
    """A stream of one row per node, as float16 or float32; checks that values are fit and no row is missing."""
    kept = np.dtype(np.float16 if dtype == np.float16 else np.float32)

    def checked(rows: int) -> Iterator[AnyArray]:
        first = 0
        for part in parts(rows):
            with np.errstate(over="ignore"):
                values = np.ascontiguousarray(part, kept)
            wrong = unfit(values)
            if wrong.any():
                row, column = np.argwhere(wrong)[0]
                raise InputError(
                    f"{label}: node {first + row:,} has {values[row, column]} in column {column:,}; "
                    f"{expected_feature(values[row, column])}"
                )
            first += values.shape[0]
            if first > shape[0]:
                break
            yield values
        check_count(label, first, shape[0], "rows of features")

    return FeatureStream(checked, shape[1], kept.name)


def array_features(label: str | Path, array: NpyFile | AnyArray, num_nodes: int | None = None) -> FeatureStream:
    """The features in an array with one row per node."""
    if len(array.shape) != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{label}: an array of {array.dtype} and shape {array.shape}; expected numbers, (num_nodes, num_features)"
        )
    if not 1 <= array.shape[1] <= MOST_FEATURES:
        raise InputError(f"{label}: {array.shape[1]:,} columns of features; expected 1 to {MOST_FEATURES:,}")
    check_count(label, array.shape[0], array.shape[0] if num_nodes is None else num_nodes, "rows of features")

    def parts(rows: int) -> Iterator[AnyArray]:
        for first in range(0, array.shape[0], rows):
            yield array[first : first + rows]

    return feature_stream(label, parts, array.shape, array.dtype)


def node_labels(label: str | Path, values: AnyArray, num_nodes: int) -> AnyArray:
    """Checked labels: int64 with -1 for unknown, or 0/1 with one column per label."""
    if values.ndim == 2 and values.shape[1] < 2:
        if not values.shape[1]:
            raise InputError(f"{label}: labels in no columns; expected one column, or one per label")
        values = values[:, 0]
    with about(label):
        labels = checked_labels(values, num_nodes)
    return np.empty(0, np.int64) if labels is None else labels


def split_nodes(label: str, nodes: Any, num_nodes: int, part: str) -> IntArray:
    """The checked nodes of one part of a split."""
    with about(label):
        return checked_nodes(nodes, num_nodes, part)


@contextmanager
def about(label: str | Path) -> Iterator[None]:
    """Errors in values name the file that they are from."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{label}: {error}") from error
