"""A few of the cases of benchmarks/kills.py, in one process that loads the libraries once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kills.py"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: sessions in /proc, pidfd_open, tmpfs")


def can_mount(place: Path) -> bool:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], check=False, capture_output=True)
    if mounted.returncode == 0:
        subprocess.run(["umount", str(place)], check=True)
    return mounted.returncode == 0


@pytest.fixture(scope="module")
def mountable(tmp_path_factory):
    return can_mount(tmp_path_factory.mktemp("mount"))


@pytest.fixture(scope="module")
def found(tmp_path_factory, mountable):
    """Import and predict: two kills of each, one full disk if possible, one pair."""
    output = tmp_path_factory.mktemp("kills") / "kills.json"
    asked = ["--kills", "2", "--pairs", "1", *(["--full", "2"] if mountable else []), "-o", str(output)]
    command = [sys.executable, str(SCRIPT), "import", "predict", *asked, "--folder", str(output.parent)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "TMPDIR": str(output.parent)})
    assert output.with_suffix(".md").read_text().splitlines()[-1].startswith("| **all** |")
    return json.loads(output.read_text())


@pytest.mark.parametrize("command", ["import", "predict"])
def test_a_killed_command_loses_nothing_and_can_be_run_again(found, command):
    assert found["kills"][command]["kills"] > 0
    assert found["kills"][command].get("violations", {}) == {}


@pytest.mark.parametrize("command", ["import", "predict"])
def test_a_full_disk_is_one_message_and_no_obstacle_later(found, mountable, command):
    if not mountable:
        pytest.skip("a small file system cannot be mounted here (not root, or in a container)")
    assert found["full"][command]["failed"] == 1
    assert found["full"][command].get("violations", {}) == {}


@pytest.mark.parametrize("command", ["import", "predict"])
def test_two_processes_at_once_write_one_sound_output(found, command):
    assert found["pairs"][command]["cases"] == 1
    assert found["pairs"][command].get("violations", {}) == {}
