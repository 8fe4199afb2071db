"""append_store: what it writes is what an import of all files together writes, with new nodes behind the old ones."""

from __future__ import annotations

import dataclasses
import logging
import os
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
from tiny_layouts import Tiny, write_graphsaint


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
@settings(max_examples=25)
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
            given["features"] = pa.table(
                dict(zip(("node", "feature", "value"), zip(*entries, strict=True), strict=True))
            )
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


# ---------------------------------------------------------------------- what is added to what


def old_store(**given) -> str:
    """A store of the path 0-1-2, or of what is given."""
    given.setdefault("edges", pa.table({"u": [0, 1], "v": [1, 2]}))
    import_store(output="old", **given)
    return "old"


def weights_of(graph: Graph) -> dict[tuple[int, int], float]:
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return dict(zip(zip(rows.tolist(), graph.indices.tolist(), strict=True), graph.edge_weight.tolist(), strict=True))


@pytest.mark.parametrize("backwards", [False, True])
def test_weights_of_an_edge_that_is_listed_again_add_up_in_either_direction(backwards):
    old_store(edges=pa.table({"u": [0, 1], "v": [1, 2], "weight": [2.0, 3.0]}))
    ends = ("v", "u") if backwards else ("u", "v")
    more = pa.table({ends[0]: [0, 0, 2, 0], ends[1]: [1, 1, 3, 2], "weight": [0.5, 0.25, 4.0, 7.0]})
    append_store("old", "new", more)
    edges = {(0, 1): 2.75, (1, 2): 3.0, (2, 3): 4.0, (0, 2): 7.0}
    expected = edges | {(v, u): w for (u, v), w in edges.items()} | {(v, v): 1.0 for v in range(4)}
    assert weights_of(open_store("new")) == expected


def test_a_loop_is_added_to_a_loop_and_takes_the_place_of_the_one_that_every_node_has():
    old_store(edges=pa.table({"u": [0, 0], "v": [1, 0], "weight": [2.0, 5.0]}))
    append_store("old", "new", pa.table({"u": [0, 1], "v": [0, 1], "weight": [0.5, 0.25]}))
    assert weights_of(open_store("new")) == {(0, 1): 2.0, (1, 0): 2.0, (0, 0): 5.5, (1, 1): 0.25}


def test_without_weights_an_edge_that_is_listed_again_changes_nothing():
    old_store()
    append_store("old", "new", pa.table({"u": [1, 0, 2], "v": [0, 0, 1]}))
    assert contents("new")["indices.npy"] == contents("old")["indices.npy"]


def test_new_labels_replace_old_ones_and_their_names_come_last(caplog):
    old_store(labels=pa.table({"node": [0, 1], "label": ["m", "t"]}))
    with caplog.at_level(logging.INFO, "nodewise"):
        append_store(
            "old", "new", pa.table({"u": [3], "v": [0]}),
            labels=pa.table({"node": [1, 3, 0, 2], "label": ["a", "t", "m", ""]}),
        )  # fmt: skip
    graph = open_store("new")
    assert graph.label_names == ["m", "t", "a"]
    assert graph.labels.tolist() == [0, 2, -1, 1]
    assert "labels: replaces the labels of 1 node of old" in caplog.text


def test_several_labels_of_a_node_are_replaced_together(caplog):
    old_store(labels=pa.table({"node": [0, 0, 1], "label": ["m", "t", "t"]}), multilabel=True)
    with caplog.at_level(logging.INFO, "nodewise"):
        append_store(
            "old", "new", pa.table({"u": [3], "v": [0]}),
            labels=pa.table({"node": [0, 0, 3], "label": ["a", "m", "t"]}),
        )  # fmt: skip
    graph = open_store("new")
    assert graph.label_names == ["m", "t", "a"]
    assert graph.labels.tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 1, 0]]
    assert "replaces the labels of 1 node" in caplog.text


