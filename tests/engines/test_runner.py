"""Jobs made here: what they write, that they go on where they stopped, and what they refuse."""

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise import NIGCN, InputError, StoreError, open_store, synthetic, write_store
from nodewise.engines import opened, run, runner
from nodewise.engines.job import Job
from nodewise.engines.tasks import run_chunk

NODES = 600  # in the store


def rows(table) -> np.ndarray:
    """The representations of a table as a matrix."""
    column = table["representation"].combine_chunks()
    return column.values.to_numpy().reshape(len(column), -1)


# ---------------------------------------------------------------------- what is written


@pytest.mark.parametrize("engine", ["walks", "exact"])
def test_predictions_are_those_of_the_model(place, read, names, tmp_path, engine):
    model, graph = NIGCN.load(getattr(place, engine)), open_store(place.store)
    done = run("predict", getattr(place, engine), place.store, tmp_path / "out", chunk=250)
    table = read(tmp_path / "out")
    assert names(tmp_path / "out") == ["_job.json", "_summary.json", *(f"part-0000{i}.parquet" for i in range(3))]
    assert table.column_names == ["node", "label", "probability"]
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


def test_columns_in_several_blocks_make_the_same_rows(place, bits, names, tmp_path, monkeypatch):
    run("embed", place.exact, place.store, tmp_path / "one", chunk=100, threads=1)
    monkeypatch.setattr(runner, "PIECE_BYTES", 1)
    run("embed", place.exact, place.store, tmp_path / "many", chunk=100, threads=3)
    assert len(Job.read(tmp_path / "one").blocks) == 1
    assert len(Job.read(tmp_path / "many").blocks) == 3
    assert bits(tmp_path / "one") == bits(tmp_path / "many")
    assert ".columns" not in names(tmp_path / "many")


@pytest.mark.parametrize("engine", ["walks", "exact"])
@pytest.mark.parametrize("part", ["hop_attention", "raw_features", "label_reuse", "correct_and_smooth", "all"])
def test_rows_with_more_than_diffused_features_are_those_of_the_model(place, read, tmp_path, monkeypatch, engine, part):
    graph = open_store(place.store)
    every = ["hop_attention", "raw_features", "label_reuse", "correct_and_smooth"]
    options = dict.fromkeys(every if part == "all" else [part], True)
    fixed = {"omega": 1.0, "rho": 0.5, "tau": 1.0, "layers": 1, "weight_decay": 0.01, "bias": True}
    model = NIGCN(epochs=5, epsilon=0.1, engine=engine, threads=1, **fixed, **options)
    model.fit(graph, range(60), range(60, 120)).save(tmp_path / "model")
    for name, piece_bytes in (("joined", runner.PIECE_BYTES), ("apart", 1)):
        monkeypatch.setattr(runner, "PIECE_BYTES", piece_bytes)
        run("embed", tmp_path / "model", place.store, tmp_path / name, chunk=250, threads=1)
        run("predict", tmp_path / "model", place.store, tmp_path / f"{name}.parquet", chunk=250, threads=1)
        assert np.array_equal(rows(read(tmp_path / name)), model.represent(graph))
        said = pq.read_table(tmp_path / f"{name}.parquet")
        np.testing.assert_allclose(said["probability"], model.predict_proba(graph).max(1), rtol=1e-5)
    pieces = [Job.read(tmp_path / name).blocks for name in ("joined", "apart")]
    expected = [1, len(model.layout_.spans)] if engine == "exact" else [0, 0]
    assert [len(blocks or ()) for blocks in pieces] == expected


def test_what_cannot_be_is_refused_before_anything_is_written(place, tmp_path):
    graph = open_store(place.store)
    fixed = {"omega": 1.0, "rho": 0.5, "tau": 1.0, "layers": 1, "weight_decay": 0.01, "bias": True}
    NIGCN(epochs=2, epsilon=0.1, **fixed, label_reuse=True).fit(graph, range(60)).save(tmp_path / "model")
    write_store(graph.subgraph(np.arange(300)), tmp_path / "other")
    with pytest.raises(InputError, match="knows labels of single nodes of a graph with 600 nodes"):
        run("predict", tmp_path / "model", str(tmp_path / "other"), tmp_path / "out")
    with pytest.raises(InputError, match="engine='steam'"):
        run("predict", tmp_path / "model", place.store, tmp_path / "out.csv", engine="steam")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model", "other"]


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
    assert (kept.rows, table.num_rows, table.column_names) == (0, 0, ["node", "label", "probability"])


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
    model = NIGCN(epochs=100, weight_decay=0.0, epsilon=0.1, engine="walks").fit(named, train=range(60))
    model.save(tmp_path / "model")
    (tmp_path / "nodes.txt").write_text("n9\nn150\nn9\n")
    run("predict", tmp_path / "model", str(tmp_path / "store"), tmp_path / "all", chunk=64)
    run("predict", tmp_path / "model", str(tmp_path / "store"), tmp_path / "few", nodes=str(tmp_path / "nodes.txt"))
    above = model.predict_proba(named) > 0.5
    expected = [(f"n{i}", model.label_names_[j]) for i, j in np.argwhere(above)]
    found = read(tmp_path / "all")
    assert list(zip(found["node"].to_pylist(), found["label"].to_pylist(), strict=True)) == expected
    wanted = [(f"n{i}", model.label_names_[j]) for i in (9, 150, 9) for j in np.flatnonzero(above[i])]
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
    job = Job("predict", "m", "s", None, "o", "", "", 10, None, 3, None, None, blocks=((0, 2), (2, 3)))
    content = json.loads(job.to_json())
    field = data.draw(st.sampled_from([None, *content]))
    value = data.draw(JSON)
    folder = tmp_path_factory.mktemp("job")
    (folder / "_job.json").write_text(json.dumps(value if field is None else {**content, field: value}))
    try:
        found = Job.read(folder)
    except StoreError:
        return
    assert found.identity == job.identity


