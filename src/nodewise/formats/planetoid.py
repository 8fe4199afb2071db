"""Read the Planetoid files, ``ind.NAME.{x,y,tx,ty,allx,ally,graph,test.index}``.

Yang, Cohen and Salakhutdinov, "Revisiting Semi-Supervised Learning with Graph Embeddings", ICML 2016.  ``allx`` and
``ally`` describe the nodes 0, 1, ..., the first of which (``x``, ``y``) are the training nodes; row i of ``tx`` and
``ty`` describes the node in line i of ``test.index``; ``graph`` lists each node's neighbours.

The files are pickles of Python 2. They are read with an unpickler that builds arrays, lists and dictionaries only, so
that a file cannot run code.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError, StoreError
from nodewise._util.types import AnyArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.checks import check_parts

PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
VALIDATION_NODES = 500  # Planetoid's official validation part: the first 500 nodes after the training nodes


def read_planetoid(files: Mapping[str, Path], name: str) -> Graph:
    """The graph in the files ``ind.NAME.*``, given by file name, with the official split in ``splits``."""
    paths = {part: files[file] for part in PARTS if (file := f"ind.{name}.{part}") in files}
    if missing := [f"ind.{name}.{part}" for part in PARTS if part not in paths]:
        raise StoreError(
            f"{missing[0]}: missing; a Planetoid data set is the eight files ind.NAME.{{{','.join(PARTS)}}}"
        )
    x, allx, tx = (_read_features(paths[part]) for part in ("x", "allx", "tx"))
    y, ally, ty = (_read_one_hot(paths[part]) for part in ("y", "ally", "ty"))
    neighbours = _read_neighbours(paths["graph"])
    test = _read_test_index(paths["test.index"])
    _check_rows(paths, {"x": x, "y": y, "allx": allx, "ally": ally, "tx": tx, "ty": ty})
    _check_test_index(paths["test.index"], test, known=allx.shape[0], rows=tx.shape[0], num_nodes=len(neighbours))

    known = allx.shape[0]
    row_of = np.full(len(neighbours), known + test.size)  # of each node, in (allx, tx, one row of zeros)
    row_of[:known] = np.arange(known)
    row_of[test] = known + np.arange(test.size)
    features = sp.vstack([allx, tx, sp.csr_matrix((1, allx.shape[1]), dtype=np.float32)], format="csr")[row_of]
    # Citeseer has 15 nodes without a row. The usual loaders take the argmax of an all-zero row for them, which is class
    # 0, and splits drawn from the labels of those loaders use these nodes as members of class 0. So do we.
    labels = np.vstack([ally, ty, np.zeros((1, ally.shape[1]), ally.dtype)]).argmax(axis=1)[row_of]
    last = min(y.shape[0] + VALIDATION_NODES, allx.shape[0])
    splits = {"train": np.arange(y.shape[0]), "val": np.arange(y.shape[0], last), "test": np.sort(test)}
    try:
        return Graph.from_edges(_edges(neighbours), len(neighbours), features, labels, splits=splits, name=name)
    except InputError as error:
        raise StoreError(f"{paths['graph'].parent}/ind.{name}.*: {error}. {_GET_ORIGINAL}") from error


_GET_ORIGINAL = "Delete the file and get the original again"


# ---------------------------------------------------------------------- the parts


def _read_features(path: Path) -> sp.csr_matrix:
    loaded = _unpickle(path)
    if not isinstance(loaded, sp.csr_matrix):
        raise _wrong(path, f"holds a {type(loaded).__name__}; expected a sparse matrix (scipy csr_matrix)")
    try:
        # Rebuilt from its parts, which checks them: an index out of range would read foreign memory later.
        where = [np.asarray(part).astype(np.int64) for part in (loaded.indices, loaded.indptr)]
        matrix = sp.csr_matrix((loaded.data, *where), shape=loaded.shape, dtype=np.float32)
        check_parts(matrix)
    except (AttributeError, TypeError, ValueError) as error:
        raise _wrong(path, f"holds a sparse matrix whose parts do not fit together ({error})") from error
    return matrix


def _read_one_hot(path: Path) -> AnyArray:
    loaded = _unpickle(path)
    if not isinstance(loaded, np.ndarray) or loaded.ndim != 2 or loaded.dtype.kind not in "iufb" or not loaded.shape[1]:
        shape = getattr(loaded, "shape", None)
        raise _wrong(path, f"holds a {type(loaded).__name__} of shape {shape}; expected one-hot rows of class labels")
    return loaded


def _read_neighbours(path: Path) -> dict[int, list[int]]:
    loaded = _unpickle(path)
    whole = isinstance(loaded, dict) and all(map(_is_id, loaded))
    if not whole or not all(isinstance(near, list) and all(map(_is_id, near)) for near in loaded.values()):
        raise _wrong(path, f"holds a {type(loaded).__name__}; expected a dictionary from node ids to lists of node ids")
    return dict(loaded)


def _is_id(node: Any) -> bool:
    return isinstance(node, int) and 0 <= node < 2**62


def _edges(neighbours: dict[int, list[int]]) -> IntArray:
    counts = np.fromiter(map(len, neighbours.values()), np.int64, len(neighbours))
    sources = np.repeat(np.fromiter(neighbours, np.int64, len(neighbours)), counts)
    targets = np.fromiter(chain.from_iterable(neighbours.values()), np.int64, int(counts.sum()))
    return np.stack([sources, targets])


def _read_test_index(path: Path) -> IntArray:
    try:
        return np.array([int(line) for line in path.read_text("ascii").split()], np.int64)
    except (OSError, ValueError, OverflowError) as error:
        raise _wrong(path, f"cannot be read as one node id per line ({error})") from error


def _check_rows(paths: Mapping[str, Path], parts: Mapping[str, Any]) -> None:
    for features, labels in (("x", "y"), ("allx", "ally"), ("tx", "ty")):
        rows, expected = parts[labels].shape[0], parts[features].shape[0]
        if rows != expected:
            raise _wrong(paths[labels], f"has {rows:,} rows; expected {expected:,}, as in {paths[features].name}")
    for part, whole in (("x", "allx"), ("tx", "allx"), ("y", "ally"), ("ty", "ally")):
        columns, expected = parts[part].shape[1], parts[whole].shape[1]
        if columns != expected:
            raise _wrong(paths[part], f"has {columns:,} columns; expected {expected:,}, as in {paths[whole].name}")


def _check_test_index(path: Path, test: IntArray, known: int, rows: int, num_nodes: int) -> None:
    if test.size != rows or np.unique(test).size != test.size:
        raise _wrong(path, f"lists {np.unique(test).size:,} different nodes in {test.size:,} lines; expected {rows:,}")
    if test.size and (test.min() < known or test.max() >= num_nodes):
        raise _wrong(
            path, f"lists nodes {test.min():,} to {test.max():,}; expected ids from {known:,} to {num_nodes - 1:,}"
        )


# ---------------------------------------------------------------------- the unpickler


def _dtype(code: object, align: object = False, copy: object = True) -> np.dtype[Any]:
    """``numpy.dtype`` for plain numbers only; the files of Python 2 pass 0 and 1 where numpy now expects booleans."""
    dtype: np.dtype[Any] = np.dtype(str(code), bool(align), bool(copy))
    if dtype.kind not in "iufb":
        raise pickle.UnpicklingError(f"an array of type {dtype}")
    return dtype


# Names as old and new versions of Python, numpy and scipy wrote them.
_RECONSTRUCT = np.zeros(0).__reduce__()[0]  # numpy's constructor of empty arrays, whose module moved between versions
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
    ("scipy.sparse._csr", "csr_matrix"): sp.csr_matrix,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _RefusedError(Exception):
    """The file asks for something that is not allowed."""


class _Unpickler(pickle._Unpickler):  # that of C makes room for as many objects as one number in the file claims
    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    def load_build(self) -> None:
        """As usual; but of a type's state only the order of bytes, since the rest could turn numbers into pointers."""
        stack: list[Any] = self.stack  # type: ignore[attr-defined]
        if isinstance(stack[-2], np.dtype):
            stack[-1] = (3, stack[-1][1], None, None, None, -1, -1, 0)
        super().load_build()  # type: ignore[misc]

    dispatch[pickle.BUILD[0]] = load_build

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise _RefusedError(f"{module}.{name}") from None


def _unpickle(path: Path) -> Any:
    try:
        return _Unpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except _RefusedError as refused:
        raise StoreError(
            f"{path}: asks for {refused}, which no Planetoid file needs, and was not read: it could run code. "
            f"Expected only arrays, lists and dictionaries. {_GET_ORIGINAL}"
        ) from refused
    except Exception as error:  # damaged bytes can make the unpickler raise almost anything
        raise _wrong(path, f"cannot be read as a pickle ({type(error).__name__}: {error})") from error


def _wrong(path: Path, problem: str) -> StoreError:
    return StoreError(f"{path}: {problem}. {_GET_ORIGINAL}")
