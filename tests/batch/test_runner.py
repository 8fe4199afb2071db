"""Jobs made here: what they write, that they go on where they stopped, and what they refuse."""

import json
import logging
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import PLAIN
from nodewise import NIGCN, InputError, StoreError, open_store, write_store
from nodewise.batch import opened, run, runner
from nodewise.batch.job import Job, job_folder
from nodewise.batch.pieces import run_chunk
from nodewise.batch.predictions import LabelChoice, predicted
from nodewise.batch.seals import is_whole, seal
from nodewise.graph import synthetic
from nodewise.learn import fitting
from nodewise.learn.ensemble import Member

NODES = 600  # in the store


def rows(table) -> np.ndarray:
    """The representations of a table as a matrix."""
    column = table["representation"].combine_chunks()
    return column.values.to_numpy().reshape(len(column), -1)


def job_in(folder: Path) -> Job:
    """The job that a folder is for."""
    kept = json.loads((folder / "_job.json").read_text())["state"]
    choice = LabelChoice(**kept["choice"])
    return Job(**{**kept, "choice": choice, "blocks": kept["blocks"] and tuple(map(tuple, kept["blocks"]))})


# ---------------------------------------------------------------------- what is written


@pytest.mark.parametrize("engine", ["walks", "exact"])
def test_predictions_are_those_of_the_model(place, read, names, tmp_path, engine):
    model, graph = NIGCN.load(getattr(place, engine)), open_store(place.store)
    done = run("predict", getattr(place, engine), place.store, tmp_path / "out", chunk=250)
    table = read(tmp_path / "out")
    assert names(tmp_path / "out") == ["_job.json", "_summary.json", *(f"part-0000{i}.parquet" for i in range(3))]
    assert table.column_names == ["node", "label", "probability", "known"]
    assert np.array_equal(table["node"], np.arange(NODES))
    assert np.array_equal(table["label"], model.predict(graph))
    np.testing.assert_allclose(table["probability"], model.predict_proba(graph).max(1), rtol=1e-5)
    assert pq.read_table(tmp_path / "out").equals(table)  # the folder is one table for any reader
    assert (done.nodes, done.rows, done.shards, done.made) == (NODES, NODES, 3, NODES)
    assert json.loads((tmp_path / "out" / "_summary.json").read_text())["rows"] == NODES


@pytest.mark.parametrize("engine", ["walks", "exact"])
def test_representations_are_those_of_the_model_bit_for_bit(place, read, tmp_path, engine):
    expected = NIGCN.load(getattr(place, engine)).represent(open_store(place.store))
    run("embed", getattr(place, engine), place.store, tmp_path / "out", chunk=7, threads=1)
    table = read(tmp_path / "out")
    assert table.schema.field("representation").type == pa.list_(pa.float32(), 24)
    assert np.array_equal(rows(table), expected)


@pytest.mark.parametrize("engine", ["walks", "exact"])
def test_own_features_are_there_too_bit_for_bit(place, read, tmp_path, monkeypatch, engine):
    monkeypatch.setattr(fitting, "ROSTER", (Member(2, False, 0.002, own=True),))
    monkeypatch.setattr(fitting, "_ridges", lambda *args: ([], [], None))  # so that all votes are the network's
    graph = open_store(place.store)
    model = NIGCN(engine=engine, threads=2, teach=False, omega=1.0, rho=0.3)
    model.fit(graph, train=range(60), val=range(60, 120)).save(tmp_path / "model")
    assert [member.own for member in model.members_] == [True]
    monkeypatch.setattr(runner, "PIECE_BYTES", 1)  # several blocks of columns, where they are made so
    run("embed", tmp_path / "model", place.store, tmp_path / "rows", chunk=70, threads=2)
    assert np.array_equal(rows(read(tmp_path / "rows")), model.represent(graph))
    run("predict", tmp_path / "model", place.store, tmp_path / "labels", chunk=70)
    assert np.array_equal(read(tmp_path / "labels")["label"], model.predict(graph))


def test_columns_in_several_blocks_make_the_same_rows(place, bits, names, tmp_path, monkeypatch):
    run("embed", place.exact, place.store, tmp_path / "one", chunk=100, threads=1)
    monkeypatch.setattr(runner, "PIECE_BYTES", 1)
    run("embed", place.exact, place.store, tmp_path / "many", chunk=100, threads=3)
    assert len(job_in(tmp_path / "one").blocks) == 1
    assert len(job_in(tmp_path / "many").blocks) == 3
    assert bits(tmp_path / "one") == bits(tmp_path / "many")
    assert ".columns" not in names(tmp_path / "many")


def test_what_cannot_be_is_refused_before_anything_is_written(place, names, tmp_path):
    with pytest.raises(InputError, match="engine='steam'"):
        run("predict", place.walks, place.store, tmp_path / "out.csv", engine="steam")
    assert names(tmp_path) == []


def test_engine_auto_is_settled_once_for_all_nodes(place, tmp_path):
    """A job whose engine stayed open could make some shards with one engine and some with another."""
    run("predict", place.walks, place.store, tmp_path / "out", engine="auto", chunk=100)
    assert job_in(tmp_path / "out").engine in ("exact", "walks", "stratified")


def test_the_number_of_threads_changes_no_bit(place, bits, tmp_path):
    for threads in (1, 2):
        run("predict", place.walks, place.store, tmp_path / str(threads), chunk=300, threads=threads)
    assert bits(tmp_path / "1") == bits(tmp_path / "2")


