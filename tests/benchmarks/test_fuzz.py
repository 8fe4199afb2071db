"""benchmarks/fuzz.py: a minute of damaged files for all readers, and that cases can be seen again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("workers are forked, and memory is read from /proc", allow_module_level=True)

from fuzz_damage import KNOWN, damaged
from fuzz_readers import READERS

ROOT = Path(__file__).parents[2]
CASES = 15  # of each reader: about a minute in all
# The same cases each time, so that a failure is about the change under test and not about luck; others on request.
SEED = os.environ.get("NODEWISE_FUZZ_SEED", "0")


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process without threads, from which workers are forked."""
    command = [sys.executable, str(ROOT / "benchmarks" / "fuzz.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_no_reader_answers_a_damaged_file_with_more_than_an_error(tmp_path):
    done = fuzz("--cases", str(CASES), "--seed", SEED, "-o", str(tmp_path / "fuzz.json"))
    assert done.returncode == 0, f"seed {SEED}:\n{done.stdout}{done.stderr}"
    found = json.loads((tmp_path / "fuzz.json").read_text())["readers"]
    assert found.keys() == READERS.keys()
    assert all(result["cases"] == CASES and result["refused"] > 0 for result in found.values())


@pytest.mark.parametrize("end", [*KNOWN, ".bin"])
def test_a_case_is_the_same_each_time(end):
    from random import Random

    assert damaged(f"a{end}", b"one,two\n3,4\n", Random(5), b"x") == damaged(
        f"a{end}", b"one,two\n3,4\n", Random(5), b"x"
    )
