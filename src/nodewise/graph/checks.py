"""Checks of user input: each returns arrays that the rest can trust, or raises an error that says what is wrong."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, BoolArray, DoubleArray, Features, IntArray
from nodewise.graph.features import Quantized

LABELS_AT_ONCE = 1 << 22
SEEDS = 2**63  # from 0 on
LARGEST, HEAVIEST = 1e16, 1e18  # feature and edge weight: their products, and sums of squares, fit into float32
LEAST_LOOP = 1e-16  # the weight of a loop, and so a node's degree, whose inverse multiplies
UNKNOWN = -1  # the label of a node whose label is not known
UNKNOWN_WORDS = ("", "nan")  # labels that are not known; numpy makes the second one of NaN among strings
EXPECTED_WEIGHT = (
    f"expected a float32 above 0 and up to {HEAVIEST:g}, and at least {LEAST_LOOP:g} if the edge is a loop. Multiply "
    f"all weights by a constant"
)


def checked_nodes(nodes: Any, num_nodes: int, what: str) -> IntArray:
    """Node ids as int64, or an error that names the first that is wrong. A boolean mask is taken as a mask."""
    array = as_array(what, nodes)
    if array.dtype == bool:
        if array.shape != (num_nodes,):
            raise InputError(
                f"{what}: a mask of shape {array.shape}; expected one entry for each of {num_nodes:,} nodes"
            )
        return np.flatnonzero(array)
    if array.ndim != 1:
        hint = f", as [{nodes!r}]" if isinstance(nodes, str | int) else ""
        raise InputError(f"{what}: an array of shape {array.shape}; expected a list of node ids or names{hint}")
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{what}: ids of type {array.dtype}; node ids are whole numbers from 0 to {num_nodes - 1:,}")
    wrong = np.flatnonzero((array < 0) | (array >= num_nodes))
    if wrong.size:
        raise InputError(
            f"{what}: entry {wrong[0]:,} is {array[wrong[0]]}; node ids are whole numbers from 0 to {num_nodes - 1:,}"
        )
    return array.astype(np.int64)


def check_number(
    name: str, value: Any, expected: str, low: float, high: float = math.inf, *, strictly: bool = False
) -> None:
    """Raise unless ``value`` is a finite number from ``low`` on, or ``strictly`` above it, and below ``high``."""
    try:
        number = isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        number = False
    if not number or not low <= value < high or (strictly and value == low):
        raise InputError(f"{name}={value!r}: expected {expected}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")


def checked_seed(seed: int) -> int:
    if not isinstance(seed, int | np.integer) or not 0 <= seed < SEEDS:
        raise InputError(f"seed={seed!r}: expected a whole number from 0 to 2^63 - 1")
    return int(seed)


def checked_features(features: Any, num_nodes: int) -> Features | None:
    """Features as float32 (float16, int8) rows, dense or CSR; every value finite, one row per node."""
    if features is None:
        return None
    if sp.issparse(features):
        check_sparse("features", features)
        features = sp.csr_matrix(features, dtype=np.float32)
        if not features.has_canonical_format:
            features = features.copy()  # the caller's matrix stays as it is
            features.sum_duplicates()
    elif not isinstance(features, Quantized):
        if not isinstance(features, np.ndarray):
            features = as_array("features", features)
        if features.ndim != 2:
            raise InputError(f"features: an array of shape {features.shape}; expected (num_nodes, num_features)")
        if features.dtype.kind not in "fiub":
            raise InputError(f"features: values of type {features.dtype}; expected numbers")
        if features.dtype not in (np.float32, np.float16):
            features = features.astype(np.float32)
        if not features.flags.c_contiguous:
            features = np.ascontiguousarray(features)
    if features.shape[0] != num_nodes:
        raise InputError(f"features: {features.shape[0]:,} rows for {num_nodes:,} nodes; expected one row per node")
    if not isinstance(features, Quantized):
        _check_values(features)
    return features


def check_sparse(what: str, matrix: Any) -> None:
    """Raise unless the parts of a sparse matrix of the user's fit together."""
    try:
        if hasattr(matrix, "indptr"):
            check_parts(copy.copy(matrix))
    except ValueError as error:
        raise InputError(f"{what}: a sparse matrix whose parts do not fit together ({error})") from error


def check_parts(matrix: Any) -> None:
    """Raise ValueError unless the parts of a compressed sparse matrix fit together; what reads it would crash."""
    matrix.check_format(full_check=True)
    if (matrix.indptr[1:] < matrix.indptr[:-1]).any():  # not seen by scipy where the last one is 0 or less
        raise ValueError("indptr must be a non-decreasing sequence")


