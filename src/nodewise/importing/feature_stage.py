"""The stage of an import that writes features: ``features.npy`` in the requested type, or a sparse matrix."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.memory import room_for
from nodewise._util.progress import Progress
from nodewise._util.types import AnyArray
from nodewise.formats.raw_graph import FeatureStream, RawFeatures
from nodewise.graph.checks import check_choice
from nodewise.graph.features import column_steps, encode
from nodewise.importing.base_store import BaseStore
from nodewise.importing.work_folder import Work
from nodewise.store.manifest import DENSE, SPARSE, STEPS
from nodewise.store.streaming import WRITER_BYTES, ArrayWriter

Conversion = Callable[[AnyArray, int], AnyArray]

FEATURE_DTYPES = ("float32", "float16", "int8")
PART_BYTES = 8 << 20  # of float32 rows, at a time


def check_dtype(feature_dtype: str | None) -> None:
    if feature_dtype is not None:
        check_choice("feature_dtype", feature_dtype, FEATURE_DTYPES)


def dense_or_sparse(
    features: RawFeatures | None, feature_dtype: str | None
) -> tuple[FeatureStream | None, sp.csr_matrix | None]:
    """Features to be stored dense, and those to be stored sparse, which only float32 can be."""
    if features is None or isinstance(features, FeatureStream):
        return features, None
    if feature_dtype in (None, "float32"):
        return None, features
    return dense_stream(features), None


def dense_stream(matrix: sp.csr_matrix) -> FeatureStream:
    """The rows of a sparse matrix, made dense a part at a time."""

    def parts(rows: int) -> Iterator[AnyArray]:
        for first in range(0, matrix.shape[0], rows):
            yield matrix[first : first + rows].toarray()

    return FeatureStream(parts, int(matrix.shape[1]))


def write_dense(
    stream: FeatureStream, feature_dtype: str | None, num_nodes: int | None, work: Work, memory: int, progress: Progress
) -> int:
    """Write the rows of ``stream``, and zeros for nodes without a row. Returns the number of rows.

    If ``num_nodes`` is not known yet, a second call that knows it finishes the file.
    """
    if DENSE in work.files:
        return work.files[DENSE].shape[0]
    step = _part_rows(stream.width)
    parts = stream.parts(step)
    next(parts, None)  # the memory of a reader counts as in use: of wide Parquet, a page of each column
    room_for("writing features", memory, 4 * PART_BYTES, WRITER_BYTES)
    del parts
    kind = feature_dtype or stream.dtype
    convert = _conversion(stream, kind, num_nodes, work, progress)
    done = work.done.get("features", {"rows": 0, "ended": False})
    with ArrayWriter(work.store / DENSE, kind, stream.width, keep=done["rows"] or None) as writer:
        if not done["ended"]:
            kept, read = writer.rows, 0
            for part in stream.parts(step):
                fresh = part[max(0, kept - read) :]
                read += part.shape[0]
                writer.append(convert(fresh, read - fresh.shape[0]))
                work.note(work.store / DENSE, features={"rows": writer.rows, "ended": False})
                progress("writing features", read, num_nodes)
            work.note(work.store / DENSE, features={"rows": writer.rows, "ended": True})
        rows = writer.rows
        if num_nodes is not None:
            for first in range(rows, num_nodes, step):
                writer.append(convert(np.zeros((min(step, num_nodes - first), stream.width), np.float32), first))
            work.add_files({DENSE: writer.finish()})
    return rows


def _part_rows(width: int) -> int:
    return max(1, PART_BYTES // (4 * max(1, width)))


def _conversion(stream: FeatureStream, kind: str, num_nodes: int | None, work: Work, progress: Progress) -> Conversion:
    """The function that converts rows, from node ``first`` on, to ``kind``."""
    if kind == "int8":
        scale, offset = _steps(stream, num_nodes, work, progress)
        if stream.steps is not None:
            return functools.partial(_encoded_alike, stream.steps)
        return lambda rows, _: encode(rows, scale, offset)
    if kind == "float16":
        return _halved
    return lambda rows, _: rows


def _halved(rows: AnyArray, first: int) -> AnyArray:
    with np.errstate(over="ignore"):
        halves = rows.astype(np.float16)
    wrong = np.argwhere(np.isinf(halves))
    if wrong.size:
        row, column = (int(i) for i in wrong[0])
        raise InputError(
            f"features: node {first + row:,} has {rows[row, column]} in column {column:,}, and float16 goes up to "
            f"65504; import all files with --feature-dtype float32 or int8 (Python: feature_dtype)"
        )
    return halves


def _encoded_alike(steps: AnyArray, rows: AnyArray, first: int) -> AnyArray:
    """Codes with the steps of rows that are there already; those rows themselves, which are codes, as they are."""
    if rows.dtype == np.int8:
        return rows
    scale, offset, low, high = steps
    slack = np.where(low == high, 0, scale / 2)
    wrong = np.argwhere((rows < low - slack) | (rows > high + slack))
    if wrong.size:
        row, column = (int(i) for i in wrong[0])
        raise InputError(
            f"features: node {first + row:,} has {rows[row, column]:g} in column {column:,}, and the int8 features of "
            f"the store go from {low[column]:g} to {high[column]:g} there; import all files again, so that they are "
            f"measured together"
        )
    return encode(rows, scale, offset)


def _steps(stream: FeatureStream, num_nodes: int | None, work: Work, progress: Progress) -> AnyArray:
    """Scale and offset of each column for int8, from one pass over the rows."""
    if stream.steps is not None:
        work.write_array(STEPS, stream.steps[:2])
    if STEPS not in work.files:
        low, high = np.full(stream.width, np.inf), np.full(stream.width, -np.inf)
        read = 0
        for part in stream.parts(_part_rows(stream.width)):
            low, high = np.minimum(low, part.min(0)), np.maximum(high, part.max(0))
            read += part.shape[0]
            progress("measuring features", read, num_nodes)
        if num_nodes is None or read < num_nodes:  # nodes without a row get zeros
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        work.write_array(STEPS, np.stack(column_steps(low, high)).astype(np.float32, copy=False))
    steps: AnyArray = np.load(work.store / STEPS)
    return steps


def write_sparse(matrix: sp.csr_matrix, num_nodes: int, work: Work, base: BaseStore | None = None) -> None:
    """Write the parts of a sparse matrix, behind the rows of ``base``; nodes without a row get an empty one."""
    before, rows = 0, 0
    stored: Any = matrix
    if base is not None:
        stored = base.graph.features
        before, rows = int(stored.indptr[-1]), base.num_nodes
    kind = np.int64 if before + matrix.nnz > np.iinfo(np.int32).max else stored.indptr.dtype
    missing = num_nodes - rows + 1 - matrix.indptr.size
    indptr = np.pad(matrix.indptr.astype(kind) + before, (0, missing), "edge")
    parts = (matrix.data, matrix.indices.astype(kind), indptr if base is None else indptr[1:])
    for name, array in zip(SPARSE, parts, strict=True):
        work.write_array(name, array, () if base is None else base.parts(name))
