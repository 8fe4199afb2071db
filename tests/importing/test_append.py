"""append_store: what it writes is what an import of all files together writes, with new nodes behind the old ones."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import nodewise as nw
from files import write
from nodewise import Graph, InputError, StoreError, append_store, import_store, open_store
from nodewise._util.memory import resident_memory
from nodewise.formats import csv as text
from nodewise.importing import base_store, building, edge_stage, feature_stage, from_files, sorting
from nodewise.importing import work_folder as work
from nodewise.store import blocks, read_manifest, verify_store, write_store


@pytest.fixture
def small_steps(monkeypatch):
    """Everything in many small steps, and a journal after each."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(work, "NOTE_SECONDS", -1.0)
    monkeypatch.setattr(sorting, "STRIDE", 4)
    monkeypatch.setattr(sorting, "KEYS_PER_BUCKET", 8)
    monkeypatch.setattr(base_store, "READ_ENTRIES", 3)
    monkeypatch.setattr(base_store, "PART_BYTES", 64)
    monkeypatch.setattr(text, "BLOCK_BYTES", 512)
    monkeypatch.setattr(edge_stage, "_run_size", lambda *_: 20)
    monkeypatch.setattr(edge_stage, "room_for", lambda _, __, least, ___: least)
    monkeypatch.setattr(feature_stage, "PART_BYTES", 100)


def contents(folder: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def dense(graph: Graph) -> np.ndarray | None:
    features = graph.features
    return None if features is None else features.toarray() if sp.issparse(features) else np.asarray(features[:])


def same(found: Graph, expected: Graph) -> None:
    """All that two graphs hold, labels by name."""
    assert found.indptr.tolist() == expected.indptr.tolist()
    assert found.indices.tolist() == expected.indices.tolist()
    for one, other in ((found.edge_weight, expected.edge_weight), (dense(found), dense(expected))):
        assert (one is None) == (other is None)
        assert one is None or np.array_equal(one, other)
    assert (found.node_names is None) == (expected.node_names is None)
    assert found.node_names is None or list(found.node_names) == list(expected.node_names)
    assert label_words(found) == label_words(expected)
    assert found.feature_names == expected.feature_names
    assert found.total_degree == pytest.approx(expected.total_degree)
    assert found.least_degree == pytest.approx(expected.least_degree)


def label_words(graph: Graph) -> list | None:
    """The labels of each node as names; none, or as many as it has."""
    if graph.labels is None:
        return None
    names, labels = graph.label_names, np.asarray(graph.labels)
    sets = [np.flatnonzero(row) for row in labels] if labels.ndim == 2 else [row[row >= 0] for row in labels[:, None]]
    return [{str(i) if names is None else names[i] for i in row.tolist()} for row in sets]


# ---------------------------------------------------------------------- as an import of all files


@st.composite
def two_parts(draw):
    """A small graph, and the nodes and edges that are added to it: few nodes, so that edges repeat; some stay alone."""
    old, new = draw(st.integers(1, 8)), draw(st.integers(0, 6))

    def edges(nodes):
        node = st.integers(0, nodes - 1)
        found = draw(st.lists(st.tuples(node, node), max_size=25))
        weights = draw(st.lists(st.sampled_from([0.25, 0.5, 2.0, 3.0]), min_size=len(found), max_size=len(found)))
        return [(min(pair), max(pair), w) for pair, w in zip(found, weights, strict=True)]

    return old, new, edges(old), edges(old + new), draw(st.integers(0, 2**16))


def edge_table(edges, weighted, ids):
    columns = {"source": [ids[u] for u, _, _ in edges], "target": [ids[v] for _, v, _ in edges]}
    kind = pa.string() if isinstance(ids[0], str) else pa.int64()
    table = {name: pa.array(values, kind) for name, values in columns.items()}
    return pa.table(table | ({"weight": pa.array([w for *_, w in edges], pa.float64())} if weighted else {}))


def feature_table(values, ids, names):
    return pa.table({"node": ids} | {name: values[:, int(name[1:])] for name in names})


KINDS = ("float32", "float16", "int8", "sparse")


@pytest.mark.usefixtures("small_steps")
@settings(max_examples=120)
@given(
    case=two_parts(),
    weighted=st.booleans(),
    named=st.booleans(),
    kind=st.sampled_from((None, *KINDS)),
    labels=st.sampled_from((None, "one", "several")),
)
def test_an_append_is_an_import_of_all_files(case, weighted, named, kind, labels):
    """Edges in one direction only, and loops of other weights than 1: there an import of all gives the same sums."""
    old, new, first, second, seed = case
    total, rng = old + new, np.random.default_rng(seed)
    ids = [f"n{i}" for i in rng.permutation(100)[:total]] if named else list(range(total))
    values = rng.integers(0, 256, (total, 3)).astype(np.float32)
    values[0], values[old - 1] = (0, 255, 0), (255, 0, 255)  # the steps of int8 are the same with and without new rows
    if old == 1:
        values[:] = values[0]
    options = {"feature_dtype": kind} if kind in ("float16", "int8") else {}
    words = [("abcd"[i], node) for node, i in enumerate(rng.integers(0, 4, total))]
    if labels == "several":
        words += [("abcd"[i], node) for node, i in enumerate(rng.integers(0, 4, total)) if node % 3]

    def files(nodes, edges, names=("c0", "c1", "c2")):
        mine = [ids[node] for node in nodes]
        given = {"edges": edge_table(edges, weighted, ids)}
        if kind == "sparse":
            entries = [(ids[node], name, values[node, int(name[1:])]) for node in nodes for name in names]
            given["features"] = pa.table(dict(zip(("node", "feature", "value"), zip(*entries, strict=True), strict=True)))
        elif kind is not None:
            given["features"] = feature_table(values[list(nodes)], mine, names)
        elif mine:  # without features, all nodes are in the order of labels
            given["labels"] = pa.table({"node": mine, "label": ["a"] * len(mine)})
        if labels is not None:
            listed = [(word, node) for word, node in words if node in nodes]
            given["labels"] = pa.table({"node": [ids[node] for _, node in listed], "label": [w for w, _ in listed]})
        return given

    how = {"multilabel": labels == "several"}
    with TemporaryDirectory() as folder:
        here = Path(folder)
        numbers = {"ids": "names" if named else "integers"}
        import_store(output=here / "old", **files(range(old), first), **how, **numbers, **options)
        import_store(output=here / "all", **files(range(total), first + second), **how, **numbers, **options)
        if new:
            append_store(here / "old", here / "new", **files(range(old, total), second, ("c2", "c0", "c1")))
        else:
            append_store(here / "old", here / "new", edge_table(second, weighted, ids))
        assert verify_store(here / "new")
        same(open_store(here / "new"), open_store(here / "all"))
        old_names = open_store(here / "old").label_names
        assert old_names is None or open_store(here / "new").label_names[: len(old_names)] == old_names
