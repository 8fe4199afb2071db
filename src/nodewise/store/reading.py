"""Open a store as a graph: read-only memory maps, and the checks that make them safe to use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util import atomic
from nodewise._util.errors import StoreError
from nodewise._util.types import AnyArray
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.graph.features import Quantized
from nodewise.graph.names import arrow_strings
from nodewise.store.blocks import check_blocks, check_size, slices
from nodewise.store.manifest import (
    DENSE,
    INDICES,
    INDPTR,
    LABELS,
    NAMES,
    REPAIR,
    SPARSE,
    SPLIT_FILE,
    STEPS,
    WEIGHTS,
    Manifest,
    StoredFile,
    read_manifest,
)
from nodewise.store.names import Names

VERIFY_UP_TO = 64 << 20  # bytes; larger stores are verified only on request, so that they open at once
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
    described = read_manifest(folder)
    for name, file in described.files.items():
        check_size(folder / name, file)
    if verify is None:
        verify = described.bytes <= VERIFY_UP_TO
    if verify:
        check_blocks(folder, described.files)
    arrays: Arrays = {name: _mapped(folder / name, file) for name, file in described.files.items() if name != NAMES}
    for indptr, values in ((INDPTR, INDICES), (SPARSE[2], SPARSE[1])):
        if indptr in arrays:
            first, last, expected = arrays[indptr][0], arrays[indptr][-1], arrays[values].size
            if first != 0 or last != expected:
                raise StoreError(f"{folder / indptr}: runs from {first} to {last}, expected 0 to {expected}; {REPAIR}")
    graph = _graph(folder, described, arrays)
    if verify:
        _check_contents(folder, graph, arrays)
    return graph


def verify_store(path: atomic.AnyPath) -> int:
    """Check every block of every file and that the arrays make sense; return the number of bytes checked."""
    open_store(path, verify=True)
    return read_manifest(path).bytes


def _graph(folder: Path, described: Manifest, arrays: Arrays) -> Graph:
    nodes, names = described.counts["nodes"], described.files.get(NAMES)
    features = arrays.get(DENSE)
    if STEPS in arrays:
        features = Quantized(arrays[DENSE], *np.asarray(arrays[STEPS]))
    if described.flags["sparse_features"]:
        # Not through the constructor, which reads all indices of a large matrix to choose their type.
        features = sp.csr_matrix((nodes, described.counts["features"]), dtype=np.float32)
        features.data, features.indices, features.indptr = (np.asarray(arrays[part]) for part in SPARSE)
    splits = {file: SPLIT_FILE.fullmatch(file) for file in arrays}
    graph = Graph(
        arrays[INDPTR],
        arrays[INDICES],
        arrays.get(WEIGHTS),
        features=features,
        labels=arrays.get(LABELS),
        node_names=None if names is None else Names(functools.partial(_load_names, folder / NAMES, names), nodes),
        label_names=None if described.label_names is None else list(described.label_names),
        splits={match[1]: np.asarray(arrays[file]) for file, match in splits.items() if match},
        name=described.name,
        feature_names=None if described.feature_names is None else list(described.feature_names),
    )
    if described.degrees is not None:  # saves a pass over the adjacency
        graph._cache(total_degree=described.degrees["total"], least_degree=described.degrees["least"])
    if described.present_labels is not None:
        graph._cache(present_labels=np.array(described.present_labels, np.int64))
    return graph


def _mapped(path: Path, file: StoredFile) -> AnyArray:
    try:
        array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy evaluates the header as a literal, which can fail in any way
        raise StoreError(f"{path}: is not an .npy file ({error}); {REPAIR}") from error
    if array.dtype.str != file.dtype or array.shape != file.shape or not array.flags.c_contiguous:
        raise StoreError(
            f"{path}: holds {array.dtype.str} values of shape {array.shape}, the manifest says {file.dtype} of shape "
            f"{file.shape}; {REPAIR}"
        )
    return array


def _load_names(path: Path, file: StoredFile) -> Any:
    """The column of names. Blocks are checked first, since a damaged file must not reach the decoder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_size(path, file)
    check_blocks(path.parent, {path.name: file})
    try:
        table = pq.ParquetFile(path).read()
        table.validate(full=True)
        column = arrow_strings(table.column("name"))
    except (pa.ArrowException, OSError, KeyError, ValueError, MemoryError) as error:
        raise StoreError(f"{path}: is not a Parquet file with a column of names ({error}); {REPAIR}") from error
    if len(column) != file.shape[0]:
        raise StoreError(f"{path}: holds {len(column):,} names, the manifest says {file.shape[0]:,}; {REPAIR}")
    return column


def _check_contents(folder: Path, graph: Graph, arrays: Arrays) -> None:
    """Check that no array points outside another one: kernels do not, and checksums only show what was written."""
    nodes = graph.num_nodes

    def check(name: str, good: Callable[[AnyArray], Any], expected: str, overlap: int = 0) -> None:
        array = arrays.get(name)
        if array is not None and not all(np.all(good(part)) for part in slices(array, overlap)):
            raise StoreError(f"{folder / name}: holds impossible values, expected {expected}; {REPAIR}")

    check(INDPTR, lambda part: np.diff(part) >= 1, "a rise of at least 1 per node", overlap=1)
    check(INDICES, lambda part: part < nodes, f"nodes below {nodes}")
    check(WEIGHTS, lambda part: np.isfinite(part) & (part > 0), "finite numbers above 0")
    check(STEPS, np.isfinite, "finite numbers")
    check(SPARSE[2], lambda part: np.diff(part) >= 0, "values that never decrease", overlap=1)
    check(SPARSE[1], lambda part: (part >= 0) & (part < graph.num_features), f"columns below {graph.num_features}")
    low, high = (0, 1) if graph.multilabel else (UNKNOWN, np.iinfo(np.int64).max)
    check(LABELS, lambda part: (part >= low) & (part <= high), "labels from 0 on, or -1 for unknown")
    for split in graph.splits:
        check(f"splits/{split}.npy", lambda part: (part >= 0) & (part < nodes), f"nodes below {nodes}")
    if isinstance(graph.node_names, Names):
        _ = graph.node_names.arrow  # decoding checks them
