"""``nodewise predict`` and ``nodewise embed``: what they print, and that the same command continues."""

import json
import os
import pty
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models import PLAIN
from nodewise import NIGCN, open_store, write_store
from nodewise.graph import synthetic

FILES = {"edges": "edges.npz", "features": "features.parquet", "labels": "labels.npy"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a store and a model."""
    folder = tmp_path_factory.mktemp("predict")
    graph = synthetic.dcsbm(300, avg_degree=8, classes=3, features=8, signal=2.0, seed=0)
    write_store(graph, folder / "store")
    NIGCN(**PLAIN, engine="walks").fit(graph, train=range(60)).save(folder / "model")
    unsure = NIGCN(**{**PLAIN, "weight_decay": "auto", "layers": 1, "epochs": 10}, engine="walks")
    unsure.fit(graph, train=range(60), val=range(60, 200)).save(folder / "unsure")
    return folder


def read(folder):
    return pa.concat_tables([pq.read_table(shard) for shard in sorted(folder.glob("part-*.parquet"))])


def test_predict_to_a_folder_writes_shards_and_says_how_fast(run, place, tmp_path):
    code, _, err = run("predict", place / "model", place / "store", "-o", tmp_path / "out", "--chunk", 128)
    assert code == 0
    assert f"300 nodes, 300 rows written to {tmp_path / 'out'}: " in err
    assert "nodes/s" in err
    expected = NIGCN.load(place / "model").predict(open_store(place / "store"))
    assert np.array_equal(read(tmp_path / "out")["label"], expected)


def test_the_same_command_continues_and_another_is_refused(run, place, tmp_path):
    command = ["predict", place / "model", place / "store", "-o", tmp_path / "out", "--chunk", 100]
    assert run(*command)[0] == 0
    (tmp_path / "out" / "part-00001.parquet").unlink()
    code, _, err = run(*command)
    assert code == 0
    assert "2 of 3 shards are there already" in err
    assert read(tmp_path / "out").num_rows == 300
    code, _, err = run(*command[:-1], 50)
    assert code == 2
    assert "chunk is 100 there and 50 here" in err
    assert len(err.splitlines()) == 1
    assert run(*command[:-1], 50, "--overwrite")[0] == 0
    assert len(list((tmp_path / "out").glob("part-*"))) == 6


def test_embed_writes_what_the_network_sees(run, place, tmp_path):
    (tmp_path / "nodes.txt").write_text("5\n2\n5\n")
    code, _, err = run(
        "embed", place / "model", place / "store", "-o", tmp_path / "out.parquet", "--nodes", tmp_path / "nodes.txt"
    )
    assert code == 0
    assert "3 nodes, 3 rows" in err
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["node"].to_pylist() == [5, 2, 5]
    expected = NIGCN.load(place / "model").represent(open_store(place / "store"), [5, 2, 5])
    assert np.array_equal(np.array(table["representation"].to_pylist(), np.float32), expected)


def test_coverage_writes_sets_and_says_how_large_they_are(run, place, tmp_path):
    """Without the size nobody would notice sets that hold all classes."""
    code, _, err = run("predict", place / "unsure", place / "store", "-o", tmp_path / "out", "--coverage", 0.9)
    assert code == 0
    sets = NIGCN.load(place / "unsure").predict_set(open_store(place / "store"), coverage=0.9)
    assert f"300 nodes, {sets.sum()} rows ({sets.sum() / 300:.2f} labels per node) written" in err
    assert read(tmp_path / "out").num_rows == sets.sum()


def test_min_confidence_leaves_labels_empty_and_counts_them(run, place, tmp_path):
    """An empty cell, not a word, is what every reader of CSV takes as missing."""
    proba = NIGCN.load(place / "unsure").predict_proba(open_store(place / "store")).max(1)
    least = round(float(np.median(proba)), 3)
    code, _, err = run(
        "predict", place / "unsure", place / "store", "-o", tmp_path / "out.csv", "--min-confidence", least
    )
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    empty = sum(line.split(",")[1] == "" for line in lines)
    assert code == 0
    assert f"300 nodes, 300 rows ({empty} without a label) written" in err
    assert empty == (proba < least).sum()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coverage", "0.9", "--min-confidence", "0.8"], "coverage and min_confidence exclude each other"),
        (["--coverage", "90"], "--coverage 90.0: expected a number above 0 and below 1"),
        (["--min-confidence", "80"], "--min-confidence 80.0: expected a number from 0 to 1"),
    ],
)
def test_wrong_coverage_or_confidence_is_one_line_and_exit_code_2(run, place, tmp_path, options, message):
    """People write 90 for 90%; a run that went on would write something else than they meant."""
    code, _, err = run("predict", place / "unsure", place / "store", "-o", tmp_path / "out", *options)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_dash_writes_csv_to_stdout_and_nothing_else(run, place):
    """Another line there would be one more row for whoever reads it."""
    code, out, err = run("predict", place / "model", place / "store", "-o", "-", "--nodes", "5,2")
    assert code == 0
    graph, model = open_store(place / "store"), NIGCN.load(place / "model")
    lines = [line.split(",") for line in out.splitlines()]
    assert lines[0] == ['"node"', '"label"', '"probability"', '"known"']
    expected = [[str(i), str(model.predict(graph, [i])[0]), str(graph.labels[i])] for i in (5, 2)]
    assert [[line[0], line[1], line[3]] for line in lines[1:]] == expected
    assert "2 nodes, 2 rows written to stdout" in err


def test_a_reader_that_stops_early_is_no_error_message(place):
    command = [sys.executable, "-m", "nodewise", "predict", place / "model", place / "store", "-o", "-"]
    process = subprocess.Popen([*map(str, command), "--top", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert b"unexpected" not in process.stderr.read()
    process.stderr.close()
    process.wait()


def test_json_is_what_the_run_did(run, place, tmp_path):
    code, out, err = run("predict", place / "model", place / "store", "-o", tmp_path / "out.csv", "--json")
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert (summary["nodes"], summary["rows"], summary["output"]) == (300, 300, str(tmp_path / "out.csv"))
    code, _, err = run("predict", place / "model", place / "store", "-o", "-", "--json")
    assert code == 2
    assert "both write to stdout" in err


def test_the_options_of_labels_reach_the_library(run, place, tmp_path):
    options = ["--top", 2, "--keep-known", "--all-probabilities"]
    assert run("predict", place / "model", place / "store", "-o", tmp_path / "out", *options)[0] == 0
    table = read(tmp_path / "out")
    assert table.num_rows == 600
    assert table["probability"].to_pylist()[::2] == [1.0] * 300
    assert table.column_names[4:] == ["probability_0", "probability_1", "probability_2"]


def test_a_model_and_a_store_that_are_swapped_are_told(run, place, tmp_path):
    code, _, err = run("predict", place / "store", place / "model", "-o", tmp_path / "out")
    assert code == 2
    assert f"this is a model; give the model first: nodewise predict {place / 'model'} {place / 'store'}" in err


def test_a_node_that_does_not_exist_is_told_with_the_nearest_name(run, place, tmp_path):
    graph = open_store(place / "store")
    write_store(graph.replace(node_names=[f"paper-{i}" for i in range(300)]), tmp_path / "named")
    command = ["predict", place / "model", tmp_path / "named", "-o", tmp_path / "out", "--nodes", tmp_path / "nodes"]
    (tmp_path / "nodes").write_text("paper-7\nPaper-299\n")
    code, _, err = run(*command)
    assert code == 2
    assert "line 2 is 'Paper-299', and there is no such node; expected a node's name. Did you mean 'paper-299'" in err
    (tmp_path / "nodes").write_text("zebra\n")
    assert run(*command)[2].strip().endswith("expected a node's name")
    (tmp_path / "nodes").write_text("paper-7\n")
    assert "1 node, 1 row written" in run(*command)[2]


@pytest.mark.parametrize("output", ["out", "out.csv"])
def test_ctrl_c_says_that_finished_shards_are_kept_and_they_are(run, place, tmp_path, monkeypatch, output):
    from nodewise.batch import runner

    def stop_at_the_second(job, piece):
        if piece == 1:
            raise KeyboardInterrupt
        return run_chunk(job, piece)

    run_chunk = runner.run_chunk
    command = ["predict", place / "model", place / "store", "-o", tmp_path / output, "--chunk", 100]
    with monkeypatch.context() as patch:
        patch.setattr(runner, "run_chunk", stop_at_the_second)
        code, _, err = run(*command)
    assert code == 130
    assert f"{tmp_path / output}: finished shards are kept; the same command continues" in err
    code, _, err = run(*command)
    assert code == 0
    assert "1 of 3 shards are there already" in err


def test_memory_is_an_amount(run, place, tmp_path):
    command = ["predict", place / "model", place / "store", "-o", tmp_path / "out", "--memory"]
    code, _, err = run(*command, "much")
    assert code == 2
    assert "much" in err
    assert run(*command, "1GB")[0] == 0


def test_ray_that_is_not_installed_is_named(run, place, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = run("predict", place / "model", place / "store", "-o", tmp_path / "out", "--on", "ray")
    assert code == 2
    assert "pip install 'nodewise[ray]'" in err


def test_a_terminal_sees_nodes_per_second_and_time_left(place, tmp_path):
    """Run on a pseudo-terminal wide enough for all columns."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "nodewise", "predict", place / "model", place / "store", "-o", tmp_path / "out"]
    process = subprocess.Popen(
        [*map(str, command), "--chunk", "1"],
        stderr=theirs,
        env={**os.environ, "COLUMNS": "160", "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 1 << 16):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert re.search(r"of 300, [\d,]+/s +\d:\d\d:\d\d +\d:\d\d:\d\d", text)  # time spent, and time left


def test_files_with_columns_in_another_order_give_the_same_labels(run, place, tmp_path):
    graph = open_store(place / "store")
    columns = {f"f{i}": pa.array(np.asarray(graph.features[:, i])) for i in range(8)}
    np.savez(tmp_path / "edges.npz", edge_index=np.stack(graph.to_scipy().nonzero()))
    np.save(tmp_path / "labels.npy", graph.labels)
    orders = {"as trained": list(columns), "moved": [*list(columns)[3:], *list(columns)[:3]], "other": [*columns]}
    for store, names in orders.items():
        table = pa.table({name: columns[name] for name in names})
        table = table.rename_columns(["age", *names[1:]]) if store == "other" else table
        pq.write_table(table, tmp_path / "features.parquet")
        files = (f"--{part}={tmp_path / file}" for part, file in FILES.items())
        assert run("import", *files, "-o", tmp_path / store)[0] == 0
    trained = run("train", tmp_path / "as trained", "-o", tmp_path / "model", "--epochs", 5)
    assert trained[0] == 0
    for store in ("as trained", "moved"):
        assert run("predict", tmp_path / "model", tmp_path / store, "-o", tmp_path / f"{store}.parquet")[0] == 0
    labels = [pq.read_table(tmp_path / f"{store}.parquet")["label"] for store in ("as trained", "moved")]
    assert labels[0] == labels[1]
    code, _, err = run("predict", tmp_path / "model", tmp_path / "other", "-o", tmp_path / "other.csv")
    assert code == 2
    assert "the first is 'age' in the graph and 'f0' in the model" in err


# ---------------------------------------------------------------------- evaluate and describe


def test_evaluate_says_how_good_a_model_is_on_labels_it_has_not_seen(run, place):
    code, out, err = run("evaluate", place / "unsure", place / "store")
    model, graph = NIGCN.load(place / "unsure"), open_store(place / "store")
    score = model.score(graph, np.arange(200, 300))
    assert code == 0
    assert re.search(rf"micro-F1 {100 * score:.2f}% \(100 nodes; 95% interval [\d.]+ to [\d.]+\), macro-F1 ", out)
    assert "precision %" in out
    assert "200 labelled nodes were left out" in err
    code, out, _ = run("evaluate", place / "unsure", place / "store", "--json")
    assert json.loads(out)["micro_f1"] == pytest.approx(score)


def test_evaluate_takes_labels_from_a_file_and_names_one_that_is_missing(run, place, tmp_path):
    (tmp_path / "new.csv").write_text("node,label\n250,1\n251,2\n0,1\n")
    command = ["evaluate", place / "unsure", place / "store", "--json", "--labels"]
    result = json.loads(run(*command, tmp_path / "new.csv")[1])
    assert (result["nodes"], result["left_out"]) == (2, 1)
    code, _, err = run(*command, tmp_path / "none.csv")
    assert code == 2
    assert "none.csv" in err
    assert len(err.splitlines()) == 1


def test_describe_shows_what_a_model_is(run, place, tmp_path):
    code, out, _ = run("describe", place / "unsure")
    assert code == 0
    for part in (
        "300 nodes",
        "8 features, 200 labels",
        "95% interval",
        "3: 0, 1, 2",
        "votes",
        "temperature",
        "nodewise ",
    ):
        assert part in out
    code, out, _ = run("describe", place / "unsure", "--json")
    assert json.loads(out)["learned_from"]["labels"] == 200
    code, _, err = run("describe", tmp_path / "none")
    assert code == 2
    assert "no such model folder" in err
