"""Standard streams that are full or closed, and arguments that are no text."""

from __future__ import annotations

import subprocess
import sys

import pytest

FULL = "/dev/full"
if sys.platform != "linux":
    pytest.skip("needs /dev/full", allow_module_level=True)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    command = command.replace("nodewise", f"{sys.executable} -m nodewise")
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_one_line_and_exit_code_2(store, unbuffered):
    done = shell(f"PYTHONUNBUFFERED={unbuffered} nodewise verify {store} > {FULL}")
    assert (done.returncode, done.stderr) == (
        2,
        "nodewise: standard output: cannot be written: No space left on device; write to a file, or free some space\n",
    )


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-"])
def test_a_closed_stream_ends_no_work(tmp_path, closed):
    (tmp_path / "e.csv").write_text("source,target\nann,bob\nbob,cy\n")
    made = f"{tmp_path / 's'} {closed}"
    done = shell(f"nodewise import --edges {tmp_path / 'e.csv'} -o {made} && nodewise info {made}")
    assert done.returncode == 0, done.stderr
    assert ("edges" in done.stdout) == (closed != "1>&-")


def test_an_argument_that_is_no_text_is_refused_in_one_line(run, store):
    code, _, err = run("info", store.parent / "caf\udce9")
    assert code == 2
    assert "caf\\udce9': is not valid UTF-8; rename the file, or reach it through a link" in err


def test_a_place_that_is_closed_to_us_is_named(run, monkeypatch, store):
    import nodewise.store

    def closed(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(nodewise.store, "verify_store", closed)
    code, _, err = run("verify", store)
    assert (code, err) == (2, f"nodewise: {store}: Permission denied; check the path and its permissions\n")