@pytest.mark.parametrize("engine", ["walks", "exact"])
def test_listed_nodes_come_in_their_order_repeats_kept(place, read, tmp_path, engine):
    listed = [7, 3, 7, 599, 0, 3]
    (tmp_path / "nodes.txt").write_text("\n".join(map(str, listed)))
    run("embed", getattr(place, engine), place.store, tmp_path / "out", nodes=str(tmp_path / "nodes.txt"), chunk=4)
    table = read(tmp_path / "out")
    expected = NIGCN.load(getattr(place, engine)).represent(open_store(place.store), listed)
    assert table["node"].to_pylist() == listed
    np.testing.assert_allclose(rows(table), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("engine", ["walks", "exact"])
@pytest.mark.parametrize("output", ["out", "out.parquet", "out.csv"])
def test_no_nodes_give_a_table_without_rows(place, read, tmp_path, engine, output):
    (tmp_path / "none.txt").write_text("\n")
    kept = run("predict", getattr(place, engine), place.store, tmp_path / output, nodes=str(tmp_path / "none.txt"))
    table = {"out": read, "out.parquet": pq.read_table, "out.csv": pyarrow.csv.read_csv}[output](tmp_path / output)
    assert (kept.rows, table.num_rows, table.column_names) == (0, 0, ["node", "label", "probability", "known"])


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_one_file_holds_what_the_shards_do(place, read, names, tmp_path, suffix):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=250)
    run("predict", place.walks, place.store, tmp_path / f"one{suffix}", chunk=250)
    table = (pyarrow.csv.read_csv if suffix == ".csv" else pq.read_table)(tmp_path / f"one{suffix}")
    assert names(tmp_path) == [f"one{suffix}", "out"]
    assert table["node"].equals(read(tmp_path / "out")["node"])
    np.testing.assert_allclose(table["probability"], read(tmp_path / "out")["probability"], rtol=1e-6)


def test_names_and_several_labels(read, tmp_path):
    graph = synthetic.dcsbm(200, avg_degree=8, classes=2, features=6, signal=3.0, seed=1)
    several = np.stack([graph.labels == 0, graph.labels == 1, np.ones(200)], axis=1).astype(np.int8)
    named = graph.replace(
        labels=several, node_names=[f"n{i}" for i in range(200)], label_names=["cat", "dog", "animal"]
    )
    write_store(named, tmp_path / "store")
    model = NIGCN(**{**PLAIN, "epochs": 100, "weight_decay": 0.0}, engine="walks").fit(named, train=range(60))
    model.save(tmp_path / "model")
    (tmp_path / "nodes.txt").write_text("n9\nn150\nn9\n")
    run("predict", tmp_path / "model", str(tmp_path / "store"), tmp_path / "all", chunk=64)
    run("predict", tmp_path / "model", str(tmp_path / "store"), tmp_path / "few", nodes=str(tmp_path / "nodes.txt"))
    above = model.predict(named) == 1
    expected = [(f"n{i}", model.classes_[j]) for i, j in np.argwhere(above)]
    found = read(tmp_path / "all")
    assert list(zip(found["node"].to_pylist(), found["label"].to_pylist(), strict=True)) == expected
    wanted = [(f"n{i}", model.classes_[j]) for i in (9, 150, 9) for j in np.flatnonzero(above[i])]
    found = read(tmp_path / "few")
    assert list(zip(found["node"].to_pylist(), found["label"].to_pylist(), strict=True)) == wanted