def checked_labels(labels: Any, num_nodes: int) -> AnyArray | None:
    """Labels as int64 with -1 for unknown, or a 0/1 matrix (int8) with several labels per node."""
    if labels is None:
        return None
    array = _whole_labels(as_array("labels", labels))
    if array.ndim not in (1, 2) or array.dtype.kind not in "iub":
        raise InputError(
            f"labels: an array of shape {array.shape} and type {array.dtype}; expected whole numbers, -1 for unknown, "
            f"names, or a 0/1 matrix with one column per label"
        )
    if array.shape[0] != num_nodes:
        raise InputError(f"labels: {array.shape[0]:,} for {num_nodes:,} nodes; expected one per node, -1 for unknown")
    low, high = (0, 1) if array.ndim == 2 else (UNKNOWN, np.iinfo(np.int64).max)
    wrong = np.argwhere((array < low) | (array > high))
    if wrong.size:
        where = tuple(int(i) for i in wrong[0])
        expected = "0 or 1" if array.ndim == 2 else "0 or more, or -1 for unknown"
        raise InputError(f"labels: node {where[0]:,} has {array[where]}; expected {expected}")
    return array.astype(np.int8 if array.ndim == 2 else np.int64)


def encoded_labels(labels: Any, names: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """Labels that are strings as numbers, and their names: those given, or else all that occur, in order.

    None, NaN and empty strings are unknown. Other labels stay as they are.
    """
    words = strings("labels", labels)
    if words is None:
        return labels, names
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_string()
    try:
        text = pa.array(words, kind, from_pandas=True)  # NaN, and what pandas has for it, become null
        text = pc.if_else(pc.is_in(text, value_set=pa.array(UNKNOWN_WORDS, kind)), pa.scalar(None, kind), text)
        names = sorted(text.unique().drop_null().to_pylist()) if names is None else names
        codes = pc.index_in(text, value_set=pa.array(names, kind))
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"labels: {error}; expected all strings, None for unknown, or all whole numbers") from error
    new = pc.indices_nonzero(pc.and_(codes.is_null(), text.is_valid()))
    if len(new):
        node = new[0].as_py()
        raise InputError(f"labels: node {node:,} has {words[node]!r}, which is not in label_names; add it there")
    return pc.fill_null(codes, UNKNOWN).to_numpy(), names


def present_labels(labels: AnyArray) -> IntArray:
    """The labels that occur, in order; a part at a time, since ``labels`` may be a file of any size."""
    parts = [np.unique(labels[first : first + LABELS_AT_ONCE]) for first in range(0, labels.size, LABELS_AT_ONCE)]
    found = np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))
    return np.asarray(found[found != UNKNOWN], np.int64)


def as_array(what: str, values: Any) -> AnyArray:
    """An array of anything array-like, a tensor with gradients included."""
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    except ValueError as error:
        raise InputError(f"{what}: cannot be made an array ({error}); expected rows of equal length") from error


def strings(what: str, values: Any) -> list[Any] | None:
    """The entries of a list with strings in it, as they were given (numpy makes all of them strings); else None."""
    array = as_array(what, values)
    mixed = array.dtype == object and any(isinstance(value, str) for value in array.flat)
    if array.ndim != 1 or not (mixed or array.dtype.kind in "UT"):
        return None
    return list(values) if isinstance(values, list | tuple) else array.tolist()


def _whole_labels(array: AnyArray) -> AnyArray:
    """Labels that came as floats, as they do from PyTorch Geometric: whole numbers, NaN for unknown."""
    if array.dtype.kind != "f":
        return array
    known = ~np.isnan(array)
    whole = np.where(known, array, UNKNOWN)
    if not np.all(whole == np.floor(whole)) or (array.ndim == 2 and not known.all()):
        return array
    return whole.astype(np.int64)


