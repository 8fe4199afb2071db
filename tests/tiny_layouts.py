"""Tiny graphs in exactly the layouts of OGB and GraphSAINT, as folders and as zips."""

from __future__ import annotations

import dataclasses
import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise.formats.raw_graph import RawGraph


@dataclasses.dataclass
class Tiny:
    """What a layout is written from, and what must come back."""

    edges: Any
    features: Any
    labels: Any
    splits: dict[str, Any]
    num_nodes: int

    @classmethod
    def ring(cls, nodes: int = 8) -> Tiny:
        around = np.arange(nodes)
        return cls(
            np.array([around, (around + 1) % nodes]),
            (np.arange(nodes * 3).reshape(nodes, 3) / 4).astype(np.float32),
            around % 3,
            {"train": np.array([0, 2]), "val": np.array([5, 1]), "test": np.array([7])},
            nodes,
        )


def write_csv(path: Path, table: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = np.asarray(table)
    rows = rows.reshape(-1, 1) if rows.ndim == 1 else rows
    text = "".join(",".join(str(value) for value in row) + "\n" for row in rows.tolist())
    path.write_bytes(gzip.compress(text.encode()))


def write_splits(folder: Path, splits: dict[str, Any], name: str = "time") -> None:
    for part, file in (("train", "train"), ("val", "valid"), ("test", "test")):
        write_csv(folder / "split" / name / f"{file}.csv.gz", splits[part])


def write_ogb_csv(folder: Path, tiny: Tiny) -> Path:
    raw = folder / "raw"
    write_csv(raw / "edge.csv.gz", tiny.edges.T)
    write_csv(raw / "num-node-list.csv.gz", [tiny.num_nodes])
    write_csv(raw / "num-edge-list.csv.gz", [tiny.edges.shape[1]])
    if tiny.features is not None:
        write_csv(raw / "node-feat.csv.gz", tiny.features)
    write_csv(raw / "node-label.csv.gz", tiny.labels)
    write_csv(raw / "node_year.csv.gz", np.full(tiny.num_nodes, 2020))
    write_splits(folder, tiny.splits)
    (folder / "mapping").mkdir(exist_ok=True)
    (folder / "mapping" / "README.md").write_text("what the numbers stand for\n")
    return folder


def write_ogb_binary(folder: Path, tiny: Tiny, compressed: bool = False, **changes: Any) -> Path:
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    arrays = {
        "edge_index": tiny.edges,
        "node_feat": tiny.features,
        "node_year": np.full((tiny.num_nodes, 1), 2020),
        "num_nodes_list": np.array([tiny.num_nodes]),
        "num_edges_list": np.array([tiny.edges.shape[1]]),
    } | changes
    save = np.savez_compressed if compressed else np.savez
    save(folder / "raw" / "data.npz", **{name: array for name, array in arrays.items() if array is not None})
    labels = np.asarray(tiny.labels, np.float32)
    save(folder / "raw" / "node-label.npz", node_label=labels.reshape(tiny.num_nodes, -1))
    write_splits(folder, tiny.splits)
    return folder


def write_graphsaint(folder: Path, tiny: Tiny) -> Path:
    """Features in double precision, as GraphSAINT has them."""
    folder.mkdir(parents=True, exist_ok=True)
    n = tiny.num_nodes
    ones = np.ones(tiny.edges.shape[1], bool)
    full = sp.csr_matrix((ones, tuple(tiny.edges)), shape=(n, n), dtype=bool)
    sp.save_npz(folder / "adj_full.npz", full)
    train = np.isin(np.arange(n), tiny.splits["train"])
    sp.save_npz(folder / "adj_train.npz", sp.csr_matrix(full.multiply(np.outer(train, train))))
    np.save(folder / "feats.npy", np.asarray(tiny.features, np.float64))
    (folder / "class_map.json").write_text(json.dumps({str(i): label for i, label in enumerate(tiny.labels.tolist())}))
    roles = {"tr": "train", "va": "val", "te": "test"}
    (folder / "role.json").write_text(json.dumps({key: tiny.splits[part].tolist() for key, part in roles.items()}))
    return folder


def zipped(folder: Path, compression: int = zipfile.ZIP_DEFLATED, top: bool = True) -> Path:
    """The folder as a zip beside it, with the folder's name before each member's."""
    path = folder.with_name(f"{folder.name}.zip")
    with zipfile.ZipFile(path, "w", compression) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent if top else folder))
    return path


def edges_of(raw: RawGraph, rows: int = 1 << 20) -> Any:
    parts = list(raw.edges.parts(rows))
    assert all(weights is None and 0 < ends.shape[1] <= rows for ends, weights in parts)
    return np.concatenate([ends for ends, _ in parts], 1) if parts else np.empty((2, 0), np.int64)


def features_of(raw: RawGraph, rows: int = 1 << 20) -> Any:
    assert raw.features is not None
    parts = list(raw.features.parts(rows))
    assert all(0 < part.shape[0] <= rows and part.dtype == raw.features.dtype for part in parts)
    return np.concatenate(parts) if parts else np.empty((0, raw.features.width))


def read_through(raw: RawGraph, rows: int = 3) -> None:
    edges_of(raw, rows)
    if raw.features is not None:
        features_of(raw, rows)


def assert_same(raw: RawGraph, tiny: Tiny, rows: int = 3) -> None:
    """Edges, features, labels and splits, whole and in small parts, and the same when asked for twice."""
    assert raw.num_nodes == tiny.num_nodes
    assert raw.edges.count == tiny.edges.shape[1]
    assert not raw.edges.weighted
    for size in (rows, 1 << 20, rows):
        assert np.array_equal(edges_of(raw, size), tiny.edges)
        if tiny.features is not None:
            assert np.array_equal(features_of(raw, size), tiny.features)
    assert np.array_equal(raw.labels, tiny.labels)  # type: ignore[arg-type]
    assert {part: nodes.tolist() for part, nodes in raw.splits.items()} == {
        part: nodes.tolist() for part, nodes in tiny.splits.items()
    }