@given(nodes=st.integers(0, 300), chunk=st.integers(1, 400))
def test_chunks_are_all_nodes_once(nodes, chunk):
    job = Job("predict", "m", "s", None, "o", "", "", nodes, None, chunk, None, None)
    ranges = [job.range_of(i) for i in range(job.num_chunks)]
    assert [node for first, last in ranges for node in range(first, last)] == list(range(nodes))
    assert all(last - first <= chunk for first, last in ranges)
    assert sum(last == first for first, last in ranges) == (nodes == 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
def test_whatever_a_job_file_holds_it_is_the_job_or_an_error(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    job = Job("predict", "m", "s", None, str(folder), "", "", 10, None, 3, None, None, blocks=((0, 2), (2, 3)))
    with job_folder(job, None, overwrite=False):
        content = json.loads((folder / "_job.json").read_text())
    field = data.draw(st.sampled_from([None, *content]))
    value = data.draw(JSON)
    (folder / "_job.json").write_text(json.dumps(value if field is None else {**content, field: value}))
    try:
        with job_folder(job, None, overwrite=False) as found:
            assert found == job
    except StoreError:
        assert field is None or content[field] != value


# ---------------------------------------------------------------------- sets, and labels that are sure enough


def test_with_coverage_a_node_has_a_row_for_each_class_of_its_set(place, read, tmp_path):
    """Other sets than predict_set's would not hold the truth as often as promised."""
    model, graph = NIGCN.load(place.unsure), open_store(place.store)
    done = run("predict", place.unsure, place.store, tmp_path / "out", chunk=250, coverage=0.97)
    found = list(zip(*(read(tmp_path / "out")[name].to_pylist() for name in ("node", "label")), strict=True))
    sets = model.predict_set(graph, coverage=0.97)
    assert set(found) == {(int(node), int(model.classes_[column])) for node, column in np.argwhere(sets)}
    assert (done.nodes, done.rows) == (NODES, sets.sum()) == (NODES, len(found))
    assert sets.sum() > NODES  # else the test shows nothing


def test_a_set_begins_with_its_most_probable_class(place, read, tmp_path):
    """A reader who takes the first row of each node must get what predict without coverage says."""
    run("predict", place.unsure, place.store, tmp_path / "sets", coverage=0.95)
    run("predict", place.unsure, place.store, tmp_path / "labels")
    table = read(tmp_path / "sets")
    nodes, chances = table["node"].to_numpy(), table["probability"].to_numpy()
    assert np.all(np.diff(nodes) >= 0)
    assert np.all(np.diff(chances)[np.diff(nodes) == 0] <= 0)
    firsts = np.unique(nodes, return_index=True)[1]
    assert table.take(firsts)["label"].equals(read(tmp_path / "labels")["label"])


@pytest.mark.parametrize("suffix", ["", ".parquet", ".csv"])
def test_below_the_least_confidence_a_node_has_no_label_and_keeps_its_probability(place, read, tmp_path, suffix):
    """A label where there should be none would be trusted; a dropped row would hide that the node was asked about."""
    plain = NIGCN.load(place.unsure).predict_proba(open_store(place.store))
    least = float(np.median(plain.max(1)))
    output = tmp_path / f"out{suffix}"
    done = run("predict", place.unsure, place.store, output, chunk=250, min_confidence=least)
    table = {"": read, ".parquet": pq.read_table, ".csv": pyarrow.csv.read_csv}[suffix](output)
    sure = table["probability"].to_numpy() >= np.float32(least)
    assert 0.3 < sure.mean() < 0.7
    assert np.array_equal(table["node"], np.arange(NODES))
    np.testing.assert_allclose(table["probability"], plain.max(1), rtol=1e-5)
    assert np.array_equal(table["label"].is_valid(), sure)
    assert np.array_equal(table["label"].drop_null(), plain.argmax(1)[sure])
    assert (done.rows, done.unlabelled) == (NODES, (~sure).sum())


def test_names_stay_and_unsure_labels_are_null(place):
    """A name taken at the wrong place would be another class's."""
    graph = open_store(place.store)
    model = NIGCN(**PLAIN).fit(graph.replace(label_names=["cat", "dog", "bird"]), range(60))
    nodes, rows = np.arange(100), model.represent(graph, np.arange(100))
    proba = model.proba_of_rows(rows)
    least = float(np.median(proba.max(1)))
    labels = predicted(model, graph, nodes, rows, LabelChoice(min_confidence=least))["label"].to_pylist()
    sure = proba.max(1) >= np.float32(least)
    named = [["cat", "dog", "bird"][place] for place in proba.argmax(1)]
    assert labels == [name if known else None for name, known in zip(named, sure, strict=True)]
    assert 0 < sum(sure) < 100


def test_of_several_labels_those_below_the_least_confidence_are_left_out(tmp_path, read):
    """With a threshold of its own the model gives labels below a half; only labels that are sure enough may stay."""
    graph = synthetic.dcsbm(200, avg_degree=8, classes=3, features=6, signal=1.0, seed=1)
    several = np.stack([graph.labels == c for c in range(3)], axis=1).astype(np.int8)
    graph = graph.replace(labels=several)
    write_store(graph, tmp_path / "store")
    model = NIGCN(**PLAIN, engine="walks").fit(graph, range(60), range(60, 120))
    model.save(tmp_path / "model")
    proba, said = model.predict_proba(graph), model.predict(graph) == 1
    least = float(np.quantile(proba[said], 0.6))
    run("predict", tmp_path / "model", str(tmp_path / "store"), tmp_path / "out", min_confidence=least)
    table = read(tmp_path / "out")
    assert table["label"].null_count == 0
    assert np.all(table["probability"].to_numpy() >= np.float32(least))
    found = {(node, label) for node, label in zip(table["node"].to_pylist(), table["label"].to_pylist(), strict=True)}
    clear = said & (abs(proba - least) > 1e-5)  # sums of other groupings differ in the last bits
    assert {(i, j) for i, j in found if clear[i, j]} == {
        (i, j) for i, j in np.argwhere(clear & (proba > least)).tolist()
    }
    assert 0 < len(found) < said.sum()


def test_a_folder_with_other_coverage_or_confidence_is_another_job(place, bits, tmp_path):
    """Shards of two thresholds in one folder would be a table that nobody asked for."""
    run("predict", place.unsure, place.store, tmp_path / "out", chunk=100, coverage=0.9)
    before = bits(tmp_path / "out")
    for change, named in (
        ({"coverage": 0.8}, r"coverage is 0\.9 there and 0\.8 here"),
        ({}, r"coverage is 0\.9 there and None here"),
        ({"min_confidence": 0.5}, r"min-confidence is None there and 0\.5 here"),
    ):
        with pytest.raises(StoreError, match=named):
            run("predict", place.unsure, place.store, tmp_path / "out", chunk=100, **change)
    assert bits(tmp_path / "out") == before
    assert run("predict", place.unsure, place.store, tmp_path / "out", chunk=100, coverage=0.9).made == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coverage": 0.9, "min_confidence": 0.8}, "coverage and min_confidence exclude each other.*pass one of them"),
        ({"coverage": 0.0}, "coverage=0.0: expected a number above 0 and below 1"),
        ({"coverage": 1.0}, "coverage=1.0: expected a number above 0 and below 1"),
        ({"coverage": float("nan")}, "coverage=nan: expected"),
        ({"min_confidence": -0.1}, "min_confidence=-0.1: expected a number from 0 to 1"),
        ({"min_confidence": 1.1}, "min_confidence=1.1: expected a number from 0 to 1"),
        ({"kind": "embed", "coverage": 0.9}, "coverage: embed writes no labels"),
        ({"kind": "embed", "min_confidence": 0.9}, "min_confidence: embed writes no labels"),
        ({"model": "walks", "coverage": 0.9}, "no node was kept aside to calibrate sets"),
        ({"coverage": 0.99}, "coverage=0.99: 40 held-out nodes can vouch for at most 0.976"),
    ],
)
def test_coverage_and_confidence_that_cannot_be_are_refused_first(place, names, tmp_path, options, message):
    """Nothing may be written for a job that cannot be done."""
    asked = {"kind": "predict", "model": "unsure", **options}
    kind, model = asked.pop("kind"), getattr(place, asked.pop("model"))
    with pytest.raises(InputError, match=message):
        run(kind, model, place.store, tmp_path / "out", **asked)
    assert names(tmp_path) == []