def test_labels_that_are_numbers_stay_numbers_and_those_that_are_names_are_found_by_name():
    old_store(labels=pa.table({"node": [0, 1], "label": [7, 3]}))
    append_store("old", "new", pa.table({"u": [0], "v": [1]}), labels=pa.table({"node": [2], "label": [9]}))
    assert open_store("new").labels.tolist() == [7, 3, 9]
    shutil.rmtree("old")
    old_store(labels=pa.table({"node": [0, 1, 2], "label": ["10", "5", "x"]}))
    more = pa.table({"u": [0], "v": [3]})
    append_store("old", "named", more, labels=pa.table({"node": [3], "label": ["5"]}))
    assert label_words(open_store("named"))[3] == {"5"}


def test_arrays_without_ids_are_about_the_new_nodes_in_order():
    old_store(features=pa.table({"node": [0, 1, 2], "a": [1.0, 2.0, 3.0]}), labels=pa.table({"n": [0], "label": [1]}))
    np.save("e.npy", [[3, 4], [0, 3]])
    np.save("x.npy", [[4.0], [5.0]])
    np.save("y.npy", [0, 1])
    append_store("old", "new", "e.npy", "x.npy", "y.npy")
    graph = open_store("new")
    assert dense(graph).ravel().tolist() == [1, 2, 3, 4, 5]
    assert graph.labels.tolist() == [1, -1, -1, 0, 1]


def test_nodes_without_features_get_zeros_when_asked():
    old_store(features=pa.table({"node": [0, 1, 2], "a": [1.0, 2.0, 3.0]}))
    more = pa.table({"u": [3, 4], "v": [0, 5]})
    append_store("old", "new", more, pa.table({"node": [3], "a": [4.0]}), add_missing_nodes=True)
    assert dense(open_store("new")).ravel().tolist() == [1, 2, 3, 4, 0, 0]


def test_categories_and_marks_that_do_not_occur_in_new_rows_are_zero():
    old_store(
        features=pa.table({"node": [0, 1, 2], "age": [1.0, None, 3.0], "hue": ["red", "blue", "red"]}), impute="mean"
    )
    more = pa.table({"node": [3], "hue": ["red"], "age": [5.0]})
    append_store("old", "new", pa.table({"u": [3], "v": [0]}), more)
    graph = open_store("new")
    assert graph.feature_names == ["age", "age is missing", "hue=blue", "hue=red"]
    assert dense(graph)[3].tolist() == [5, 0, 0, 1]


@pytest.mark.parametrize("store_is_sparse", [False, True])
def test_sparse_rows_join_dense_ones_and_dense_ones_sparse_ones(store_is_sparse):
    old, new = np.array([[1, 0], [0, 2], [3, 0]], np.float32), np.array([[0, 4]], np.float32)
    sp.save_npz("sparse.npz", sp.csr_matrix(old if store_is_sparse else new))
    np.save("dense.npy", new if store_is_sparse else old)
    files = ("sparse.npz", "dense.npy") if store_is_sparse else ("dense.npy", "sparse.npz")
    old_store(features=files[0])
    append_store("old", "new", pa.table({"u": [3], "v": [0]}), files[1])
    graph = open_store("new", verify=True)
    assert sp.issparse(graph.features) == store_is_sparse
    assert dense(graph).tolist() == [*old.tolist(), *new.tolist()]


def test_splits_stay_and_the_new_store_knows_where_it_came_from():
    graph = Graph.from_edges([[0, 1], [1, 2]], labels=[0, 1, 0])
    write_store(graph.replace(splits={"train": np.array([2, 0])}), "old")
    append_store("old", "new", pa.table({"u": [3], "v": [0]}))
    assert open_store("new").splits["train"].tolist() == [2, 0]
    assert read_manifest("new").provenance == {"edges": "edges", "store": "old"}


def test_a_model_of_the_old_store_gives_untouched_nodes_the_same_labels():
    """Its diffusion goes a few hops; the far component of the new store has not changed."""
    one, other = (nw.synthetic.dcsbm(150, avg_degree=8, classes=3, features=5, seed=seed) for seed in (0, 1))
    ends = [
        np.stack([np.repeat(np.arange(150), np.diff(g.indptr)), g.indices]) + 150 * i
        for i, g in enumerate((one, other))
    ]
    both = Graph.from_edges(
        np.hstack(ends), 300, np.vstack([one.features, other.features]), np.concatenate([one.labels, other.labels]),
        feature_names=list("abcde"),
    )  # fmt: skip
    write_store(both, "old")
    graph = open_store("old")
    model = nw.NIGCN(seed=0).fit(graph, train=range(0, 300, 5), val=range(1, 300, 5))
    rows = pa.table({"node": [300, 301]} | {name: [0.5, -0.5] for name in "edcba"})
    append_store("old", "new", pa.table({"u": [300, 301, 300], "v": [0, 300, 7]}), rows)
    new, far = open_store("new"), np.arange(150, 300)
    assert np.allclose(model.predict_proba(new, far), model.predict_proba(graph, far), atol=1e-5)
    assert model.predict(new, [300, 301]).shape == (2,)


