"""Write a graph as a store, and the parts that imports write: an array, names, the manifest."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util import atomic
from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN, present_labels
from nodewise.graph.features import Quantized
from nodewise.graph.names import arrow_strings
from nodewise.store.blocks import hashed, slices
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
from nodewise.store.streaming import ArrayWriter

NAMES_PER_GROUP = 1 << 20
MOST_LISTED = 1 << 16  # labels in a manifest


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
    try:
        json.dumps(provenance, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"provenance: {error}; expected what JSON can hold") from error
    with atomic.new_folder(path, overwrite, ours=is_store) as folder:
        if graph.splits:
            (folder / "splits").mkdir()
        files = {name: write_array(folder / name, array) for name, array in arrays.items()}
        if graph.node_names is not None:
            files[NAMES] = write_names(folder / NAMES, graph.node_names)
        degrees = {"total": graph.total_degree, "least": graph.least_degree}
        feature_names = None if graph.feature_names is None else tuple(graph.feature_names)
        known = {"name": graph.name, "provenance": provenance or {}, "feature_names": feature_names}
        described = describe(files, graph.num_features, graph.labels, graph.label_names, degrees=degrees, **known)
        write_manifest(folder, described)


def describe(
    files: Mapping[str, StoredFile],
    num_features: int,
    labels: AnyArray | None,
    label_names: Sequence[str] | None,
    **known: Any,
) -> Manifest:
    """The manifest of finished ``files``; ``known`` are the fields that do not follow from them."""
    nodes, entries = files[INDPTR].shape[0] - 1, files[INDICES].shape[0]
    multilabel = labels is not None and labels.ndim == 2
    classes, present = 0, None
    if labels is not None and multilabel:
        classes = labels.shape[1]
    elif labels is not None:
        classes = max(int(labels.max(initial=UNKNOWN)) + 1, len(label_names or ()))
        present = tuple(present_labels(labels).tolist())
    return Manifest(
        counts={
            "nodes": nodes,
            "entries": entries,
            "edges": (entries - nodes) // 2,
            "features": int(num_features),
            "classes": classes,
        },
        flags={"weighted": WEIGHTS in files, "multilabel": multilabel, "sparse_features": SPARSE[0] in files},
        files=files,
        label_names=None if label_names is None else tuple(map(str, label_names)),
        present_labels=present if present is not None and len(present) <= MOST_LISTED else None,
        **known,
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Turn a folder of finished files into a store."""
    (folder / MANIFEST).write_text(to_json(manifest), encoding="utf-8")


def _arrays(graph: Graph) -> dict[str, Any]:
    """The arrays of a graph by file name, each of a type that a store can hold."""
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


def write_array(path: Path, array: AnyArray, before: Iterable[AnyArray] = ()) -> StoredFile:
    """Write one array of a store, about a block at a time, behind the parts ``before`` it."""
    with ArrayWriter(path, array.dtype, *array.shape[1:]) as writer:
        for part in itertools.chain(before, slices(array)):
            writer.append(part)
        return writer.finish()


def write_names(path: Path, names: Sequence[str]) -> StoredFile:
    """Write the names of nodes as Parquet, in row groups, so that a part of them can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([pa.field("name", pa.large_string(), nullable=False)])
    with path.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
        for first in range(0, len(names), NAMES_PER_GROUP):
            part = arrow_strings(names[first : first + NAMES_PER_GROUP])
            writer.write_table(pa.table([part], schema=schema))
    return hashed(path, "string", (len(names),))
