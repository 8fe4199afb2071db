"""Writers that are killed at any system call, and several at once: nothing is lost, and nothing is left for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from models import PLAIN
from nodewise import NIGCN, StoreError, open_store, write_store
from nodewise._util import atomic
from nodewise._util.locks import alone
from nodewise._util.run_folder import RunFolder
from nodewise.datasets import load
from nodewise.graph import synthetic

KILLED = """
import os, sys
from pathlib import Path
from nodewise._util import atomic

root, kind, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if how == "in steps":
    atomic._rename = lambda *_: False

def write(target, text):
    if kind == "file":
        with atomic.new_file(target) as partial:
            partial.write_text(text)
        return
    with atomic.new_folder(target, overwrite=True) as partial:
        for name in ("a", "b"):
            (partial / name).write_text(text)

def read(target):
    if kind == "file":
        return {target.read_text()}
    atomic.put_back(target)
    return {(target / name).read_text() for name in ("a", "b")}

killed, at = 9 << 8, 0
while killed:
    at += 1
    place = root / str(at)
    place.mkdir()
    write(place / "out", "old")
    child = os.fork()
    if child == 0:
        left = at
        def count(event, _):
            global left
            left -= event.startswith(("os.", "open", "fcntl.", "ctypes.", "shutil."))
            if left == 0:
                os._exit(9)
        sys.addaudithook(count)
        write(place / "out", "new")
        os._exit(0)
    killed = os.waitpid(child, 0)[1]
    assert killed in (0, 9 << 8)
    assert read(place / "out") in ({"old"}, {"new"}), at
    write(place / "out", "newest")
    assert read(place / "out") == {"newest"}, at
    assert os.listdir(place) == ["out"], (at, os.listdir(place))
print(at)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork, and no locks on folders")
@pytest.mark.parametrize(("kind", "how"), [("file", ""), ("folder", "at once"), ("folder", "in steps")])
def test_killed_at_any_system_call_a_writer_leaves_old_or_new_and_the_next_one_tidies_up(tmp_path, kind, how):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), kind, how], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10  # so many places to be killed at


def leave(place: Path, purpose: str, text: str) -> Path:
    """What a killed writer of ``place`` left beside it."""
    left = atomic.beside(place, f"{purpose}-0123abcd")
    left.mkdir()
    (left / "a").write_text(text)
    return left


def write(place: Path, text: str, overwrite: bool = True) -> None:
    with atomic.new_folder(place, overwrite) as partial:
        (partial / "a").write_text(text)


@pytest.mark.skipif(sys.platform == "win32", reason="no locks on folders")
def test_what_a_live_process_writes_is_not_tidied_up(tmp_path):
    """Two that write the same target at once must not remove each other's work."""
    with atomic.new_folder(tmp_path / "out", overwrite=True) as first:
        (first / "a").write_text("first")
        write(tmp_path / "out", "second")
        with atomic.new_file(tmp_path / "file") as one:
            one.write_text("one")
            with atomic.new_file(tmp_path / "file") as two:
                two.write_text("two")
    assert (tmp_path / "out" / "a").read_text() == "first"
    assert (tmp_path / "file").read_text() == "one"
    assert sorted(os.listdir(tmp_path)) == ["file", "out"]


def test_a_folder_that_came_in_the_meantime_is_not_replaced_unasked(tmp_path):
    with pytest.raises(StoreError, match="out: already exists; pass --overwrite"), atomic.new_folder(tmp_path / "out"):
        write(tmp_path / "out", "first", overwrite=False)
    assert (tmp_path / "out" / "a").read_text() == "first"
    assert os.listdir(tmp_path) == ["out"]


def test_what_others_left_for_another_target_stays(tmp_path):
    other = leave(tmp_path / "out2", "partial", "other")
    write(tmp_path / "out", "new")
    assert other.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no locks on folders")
def test_a_reader_waits_for_a_folder_that_is_being_replaced(tmp_path):
    """Between the two renames the name is missing; put back by a reader, the old folder would be in the way."""
    old = leave(tmp_path / "out", "old", "old")
    with alone(old):
        reader = threading.Thread(target=atomic.put_back, args=(tmp_path / "out",))
        reader.start()
        reader.join(0.1)
        assert reader.is_alive()
        (tmp_path / "out").mkdir()
    reader.join()
    assert os.listdir(tmp_path / "out") == []
    assert old.exists()


def test_a_store_and_a_model_that_a_kill_left_without_their_names_are_found(tmp_path):
    """The kill came between the two renames that replace a folder."""
    graph = synthetic.dcsbm(60, avg_degree=4, classes=2, features=3, seed=0)
    write_store(graph, tmp_path / "store")
    NIGCN(**PLAIN).fit(graph, train=range(30)).save(tmp_path / "model")
    for read in (open_store, load):
        (tmp_path / "store").rename(tmp_path / ".store.old-0123abcd")
        assert read(str(tmp_path / "store")).num_nodes == 60
    (tmp_path / "model").rename(tmp_path / ".model.old-0123abcd")
    assert NIGCN.load(tmp_path / "model").predict(graph).size == 60


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("place", [".out.import", ".out.import/journal.json", ".out.import/.lock"])
def test_a_link_at_a_place_of_ours_is_refused(tmp_path, place):
    """What is written or removed there would be elsewhere."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("mine")
    link = tmp_path / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "mine")
    run = RunFolder(tmp_path / ".out.import", "import", {}, "journal.json", ours=None, output=tmp_path / "out")
    with pytest.raises(StoreError, match="is a symbolic link"):
        run.locked().__enter__()
    assert os.listdir(tmp_path / "mine") == ["thesis"]