@pytest.mark.parametrize("least", [0.0, 1.0])
def test_the_ends_of_the_range_of_confidence_are_allowed(place, read, tmp_path, least):
    """Every node is at least 0 sure; hardly one is fully sure."""
    run("predict", place.unsure, place.store, tmp_path / "out", min_confidence=least)
    assert read(tmp_path / "out")["label"].null_count == (0 if least == 0 else NODES)


# ---------------------------------------------------------------------- known labels, and all probabilities


@pytest.fixture(scope="module")
def partly(tmp_path_factory):
    """A graph with names whose first 90 nodes have a label, a model that learned from 60 of them, and its store.

    Node 80 has a label that the model has never seen.
    """
    folder = tmp_path_factory.mktemp("partly")
    whole = synthetic.dcsbm(200, avg_degree=8, classes=3, features=6, signal=1.0, seed=1)
    labels = np.where(np.arange(200) < 90, whole.labels, -1)
    labels[80] = 3
    names = [f"n{i}" for i in range(200)]
    graph = whole.replace(labels=labels, node_names=names, label_names=["cat", "dog", "bird", "newt"])
    write_store(graph, folder / "store")
    model = NIGCN(**PLAIN, engine="exact").fit(graph, train=range(60))
    model.save(folder / "model")
    return SimpleNamespace(graph=graph, model=model, paths=(folder / "model", str(folder / "store")))


def names_of(graph, labels):
    return [None if label < 0 else graph.label_names[label] for label in labels]


def test_the_label_that_the_graph_gives_stands_beside_the_prediction(partly, read, tmp_path):
    """Empty where there is none: a made-up label would be taken for the truth."""
    run("predict", *partly.paths, tmp_path / "out", chunk=64)
    table = read(tmp_path / "out")
    assert table["known"].to_pylist() == names_of(partly.graph, partly.graph.labels)
    assert table["label"].to_pylist() == partly.model.predict(partly.graph).tolist()


def test_a_graph_without_labels_has_an_empty_column_of_known_labels(place, read, tmp_path):
    write_store(open_store(place.store).replace(labels=None), tmp_path / "bare")
    run("predict", place.walks, str(tmp_path / "bare"), tmp_path / "out")
    assert read(tmp_path / "out")["known"].null_count == NODES


@pytest.mark.parametrize("rule", [{}, {"top": 2}, {"min_confidence": 0.9}])
def test_known_labels_are_kept_with_probability_one(partly, read, tmp_path, rule):
    """Also a label that the model has never seen; nodes without a label are predicted as before."""
    run("predict", *partly.paths, tmp_path / "plain", chunk=64, **rule)
    run("predict", *partly.paths, tmp_path / "kept", chunk=64, keep_known=True, **rule)
    rows = rule.get("top", 1)
    kept, plain = read(tmp_path / "kept"), read(tmp_path / "plain")
    firsts = kept.take(np.arange(0, 200 * rows, rows))
    assert firsts["label"].to_pylist()[:90] == names_of(partly.graph, partly.graph.labels[:90])
    assert set(firsts["probability"].to_pylist()[:90]) == {1.0}
    assert kept.slice(90 * rows).equals(plain.slice(90 * rows))


def test_top_gives_the_most_probable_labels_in_order(partly, read, tmp_path):
    run("predict", *partly.paths, tmp_path / "out", chunk=64, top=2)
    table, proba = read(tmp_path / "out"), partly.model.predict_proba(partly.graph)
    best = np.argsort(-proba, axis=1)[:, :2]
    assert table["node"].to_pylist() == [f"n{i}" for i in range(200) for _ in range(2)]
    assert table["label"].to_pylist() == names_of(partly.graph, best.ravel())
    np.testing.assert_allclose(table["probability"], np.take_along_axis(proba, best, 1).ravel(), rtol=1e-5)
    assert run("predict", *partly.paths, tmp_path / "all", top=9).rows == 600  # there are three classes