# ---------------------------------------------------------------------- cut off


def resumable_files() -> dict[str, str]:
    """A store of named nodes with weights, int8 features and labels, and as much again that is added to it."""
    rng = np.random.default_rng(0)
    ids = [f"node-{i}" for i in rng.permutation(60)]
    values = rng.integers(0, 256, (60, 4))
    values[0], values[1] = 0, 255

    def files(name, nodes, reach):
        ends, weights = rng.integers(0, reach, (150, 2)), rng.integers(1, 9, 150) / 4
        rows = "".join(f"{ids[u]},{ids[v]},{w}\n" for (u, v), w in zip(ends, weights, strict=True))
        lines = "".join(f"{ids[i]},{','.join(map(str, values[i]))}\n" for i in nodes)
        return {
            "edges": write(f"{name}-edges.csv", "source,target,weight\n" + rows),
            "features": write(f"{name}-x.csv", "node,a,b,c,d\n" + lines),
            "labels": write(f"{name}-y.csv", "node,label\n" + "".join(f"{ids[i]},{name}{i % 3}\n" for i in nodes)),
        }

    import_store(output="old", **files("old", range(40), 40), feature_dtype="int8")
    return files("new", range(40, 60), 60)


class Killed(BaseException):
    """Not an Exception: nothing in the library may catch it to go on."""


@pytest.mark.usefixtures("small_steps")
def test_killed_at_any_journal_an_append_goes_on_to_the_same_store(monkeypatch):
    files = resumable_files()
    append_store("old", "whole", **files, name="g")
    expected, at, plain = contents("whole"), 0, work.Work.save

    def dying(count):
        def save(self):
            nonlocal count
            count -= 1
            if count > 0 or (count == 0 and at % 2):
                plain(self)
            if count == 0:
                raise Killed

        return save

    while True:
        at += 1 + at // 6  # every early one, and some of the later
        with monkeypatch.context() as patch:
            patch.setattr(work.Work, "save", dying(at))
            try:
                append_store("old", "store", **files, name="g")
            except Killed:
                pass
            else:
                break  # it ended before
        append_store("old", "store", **files, name="g", resume=True)
        assert contents("store") == expected
        assert not Path(".store.import").exists()
        shutil.rmtree("store")
    assert at > 20
    assert verify_store("whole")


def test_an_append_goes_on_only_with_the_same_store(monkeypatch):
    files = resumable_files()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(building, "merge_runs", interrupted)
        with pytest.raises(KeyboardInterrupt):
            append_store("old", "store", **files)
    with pytest.raises(StoreError, match=r"store: an import was started and not finished.*--resume"):
        append_store("old", "store", **files)
    os.utime("old/indices.npy", (1, 1))
    with pytest.raises(StoreError, match=r"store: holds another import: files is not the same"):
        append_store("old", "store", **files, resume=True)
    append_store("old", "store", **files, overwrite=True)
    assert verify_store("store")


def test_damage_in_the_old_store_is_found_and_leaves_nothing_behind():
    old_store()
    data = bytearray(Path("old/indices.npy").read_bytes())
    data[-1] ^= 1
    Path("old/indices.npy").write_bytes(data)
    with pytest.raises(StoreError, match=r"old/indices\.npy: block 0 .* does not match its checksum"):
        append_store("old", "new", pa.table({"u": [0], "v": [2]}))
    assert [path.name for path in Path().iterdir()] == ["old"]


# ---------------------------------------------------------------------- budget

