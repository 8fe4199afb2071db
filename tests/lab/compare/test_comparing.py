"""Comparisons as a library call: what fails is a row, finished work is kept, other arguments are refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from models import PLAIN
from nodewise import InputError, StoreError, write_store
from nodewise.diffusion.params import DiffusionConfig
from nodewise.formats.split_file import read_split_file
from nodewise.graph import synthetic
from nodewise.graph.splits import random_splits
from nodewise.lab.compare import compare
from nodewise.lab.compare.result_files import Folder
from nodewise.lab.compare.settings import model_of, plain
from nodewise.lab.rivals import method
from nodewise.learn.evaluate import evaluate

FAST = {
    "NIGCN": {**PLAIN, "epochs": 20, "diffusion": DiffusionConfig(convention="reference")},
    "SGC": {"epochs": 20},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store, two splits of it, and the folder of a finished comparison; nobody writes here."""
    folder = tmp_path_factory.mktemp("comparison")
    graph = synthetic.dcsbm(300, avg_degree=8, classes=3, features=8, signal=2.0, seed=0)
    write_store(graph, folder / "store")
    splits = random_splits(graph.labels, 2, per_class=5, val=30, test=50)
    steps = []
    made = compare(
        str(folder / "store"), folder / "done", ["nigcn"], splits, settings=FAST, threads=1, progress=steps.append
    )
    return SimpleNamespace(store=str(folder / "store"), done=folder / "done", splits=splits, made=made, steps=steps)


@pytest.fixture
def again(place, tmp_path, monkeypatch):
    """Continue in a copy of the finished folder with some arguments changed; ``without``: results to delete first."""
    monkeypatch.setattr("nodewise.lab.compare.score_plot.draw", lambda *_: False)  # tested elsewhere, and slow

    def call(methods=("NIGCN",), without=(), **changes):
        if not (tmp_path / "copy").exists():
            shutil.copytree(place.done, tmp_path / "copy")
        for file in without:
            (tmp_path / "copy" / "results" / file).unlink()
        usual = dict(source=place.store, splits=place.splits, settings=FAST, threads=1)
        return compare(folder=tmp_path / "copy", methods=methods, **{**usual, **changes})

    call.folder = tmp_path / "copy"
    return call


def in_worker(action):
    """A progress callback that calls ``action`` with the worker's id, once there is one."""

    def progress(step):
        if step.pid is not None:
            action(step.pid)

    return progress


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---------------------------------------------------------------------- what comes out


def test_a_row_is_what_evaluate_gives_on_the_same_splits(place):
    from nodewise import open_store

    expected = evaluate(method("NIGCN")(**FAST["NIGCN"], threads=1), open_store(place.store), place.splits)
    row = place.made.row("nigcn")
    assert [s.test_f1 for s in row.splits] == expected.test_f1
    assert [s.val_f1 for s in row.splits] == [s.val_f1 for s in expected.splits]
    assert (row.test_f1_mean, row.test_f1_std) == (expected.test_f1_mean, expected.test_f1_std)
    assert row.epochs == np.mean([s.epochs for s in expected.splits])
    assert (row.complete, row.note) == (True, "")
    assert row.seconds == pytest.approx(row.preparation_seconds + row.train_seconds)
    assert row.params == plain({**expected.best.get_params(), "seed": 0})
    assert 50e6 < row.peak_memory < 50e9


def test_the_folder_says_how_the_numbers_were_made(place):
    content = json.loads((place.done / "comparison.json").read_text())
    assert content == json.loads(json.dumps(place.made.to_json()))
    assert (content["graph"]["nodes"], content["graph"]["features"], content["graph"]["classes"]) == (300, 8, 3)
    assert content["machine"]["cores"] >= 1
    assert content["versions"]["nodewise"]
    kept = read_split_file(place.done / "splits.npz", 300)
    assert [[part.tolist() for part in split] for split in kept] == [[p.tolist() for p in s] for s in place.splits]
    assert not list(place.done.rglob("*.partial-*"))


def test_progress_names_the_worker_and_ends_with_the_row(place):
    pids = {step.pid for step in place.steps} - {None}
    assert len(pids) == 1
    assert os.getpid() not in pids
    assert not alive(*pids)
    assert [step.row for step in place.steps if step.row] == place.made.rows


# ---------------------------------------------------------------------- what goes wrong is a row


