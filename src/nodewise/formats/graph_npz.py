"""Read a graph in one ``.npz`` file, with arrays named as in PyTorch Geometric.

``edge_index`` (2, E), perhaps with ``edge_weight``; ``y``, if labels are known, with one class per node, -1 if
unknown, or a 0/1 matrix with one column per label; features as ``x`` (dense) or as the parts of a CSR matrix,
``x_data``, ``x_indices``, ``x_indptr`` and ``x_shape``, or none; and perhaps ``train_idx``, ``valid_idx`` and
``test_idx``. Other arrays are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget
from nodewise._util.types import AnyArray, Features
from nodewise.formats.npz import NpzFile
from nodewise.formats.raw_graph import MOST_FEATURES, about
from nodewise.graph import Graph
from nodewise.graph.checks import check_parts
from nodewise.graph.graph import one_column

CSR_PARTS = ("x_data", "x_indices", "x_indptr", "x_shape")
WEIGHT_KEYS = ("edge_weight", "edge_weights", "weight")
NODE_BYTES = 64  # of memory per node of a graph, without edges and features
_SPLITS = {"train": "train_idx", "val": "valid_idx", "test": "test_idx"}


def read_npz(path: str | Path, name: str | None = None) -> Graph:
    """The graph in an ``.npz`` file, named after the file unless ``name`` is given."""
    path = Path(path)
    arrays = NpzFile(path).arrays("y", "x", *CSR_PARTS, *WEIGHT_KEYS, *_SPLITS.values(), needed=("edge_index",))
    labels = one_column(arrays.get("y"))  # as OGB stores one class per node
    if labels is not None and labels.ndim not in (1, 2):
        raise InputError(f"{path}: y has shape {labels.shape}; expected one class per node, or a 0/1 matrix of labels")
    weights = next((arrays[key] for key in WEIGHT_KEYS if key in arrays), None)
    splits = {part: arrays[key] for part, key in _SPLITS.items() if key in arrays}
    features = features_in(path, arrays)
    if labels is None and features is None:
        _check_ids(path, arrays["edge_index"])
    count = None if labels is None else labels.shape[0]
    known: dict[str, Any] = {"edge_weight": weights, "splits": splits, "name": name or path.stem}
    with about(path):
        return Graph.from_edges(arrays["edge_index"], count, features, labels, **known)


def _check_ids(path: Path, edges: AnyArray) -> None:
    """Refuse an id that would make a graph of more nodes than fit into memory, where nothing but ids says how many."""
    largest = int(edges.max(initial=0)) if edges.dtype.kind in "iu" else 0
    if NODE_BYTES * largest > memory_budget(None):
        raise InputError(
            f"{path}: edge_index names node {largest:,}, and a graph of as many nodes does not fit into memory; number "
            f"the nodes from 0 on, or make a store of the file with `nodewise import`"
        )


def features_in(path: Path, arrays: Mapping[str, AnyArray]) -> Features | None:
    """The features among the arrays of a file, dense or sparse, or None."""
    present = [part for part in CSR_PARTS if part in arrays]
    if not present:
        return arrays.get("x")
    if len(present) < len(CSR_PARTS):
        missing = ", ".join(part for part in CSR_PARTS if part not in arrays)
        raise InputError(
            f"{path}: has {', '.join(present)} but no {missing}; sparse features need all of {', '.join(CSR_PARTS)}"
        )
    if "x" in arrays:
        raise InputError(f"{path}: has both x and {present[0]}; keep dense features or sparse ones, not both")
    return _csr(path, *(arrays[part] for part in CSR_PARTS))


def _csr(path: Path, data: AnyArray, indices: AnyArray, indptr: AnyArray, shape: AnyArray) -> sp.csr_matrix:
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or data.dtype.kind not in "fiub":
        raise InputError(
            f"{path}: x_shape is {shape.tolist()} and x_data is of type {data.dtype}; expected two whole numbers "
            f"(nodes, features) and numbers. Save the features again from a scipy csr_matrix"
        )
    if shape[1] > MOST_FEATURES:
        raise InputError(f"{path}: x_shape says {shape[1]:,} features; at most {MOST_FEATURES:,} are read")
    try:
        matrix = sp.csr_matrix((data, indices, indptr), shape=tuple(shape.tolist()), dtype=np.float32)
        check_parts(matrix)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{path}: {', '.join(CSR_PARTS)} are not the parts of one CSR matrix ({error}). "
            f"Save the features again from a scipy csr_matrix"
        ) from error
    return matrix
