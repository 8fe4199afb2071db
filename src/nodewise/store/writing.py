"""A graph to a store."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util import atomic
from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.features import Quantized
from nodewise.store.blocks import HashedFile, slices
from nodewise.store.manifest import (
    DENSE,
    INDICES,
    INDPTR,
    LABELS,
    MANIFEST,
    NAMES,
    SPARSE,
    STEPS,
    WEIGHTS,
    Manifest,
    StoredFile,
    dtypes_of,
    is_store,
    to_json,
)
from nodewise.store.names import arrow_strings
from nodewise.store.streaming import ArrayWriter

NAMES_PER_GROUP = 1 << 20
MOST_LISTED = 1 << 16  # labels


def write_store(
    graph: Graph, path: atomic.AnyPath, *, overwrite: bool = False, provenance: dict[str, Any] | None = None
) -> None:
    """Write ``graph`` as a store at ``path``, whole or not at all; ``provenance`` is kept as it is.

    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp(), "pair")
    >>> write_store(Graph.from_edges([[0], [1]]), folder)
    >>> sorted(file.name for file in folder.iterdir())
    ['indices.npy', 'indptr.npy', 'manifest.json']
    """
    arrays = _arrays(graph)
    described = Manifest(
        counts={
            "nodes": graph.num_nodes,
            "entries": graph.num_entries,
            "edges": graph.num_edges,
            "features": graph.num_features,
            "classes": _num_classes(graph),
        },
        flags={
            "weighted": graph.edge_weight is not None,
            "multilabel": graph.multilabel,
            "sparse_features": sp.issparse(graph.features),
        },
        files={},
        name=graph.name,
        label_names=None if graph.label_names is None else tuple(str(label) for label in graph.label_names),
        degrees={"total": graph.total_degree, "least": graph.least_degree},
        present_labels=listed_labels(graph.present_labels) if graph.labels is not None else None,
        provenance={} if provenance is None else provenance,
    )
    try:
        to_json(described)
    except (TypeError, ValueError) as error:
        raise InputError(f"provenance: {error}; expected what JSON can hold") from error
    with atomic.new_folder(path, overwrite, ours=is_store) as folder:
        if graph.splits:
            (folder / "splits").mkdir()
        files = {name: _write_array(folder / name, array) for name, array in arrays.items()}
        if graph.node_names is not None:
            files[NAMES] = write_names(folder / NAMES, graph.node_names)
        write_manifest(folder, dataclasses.replace(described, files=files))


def listed_labels(labels: IntArray) -> tuple[int, ...] | None:
    """Labels as a manifest keeps them; None where there are too many to list."""
    return tuple(labels.tolist()) if labels.size <= MOST_LISTED else None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a folder of finished files a store."""
    (folder / MANIFEST).write_text(to_json(manifest), encoding="utf-8")


def _arrays(graph: Graph) -> dict[str, Any]:
    """The arrays of a graph by file name, each of a type that the format has."""
    features, steps = graph.features, None
    if isinstance(features, Quantized):
        steps = np.stack([features.scale, features.offset])
        features = features.codes
    sparse = tuple(getattr(features, part) if sp.issparse(features) else None for part in ("data", "indices", "indptr"))
    arrays = {
        INDPTR: graph.indptr,
        INDICES: graph.indices,
        WEIGHTS: graph.edge_weight,
        DENSE: None if sp.issparse(features) else features,
        STEPS: steps,
        **dict(zip(SPARSE, sparse, strict=True)),
        LABELS: graph.labels,
        **{f"splits/{split}.npy": nodes for split, nodes in graph.splits.items()},
    }
    for name, array in arrays.items():
        dtypes = dtypes_of(name)
        if dtypes is None:
            raise InputError(f"{name}: a split is named by letters, digits, '-', '_' and '.'; rename it")
        if array is not None and array.dtype.str not in dtypes:
            raise InputError(f"{name}: values of type {array.dtype.str}; a store holds {' or '.join(dtypes)}")
        if array is not None and name.startswith("splits/") and array.ndim != 1:
            raise InputError(f"{name}: an array of shape {array.shape}; expected a list of node ids")
    return {name: array for name, array in arrays.items() if array is not None}


def _num_classes(graph: Graph) -> int:
    if graph.labels is None:
        return 0
    if graph.labels.ndim == 2:
        return int(graph.labels.shape[1])
    return max(int(graph.labels.max()) + 1, len(graph.label_names or ()))


def _write_array(path: Path, array: AnyArray) -> StoredFile:
    with ArrayWriter(path, array.dtype, *array.shape[1:]) as writer:
        for part in slices(array):
            writer.append(part)
        return writer.finish()


def write_names(path: Path, names: Sequence[str]) -> StoredFile:
    """Names of nodes as Parquet, in groups, so that a part of them can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([pa.field("name", pa.large_string(), nullable=False)])
    with HashedFile(path) as file, pq.ParquetWriter(file, schema) as writer:
        for first in range(0, len(names), NAMES_PER_GROUP):
            part = arrow_strings(names[first : first + NAMES_PER_GROUP])
            writer.write_table(pa.table([part], schema=schema))
    return file.described("string", (len(names),))