# VmHWM and not ru_maxrss, which counts what the parent held when it started the process, too.
MEASURED = """
import re, sys
from pathlib import Path
from nodewise.importing import append_store
append_store(*sys.argv[1:4], memory=sys.argv[4])
print(1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_append_stays_within_its_budget():
    """The entries of the old store alone would take more than all of it as keys."""
    nodes, budget = 100_000, 650_000_000
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, nodes, (2, 18_000_000), dtype=np.int32), nodes)
    assert sorting.MERGE_BYTES[False] * graph.indices.size > budget
    write_store(graph, "old")
    ends = np.array([[0, 1], [nodes, 2]])
    del graph
    np.save("e.npy", ends)
    command = [sys.executable, "-c", MEASURED, "old", "new", "e.npy", str(budget)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(run.stdout) < budget
    assert read_manifest("new").counts["nodes"] == nodes + 1


def test_more_names_than_fit_are_counted_before_the_work(monkeypatch):
    old_store(edges=write("e.csv", "source,target\n" + "".join(f"user-{i},user-{i + 1}\n" for i in range(100_000))))
    monkeypatch.setattr(from_files, "names_room", lambda *_: 1 << 20)
    write("more.csv", "source,target\nuser-1,user-5\n")
    with pytest.raises(InputError, match=r"numbering about (9|10)\d,\d{3} names of nodes takes at least .*--memory"):
        append_store("old", "new", "more.csv", memory=resident_memory() + 10**9)
    assert not Path("new").exists()


# ---------------------------------------------------------------------- mistakes

PLAIN = {"edges": pa.table({"u": [0, 1], "v": [1, 2]})}
WEIGHTED = {"edges": pa.table({"u": [0, 1], "v": [1, 2], "weight": [2.0, 1.0]})}
NAMED = {"edges": pa.table({"u": ["ann", "bob"], "v": ["bob", "cy"]})}
ROWS = {**PLAIN, "features": pa.table({"node": [0, 1, 2], "a": [0.0, 5, 9], "b": [1.0, 1, 1]})}
WORDS = {**PLAIN, "labels": pa.table({"node": [0, 1], "label": ["m", "t"]})}
NUMBERS = {**PLAIN, "labels": pa.table({"node": [0, 1], "label": [4, 5]})}
NEW = {"edges": pa.table({"u": [3], "v": [0]})}


def edge(source, target) -> dict:
    return {"edges": pa.table({"u": [source], "v": [target]})}


def row(node=3, **columns) -> dict:
    return {**NEW, "features": pa.table({"node": [node]} | {name: [value] for name, value in columns.items()})}


MISTAKES = {
    "weights": (PLAIN, WEIGHTED, r"edges: edges have weights, and those of old have none; leave"),
    "no weights": (WEIGHTED, NEW, r"edges: edges have no weights, and those of old have; .*'weight'"),
    "gaps": (PLAIN, edge(5, 0), r"ids go up to 5, and node 3 is in none of the files; .* from 3 on without gaps"),
    "names": (PLAIN, edge("x", "y"), r"holds 'x' in row 1; the nodes of old have no names, only numbers"),
    "features": (PLAIN, row(a=1.0), r"features: old has no features.*leave --features out"),
    "no features": (ROWS, NEW, r"row 1 names node 3, which is not in old; give new nodes features with --features"),
    "neither": (ROWS, row(a=1.0, b=1.0) | edge(4, 0), r"node 4, which is not in old or features; pass --add-missing"),
    "a new name": (
        {**NAMED, "features": pa.table({"node": ["ann", "bob", "cy"], "a": [1.0, 2, 3]})},
        {**edge("ann", "eve"), "features": pa.table({"node": ["dan"], "a": [1.0]})},
        r"row 1 names node 'eve', which is not in old or features",
    ),
    "columns": (ROWS, row(a=1.0, c=1.0), r"2 columns differ .* of old: 'c' is in features only, 'b' is in old only"),
    "more columns": (ROWS, {**NEW, "features": "x.npy"}, r"x\.npy: 3 columns of features, and old has 2"),
    "old node": (ROWS, row(1, a=1.0, b=1.0), r"row 1 is about node 1, which old has already; .* Remove the row"),
    "gap in rows": (ROWS, row(4, a=1.0, b=1.0), r"node 3 has no row.*one row per new node.*number new nodes from 3"),
    "int8": (
        {**ROWS, "feature_dtype": "int8"},
        row(a=10.0, b=1.0),
        r"node 3 has 10 in column 0, and the int8 features of the store go from 0 to 9 there; import all files again",
    ),
    "int8 of one value": ({**ROWS, "feature_dtype": "int8"}, row(a=1.0, b=1.2), r"has 1\.2 in .* from 1 to 1 there"),
    "float16": ({**ROWS, "feature_dtype": "float16"}, row(a=1e6, b=1.0), r"float16 goes up to 65504; import all"),
    "rows without names": (NAMED, {"edges": "e.npy", "labels": "y.npy"}, r"y\.npy: rows have no node names.*a table"),
    "rows": (ROWS, {**row(a=1.0, b=1.0), "labels": "y.npy"}, r"y\.npy: 2 labels for 1 new nodes; expected one per new"),
    "label numbers": (
        WORDS,
        {**NEW, "labels": NUMBERS["labels"]},
        r"label '4'; the labels of old are names such as 'm'",
    ),
    "label names": (NUMBERS, {**NEW, "labels": WORDS["labels"]}, r"label 'm'; the labels of old are numbers"),
    "several labels": (WORDS, {**NEW, **WORDS, "multilabel": True}, r"several labels in labels and one in old"),
    "one label": ({**WORDS, "multilabel": True}, {"edges": "e.npy", "labels": "y.npy"}, r"in old and one in y\.npy"),
    "an option": (PLAIN, {**NEW, "label": "kind"}, r"--label is about a table of labels; pass --labels"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_what_does_not_fit_the_store_is_refused_with_what_to_do(what):
    old, new, message = MISTAKES[what]
    np.save("x.npy", np.zeros((1, 3), np.float32))
    np.save("e.npy", [[3, 4], [0, 3]])
    np.save("y.npy", [0, 1])
    old_store(**old)
    with pytest.raises(InputError, match=message):
        append_store("old", "new", **new)
    assert sorted(path.name for path in Path().iterdir()) == ["e.npy", "old", "x.npy", "y.npy"]


def test_the_output_is_another_store_and_the_edges_are_no_whole_graph(tmp_path):
    old_store()
    for place in ("old", "old/new"):
        with pytest.raises(
            InputError, match=rf"{place}: is the store to add to, or lies inside it; choose another name"
        ):
            append_store("old", tmp_path / place, pa.table({"u": [0], "v": [2]}), overwrite=True)
    with pytest.raises(StoreError, match=r"missing: no such folder; expected a store"):
        append_store("missing", "new", pa.table({"u": [0], "v": [2]}))
    with pytest.raises(InputError, match=r"a whole graph; expected a file of edges to add to old"):
        append_store("old", "new", write_graphsaint(tmp_path / "ring", Tiny.ring()))


def test_a_store_with_two_nodes_of_one_name_cannot_be_added_to():
    write_store(dataclasses.replace(Graph.from_edges([[0], [1]]), node_names=["a", "a"]), "old")
    with pytest.raises(InputError, match=r"old: two nodes have the same name"):
        append_store("old", "new", pa.table({"u": ["a"], "v": ["b"]}))
    assert [path.name for path in Path().iterdir()] == ["old"]


def test_the_command_writes_the_new_store_and_says_what_it_is(run):
    write("edges.csv", "from,to\nann,bob\nbob,cy\n")
    write("more.csv", "from,to\ncy,dan\nann,cy\n")
    assert run("import", "--edges", "edges.csv", "-o", "old")[0] == 0
    code, _, said = run("append", "old", "--edges", "more.csv", "-o", "new", "--memory", "2GB")
    assert code == 0
    assert "Graph(nodes=4, edges=4) written to new" in said
    code, _, said = run("append", "old", "--edges", "more.csv", "-o", "new")
    assert code == 2
    assert "already exists" in said
    assert run("append", "old", "--edges", "more.csv", "-o", "new", "--overwrite")[0] == 0
    assert run("append", "old", "-o", "other")[0] == 2
    assert list(open_store("new").node_names) == ["ann", "bob", "cy", "dan"]
