"""A graph that is still in its files -> a store, stage by stage, within a budget of memory.

Features come first, so that what is wrong with them is found before hours of sorting; then edges to sorted runs, runs
to rows, and what is small. Each stage begins where the journal says that the last attempt ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from nodewise._util.atomic import AnyPath
from nodewise._util.errors import InputError
from nodewise._util.progress import Progress, silent
from nodewise.formats.raw import FeatureStream, RawGraph
from nodewise.graph.adjacency import MAX_NODES
from nodewise.graph.checks import UNKNOWN, check_names, checked_nodes, present_labels
from nodewise.importing.edge_stage import merge_runs, sort_into_runs
from nodewise.importing.feature_stage import check_dtype, dense_or_sparse, write_dense, write_sparse
from nodewise.importing.name_table import NameTable
from nodewise.importing.work import Work, job_of, working
from nodewise.store.manifest import INDICES, INDPTR, LABELS, NAMES, SPARSE, WEIGHTS, Manifest
from nodewise.store.writing import listed_labels, write_manifest, write_names


def import_raw(
    raw: RawGraph,
    output: AnyPath,
    *,
    memory: int,
    feature_dtype: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    provenance: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    files: tuple[Path, ...] = (),
) -> None:
    """Write the graph that ``raw`` reads as a store at ``output``, using up to ``memory`` bytes.

    ``files`` are those that ``raw`` reads: an import is gone on with (``resume``) only where they have not changed.
    """
    check_dtype(feature_dtype)
    job = job_of(files, feature_dtype=feature_dtype, provenance=provenance, name=raw.name)
    with working(output, job, overwrite, resume) as work:
        if not work.finished:
            build(raw, work, memory, feature_dtype, provenance, progress or silent)
        work.commit(overwrite)


def build(
    raw: RawGraph,
    work: Work,
    memory: int,
    feature_dtype: str | None,
    provenance: Mapping[str, Any] | None,
    progress: Progress,
    names: NameTable | None = None,
) -> None:
    """Fill ``work.store`` from ``raw``, whose ids ``names`` numbers where they are names."""
    if not work.resumed:
        work.check_disk(_known_bytes(raw, feature_dtype))
    dense, sparse = dense_or_sparse(raw.features, feature_dtype)
    rows = 0 if sparse is None else sparse.shape[0]
    if dense is not None:
        rows = write_dense(dense, feature_dtype, raw.num_nodes, work, memory, progress)
    largest = sort_into_runs(raw.edges, work, memory, names, progress)
    num_nodes = _num_nodes(raw, names, rows, largest)
    if names is not None:
        names.release()
    _check_room_for_rows(raw, work, num_nodes)
    if dense is not None:
        write_dense(dense, feature_dtype, num_nodes, work, memory, progress)
    if sparse is not None:
        write_sparse(sparse, num_nodes, work)
    merge_runs(work, num_nodes, raw.edges.weighted, memory, progress)
    _write_rest(raw, num_nodes, names, work)
    write_manifest(work.store, _manifest(raw, work, provenance))


def _num_nodes(raw: RawGraph, names: NameTable | None, rows: int, largest: int) -> int:
    """How many nodes there are, now that all edges have been seen."""
    labels = 0 if raw.labels is None else raw.labels.shape[0]
    if names is not None:
        nodes = len(names)
    else:
        nodes = raw.num_nodes if raw.num_nodes is not None else max(largest + 1, rows, labels)
    if nodes == 0:
        raise InputError(
            f"{raw.edges.source}: the graph is empty; expected at least one edge, or nodes in another file"
        )
    if nodes > MAX_NODES:
        raise InputError(f"{raw.edges.source}: {nodes:,} nodes; at most {MAX_NODES:,} fit into one graph")
    for count, what in ((largest + 1, "ids of edges go up to that"), (rows, "features"), (labels, "labels")):
        if count > nodes:
            raise InputError(f"{raw.edges.source}: {nodes:,} nodes and {count:,} {what}; they are of different graphs")
    return nodes


def _write_rest(raw: RawGraph, num_nodes: int, names: NameTable | None, work: Work) -> None:
    if raw.labels is not None:
        check_names(None, raw.label_names, raw.labels, num_nodes)
        missing = num_nodes - raw.labels.shape[0]
        value = UNKNOWN if raw.labels.ndim == 1 else 0
        rest = np.full((missing, *raw.labels.shape[1:]), value, raw.labels.dtype)
        work.write_array(LABELS, np.concatenate((raw.labels, rest)) if missing else raw.labels)
    for split, nodes in raw.splits.items():
        work.write_array(f"splits/{split}.npy", checked_nodes(nodes, num_nodes, f"splits[{split!r}]"))
    if names is not None and NAMES not in work.files:
        (work.store / NAMES).unlink(missing_ok=True)
        work.add_files({NAMES: write_names(work.store / NAMES, cast(Sequence[str], names.file))})


def _manifest(raw: RawGraph, work: Work, provenance: Mapping[str, Any] | None) -> Manifest:
    files, labels, features = work.files, raw.labels, raw.features
    nodes, entries = files[INDPTR].shape[0] - 1, files[INDICES].shape[0]
    width = 0
    if features is not None:
        width = features.width if isinstance(features, FeatureStream) else features.shape[1]
    classes = 0
    if labels is not None:
        classes = (
            labels.shape[1] if labels.ndim == 2 else max(int(labels.max(initial=-1)) + 1, len(raw.label_names or ()))
        )
    return Manifest(
        counts={
            "nodes": nodes,
            "entries": entries,
            "edges": (entries - nodes) // 2,
            "features": int(width),
            "classes": int(classes),
        },
        flags={
            "weighted": WEIGHTS in files,
            "multilabel": labels is not None and labels.ndim == 2,
            "sparse_features": SPARSE[0] in files,
        },
        files=files,
        name=raw.name,
        label_names=None if raw.label_names is None else tuple(raw.label_names),
        degrees={part: work.done["merged"][f"{part}_degree"] for part in ("total", "least")},
        present_labels=None if labels is None or labels.ndim == 2 else listed_labels(present_labels(labels)),
        provenance=provenance or {},
    )


# ---------------------------------------------------------------------- disk


def _known_bytes(raw: RawGraph, feature_dtype: str | None) -> int:
    """What the import takes at its worst moment, as far as that can be known before it starts."""
    entry = 16 if raw.edges.weighted else 8  # a key in a run, and its weight
    edges = raw.edges.count or 0
    nodes = raw.num_nodes or 0
    stream = raw.features if isinstance(raw.features, FeatureStream) else None
    row = 0 if stream is None else stream.width * np.dtype(feature_dtype or stream.dtype).itemsize
    return 2 * edges * entry + _row_bytes(2 * edges, nodes, raw.edges.weighted) + nodes * row


def _row_bytes(entries: int, nodes: int, weighted: bool) -> int:
    return (entries + nodes) * (8 if weighted else 4) + 8 * (nodes + 1)


def _check_room_for_rows(raw: RawGraph, work: Work, num_nodes: int) -> None:
    """Repeated edges are merged by now, and the number of nodes is known."""
    if "merged" not in work.done:
        keys = sum(path.stat().st_size // 8 for path in work.runs.glob("*.keys"))
        work.check_disk(_row_bytes(keys, num_nodes, raw.edges.weighted))
