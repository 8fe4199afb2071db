"""Commands where nothing can be cached: no home folder, and a package that cannot be written to."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import nodewise


@pytest.fixture
def elsewhere(tmp_path):
    """The environment of a user without a home folder; temporary files go below ``tmp_path``."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "file").touch()
    dropped = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    # A home below a file cannot be made by anyone, not even by root.
    return {
        **kept,
        "HOME": str(tmp_path / "file" / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.fixture
def read_only(tmp_path):
    """A copy of the package in which no folder for compiled code can be made."""
    place = tmp_path / "site" / "nodewise"
    shutil.copytree(Path(nodewise.__file__).parent, place, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [place, *(entry for entry in place.rglob("*") if entry.is_dir())]:
        (folder / "__pycache__").touch()  # a file: not even root can make the folder
    return place.parent


def test_without_any_writable_cache_commands_load_their_kernels(elsewhere, read_only, tmp_path):
    command = [sys.executable, "-m", "nodewise", "describe", str(tmp_path / "model")]
    done = subprocess.run(
        command, env={**elsewhere, "PYTHONPATH": str(read_only)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no such model folder" in done.stderr
    assert "numba" not in done.stderr


def test_compiled_code_of_others_is_never_loaded(elsewhere, read_only, tmp_path):
    """Who can write to a cache of compiled code can run theirs: the folder is the user's own, and only theirs."""
    environment = {**elsewhere, "PYTHONPATH": str(read_only)}
    look = [sys.executable, "-c", "import nodewise.graph.edge_keys, os; print(os.environ['NUMBA_CACHE_DIR'])"]
    first, again = (Path(subprocess.check_output(look, env=environment, text=True).strip()) for _ in range(2))
    assert first == again
    assert first.is_relative_to(tmp_path / "tmp")
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    first.chmod(0o777)
    other = Path(subprocess.check_output(look, env=environment, text=True).strip())
    assert other != first
    assert not other.exists()  # it went with its process


def test_a_usual_cache_is_left_alone(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    look = [sys.executable, "-c", "import nodewise.graph.edge_keys, os; print(os.environ.get('NUMBA_CACHE_DIR'))"]
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    assert subprocess.check_output(look, env=environment, text=True).strip() == "None"
