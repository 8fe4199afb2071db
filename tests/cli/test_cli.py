"""The command line, through its own entry point: what is printed where, and how it ends."""

import inspect
import json
import re
import resource
import subprocess
import sys

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from nodewise import NIGCN, open_store, write_store
from nodewise._util.run_folder import RunFolder
from nodewise.cli import COMMANDS
from nodewise.cli.splitting import SplitOptions, choose_splits
from nodewise.graph import synthetic

OWN = ["--epochs", "20", "--epsilon", "0.1"]
QUICK = [*OWN, "--per-class", "5", "--val", "30", "--test", "50"]


@pytest.fixture
def model(run, store, tmp_path):
    assert run("train", store, "-o", tmp_path / "model", *QUICK)[0] == 0
    return tmp_path / "model"


# ---------------------------------------------------------------------- help


def test_help_is_quick_and_loads_neither_torch_nor_numba():
    """The first call reads the files from disk; the best of five is what a user feels. Processor time: other tests run
    on the other core."""
    code = "import sys; from nodewise.cli import app, main; print('torch' in sys.modules, 'numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "nodewise", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.5


SHARED = {
    "train": ["--split-file", "--omega", "--first-k", "--address"],
    "tune": ["--split-file"],
    "compare": ["--split-file"],
    "predict": ["--address"],
    "embed": ["--address"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(run, command):
    """Options that come from a dataclass are there too."""
    code, out, _ = run(command, "--help")
    assert code == 0
    assert inspect.getdoc(COMMANDS[command][0])[:40] in out
    assert f"Example: nodewise {command} " in out
    assert all(option in out for option in ["--quiet", *SHARED.get(command, [])])


def test_version(run):
    assert run("--version")[1].startswith("nodewise ")


# ---------------------------------------------------------------------- train and predict


def test_train_reports_on_stdout_and_saves_a_model(run, store, tmp_path):
    code, out, err = run("train", store, "-o", tmp_path / "model", *QUICK)
    assert code == 0
    assert "test micro-F1" in out
    assert str(tmp_path / "model") in err
    assert NIGCN.load(tmp_path / "model").epsilon == 0.1


def test_train_json_has_the_documented_shape(run, store, tmp_path):
    code, out, _ = run("train", store, "-o", tmp_path / "m", "--json", "--splits", "2", "--seed", "3", *QUICK)
    result = json.loads(out)
    assert code == 0
    assert {"dataset", "engine", "splits", "test_f1_mean", "test_f1_std", "params", "versions"} <= set(result)
    scores = {"val_f1", "test_f1", "test_macro_f1", "test_log_loss", "test_calibration_error", "test_interval"}
    seconds = {"preparation_seconds", "train_seconds", "seconds"}
    facts = {"split", "sizes", "epochs", "auto_params", "members"}
    assert [set(s) for s in result["splits"]] == [scores | seconds | facts] * 2
    assert np.sum(result["confusion"]) == sum(s["sizes"]["test"] for s in result["splits"])
    assert sum(c["support"] for c in result["classes"]) == np.sum(result["confusion"])
    assert result["test_f1_mean"] == pytest.approx(np.mean([s["test_f1"] for s in result["splits"]]))
    assert result["params"]["epsilon"] == 0.1
    assert result["params"]["seed"] == 3


def test_a_model_that_was_named_is_replaced_only_on_request(run, store, model, monkeypatch):
    """It may have taken hours; the default place is the command's own, and one line says that it is replaced."""
    before = (model / "config.json").read_bytes()
    code, _, err = run("train", store, "-o", model, *QUICK, "--seed", "1")
    assert code == 2
    assert f"{model}: holds a model already; pass --overwrite" in one_line(err)
    assert (model / "config.json").read_bytes() == before
    code, _, err = run("train", store, "-o", model, *QUICK, "--seed", "1", "--overwrite")
    assert code == 0
    assert f"the model in {model} will be replaced" in err
    assert (model / "config.json").read_bytes() != before
    monkeypatch.chdir(model.parent)
    assert "replaced" not in run("train", store, *QUICK)[2]
    code, _, err = run("train", store, *QUICK)
    assert code == 0
    assert "the model in store-model will be replaced" in err


@pytest.mark.parametrize("source", ["from-a-stranger", "./from-a-stranger/", "from-a-stranger.npz"])
def test_a_model_is_named_after_what_was_typed_and_not_after_a_name_inside_of_it(
    run, store, model, monkeypatch, source
):
    """The stranger's graph calls itself as another does, whose model it would replace."""
    monkeypatch.chdir(store.parent)
    model.rename("mine-model")
    before = (model.parent / "mine-model" / "config.json").read_bytes()
    graph = open_store(store).replace(name="mine")
    if source.endswith(".npz"):
        np.savez(source, edge_index=graph.to_scipy().nonzero(), x=graph.features, y=graph.labels)
    else:
        write_store(graph, source)
    assert run("train", source, *QUICK, "--seed", "1")[0] == 0
    assert (model.parent / "mine-model" / "config.json").read_bytes() == before
    assert NIGCN.load("from-a-stranger-model").epsilon == 0.1


def test_of_two_that_train_a_model_of_one_name_the_second_is_refused_at_once(run, store, tmp_path):
    with RunFolder(tmp_path / ".model.train", "training", {}, ours=None).locked():
        code, _, err = run("train", store, "-o", tmp_path / "model", *QUICK)
    assert code == 2
    assert f"{tmp_path / 'model'}: another training is under way" in one_line(err)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert run("train", store, "-o", tmp_path / "model", *QUICK)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"store", "model"}


def test_a_split_file_decides_which_nodes_are_used(run, store, tmp_path):
    parts = np.random.default_rng(0).permutation(300)
    np.savez(tmp_path / "split.npz", train=parts[:60][None], val=parts[60:120][None], test=parts[120:][None])
    code, out, _ = run(
        "train", store, "--split-file", tmp_path / "split.npz", "-o", tmp_path / "m", "--epochs", "50", "--json"
    )
    assert code == 0
    graph = open_store(store)
    scored = NIGCN.load(tmp_path / "m").score(graph, parts[120:])
    assert json.loads(out)["test_f1_mean"] == pytest.approx(scored)


def test_a_split_file_without_training_nodes_is_one_line(run, store, tmp_path):
    (tmp_path / "parts.csv").write_text("node,part\n1,val\n2,test\n")
    code, _, err = run("train", store, "--split-file", tmp_path / "parts.csv", "-o", tmp_path / "m")
    assert code == 2
    assert f"{tmp_path / 'parts.csv'}: has no training node; expected some nodes to learn from" in one_line(err)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predict_writes_one_row_per_node(run, store, model, tmp_path, suffix):
    out = tmp_path / f"labels{suffix}"
    assert run("predict", model, store, "-o", out)[0] == 0
    table = (pyarrow.csv.read_csv if suffix == ".csv" else pyarrow.parquet.read_table)(out)
    assert table.column_names == ["node", "label", "probability", "known"]
    fitted, graph = NIGCN.load(model), open_store(store)
    assert np.array_equal(table["node"], np.arange(300))
    assert np.array_equal(table["label"], fitted.predict(graph))
    assert np.allclose(table["probability"], fitted.predict_proba(graph).max(1), atol=1e-6)


def test_own_files_with_names_come_back_with_names(run, tmp_path):
    """Three commands: import, train, predict."""
    graph = synthetic.dcsbm(200, avg_degree=8, classes=2, features=6, signal=3.0, seed=1)
    matrix = graph.to_scipy().tocoo()
    edges = "".join(f"n{u},n{v}\n" for u, v in zip(matrix.row, matrix.col, strict=True) if u < v)
    (tmp_path / "edges.csv").write_text("from,to\n" + edges)
    rows = "".join(f"n{i}," + ",".join(map(str, row)) + "\n" for i, row in enumerate(graph.features))
    (tmp_path / "x.csv").write_text("node,a,b,c,d,e,f\n" + rows)
    kinds = "".join(f"n{i},{'cat' if y else 'dog'}\n" for i, y in enumerate(graph.labels[:150]))
    (tmp_path / "y.csv").write_text("node,label\n" + kinds)
    files = ["--edges", tmp_path / "edges.csv", "--features", tmp_path / "x.csv", "--labels", tmp_path / "y.csv"]
    assert run("import", *files, "-o", tmp_path / "pets")[0] == 0
    assert run("train", tmp_path / "pets", "-o", tmp_path / "model", *QUICK)[0] == 0
    assert run("predict", tmp_path / "model", tmp_path / "pets", "-o", tmp_path / "out.parquet")[0] == 0
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert {row["node"] for row in table} == {f"n{i}" for i in range(200)}
    truth = {f"n{i}": "cat" if y else "dog" for i, y in enumerate(graph.labels)}
    assert np.mean([truth[row["node"]] == row["label"] for row in table]) > 0.9


def test_several_labels_give_one_row_each(run, tmp_path):
    graph = synthetic.dcsbm(200, avg_degree=8, classes=2, features=6, signal=3.0, seed=1)
    several = np.stack([graph.labels == 0, graph.labels == 1, np.ones(200)], axis=1).astype(np.int8)
    write_store(graph.replace(labels=several), tmp_path / "store")
    assert (
        run("train", tmp_path / "store", "-o", tmp_path / "m", *QUICK, "--weight-decay", "0", "--epochs", "200")[0] == 0
    )
    assert run("predict", tmp_path / "m", tmp_path / "store", "-o", tmp_path / "out.csv")[0] == 0
    labels = pyarrow.csv.read_csv(tmp_path / "out.csv")["label"].to_pylist()
    assert labels.count(2) == 200
    assert 350 < len(labels) < 450


# ---------------------------------------------------------------------- info, datasets, verify


def test_info_describes_the_graph(run, store):
    code, out, _ = run("info", store, "--json")
    report, graph = json.loads(out), open_store(store)
    assert code == 0
    assert (report["nodes"], report["edges"]) == (300, graph.num_edges)
    matrix = graph.to_scipy().tocoo()
    ends = [(u, v) for u, v in zip(matrix.row, matrix.col, strict=True) if u != v]
    same = np.mean([graph.labels[u] == graph.labels[v] for u, v in ends])
    assert report["labels"]["edge_homophily"] == pytest.approx(same)
    assert report["plan"]["engine"] in ("exact", "stratified")
    assert "edge homophily" in run("info", store)[1]


def test_the_plan_is_for_the_depth_asked_for(run, tmp_path):
    """An exact hop takes as long as any other."""
    write_store(synthetic.dcsbm(20_000, avg_degree=10, features=8, seed=0), tmp_path / "large")

    def seconds(tau):
        report = json.loads(run("info", tmp_path / "large", "--json", "--epsilon", "0.3", "--tau", tau)[1])
        return report["lengths"]["paper"]["max"], report["plan"]["seconds"]["exact"]

    (few, quick), (many, slow) = seconds("1"), seconds("4")
    assert many > 3 * few
    assert slow / quick == pytest.approx(many / few, rel=0.1)


def test_datasets_lists_the_papers_seven(run):
    rows = json.loads(run("datasets", "--json")[1])
    assert sum(row["in_paper"] for row in rows) == 7
    assert "pubmed" in run("datasets")[1]


def test_verify_names_the_bad_block(run, store):
    assert run("verify", store)[0] == 0
    with open(store / "indices.npy", "r+b") as file:
        file.seek(300)
        byte = file.read(1)
        file.seek(300)
        file.write(bytes([byte[0] ^ 1]))
    code, _, err = run("verify", store)
    assert code == 2
    assert "indices.npy" in err
    assert "block" in err


# ---------------------------------------------------------------------- what goes wrong


def one_line(err):
    lines = [line for line in err.splitlines() if line.startswith("nodewise: ") and "compiling" not in line]
    assert len(lines) == 1, err
    return lines[0]


BAD = {
    "epsilon too large": (["--epsilon", "1"], "--epsilon 1.0"),
    "tau of zero": (["--tau", "0"], "--tau 0.0"),
    "a sum that does not exist": (["--rho", "0", "--omega", "1"], "no finite sum"),
    "an engine of its own": (["--engine", "steam"], "--engine steam"),
    "more nodes than there are": (["--per-class", "200"], "per"),
    "a preset of its own": (["--preset", "mars"], "neither a file nor one of the presets"),
    "a split file that is not there": (["--split-file", "none.npz"], "none.npz"),
    "no official split": (["--split", "official"], "official"),
}


@pytest.mark.parametrize("case", BAD, ids=lambda name: name.replace(" ", "-"))
def test_bad_input_is_one_line_and_exit_code_2(run, store, tmp_path, case):
    options, message = BAD[case]
    code, out, err = run("train", store, "-o", tmp_path / "never", *options)
    assert code == 2
    assert out == ""
    assert message in one_line(err)
    assert not (tmp_path / "never").exists()


def test_wrong_usage_is_exit_code_2(run, store):
    assert run("train", store, "--splits", "2", "--split", "official")[0] == 2
    assert run("train")[0] == 2
    assert run("train", store, "--no-such-option")[0] == 2
    assert run("fly")[0] == 2


def test_an_unknown_source_lists_what_is_known(run):
    code, _, err = run("info", "pubmedd")
    assert code == 2
    assert "pubmed" in one_line(err)


def test_an_altered_store_or_model_is_refused(run, store, model, tmp_path):
    data = bytearray((model / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (model / "model.safetensors").write_bytes(data)
    code, _, err = run("predict", model, store, "-o", tmp_path / "out.csv")
    assert (code, (tmp_path / "out.csv").exists()) == (2, False)
    assert "model.safetensors" in one_line(err)
    (store / "features.npy").write_bytes((store / "features.npy").read_bytes()[:-1])
    code, _, err = run("info", store)
    assert code == 2
    assert "features.npy" in one_line(err)


def test_nodes_that_do_not_exist_are_named(run, store, model, tmp_path):
    (tmp_path / "nodes.txt").write_text("7\n300\n")
    code, _, err = run("predict", model, store, "--nodes", tmp_path / "nodes.txt", "-o", tmp_path / "out.csv")
    assert code == 2
    assert "line 2 is '300'" in one_line(err)
    assert not (tmp_path / "out.csv").exists()


def test_import_names_the_file_and_leaves_nothing_behind(run, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2.5\n")
    code, _, err = run("import", "--edges", tmp_path / "edges.csv", "--ids", "integers", "-o", tmp_path / "store")
    assert code == 2
    assert "edges.csv" in one_line(err)
    assert [p.name for p in tmp_path.iterdir()] == ["edges.csv"]


def test_an_unexpected_error_is_one_line_and_exit_code_1(run, store, monkeypatch):
    import nodewise.report.describe

    def fail(*_, **__):
        raise RuntimeError("the roof fell in")

    monkeypatch.setattr(nodewise.report.describe, "describe", fail)
    code, _, err = run("info", store)
    assert code == 1
    assert "the roof fell in" in one_line(err)


def test_the_split_of_ones_own_graph_is_shown_with_its_sizes(run, store, tmp_path):
    code, out, _ = run("train", store, "-o", tmp_path / "m", *OWN)
    assert code == 0
    assert re.search(r"random within each class \(seed 0\), \d+ training, \d+ validation and \d+ test nodes", out)
    assert re.search(r"test micro-F1 [\d.]+% \(\d+ test nodes; 95% interval [\d.]+ to [\d.]+\)", out)


def test_the_seed_decides_which_labels_of_ones_own_graph_are_held_out(store):
    graph = open_store(store)
    first, again, other = (choose_splits(graph, str(store), SplitOptions(), seed).splits[0] for seed in (1, 1, 2))
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)


def test_training_on_everything_leaves_no_score(run, store, tmp_path):
    everything = ["--per-class", "50", "--val", "0", "--test", "0"]
    code, out, _ = run("train", store, "-o", tmp_path / "m", *everything, "--json", "--epochs", "5")
    result = json.loads(out)
    assert code == 0
    assert result["test_f1_mean"] is None
    assert result["splits"][0]["val_f1"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split-file", "s.npz", "--per-class", "3"], "--per-class is for random splits"),
        (["--address", "auto"], "--address auto: this is for a Ray cluster; pass --on ray too"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(run, store, tmp_path, options, message):
    code, _, err = run("train", store, "-o", tmp_path / "m", *options)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ('{"omega": -1}', "omega=-1: expected a number above 0"),
        ('{"row_norm": "l7"}', "row_norm='l7'"),
        ('{"teach": "yes"}', "teach='yes': expected True or False"),
        ('{"layers": true}', "layers=True: expected a number, or 'auto'"),
        ('{"diffusion": {"first_k": "no"}}', "first_k='no': expected True or False"),
    ],
)
def test_a_preset_with_a_value_that_cannot_be_is_named(run, store, tmp_path, params, message):
    file = tmp_path / "p.json"
    file.write_text(f'{{"format": "nodewise-preset", "format_version": 1, "dataset": "x", "params": {params}}}')
    code, _, err = run("train", store, "-o", tmp_path / "m", "--preset", file)
    assert code == 2
    assert f"--preset {file}: {message}" in err


def test_a_place_that_is_not_writable_is_named_before_training(run, store, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    code, _, err = run("train", store, "-o", tmp_path / "m")
    assert code == 2
    assert "is not writable" in err
    assert "training on" not in err


def test_train_says_what_it_chose_and_on_which_nodes(run, store, tmp_path):
    code, out, _ = run("train", store, "-o", tmp_path / "m", "--epochs", "5", "--omega", "auto", "--rho", "0.5")
    assert code == 0
    assert re.search(
        r"chosen on validation nodes: omega [\d.]+, epsilon 0\.01, feature_norm \w+, hops \d+, engine", out
    )
    assert "rho" not in out.split("chosen on")[1].splitlines()[0]
    code, out, _ = run("train", store, "-o", tmp_path / "n", "--epochs", "5", "--val", "0", "--test", "20")
    assert code == 0
    assert "chosen on training nodes, each left out in turn: omega" in out


def test_after_the_score_the_model_of_ones_own_graph_is_trained_on_all_labels(run, store, tmp_path):
    """The saved model is trained on test labels too, and keeps what was predicted for them before."""
    code, out, _ = run("train", store, "-o", tmp_path / "m", "--json", *OWN)
    result = json.loads(out)
    assert code == 0
    assert result["refit"]
    sizes = result["splits"][0]["sizes"]
    assert sum(sizes.values()) == 300
    model, graph = NIGCN.load(tmp_path / "m"), open_store(store)
    tested = model.held_out_.nodes.size - sizes["val"]
    assert tested == sizes["test"]
    said = model.classes_[model.held_out_.proba[-tested:].argmax(1)]
    truth = graph.labels[model.held_out_.nodes[-tested:]]
    assert np.mean(said == truth) == pytest.approx(result["test_f1_mean"])
    code, out, _ = run("train", store, "-o", tmp_path / "n", "--json", "--no-refit", *OWN)
    assert not json.loads(out)["refit"]
    assert NIGCN.load(tmp_path / "n").held_out_.nodes.size == sizes["val"]


def test_without_a_terminal_each_stage_is_one_line(run, store, tmp_path):
    _, _, err = run("train", store, "-o", tmp_path / "m", *OWN)
    lines = err.splitlines()
    assert re.match(r"training on .*: about \d+ \w+ expected", lines[0])
    assert lines[1:5] == ["search …", "rows …", "training …", "refit …"]


@pytest.mark.parametrize(("option", "kind"), [("--omega", "number"), ("--layers", "whole number")])
def test_a_word_where_a_number_or_auto_belongs_is_one_message(run, store, tmp_path, option, kind):
    code, _, err = run("train", store, "-o", tmp_path / "m", option, "deep")
    assert code != 0
    assert f"{option} deep: expected a {kind}, or auto" in err
    assert not (tmp_path / "m").exists()


def test_ctrl_c_in_training_says_that_nothing_is_kept(run, store, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nodewise.learn.evaluate.evaluate", interrupted)
    code, _, err = run("train", store, "-o", tmp_path / "model")
    assert code == 130
    assert f"{tmp_path / 'model'}: no model was saved and nothing is kept; the same command starts over" in err


def test_verifying_a_file_says_that_a_store_is_a_folder(run, tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n")
    code, _, err = run("verify", tmp_path / "edges.csv")
    assert code == 2
    assert "edges.csv: this is a file; expected a store, which is a folder" in err
