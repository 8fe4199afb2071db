"""benchmarks/fuzz.py: damaged files for all readers, and that cases can be seen again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("workers are forked, and memory is read from /proc", allow_module_level=True)

from fuzz import FAILURES
from fuzz_damage import KNOWN, damaged
from fuzz_readers import READERS

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
CASES = 300  # of each reader: a minute of processor time in all
# The same cases each time, so that a failure is about the change under test and not about luck; others on request.
SEED = os.environ.get("NODEWISE_FUZZ_SEED", "0")


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process without threads, from which workers are forked."""
    command = [sys.executable, str(SCRIPTS / "fuzz.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_no_reader_answers_a_damaged_file_with_more_than_an_error(tmp_path):
    done = fuzz("--cases", str(CASES), "--seed", SEED, "-o", str(tmp_path / "fuzz.json"))
    assert done.returncode == 0, f"seed {SEED}:\n{done.stdout}{done.stderr}"
    found = json.loads((tmp_path / "fuzz.json").read_text())["readers"]
    assert found.keys() == READERS.keys()
    assert all(result["cases"] == CASES and result["refused"] > 0 for result in found.values())


BAD_READER = """
import json, os, signal, sys
from pathlib import Path
import fuzz, fuzz_worker
from fuzz_readers import Reader
from nodewise import InputError

def use(case):
    number = int(case.path.parent.name.removeprefix("case"))
    if number == 0:
        raise InputError("as it should")
    if number == 1:
        raise KeyError("foreign")
    if number == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    while number == 3:
        pass
    kept = bytearray(1 << 26) if number == 4 else None

fuzz_worker.HANG_SECONDS, fuzz_worker.BASE_BYTES, fuzz_worker.TIMES = 1.0, 1 << 24, 1
reader = Reader("bad", "none", make=lambda fixed, folder: (folder / "a.bin").write_bytes(b"sample"), use=use)
place, results = Path(sys.argv[1]), {}
(place / "samples/bad").mkdir(parents=True)
reader.make(place, place / "samples/bad")
fuzz.fuzz([reader], place, 0, results, 6, float("inf"), None)
print(json.dumps(results["bad"]))
"""


def test_each_kind_of_failure_is_counted_and_the_other_cases_go_on(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BAD_READER, str(tmp_path)], check=False, capture_output=True, text=True, cwd=SCRIPTS
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    cases = {kind: [found["case"] for found in result[kind].values()] for kind in FAILURES}
    assert cases == {"foreign": [1], "crash": [2], "hang": [3], "memory": [4]}
    assert (result["cases"], result["refused"], result["accepted"]) == (6, 1, 1)
    assert any("SIGSEGV" in where for where in result["crash"])


@pytest.mark.parametrize("end", [*KNOWN, ".bin"])
def test_a_case_is_the_same_each_time(end):
    from random import Random

    assert damaged(f"a{end}", b"one,two\n3,4\n", Random(5), b"x") == damaged(
        f"a{end}", b"one,two\n3,4\n", Random(5), b"x"
    )
