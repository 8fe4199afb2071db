"""Standard streams that are full or closed, text that is not for a terminal, and arguments that are no text."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import pytest

from models import PLAIN
from nodewise import NIGCN, write_store
from nodewise.graph import synthetic

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


def test_a_current_folder_that_was_removed_is_one_line_and_exit_code_2(tmp_path):
    done = shell(f"mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone; nodewise datasets")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nodewise: the current folder does not exist any more; cd to another one\n"


# ---------------------------------------------------------------------- names of strangers


TITLE, CLASSES = "\x1b]0;pwned\x07", ["\x1b[2Jred", "blue\u202e", "红"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A store and a model, whose graph and classes have names that tell a terminal to do something."""
    folder = tmp_path_factory.mktemp("hostile")
    graph = synthetic.dcsbm(60, 6.0, 3, features=4).replace(name=TITLE, label_names=CLASSES)
    write_store(graph, folder / "store")
    NIGCN(**PLAIN).fit(graph, range(20), range(20, 40)).save(folder / "model")
    return folder


def commands_in(text: str) -> set[str]:
    """Control characters, and those that change the direction of writing."""
    return {letter for letter in text if unicodedata.category(letter).startswith("C")} - {"\n"}


@pytest.mark.parametrize(
    "words",
    ["train STORE -o NEW --epochs 5", "describe MODEL", "info STORE", "explain MODEL STORE 1", "evaluate MODEL STORE"],
)
def test_names_that_would_command_a_terminal_are_shown_as_escapes(run, hostile, tmp_path, words):
    places = {"STORE": hostile / "store", "MODEL": hostile / "model", "NEW": tmp_path / "new"}
    code, out, err = run(*(places.get(word, word) for word in words.split()))
    assert code == 0, err
    assert "\\x1b" in out
    assert not commands_in(out + err)


def test_an_error_shows_names_that_would_command_a_terminal_as_escapes(run, tmp_path):
    (tmp_path / "e.csv").write_text(f"{CLASSES[0]}{CLASSES[1]}\n1\n")
    code, _, err = run("import", "--edges", tmp_path / "e.csv", "-o", tmp_path / "s")
    assert code == 2
    assert "e.csv: one column (\\x1b[2Jredblue\\u202e)" in err
    assert not commands_in(err)


def test_json_holds_names_as_they_are(run, hostile):
    out = run("describe", hostile / "model", "--json")[1]
    assert json.loads(out)["classes"] == CLASSES
    assert json.loads(out)["learned_from"]["graph"] == TITLE
    assert not commands_in(out)


def test_a_name_that_standard_output_has_no_codes_for_is_shown_as_an_escape(hostile):
    done = shell(f"PYTHONIOENCODING=ascii nodewise describe {hostile / 'model'}")
    assert done.returncode == 0, done.stderr
    assert "\\u7ea2" in done.stdout


def test_too_little_address_space_is_refused_before_libraries_wait_for_more(tmp_path):
    done = shell(f"ulimit -v 2000000; nodewise info {tmp_path}")
    assert done.returncode == 2
    assert "2.05 GB of address space are allowed (ulimit -v)" in done.stderr
    assert len(done.stderr.splitlines()) == 1
