"""Build a store from a RawGraph, stage by stage, within a memory budget.

Features come first, so that errors in them are found before hours of sorting; then edges are sorted into runs and runs
merged into rows; small arrays come last. Each stage starts where, according to the journal, the last attempt stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from nodewise._util.atomic import AnyPath
from nodewise._util.errors import InputError
from nodewise._util.progress import Progress, silent
from nodewise.formats.raw_graph import FeatureStream, RawGraph, num_columns
from nodewise.graph.adjacency import MAX_NODES
from nodewise.graph.checks import UNKNOWN, check_names, checked_nodes
from nodewise.importing.base_store import BaseStore, StoredRun
from nodewise.importing.edge_stage import check_memory, merge_runs, sort_into_runs
from nodewise.importing.feature_stage import check_dtype, dense_or_sparse, write_dense, write_sparse
from nodewise.importing.name_table import NameTable
from nodewise.importing.work_folder import Work, job_of, working
from nodewise.store.manifest import LABELS, NAMES
from nodewise.store.writing import describe, write_manifest, write_names


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

    ``files`` are those that ``raw`` reads: an import continues (``resume``) only if they have not changed.
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
    check_gaps: Callable[[int], None] | None = None,
    base: BaseStore | None = None,
) -> None:
    """Fill ``work.store`` from ``raw``; ``names`` is the table that numbers its ids, where they are names.

    ``check_gaps`` gets the number of nodes, once it is known and before rows are written for them. The edges, names and
    sparse features of ``base`` are added to those of ``raw``, which has all else of it.
    """
    if not work.resumed:
        work.check_disk(_known_bytes(raw, feature_dtype, base))
    if not work.done.get("sorted"):
        check_memory(raw.edges, memory, names)
    dense, sparse = dense_or_sparse(raw.features, feature_dtype)
    old = 0 if base is None else base.num_nodes
    rows = old if sparse is None else old + sparse.shape[0]
    if dense is not None:
        rows = write_dense(dense, feature_dtype, raw.num_nodes, work, memory, progress)

    def check(largest: int) -> None:
        if check_gaps is not None:
            check_gaps(_num_nodes(raw, names, rows, largest))

    largest = sort_into_runs(raw.edges, work, memory, names, progress, check)
    num_nodes = _num_nodes(raw, names, rows, largest)
    if names is not None:
        names.release()
    _check_room_for_rows(raw, work, num_nodes, base)
    if dense is not None:
        write_dense(dense, feature_dtype, num_nodes, work, memory, progress)
    if sparse is not None:
        write_sparse(sparse, num_nodes, work, base)
    merge_runs(work, num_nodes, raw.edges.weighted, memory, progress, () if base is None else (StoredRun(base),))
    _write_rest(raw, num_nodes, names, work)
    degrees = {part: work.done["merged"][f"{part}_degree"] for part in ("total", "least")}
    known = {"name": raw.name, "degrees": degrees, "provenance": provenance or {}, "feature_names": raw.feature_names}
    write_manifest(work.store, describe(work.files, num_columns(raw.features), raw.labels, raw.label_names, **known))


def _num_nodes(raw: RawGraph, names: NameTable | None, rows: int, largest: int) -> int:
    """The number of nodes, now that all edges have been read."""
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
    for count, what in ((largest + 1, "ids in the edges"), (rows, "features"), (labels, "labels")):
        if count > nodes:
            raise InputError(f"{raw.edges.source}: {nodes:,} nodes and {count:,} {what}; they are of different graphs")
    return nodes


def _write_rest(raw: RawGraph, num_nodes: int, names: NameTable | None, work: Work) -> None:
    if raw.labels is not None:
        check_names(None, raw.label_names, raw.labels, num_nodes)
        missing = num_nodes - raw.labels.shape[0]
        value = UNKNOWN if raw.labels.ndim == 1 else 0
        rest = np.full((missing, *raw.labels.shape[1:]), value, raw.labels.dtype)
        work.write_array(LABELS, rest, before=[raw.labels])
    for split, nodes in raw.splits.items():
        work.write_array(f"splits/{split}.npy", checked_nodes(nodes, num_nodes, f"splits[{split!r}]"))
    if names is not None and NAMES not in work.files:
        work.add_files({NAMES: write_names(work.store / NAMES, cast(Sequence[str], names.file))})


def _known_bytes(raw: RawGraph, feature_dtype: str | None, base: BaseStore | None) -> int:
    """The peak use of disk, as far as it can be known before the import starts."""
    entry = 16 if raw.edges.weighted else 8  # a key in a run, and its weight
    edges = raw.edges.count or 0
    nodes = raw.num_nodes or 0
    stream = raw.features if isinstance(raw.features, FeatureStream) else None
    row = 0 if stream is None else stream.width * np.dtype(feature_dtype or stream.dtype).itemsize
    entries = 2 * edges + (0 if base is None else base.graph.num_entries)
    return 2 * edges * entry + _row_bytes(entries, nodes, raw.edges.weighted) + nodes * row


def _row_bytes(entries: int, nodes: int, weighted: bool) -> int:
    return (entries + nodes) * (8 if weighted else 4) + 8 * (nodes + 1)


def _check_room_for_rows(raw: RawGraph, work: Work, num_nodes: int, base: BaseStore | None) -> None:
    """Check the disk again, now that the number of nodes and of distinct edges per run is known."""
    if "merged" not in work.done:
        keys = sum(path.stat().st_size // 8 for path in work.runs.glob("*.keys"))
        entries = keys + (0 if base is None else base.graph.num_entries)
        work.check_disk(_row_bytes(entries, num_nodes, raw.edges.weighted))