@pytest.mark.parametrize("suffix", ["", ".parquet", ".csv"])
@pytest.mark.parametrize("keep", [False, True])
def test_all_probabilities_have_a_column_per_class(partly, read, tmp_path, suffix, keep):
    output = tmp_path / f"out{suffix}"
    run("predict", *partly.paths, output, chunk=64, all_probabilities=True, keep_known=keep)
    table = {"": read, ".parquet": pq.read_table, ".csv": pyarrow.csv.read_csv}[suffix](output)
    classes = ["cat", "dog", "bird", *["newt"] * keep]
    assert table.column_names[4:] == [f"probability_{name}" for name in classes]
    found = np.stack([table[f"probability_{name}"].to_numpy() for name in classes], axis=1)
    expected = np.pad(partly.model.predict_proba(partly.graph), ((0, 0), (0, int(keep))))
    if keep:
        expected[:90] = np.eye(4)[partly.graph.labels[:90]]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_of_several_labels_the_known_ones_are_listed_and_kept(tmp_path, read):
    """Node 199 has no label, which is as good as unknown: it is predicted."""
    graph = synthetic.dcsbm(200, avg_degree=8, classes=2, features=6, signal=3.0, seed=1)
    several = np.stack([graph.labels == 0, graph.labels == 1, np.ones(200)], axis=1).astype(np.int8)
    several[199] = 0
    graph = graph.replace(labels=several, label_names=["cat", "dog", "animal"])
    write_store(graph, tmp_path / "store")
    model = NIGCN(**PLAIN, engine="exact").fit(graph, train=range(60))
    model.save(tmp_path / "model")
    where = tmp_path / "model", str(tmp_path / "store")
    run("predict", *where, tmp_path / "kept", keep_known=True)
    kept = read(tmp_path / "kept").filter(pc.field("node") < 199)
    assert list(zip(kept["node"].to_pylist(), kept["label"].to_pylist(), strict=True)) == [
        (i, graph.label_names[j]) for i, j in np.argwhere(several[:199]).tolist()
    ]
    run("predict", *where, tmp_path / "all", all_probabilities=True)
    table, proba = read(tmp_path / "all"), model.predict_proba(graph)
    assert table["node"].to_pylist() == list(range(200))
    assert table["known"].to_pylist() == [f"{'dog' if y[1] else 'cat'};animal" for y in several[:199]] + [None]
    np.testing.assert_allclose(table["probability_dog"], proba[:, 1], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top=0: expected a whole number of at least 1"),
        ({"top": 2, "coverage": 0.9}, "coverage and top exclude each other"),
        ({"kind": "embed", "keep_known": True}, "keep_known: embed writes no labels"),
        ({"source": "bare", "keep_known": True}, "keep_known: .* has no labels"),
        ({"source": "named", "keep_known": True}, "classes of the model are numbers, the labels of the graph names"),
        ({"source": "several", "keep_known": True}, "have several labels, the model gives one"),
        ({"kind": "embed", "output": "-"}, "-: standard output is CSV, and embed writes Parquet"),
    ],
)
def test_known_labels_that_cannot_be_kept_are_refused_first(place, names, tmp_path, options, message):
    graph = open_store(place.store)
    sources = {
        "bare": graph.replace(labels=None),
        "named": graph.replace(label_names=["cat", "dog", "bird"]),
        "several": graph.replace(labels=np.eye(3, dtype=np.int8)[graph.labels]),
    }
    asked = {"kind": "predict", "output": tmp_path / "out", **options}
    source, kind, output = asked.pop("source", None), asked.pop("kind"), asked.pop("output")
    if source is not None:
        write_store(sources[source], tmp_path / source)
    with pytest.raises(InputError, match=message):
        run(kind, place.walks, str(tmp_path / source) if source else place.store, output, **asked)
    assert names(tmp_path) == [source] * (source is not None)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_that_exists_is_replaced_only_on_request(place, names, tmp_path, suffix):
    """It may hold another model's labels, or the ones that the user wrote by hand."""
    file = tmp_path / f"out{suffix}"
    file.write_text("mine")
    with pytest.raises(StoreError, match=f"out{suffix}: already exists; pass --overwrite"):
        run("predict", place.walks, place.store, file)
    assert file.read_text() == "mine"
    assert names(tmp_path) == [file.name]
    assert run("predict", place.walks, place.store, file, overwrite=True).rows == NODES
    assert (pyarrow.csv.read_csv if suffix == ".csv" else pq.read_table)(file).num_rows == NODES