# ---------------------------------------------------------------------- killed, and run again

KILLED = """
import os, random, signal, sys, time
from nodewise.engines import run
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


@pytest.mark.parametrize("engine", ["walks", "exact"])
def test_a_killed_run_leaves_whole_shards_and_is_gone_on_with(place, bits, names, tmp_path, engine, caplog):
    model = getattr(place, engine)
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
    run("predict", place.walks, place.store, tmp_path / "out")
    with pytest.raises(StoreError, match="cannot be written in"):
        run("predict", place.walks, place.store, tmp_path / "other")


def test_a_finished_job_is_not_done_again(place, tmp_path, monkeypatch):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    summary = (tmp_path / "out" / "_summary.json").read_text()
    monkeypatch.setattr(runner, "run_chunk", None)
    done = run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    assert (done.made, done.rows) == (0, NODES)
    assert (tmp_path / "out" / "_summary.json").read_text() == summary


def test_two_runs_at_once_do_not_harm_each_other(place, bits, names, tmp_path, monkeypatch):
    """The second one starts, ends and tidies up while the first one is in the middle of a shard."""
    run("predict", place.exact, place.store, tmp_path / "alone", chunk=100)
    runs = []

    def interrupted(job, chunk):
        if not runs:
            runs.append(chunk)
            run("predict", place.exact, place.store, tmp_path / "out", chunk=100)
        run_chunk(job, chunk)

    monkeypatch.setattr(runner, "run_chunk", interrupted)
    run("predict", place.exact, place.store, tmp_path / "out", chunk=100)
    assert bits(tmp_path / "out") == bits(tmp_path / "alone")
    assert names(tmp_path / "out") == names(tmp_path / "alone")


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
        (dict(chunk=50), "chunk (100 there, 50 here)"),
        (dict(nodes=str(tmp_path / "nodes.txt")), "number of nodes (600 there, 1 here)"),
        (dict(kind="embed"), "command (predict there, embed here)"),
        (dict(model=place.exact), "model ("),
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
    with pytest.raises(StoreError, match="not written as a whole by nodewise"):
        run("predict", place.walks, place.store, tmp_path / "out", overwrite=overwrite)
    assert names(tmp_path / "out") == ["part-00000.parquet"]


def test_overwrite_spares_a_job_folder_with_a_strangers_file(place, names, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=400)
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(StoreError, match=r"thesis\.tex|not written as a whole"):
        run("predict", place.walks, place.store, tmp_path / "out", chunk=300, overwrite=True)
    assert "part-00001.parquet" in names(tmp_path / "out")
    assert run("predict", place.walks, place.store, tmp_path / "out", chunk=400).made == 0


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "nodewise-job"}', b"\xff\xfe"])
def test_a_damaged_job_file_is_named(place, tmp_path, content):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=400)
    (tmp_path / "out" / "_job.json").write_bytes(content)
    with pytest.raises(StoreError, match=r"job\.json"):
        run("predict", place.walks, place.store, tmp_path / "out", chunk=400)


def test_a_job_file_that_was_altered_is_refused(place, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=400)
    file = tmp_path / "out" / "_job.json"
    file.write_text(file.read_text().replace('"chunk": 400', '"chunk": 401'))
    with pytest.raises(StoreError, match="altered"):
        run("predict", place.walks, place.store, tmp_path / "out", chunk=401)


def test_a_damaged_or_strange_shard_is_named_and_made_again(place, bits, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    whole = bits(tmp_path / "out")
    shard = tmp_path / "out" / "part-00002.parquet"
    for content in (shard.read_bytes()[:-9], whole["part-00001.parquet"]):
        shard.write_bytes(content)
        with pytest.raises(StoreError, match=r"part-00002\.parquet.*delete it"):
            run("predict", place.walks, place.store, tmp_path / "out", chunk=100)
    shard.unlink()
    assert run("predict", place.walks, place.store, tmp_path / "out", chunk=100).made == 100
    assert bits(tmp_path / "out") == whole


def test_a_graph_or_model_that_changed_makes_another_job(place, tmp_path):
    shutil.copytree(place.walks, tmp_path / "model")
    other = synthetic.dcsbm(NODES, avg_degree=8, classes=3, features=24, signal=2.0, seed=5)
    shutil.copytree(place.store, tmp_path / "store")
    where = (tmp_path / "model", str(tmp_path / "store"), tmp_path / "out")
    run("predict", *where, chunk=400)
    write_store(other, tmp_path / "store", overwrite=True)
    with pytest.raises(StoreError, match=r"differs in graph"):
        run("predict", *where, chunk=400)
    NIGCN(epochs=2, epsilon=0.1).fit(other, train=range(60)).save(tmp_path / "model")
    with pytest.raises(StoreError, match=r"differs in model"):
        run("predict", *where, chunk=400)


def test_a_worker_with_another_copy_of_the_graph_refuses(place, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "out", chunk=400)
    job = Job.read(tmp_path / "out")
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
    model = NIGCN(memory="8GB")
    assert opened.fitted_to(model, 2, None, crowded=True).memory == 2_000_000_000
    assert opened.fitted_to(model, 2, None, crowded=False).memory == "8GB"
    assert opened.fitted_to(model, 2, 5, crowded=True).memory == 5
    assert (model.threads, model.memory) == (None, "8GB")


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
