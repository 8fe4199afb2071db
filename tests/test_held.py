"""Folders that long work fills bit by bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.errors import InputError, StoreError
from nodewise.held import held_folder

HOLD = """
import sys, time
from pathlib import Path
from nodewise.held import held_folder
from nodewise.errors import NodewiseError
try:
    with held_folder(Path(sys.argv[1]), "study", {"seed": int(sys.argv[2])}):
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


def test_what_a_kill_at_the_first_write_leaves_is_no_obstacle(tmp_path):
    (tmp_path / ".arguments.json.partial-0123").write_text("{")
    with held_folder(tmp_path, "study", {"seed": 1}):
        assert (tmp_path / "arguments.json").is_file()
        assert not list(tmp_path.glob(".*partial*"))


def test_another_work_in_the_folder_is_refused(tmp_path):
    with held_folder(tmp_path, "study", {"seed": 1}), pytest.raises(InputError, match="another study is under way"):
        held_folder(tmp_path, "study", {"seed": 1}).__enter__()
    with pytest.raises(StoreError, match="seed is 1 there and 2 here"):
        held_folder(tmp_path, "study", {"seed": 2}).__enter__()


def test_a_work_that_another_process_has_just_begun_is_no_strangers_folder(tmp_path, monkeypatch):
    with held_folder(tmp_path, "study", {"seed": 1}):
        pass
    looks = []

    def is_file(path):
        looks.append(path)
        return len(looks) > 1  # not there yet when it is looked for first

    monkeypatch.setattr(Path, "is_file", is_file)
    with held_folder(tmp_path, "study", {"seed": 1}):
        assert len(looks) > 1
