"""Folders that long work fills bit by bit, and locks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nodewise._util.errors import InputError, StoreError
from nodewise._util.run_folder import RunFolder, difference, locked, locked_run_dir

HOLD = """
import sys, time
from pathlib import Path
from nodewise._util.run_folder import locked_run_dir
from nodewise._util.errors import NodewiseError
try:
    with locked_run_dir(Path(sys.argv[1]), "study", {"seed": int(sys.argv[2])}):
        print("held", flush=True)
        time.sleep(1.5)
except NodewiseError:
    print("refused", flush=True)
"""


def test_of_processes_that_come_at_once_one_has_the_folder(tmp_path):
    for attempt in range(3):
        place = tmp_path / str(attempt)
        started = [
            subprocess.Popen([sys.executable, "-c", HOLD, str(place), str(seed)], stdout=subprocess.PIPE, text=True)
            for seed in range(3)
        ]
        assert sorted(process.communicate()[0].strip() for process in started) == ["held", "refused", "refused"]


def test_a_lock_that_a_dead_process_left_blocks_nobody(tmp_path):
    """Else a user would have to find and delete a hidden file after every crash."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path), "1"], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(InputError, match="another study is under way in this folder; wait until it ends, or choose"):
        locked_run_dir(tmp_path, "study", {"seed": 1}).__enter__()
    holder.kill()
    assert holder.wait() == -signal.SIGKILL
    assert (tmp_path / ".lock").exists()
    with locked_run_dir(tmp_path, "study", {"seed": 1}):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["arguments.json"]


def test_a_lock_without_a_message_is_waited_for(tmp_path):
    at_work, most = 0, 0

    def work():
        nonlocal at_work, most
        for _ in range(20):
            with locked(tmp_path / "lock"):
                at_work += 1
                most = max(most, at_work)
                at_work -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, list(tmp_path.iterdir())) == (1, [])


def test_what_a_kill_at_the_first_write_leaves_is_no_obstacle(tmp_path):
    (tmp_path / ".arguments.json.partial-0123abcd").write_text("{")
    with locked_run_dir(tmp_path, "study", {"seed": 1}):
        assert (tmp_path / "arguments.json").is_file()
        assert not list(tmp_path.glob(".*partial*"))


def test_another_work_in_the_folder_is_refused(tmp_path):
    with locked_run_dir(tmp_path, "study", {"seed": 1}), pytest.raises(InputError, match="another study is under way"):
        locked_run_dir(tmp_path, "study", {"seed": 1}).__enter__()
    with pytest.raises(StoreError, match="seed is 1 there and 2 here"):
        locked_run_dir(tmp_path, "study", {"seed": 2}).__enter__()


def test_a_work_that_another_process_has_just_begun_is_no_strangers_folder(tmp_path, monkeypatch):
    with locked_run_dir(tmp_path, "study", {"seed": 1}):
        pass
    looks = []

    def is_file(path):
        looks.append(path)
        return len(looks) > 1  # not there yet when it is looked for first

    monkeypatch.setattr(Path, "is_file", is_file)
    with locked_run_dir(tmp_path, "study", {"seed": 1}):
        assert len(looks) > 1


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"seed": 1', '"seed": 2'),
        lambda text: text.replace('"trials": 5', '"trials": 6'),
        lambda text: text.replace("nodewise-study", "nodewise-comparison"),
        lambda text: text[:40],
        lambda text: "[1]",
        lambda text: "",
    ],
)
def test_a_file_that_was_altered_or_damaged_is_named(tmp_path, change):
    """An identity that was edited would make results of two different runs look like those of one."""
    run = RunFolder(tmp_path, "study", {"seed": 1})
    run.save({"trials": 5})
    assert run.read() == {"trials": 5}
    file = tmp_path / "arguments.json"
    file.write_text(change(file.read_text()))
    for seed in (1, 2):
        with pytest.raises(
            StoreError, match=r"arguments\.json: does not say which study this is .*choose another folder"
        ):
            RunFolder(tmp_path, "study", {"seed": seed}).read()


def test_an_identity_is_the_same_after_a_way_through_json(tmp_path):
    for _ in range(2):
        with locked_run_dir(tmp_path, "study", {"sizes": (1, 2), "name": "é", "rate": 1e-300}):
            pass


def test_only_what_the_work_writes_is_overwritten(tmp_path):
    RunFolder(tmp_path, "study", {"seed": 1}).save({})
    (tmp_path / "trials").write_text("")
    (tmp_path / "thesis.tex").write_text("")
    other = RunFolder(tmp_path, "study", {"seed": 2}, ours="trials")
    with pytest.raises(StoreError, match=r"holds 'thesis\.tex' and is no study of nodewise"):
        other.read(overwrite=True)
    (tmp_path / "thesis.tex").unlink()
    assert other.read(overwrite=True) is None
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_leaves_nothing_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="stop"), RunFolder(tmp_path / "a" / "b", "study", {}).locked():
        raise ValueError("stop")
    assert list(tmp_path.iterdir()) == []


def test_what_differs_is_told_in_short():
    there = {"seed": 1, "same": 0, "files": [["a" * 70, 1]], "model": "0" * 64, "gone": [1]}
    here = {"seed": 2, "same": 0, "files": [["a" * 70, 2]], "model": "1" * 64}
    assert difference(there, json.loads(json.dumps(here))) == (
        "seed is 1 there and 2 here, files is not the same, model is 000000000000… there and 111111111111… here, "
        "gone is [1] there and None here"
    )