def test_nodes_may_be_a_list_unless_a_file_has_that_name(place, read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("predict", place.walks, place.store, "listed", nodes="7, 3,7")
    assert read(tmp_path / "listed")["node"].to_pylist() == [7, 3, 7]
    (tmp_path / "7,3").write_text("5\n")
    run("predict", place.walks, place.store, "filed", nodes="7,3")
    assert read(tmp_path / "filed")["node"].to_pylist() == [5]
    for wrong, named in (("nodes.txt", "nodes.txt"), ("7,600", "600"), (",".join(["1"] * 9999) + ",x", "x")):
        with pytest.raises(InputError, match=f"there is no file .*, and '{named}' is no node; expected a "):
            run("predict", place.walks, place.store, "out", nodes=wrong)


# ---------------------------------------------------------------------- killed, and run again

KILLED = """
import os, random, signal, sys, time
from nodewise.batch import run
model, store, output = sys.argv[1:]
count = lambda: sum(name.startswith("part-") for name in os.listdir(output)) if os.path.isdir(output) else 0
chance = random.Random(0)
for more in (0, 0, 1, 7, 2, 20, 1):
    wanted = count() + more
    child = os.fork()
    if child == 0:
        run("predict", model, store, output, chunk=10, threads=1)
        os._exit(0)
    while count() < wanted:
        time.sleep(0.0005)
    time.sleep(chance.uniform(0.0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(count())
"""


def test_a_killed_run_leaves_complete_shards_and_can_continue(place, bits, names, tmp_path, caplog):
    model = place.exact
    run("predict", model, place.store, tmp_path / "whole", chunk=10, threads=1)
    expected = bits(tmp_path / "whole")
    command = [sys.executable, "-c", KILLED, str(model), place.store, str(tmp_path / "out")]
    counts = [int(line) for line in subprocess.run(command, capture_output=True, check=True).stdout.split()]
    assert counts == sorted(counts)  # nothing that was done is lost
    left = bits(tmp_path / "out")
    assert 31 <= len(left) < 60
    assert all(expected[name] == content for name, content in left.items())
    caplog.set_level(logging.INFO, "nodewise")
    done = run("predict", model, place.store, tmp_path / "out", chunk=10, threads=1)
    assert bits(tmp_path / "out") == expected
    assert names(tmp_path / "out") == names(tmp_path / "whole")
    assert done.made == NODES - 10 * len(left)
    assert f"{len(left)} of 60 shards are there already" in caplog.text


KILLED_AT_THE_END = """
import os, signal, sys
from nodewise.batch import run, runner
join = runner.join_shards
def dying(shards, path, overwrite):
    join(shards, path, overwrite) if sys.argv[4] == "after" else None
    os.kill(os.getpid(), signal.SIGKILL)
runner.join_shards = dying
run("predict", *sys.argv[1:4], chunk=100)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_as_it_puts_one_file_together_a_run_goes_on_to_the_same_file(place, names, tmp_path, when):
    run("predict", place.walks, place.store, tmp_path / "whole.csv", chunk=100)
    arguments = [str(place.walks), place.store, str(tmp_path / "out.csv"), when]
    killed = subprocess.run([sys.executable, "-c", KILLED_AT_THE_END, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert "part-00005.parquet" in names(tmp_path / ".out.csv.parts")
    assert run("predict", place.walks, place.store, tmp_path / "out.csv", chunk=100).made == 0
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert names(tmp_path) == ["out.csv", "whole.csv"]


def test_a_file_that_appears_while_a_run_makes_it_is_not_replaced(place, tmp_path, monkeypatch):
    output, join = tmp_path / "out.csv", runner.join_shards

    def late(*arguments):
        output.write_text("mine\n")
        join(*arguments)

    monkeypatch.setattr(runner, "join_shards", late)
    with pytest.raises(StoreError, match=r"out\.csv: already exists; pass --overwrite"):
        run("predict", place.walks, place.store, output, chunk=100)
    assert output.read_text() == "mine\n"
    monkeypatch.setattr(runner, "join_shards", join)
    assert run("predict", place.walks, place.store, output, chunk=100, overwrite=True).made == 0, (
        "what was done is kept"
    )


def test_a_run_that_is_refused_leaves_what_another_has_made(place, names, tmp_path):
    arguments = [str(place.walks), place.store, str(tmp_path / "out.csv"), "before"]
    subprocess.run([sys.executable, "-c", KILLED_AT_THE_END, *arguments], check=False)
    (tmp_path / "out.csv").write_text("mine\n")
    before = {*names(tmp_path / ".out.csv.parts")} - {".lock"}
    with pytest.raises(StoreError, match="--overwrite"):
        run("predict", place.exact, place.store, tmp_path / "out.csv", chunk=100)
    assert "part-00005.parquet" in before
    assert {*names(tmp_path / ".out.csv.parts")} - {".lock"} == before


@pytest.mark.parametrize("left", ["._job.json", "._nodes.npy", "._summary.json", ".part-00000.parquet"])
def test_what_a_kill_as_it_wrote_leaves_is_no_obstacle(place, names, tmp_path, left):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"{left}.partial-0123abcd").write_text("{")
    run("predict", place.walks, place.store, tmp_path / "out")
    assert not list((tmp_path / "out").glob(".*.partial-*"))
    (tmp_path / "out" / f"{left}.partial-0123abcd").write_text("{")
    run("embed", place.walks, place.store, tmp_path / "out", overwrite=True)


def test_a_folder_that_is_there_is_written_into_whatever_holds_it(place, names, tmp_path, monkeypatch):
    """As where it is mounted into a container, whose own folders nobody may write in."""
    (tmp_path / "out").mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    assert run("predict", place.walks, place.store, tmp_path / "out").made == NODES


def test_a_finished_job_is_not_done_again(place, tmp_path, monkeypatch):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    summary = (tmp_path / "out" / "_summary.json").read_text()
    monkeypatch.setattr(runner, "run_chunk", None)
    done = run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    assert (done.made, done.rows) == (0, NODES)
    assert (tmp_path / "out" / "_summary.json").read_text() == summary


@pytest.mark.parametrize("output", ["out", "out.csv"])
def test_a_second_run_in_the_same_folder_is_refused_while_the_first_is_under_way(place, names, tmp_path, output):
    """Two that write and tidy up in one folder would remove each other's files."""
    refused = []

    def second(*_):
        with pytest.raises(InputError, match="another job is under way in this folder; wait until it ends") as error:
            run("predict", place.walks, place.store, tmp_path / output, chunk=100, overwrite=True)
        refused.append(error)

    assert run("predict", place.walks, place.store, tmp_path / output, chunk=100, progress=second).made == NODES
    assert refused
    assert names(tmp_path) == [output]
    again = run("predict", place.walks, place.store, tmp_path / output, chunk=100, overwrite=True)
    assert again.rows == NODES  # and let in afterwards


def test_a_chunk_that_fails_is_named_and_the_others_are_kept(place, bits, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "whole", chunk=100)
    (tmp_path / "out" / "part-00003.parquet").mkdir(parents=True)  # a folder stands where the shard is to go
    shutil.copy(tmp_path / "whole" / "_job.json", tmp_path / "out")
    with pytest.raises(StoreError) as error:
        run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    for part in ("chunk 3 (nodes 300 to 399) failed:", "part-00003.parquet", "3 of 6", str(tmp_path / "out")):
        assert part in str(error.value)
    assert not (tmp_path / "out" / "_summary.json").exists()
    (tmp_path / "out" / "part-00003.parquet").rmdir()
    assert run("predict", place.walks, place.store, tmp_path / "out", chunk=100).made == 300
    assert bits(tmp_path / "out") == bits(tmp_path / "whole")


# ---------------------------------------------------------------------- folders that are not this job's


def test_another_jobs_folder_is_refused_and_what_differs_is_named(place, bits, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    before = bits(tmp_path / "out")
    (tmp_path / "nodes.txt").write_text("1\n")
    for change, named in (
        (dict(chunk=50), "chunk is 100 there and 50 here"),
        (dict(nodes=str(tmp_path / "nodes.txt")), "number of nodes is 600 there and 1 here"),
        (dict(kind="embed"), "command is predict there and embed here"),
        (dict(model=place.exact), "model is "),
        (dict(engine="stratified"), "engine is None there and stratified here"),
    ):
        asked = {"kind": "predict", "model": place.walks, "chunk": 100, **change}
        with pytest.raises(StoreError) as error:
            run(asked.pop("kind"), asked.pop("model"), place.store, tmp_path / "out", **asked)
        assert named in str(error.value)
        assert "--overwrite" in str(error.value)
    assert bits(tmp_path / "out") == before


def test_overwrite_replaces_another_job(place, names, read, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    run("embed", place.exact, place.store, tmp_path / "out", chunk=400, overwrite=True)
    assert names(tmp_path / "out") == ["_job.json", "_summary.json", "part-00000.parquet", "part-00001.parquet"]
    assert read(tmp_path / "out").column_names == ["node", "representation"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_left_alone(place, names, tmp_path, overwrite):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-00000.parquet").write_text("mine")
    with pytest.raises(StoreError, match=r"holds 'part-00000\.parquet' and is no job of nodewise"):
        run("predict", place.walks, place.store, tmp_path / "out", overwrite=overwrite)
    assert names(tmp_path / "out") == ["part-00000.parquet"]


def test_overwrite_spares_a_job_folder_with_a_strangers_file(place, names, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=400)
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(StoreError, match=r"holds 'thesis\.tex' and is no job"):
        run("predict", place.walks, place.store, tmp_path / "out", chunk=300, overwrite=True)
    assert "part-00001.parquet" in names(tmp_path / "out")
    assert run("predict", place.walks, place.store, tmp_path / "out", chunk=400).made == 0


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "nodewise-job"}', b"\xff\xfe"])
def test_a_damaged_job_file_is_named(place, tmp_path, content):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=400)
    (tmp_path / "out" / "_job.json").write_bytes(content)
    for overwrite in (False, True):  # it may be a stranger's
        with pytest.raises(StoreError, match=r"_job\.json: does not say which job.*delete this one"):
            run("predict", place.walks, place.store, tmp_path / "out", chunk=400, overwrite=overwrite)
    assert (tmp_path / "out" / "part-00001.parquet").is_file()


def test_a_job_file_that_was_altered_is_refused(place, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=400)
    file = tmp_path / "out" / "_job.json"
    file.write_text(file.read_text().replace('"chunk": 400', '"chunk": 401'))
    with pytest.raises(StoreError, match="altered"):
        run("predict", place.walks, place.store, tmp_path / "out", chunk=401)


def test_a_strange_shard_is_named_and_made_again(place, bits, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    whole = bits(tmp_path / "out")
    shard = tmp_path / "out" / "part-00002.parquet"
    shard.write_bytes(whole["part-00001.parquet"])
    with pytest.raises(StoreError, match=r"part-00002\.parquet.*delete it"):
        run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    shard.unlink()
    assert run("predict", place.walks, place.store, tmp_path / "out", chunk=100).made == 100
    assert bits(tmp_path / "out") == whole


@pytest.mark.parametrize("kind", ["predict", "embed"])
def test_a_shard_with_a_bit_flipped_or_cut_off_is_made_again(place, bits, tmp_path, kind, caplog):
    """Flips in the numbers of a shard would be taken for results."""
    run(kind, place.walks, place.store, tmp_path / "out", chunk=100)
    whole, rng = bits(tmp_path / "out"), np.random.default_rng(0)
    content = whole["part-00002.parquet"]
    for place_of_flip in (0, len(content) - 1, *rng.integers(0, len(content), 300).tolist()):
        damaged = bytearray(content)
        damaged[place_of_flip] ^= 1 << int(rng.integers(8))
        (tmp_path / "flipped").write_bytes(damaged)
        assert not is_whole(tmp_path / "flipped")
    for left in (content[:-9], b"", bytes(damaged)):
        caplog.clear()
        (tmp_path / "out" / "part-00002.parquet").write_bytes(left)
        assert run(kind, place.walks, place.store, tmp_path / "out", chunk=100).made == 100
        assert bits(tmp_path / "out") == whole
        assert "part-00002.parquet: does not match its checksum, so it is made again" in caplog.text


def test_a_shard_that_was_altered_with_its_checksum_is_no_foreign_error(place, tmp_path):
    run("embed", place.walks, place.store, tmp_path / "out", chunk=600)
    shard = tmp_path / "out" / "part-00000.parquet"
    content = shard.read_bytes()
    for name in re.finditer(rb"representation|nodewise\.job", content):
        shard.write_bytes(content[: name.start()] + b"\xb5" + content[name.start() + 1 :])
        seal(shard)
        with suppress(StoreError):
            run("embed", place.walks, place.store, tmp_path / "out", chunk=600)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize(
    ("output", "link"), [("out.csv", ".out.csv.parts"), ("out", "out/part-00000.parquet"), ("out", "out/.columns")]
)
def test_a_link_where_a_job_writes_is_refused(place, names, tmp_path, output, link):
    """What is written or removed there would be elsewhere."""
    (tmp_path / "mine").mkdir()
    if output == "out":
        run("predict", place.exact, place.store, tmp_path / "out", chunk=600)
        (tmp_path / "out" / "part-00000.parquet").unlink()
    (tmp_path / link).symlink_to(tmp_path / "mine")
    with pytest.raises(StoreError, match="is a symbolic link"):
        run("predict", place.exact, place.store, tmp_path / output, chunk=600)
    assert names(tmp_path / "mine") == []


@pytest.mark.parametrize("sound", [False, True])
def test_columns_that_are_damaged_are_made_again(place, bits, tmp_path, monkeypatch, sound):
    with monkeypatch.context() as patch:
        patch.setattr(runner, "run_chunk", None)
        with pytest.raises(TypeError):
            run("embed", place.exact, place.store, tmp_path / "out", chunk=100)
    columns = tmp_path / "out" / ".columns" / "block-00000.npy"
    if not sound:
        content = bytearray(columns.read_bytes())
        content[5000] ^= 1
        columns.write_bytes(content)
    made = []
    make = runner.run_block
    monkeypatch.setattr(runner, "run_block", lambda job, block: made.append(block) or make(job, block))
    run("embed", place.exact, place.store, tmp_path / "out", chunk=100)
    assert made == ([] if sound else [0])
    run("embed", place.exact, place.store, tmp_path / "whole", chunk=100)
    assert bits(tmp_path / "out") == bits(tmp_path / "whole")


def test_a_graph_or_model_that_changed_makes_another_job(place, tmp_path):
    shutil.copytree(place.walks, tmp_path / "model")
    other = synthetic.dcsbm(NODES, avg_degree=8, classes=3, features=24, signal=2.0, seed=5)
    shutil.copytree(place.store, tmp_path / "store")
    where = (tmp_path / "model", str(tmp_path / "store"), tmp_path / "out")
    run("predict", *where, chunk=400)
    write_store(other, tmp_path / "store", overwrite=True)
    with pytest.raises(StoreError, match=r"another job: graph is"):
        run("predict", *where, chunk=400)
    NIGCN(**{**PLAIN, "epochs": 2}).fit(other, train=range(60)).save(tmp_path / "model")
    with pytest.raises(StoreError, match=r"another job: model is"):
        run("predict", *where, chunk=400)


def test_a_worker_with_another_copy_of_the_graph_refuses(place, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=400)
    job = job_in(tmp_path / "out")
    job.shard(1).unlink()
    stale = Job(**{**vars(job), "graph": "another"})
    with pytest.raises(StoreError, match="not what the work began with"):
        run_chunk(stale, 1)
    assert not job.shard(1).exists()


def test_shards_that_cannot_be_seen_from_here_are_an_error(place, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "PATIENCE", 0.0)
    monkeypatch.setattr(runner, "run_chunk", lambda job, chunk: None)  # as if to another machine's disk
    with pytest.raises(StoreError, match=r"part-00000\.parquet.*all machines share"):
        run("predict", place.walks, place.store, tmp_path / "out")


def test_tasks_beside_each_other_share_the_memory(monkeypatch):
    monkeypatch.setattr(opened, "thread_count", lambda threads: threads or 8)
    maker = NIGCN(**PLAIN, memory="8GB").row_maker
    assert opened.with_resources(maker, 2, None, crowded=True).memory == 2_000_000_000
    assert opened.with_resources(maker, 2, None, crowded=False).memory == "8GB"
    assert opened.with_resources(maker, 2, 5, crowded=True).memory == 5


# ---------------------------------------------------------------------- what cannot be


@pytest.mark.parametrize("kind", ["predict", "embed"])
def test_output_names_that_are_neither_a_file_nor_a_folder_of_shards(place, names, tmp_path, kind):
    with pytest.raises(InputError, match=r"out\.xlsx.*\.parquet"):
        run(kind, place.walks, place.store, tmp_path / "out.xlsx")
    (tmp_path / "old.parquet").mkdir()
    with pytest.raises(InputError, match=r"old\.parquet: this is a folder"):
        run(kind, place.walks, place.store, tmp_path / "old.parquet")
    assert names(tmp_path) == ["old.parquet"]


def test_wrong_values_are_named(place, names, tmp_path):
    with pytest.raises(InputError, match="chunk=0"):
        run("predict", place.walks, place.store, tmp_path / "out", chunk=0)
    with pytest.raises(InputError, match="on='moon'"):
        run("predict", place.walks, place.store, tmp_path / "out", on="moon")
    with pytest.raises(InputError, match="csv"):
        run("embed", place.walks, place.store, tmp_path / "out.csv")
    narrow = synthetic.dcsbm(50, avg_degree=4, classes=2, features=3, seed=0)
    write_store(narrow, tmp_path / "narrow")
    with pytest.raises(InputError, match=r"3 features.* 24"):
        run("predict", place.walks, str(tmp_path / "narrow"), tmp_path / "out")
    assert "out" not in names(tmp_path)


# ---------------------------------------------------------------------- features by name


@pytest.mark.parametrize("engine", ["walks", "exact"])
def test_columns_in_another_order_are_found_by_name(named, read, tmp_path, monkeypatch, engine):
    monkeypatch.setattr(runner, "PIECE_BYTES", 1)  # several blocks of columns
    for store in ("store", "moved"):
        for kind in ("predict", "embed"):
            run(kind, named / engine, str(named / store), tmp_path / kind / store, chunk=70)
    first, second = (read(tmp_path / "predict" / store) for store in ("store", "moved"))
    assert first["label"] == second["label"]
    assert np.allclose(first["probability"], second["probability"], rtol=1e-4)
    rows = [np.stack(read(tmp_path / "embed" / store)["representation"].to_numpy()) for store in ("store", "moved")]
    assert np.allclose(*rows, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["predict", "embed"])
def test_other_columns_are_refused_before_anything_is_written(named, tmp_path, kind):
    with pytest.raises(InputError, match=r"other does not fit the model in .*'age' in the graph and 'f0'"):
        run(kind, named / "walks", str(named / "other"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