def checked_edges(edge_index: Any) -> AnyArray:
    edges = as_array("edge_index", edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        hint = "; pass its transpose" if edges.ndim == 2 and edges.shape[1] == 2 else ""
        raise InputError(f"edge_index: an array of shape {edges.shape}; expected (2, num_edges){hint}")
    if edges.dtype.kind == "f":
        wrong = np.argwhere(~np.isfinite(edges) | (edges != np.floor(edges)))
        if wrong.size:
            raise InputError(
                f"edge_index: edge {wrong[0][1]:,} names node {edges[tuple(wrong[0])]}; node ids are whole numbers"
            )
        edges = edges.astype(np.int64)
    if edges.dtype.kind not in "iu":
        raise InputError(f"edge_index: ids of type {edges.dtype}; node ids are whole numbers")
    return edges if edges.dtype == np.int32 else edges.astype(np.int64, copy=False)


def implied_num_nodes(edges: AnyArray, *per_node: Any) -> int:
    for known in per_node:
        if known is not None:
            return int(known.shape[0]) if hasattr(known, "shape") else len(known)
    return int(edges.max()) + 1 if edges.size else 0


def check_ids(edges: AnyArray, num_nodes: int) -> None:
    if num_nodes < 1:
        raise InputError("the graph is empty: expected at least one node")
    if edges.size == 0:
        return
    if edges.min() < 0 or edges.max() >= num_nodes:
        side, edge = np.argwhere((edges < 0) | (edges >= num_nodes))[0]
        raise InputError(
            f"edge_index: edge {edge:,} names node {edges[side, edge]}; node ids are whole numbers from 0 to "
            f"{num_nodes - 1:,}. Raise num_nodes or drop the edge"
        )


def checked_edge_weight(weights: Any, edges: AnyArray) -> DoubleArray:
    array, num_edges = np.asarray(weights), edges.shape[1]
    if array.shape != (num_edges,):
        raise InputError(
            f"edge_weight: an array of shape {array.shape}; expected one weight for each of {num_edges:,} edges"
        )
    if array.dtype.kind not in "fiub":
        raise InputError(f"edge_weight: values of type {array.dtype}; expected numbers")
    with np.errstate(over="ignore", under="ignore"):
        stored = array.astype(np.float32)
    wrong = np.flatnonzero(wrong_weights(stored, edges[0] == edges[1]))
    if wrong.size:
        raise InputError(f"edge_weight: edge {wrong[0]:,} has weight {array[wrong[0]]}; {EXPECTED_WEIGHT}")
    return array.astype(np.float64)


def wrong_weights(weights: AnyArray, loops: AnyArray) -> BoolArray:
    """Which weights cannot be computed with in float32."""
    wrong: BoolArray = ~((weights > 0) & (weights <= HEAVIEST)) | (loops & (weights < LEAST_LOOP))
    return wrong


def check_names(
    node_names: Sequence[str] | None, label_names: Sequence[str] | None, labels: AnyArray | None, num_nodes: int
) -> None:
    if node_names is not None and len(node_names) != num_nodes:
        raise InputError(f"node_names: {len(node_names):,} names for {num_nodes:,} nodes; expected one per node")
    if label_names is None:
        return
    needed = 0 if labels is None else labels.shape[1] if labels.ndim == 2 else int(labels.max(initial=-1)) + 1
    if len(label_names) < needed:
        raise InputError(f"label_names: {len(label_names):,}; expected one for each label from 0 to {needed - 1:,}")
    wrong = [name for name in label_names if not isinstance(name, str)]
    if wrong:
        raise InputError(f"label_names: {wrong[0]!r} is not a string; expected a name for each label")


def check_feature_names(names: Sequence[str] | None, num_features: int) -> None:
    if names is None:
        return
    if len(names) != num_features:
        raise InputError(f"feature_names: {len(names):,} names for {num_features:,} features; expected one per column")
    check_distinct("feature_names", names, "columns")


def check_distinct(what: str, names: Sequence[str], named: str) -> None:
    """Raise unless ``names`` are strings, and no two are the same; ``named``: what they are the names of."""
    if not all(issubclass(kind, str) for kind in set(map(type, names))):
        wrong = next(name for name in names if not isinstance(name, str))
        raise InputError(f"{what}: {wrong!r} is not a string; expected one string for each of the {named}")
    if len(set(names)) == len(names):  # 5 million names: 1.3 s; pyarrow's unique takes 3.5 s
        return
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        first = seen.setdefault(name, place)
        if first != place:
            raise InputError(
                f"{what}: {named} {first:,} and {place:,} are both named {name!r}; expected names that differ. Rename "
                f"one of them"
            )


def unfit(values: AnyArray, most: float = LARGEST) -> BoolArray:
    """Which numbers cannot be computed with in float32: those that are not finite, or too large."""
    wrong: BoolArray = ~(np.abs(values) <= min(most, float(np.finfo(values.dtype).max)))
    return wrong


def expected_feature(value: float) -> str:
    """What is expected in place of ``value``, and what to do."""
    if np.isnan(value):
        return "expected finite numbers. Fill or drop the missing values first"
    return f"expected finite numbers of at most {LARGEST:g}. Scale the column, or fill the missing values first"


def _check_values(features: Features) -> None:
    """In slices, so that a file larger than memory can be checked."""
    values = features.data if sp.issparse(features) else features
    step = max(1, (1 << 24) // max(1, values.shape[1] if values.ndim == 2 else 1))
    for first in range(0, values.shape[0], step):
        wrong = unfit(values[first : first + step])
        if wrong.any():
            spot = int(np.flatnonzero(wrong)[0])
            if values.ndim == 2:
                row, column = first + spot // values.shape[1], spot % values.shape[1]
            else:
                row = int(np.searchsorted(features.indptr, first + spot, side="right")) - 1
                column = int(features.indices[first + spot])
            value = float(values[(row, column) if values.ndim == 2 else first + spot])
            raise InputError(f"features: node {row:,} has {value} in column {column:,}; {expected_feature(value)}")