def test_a_method_that_fails_is_a_row_with_its_message_and_others_still_run(again):
    made = again(["NIGCN", "SGC"], settings={**FAST, "SGC": {"hops": -1}})
    assert [row.method for row in made.rows] == ["SGC", "NIGCN"]  # the paper's order
    failed = made.row("SGC")
    assert failed.problem == failed.note == "hops=-1: expected a whole number of at least 0"
    assert (failed.splits, failed.test_f1_mean, failed.seconds) == ([], None, None)
    assert made.row("NIGCN").complete
    assert "Traceback" in Folder(again.folder).log("SGC").read_text()
    assert failed.problem in (again.folder / "comparison.md").read_text()


def test_a_failure_is_not_explained_by_the_message_of_an_earlier_one(again, tmp_path, monkeypatch):
    assert again(["SGC"], settings={"SGC": {"hops": -1}}).row("SGC").problem.startswith("hops=-1")
    (tmp_path / "speechless").write_text("#!/bin/sh\nread task\nexit 3\n")
    (tmp_path / "speechless").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "speechless"))
    assert again(["SGC"]).row("SGC").problem == "ended with exit code 3; see results/SGC/log.txt"


def test_a_killed_worker_is_a_row_that_says_so(again):
    kill = in_worker(lambda pid: os.kill(pid, signal.SIGKILL))
    made = again(["NIGCN", "SGC"], progress=kill)
    assert "killed, most likely for lack of memory" in made.row("SGC").note
    assert made.row("NIGCN").complete
    crashed = again(["SGC"], progress=in_worker(lambda pid: os.kill(pid, signal.SIGSEGV)))
    assert "SIGSEGV" in crashed.row("SGC").note


def test_out_of_time_leaves_the_mean_of_the_splits_that_were_finished(again, place):
    workers = []
    made = again(["NIGCN"], without=["NIGCN/split-001.json"], budget=0.3, progress=in_worker(workers.append))
    row = made.row("NIGCN")
    assert row.note == "1 of 2 splits: stopped after its budget of 0.3 s"
    assert row.test_f1_mean == place.made.rows[0].splits[0].test_f1
    assert not alive(workers[0])


# ---------------------------------------------------------------------- continuing


def test_the_same_call_makes_only_what_is_missing(again, place):
    workers = []
    made = again(progress=in_worker(workers.append))
    assert (made.rows, workers) == (place.made.rows, [])
    kept = (again.folder / "results/NIGCN/split-000.json").stat().st_mtime_ns
    made = again(without=["NIGCN/split-001.json"], progress=in_worker(workers.append))
    assert (again.folder / "results/NIGCN/split-000.json").stat().st_mtime_ns == kept
    assert [s.test_f1 for s in made.rows[0].splits] == [s.test_f1 for s in place.made.rows[0].splits]
    assert len(set(workers)) == 1


def test_settings_that_are_kept_as_json_are_the_same_settings(place, tmp_path):
    """Whatever a tuple becomes on its way through a file."""
    settings = {"SGC": {"hops": (1, 2)}}
    row = compare(place.store, tmp_path / "new", ["SGC"], place.splits, settings=settings, budget=0.1).row("SGC")
    assert row.params == {"hops": [1, 2], "seed": 0}


def test_a_method_made_from_kept_settings_is_the_one_that_was_asked_for():
    """The worker reads settings from JSON, where a configuration is a dictionary, which NIGCN would refuse."""
    asked = {**FAST["NIGCN"], "diffusion": DiffusionConfig(convention="reference", first_k=False, length=3)}
    made = model_of("NIGCN", plain(asked), threads=1).get_params()
    assert {name: made[name] for name in asked} == asked
    assert made["threads"] == 1


def test_an_interrupt_ends_the_worker_and_the_same_call_continues(again):
    workers = []

    def interrupt(pid):
        workers.append(pid)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        again(["NIGCN", "SGC"], progress=in_worker(interrupt))
    assert not alive(workers[0])
    assert again().row("NIGCN").complete


def test_a_second_comparison_in_the_same_folder_is_refused_while_the_first_is_under_way(again):
    def second(_):
        with pytest.raises(InputError, match="another comparison is under way in this folder"):
            again()

    done = again(without=["NIGCN/split-001.json"], progress=in_worker(second))
    assert done.row("NIGCN").complete
    assert again().row("NIGCN").complete  # and let in when it is over


