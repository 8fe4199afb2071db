"""Temporary folders: gone at the end, removed after a kill, and left alone while their process lives."""

import contextlib
import os
import subprocess
import sys
import tempfile

import pytest

from nodewise._util.temporary import temporary_folder

HOLD = """
import sys
from nodewise._util.temporary import temporary_folder
with temporary_folder() as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_temporary_folder_goes_at_the_end_and_after_an_error(place):
    with contextlib.suppress(FileNotFoundError), temporary_folder() as folder:
        assert folder.parent == place
        raise FileNotFoundError
    assert os.listdir(place) == []


def test_a_killed_process_leaves_its_folder_only_until_the_next_one(place):
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=-1, stdout=-1, text=True) as process:
        left = process.stdout.readline().strip()
        with temporary_folder():
            assert os.path.exists(f"{left}/file")  # its process lives
        process.kill()
        process.wait()
    assert os.path.exists(left)
    with temporary_folder() as mine:
        assert os.listdir(place) == [mine.name]
