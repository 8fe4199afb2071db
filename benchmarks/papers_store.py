"""A graph of the shape of ogbn-papers100M as a store, made part by part, at any fraction of its size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

import citation_graph
import weak_features
from citation_graph import COMMUNITIES, Plan
from nodewise._util.atomic import new_folder
from nodewise._util.errors import StoreError
from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray, IntArray
from nodewise.store.manifest import DENSE, INDICES, INDPTR, LABELS, Manifest, StoredFile, read_manifest
from nodewise.store.streaming import ArrayWriter
from nodewise.store.writing import write_manifest

NODES, EDGES, WIDTH = 111_059_956, 1_615_685_872, 128
PER_CLASS, VAL, TEST = 20, 500, 1000
LEAST_SCALE = 1e-4  # leaves a class some three times the labelled nodes it needs
NODES_AT_ONCE = 1 << 14
PARTS_AT_ONCE = 16
RECIPE = 2  # raise it when the same scale and seed make another graph


class Part(NamedTuple):
    """What is written of some consecutive nodes."""

    lengths: IntArray
    indices: AnyArray
    labels: IntArray
    features: AnyArray


def plan_of(scale: float, seed: int) -> Plan:
    return citation_graph.make_plan(round(scale * NODES), round(scale * EDGES), seed)


def name_of(scale: float) -> str:
    return f"papers100m-shape-{scale:g}"


def bytes_needed(scale: float) -> int:
    """Bytes that the store will take, to about one in a hundred: indptr, labels, features; indices."""
    return round(scale * (NODES * (8 + 8 + 2 * WIDTH) + (NODES + 2 * EDGES) * 4))


def is_there(folder: Path, scale: float, seed: int) -> bool:
    """Whether ``folder`` is the store that :func:`write` would write."""
    if not folder.exists():
        return False
    found = read_manifest(folder)
    if found.name != name_of(scale) or dict(found.provenance) != _provenance(scale, seed):
        raise StoreError(
            f"{folder}: holds {found.name!r} by {dict(found.provenance)}, expected {name_of(scale)!r} by "
            f"{_provenance(scale, seed)}; delete it or choose another folder"
        )
    return True


def write(folder: Path, scale: float, seed: int, progress: Callable[[int, int], None]) -> None:
    """Write the store, whole or not at all; ``progress`` hears of the nodes written and of all."""
    plan = plan_of(scale, seed)
    with new_folder(folder) as place:
        files, least = _write_nodes(place, plan, seed, progress)
        (place / "splits").mkdir()
        for part, nodes in splits(plan, seed).items():
            with ArrayWriter(place / "splits" / f"{part}.npy", np.int64) as writer:
                writer.append(nodes)
                files[f"splits/{part}.npy"] = writer.finish()
        entries = files[INDICES].shape[0]
        counts = {"nodes": plan.nodes, "entries": entries, "edges": (entries - plan.nodes) // 2}
        manifest = Manifest(
            counts={**counts, "features": WIDTH, "classes": COMMUNITIES},
            flags={"weighted": False, "multilabel": False, "sparse_features": False},
            files=files,
            name=name_of(scale),
            present_labels=tuple(range(COMMUNITIES)),
            degrees={"total": float(entries), "least": float(least)},
            provenance=_provenance(scale, seed),
        )
        write_manifest(place, manifest)


def splits(plan: Plan, seed: int) -> dict[str, IntArray]:
    """Training nodes of each class, and others for validation and test; drawn by position, so no label is looked up."""
    rng = np.random.default_rng([seed, 2])
    sizes = [plan.large.size if c < plan.larger else plan.small.size for c in range(COMMUNITIES)]
    ranks = np.stack([rng.choice(size, PER_CLASS, replace=False) for size in sizes])
    train = (ranks * COMMUNITIES + np.arange(COMMUNITIES)[:, None]).ravel()
    drawn = rng.choice(plan.nodes, train.size + VAL + TEST, replace=False)
    rest = drawn[~np.isin(drawn, train)]
    places = {"train": train, "val": rest[:VAL], "test": rest[VAL : VAL + TEST]}
    return {part: np.sort(citation_graph.ids(plan, place)) for part, place in places.items()}


def _provenance(scale: float, seed: int) -> dict[str, object]:
    return {"generator": "benchmarks/papers100m.py", "recipe": RECIPE, "scale": scale, "seed": seed}


def _write_nodes(
    place: Path, plan: Plan, seed: int, progress: Callable[[int, int], None]
) -> tuple[dict[str, StoredFile], int]:
    """The files that have a row a node, and the least degree."""
    points = weak_features.centres(COMMUNITIES, WIDTH, seed)

    def make(first: int) -> Part:
        last = min(first + NODES_AT_ONCE, plan.nodes)
        labels = citation_graph.labels(plan, first, last)
        return Part(
            *citation_graph.rows(plan, first, last), labels, weak_features.features(points, labels, first, seed)
        )

    entries, least, step = 0, plan.nodes, NODES_AT_ONCE * PARTS_AT_ONCE
    with ExitStack() as stack:

        def writer(name: str, dtype: type, width: int | None = None) -> ArrayWriter:
            return stack.enter_context(ArrayWriter(place / name, dtype, width))

        indptr, indices = writer(INDPTR, np.int64), writer(INDICES, np.uint32)
        labels, features = writer(LABELS, np.int64), writer(DENSE, np.float16, WIDTH)
        indptr.append(np.zeros(1, np.int64))
        for begin in range(0, plan.nodes, step):
            end = min(begin + step, plan.nodes)
            for part in map_chunks(make, range(begin, end, NODES_AT_ONCE), thread_count(None)):
                indptr.append(entries + np.cumsum(part.lengths))
                indices.append(part.indices)
                labels.append(part.labels)
                features.append(part.features)
                entries += part.indices.size
                least = min(least, int(part.lengths.min()))
            progress(end, plan.nodes)
        written = {INDPTR: indptr, INDICES: indices, LABELS: labels, DENSE: features}
        return {name: file.finish() for name, file in written.items()}, least