def test_a_worker_ends_when_its_parent_is_killed(place, tmp_path):
    start = (
        "import os, subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'nodewise.lab.compare.worker', str(os.getpid())]\n"
        "print(subprocess.Popen(command, stdin=subprocess.PIPE).pid, flush=True)\n"
        "time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE)
    worker = int(parent.stdout.readline())
    assert alive(worker)
    parent.kill()
    parent.wait()
    ended = time.monotonic() + 10
    while alive(worker) and time.monotonic() < ended:
        time.sleep(0.1)
    assert not alive(worker)


def test_a_worker_that_ends_before_its_task_is_written_is_a_row(again, monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    long = [{**FAST, "SGC": {"epochs": 20, "feature_norm": "l1" + " " * size}} for size in (0, 1 << 20)]
    for settings in long:  # more than a pipe holds, too
        row = again(["SGC"], settings=settings).row("SGC")
        assert row.problem == "ended with exit code 1; see results/SGC/log.txt"


def other_graph(place, tmp_path):
    write_store(synthetic.dcsbm(300, classes=3, features=8, seed=1), tmp_path / "other")
    return {"source": str(tmp_path / "other")}


CHANGES = {
    "graph": (other_graph, "graph is 300 nodes"),
    "splits": (lambda place, _: {"splits": place.splits[:1]}, "splits is"),
    "seed": (lambda *_: {"seed": 1}, "seed is 0 there and 1 here"),
    "threads": (lambda *_: {"threads": 2}, "threads is 1 there and 2 here"),
    "inductive": (lambda *_: {"inductive": True}, "inductive is False there and True here"),
    "settings": (lambda *_: {"settings": {"NIGCN": {"epochs": 20}}}, "epsilon is 0.1 there and None here"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_arguments_are_refused_with_what_differs(again, place, tmp_path, change):
    how, message = CHANGES[change]
    with pytest.raises(StoreError, match=f"{message}.*choose another folder"):
        again(**how(place, tmp_path))
    assert again().rows == place.made.rows


def test_a_folder_of_something_else_is_left_alone(place, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreError, match=r"holds 'thesis\.txt' and is no comparison"):
        compare(place.store, tmp_path, ["SGC"], place.splits)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_result_is_named(again, place):
    assert again().rows == place.made.rows
    file = again.folder / "results/NIGCN/split-000.json"
    file.write_text(file.read_text()[:100])
    with pytest.raises(StoreError, match=r"split-000\.json.*delete it"):
        again()


@pytest.mark.parametrize(
    "change",
    [{"test_f1": "good"}, {"test_f1": 1e300}, {"epochs": None}, {"train_seconds": -1}, {"settings": []}, {"sizes": 3},
     {"peak_memory": "much"}, {"auto_params": [1]}, {"members": {"a": "b"}}],
)  # fmt: skip
def test_a_result_that_no_method_writes_is_named(again, place, change):
    assert again().rows == place.made.rows
    file = again.folder / "results/NIGCN/split-000.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(StoreError, match=r"split-000\.json.*delete it"):
        again()


def test_a_pipe_in_the_place_of_the_log_holds_nobody_up(again, monkeypatch):
    again()
    (again.folder / "results/SGC").mkdir()
    os.mkfifo(again.folder / "results/SGC/log.txt")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert again(["SGC"]).row("SGC").problem.startswith("ended with exit code 1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ["gnc"]}, "gnc: no such method"),
        ({"methods": []}, "methods: none given"),
        ({"splits": []}, "splits: none given"),
        ({"budget": 0}, "budget=0"),
        ({"budget": float("nan")}, "budget=nan"),
        ({"threads": 0}, "threads=0"),
        ({"settings": {"mars": {}}}, "mars: no such method"),
        ({"settings": {"SGC": {"hops": object()}}}, "settings of SGC: expected numbers"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(place, tmp_path, changes, message):
    usual = dict(source=place.store, folder=tmp_path / "new", methods=["SGC"], splits=place.splits)
    with pytest.raises(InputError, match=message):
        compare(**{**usual, **changes})
    assert not (tmp_path / "new").exists()


def test_splits_of_several_sizes_are_refused(place, tmp_path):
    uneven = [place.splits[0], place.splits[1]._replace(test=place.splits[1].test[:-1])]
    with pytest.raises(InputError, match="sizes differ"):
        compare(place.store, Path(tmp_path / "new"), ["SGC"], uneven)
