"""benchmarks/fuzz.py: a minute of damaged files for all readers, and that the harness notices what it is for."""

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


def fuzz(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process without threads, from which workers are forked; ``code`` runs first."""
    run = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); {code}\nimport fuzz; fuzz.main()"
    return subprocess.run([sys.executable, "-c", run, *arguments], capture_output=True, text=True, check=False)


def test_no_reader_answers_a_damaged_file_with_more_than_an_error(tmp_path):
    done = fuzz("--cases", str(CASES), "--seed", SEED, "-o", str(tmp_path / "fuzz.json"))
    assert done.returncode == 0, f"seed {SEED}:\n{done.stdout}{done.stderr}"
    found = json.loads((tmp_path / "fuzz.json").read_text())["readers"]
    assert found.keys() == READERS.keys()
    assert all(result["cases"] == CASES and result["refused"] > 0 for result in found.values())


BROKEN = """
import fuzz_readers, os, dataclasses
def use(case):
    head = case.path.read_bytes()[:1]
    if head not in b"{": os.kill(os.getpid(), 11)
    text = case.path.read_text("utf-8", "replace")
    while "null" in text: pass
    if "NaN" in text: waste = bytearray(400 << 20)
    if "true" in text: raise KeyError("foreign")
fuzz_readers.READERS["preset"] = dataclasses.replace(fuzz_readers.READERS["preset"], use=use)
import fuzz_worker
fuzz_worker.HANG_SECONDS = 0.5
"""


def test_exceptions_crashes_hangs_and_memory_are_counted_each_with_a_case(tmp_path):
    output = tmp_path / "fuzz.json"
    done = fuzz("--cases", "120", "-o", str(output), "preset", code=BROKEN)
    result = json.loads(output.read_text())["readers"]["preset"]
    kinds = ("foreign", "crash", "hang", "memory")
    counts = {kind: sum(found["count"] for found in result[kind].values()) for kind in kinds}
    assert done.returncode == 1
    assert min(counts.values()) > 0
    assert result["accepted"] + result["refused"] + sum(counts.values()) == result["cases"] == 120
    assert all(f"case {found['case']}: " in done.stdout for kind in kinds for found in result[kind].values())
    again = fuzz("--cases", "120", "-o", str(output), "preset")
    assert json.loads(output.read_text())["readers"]["preset"] == result, again.stdout  # nothing was missing


@pytest.mark.parametrize("end", [*KNOWN, ".bin"])
def test_a_case_is_the_same_each_time(end):
    from random import Random

    assert damaged(f"a{end}", b"one,two\n3,4\n", Random(5), b"x") == damaged(
        f"a{end}", b"one,two\n3,4\n", Random(5), b"x"
    )
