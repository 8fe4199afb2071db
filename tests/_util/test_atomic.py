"""Outputs appear whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from nodewise import StoreError
from nodewise._util import atomic


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that lies under a folder, hidden or not: files with their bytes, folders with None."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def write_and_fail(path: Path, failure: type[BaseException]) -> None:
    path.write_text("half of the n")
    raise failure


def test_a_file_appears_with_what_the_block_wrote(tmp_path):
    with atomic.new_file(tmp_path / "out.txt") as partial:
        partial.write_text("hello")
        assert not (tmp_path / "out.txt").exists()
        assert partial.parent == tmp_path
        assert partial.name.startswith(".out.txt.partial-")
    assert tree(tmp_path) == {"out.txt": b"hello"}


def test_a_folder_appears_with_what_the_block_wrote(tmp_path):
    with atomic.new_folder(tmp_path / "out") as partial:
        (partial / "sub").mkdir()
        (partial / "sub" / "a").write_text("hello")
        assert not (tmp_path / "out").exists()
    assert tree(tmp_path) == {"out": None, "out/sub": None, "out/sub/a": b"hello"}


def test_an_existing_file_is_replaced(tmp_path):
    (tmp_path / "out.txt").write_text("old")
    with atomic.new_file(tmp_path / "out.txt") as partial:
        partial.write_text("new")
    assert tree(tmp_path) == {"out.txt": b"new"}


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    (tmp_path / "out.txt").write_text("old")
    with pytest.raises(failure), atomic.new_file(tmp_path / "out.txt") as partial:
        write_and_fail(partial, failure)
    assert tree(tmp_path) == {"out.txt": b"old"}


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_the_old_folder_and_nothing_else(tmp_path, failure):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("old")
    with pytest.raises(failure), atomic.new_folder(tmp_path / "out", overwrite=True) as partial:
        write_and_fail(partial / "a", failure)
    assert tree(tmp_path) == {"out": None, "out/a": b"old"}


@pytest.mark.parametrize("new", [atomic.new_file, atomic.new_folder])
def test_all_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch, new):
    """After a power cut a name must not stand for a file whose bytes never left the page cache."""
    steps, (fsync, rename) = [], (os.fsync, os.rename)

    def sync(handle):
        steps.append(os.fstat(handle).st_ino)
        fsync(handle)

    def give_name(source, target):
        steps.append("name")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", give_name)  # for folders
    monkeypatch.setattr(os, "replace", give_name)  # for files
    with new(tmp_path / "out") as partial:
        written = [partial] if new is atomic.new_file else [partial / "sub" / "a", partial / "sub", partial]
        written[0].parent.mkdir(exist_ok=True)
        written[0].write_text("hello")
        inodes = {path.stat().st_ino for path in written}
    name = steps.index("name")
    assert set(steps[:name]) == inodes
    assert steps[name + 1 :] == [tmp_path.stat().st_ino]


def test_missing_parent_folders_are_made(tmp_path):
    with atomic.new_file(tmp_path / "a" / "b" / "out.txt") as partial:
        partial.write_text("hello")
    assert tree(tmp_path) == {"a": None, "a/b": None, "a/b/out.txt": b"hello"}


@pytest.mark.parametrize("new", [atomic.new_file, atomic.new_folder])
def test_parent_folders_made_for_a_block_that_fails_go_away_again(tmp_path, new):
    with pytest.raises(ValueError, match="stop"), new(tmp_path / "a" / "b" / "out"):
        raise ValueError("stop")
    assert tree(tmp_path) == {}


def test_a_folder_that_exists_is_refused_before_the_block_starts(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(StoreError, match=r"out: already exists; pass --overwrite \(Python: overwrite=True\)"):
        atomic.new_folder(tmp_path / "out")
    assert tree(tmp_path) == {"out": None}


def test_overwrite_replaces_the_whole_folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    with atomic.new_folder(tmp_path / "out", overwrite=True) as partial:
        (partial / "new").write_text("new")
        assert (tmp_path / "out" / "old").exists()
    assert tree(tmp_path) == {"out": None, "out/new": b"new"}


@pytest.fixture
def in_steps(monkeypatch):
    """As where two folders cannot swap names in a single step."""
    monkeypatch.setattr(atomic, "_rename", lambda *_: False)


def test_a_folder_is_replaced_in_steps_too(tmp_path, in_steps):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    with atomic.new_folder(tmp_path / "out", overwrite=True) as partial:
        (partial / "new").write_text("new")
    assert tree(tmp_path) == {"out": None, "out/new": b"new"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems replace a folder in two steps")
def test_a_folder_that_is_replaced_is_there_at_every_moment(tmp_path, monkeypatch):
    """A reader that opens the target between two renames would find nothing."""
    (tmp_path / "out").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a").write_text("new")
    monkeypatch.setattr(Path, "rename", None)
    atomic.swap_folders(tmp_path / "new", tmp_path / "out")
    assert tree(tmp_path) == {"out": None, "out/a": b"new"}


def test_a_folder_that_a_kill_left_without_its_name_gets_it_back(tmp_path, in_steps, monkeypatch):
    """The kill comes after the first of two renames; the next writer must find the old folder, and not overwrite it."""
    (tmp_path / "o[u]t").mkdir()
    (tmp_path / "o[u]t" / "a").write_text("old")
    script = f"""
import os, signal
from pathlib import Path
from nodewise._util import atomic
atomic._rename = lambda *_: False
rename = Path.rename
def dying(self, target):
    if ".partial-" in self.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
Path.rename = dying
with atomic.new_folder({str(tmp_path / "o[u]t")!r}, overwrite=True) as partial:
    (partial / "a").write_text("new")
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "o[u]t").exists()
    with pytest.raises(StoreError, match="already exists"):
        atomic.new_folder(tmp_path / "o[u]t")
    assert tree(tmp_path / "o[u]t") == {"a": b"old"}


def test_the_old_folder_comes_back_when_the_new_one_cannot_take_its_place(tmp_path, in_steps, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("old")
    rename = Path.rename

    def fail_for_the_new(self, target):
        if ".partial-" in self.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new)
    with (
        pytest.raises(StoreError, match=r"out: cannot be written: Input/output error"),
        atomic.new_folder(tmp_path / "out", overwrite=True) as partial,
    ):
        (partial / "a").write_text("new")
    assert tree(tmp_path) == {"out": None, "out/a": b"old"}


def is_ours(folder):
    return (folder / "manifest.json").exists()


def test_overwrite_spares_a_folder_that_is_not_ours(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("cat")
    with pytest.raises(StoreError, match=r"photos: holds 'cat.jpg' and was not written"):
        atomic.new_folder(tmp_path / "photos", overwrite=True, ours=is_ours)
    assert tree(tmp_path) == {"photos": None, "photos/cat.jpg": b"cat"}


@pytest.mark.parametrize("content", [[], ["manifest.json"], ["manifest.json", "more"]])
def test_overwrite_takes_an_empty_folder_and_one_of_ours(tmp_path, content):
    (tmp_path / "out").mkdir()
    for name in content:
        (tmp_path / "out" / name).write_text("old")
    with atomic.new_folder(tmp_path / "out", overwrite=True, ours=is_ours) as partial:
        (partial / "manifest.json").write_text("new")
    assert tree(tmp_path) == {"out": None, "out/manifest.json": b"new"}


def test_a_folder_does_not_replace_a_file_nor_a_file_a_folder(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="file: this is a file"):
        atomic.new_folder(tmp_path / "file", overwrite=True)
    with pytest.raises(StoreError, match="folder: this is a folder"):
        atomic.new_file(tmp_path / "folder")
    with pytest.raises(StoreError, match="not a regular file"):
        atomic.new_file(os.devnull)
    assert tree(tmp_path) == {"file": b"old", "folder": None}


def test_through_a_link_the_file_behind_it_is_replaced(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    with atomic.new_file(tmp_path / "link.txt") as partial:
        partial.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_outputs_are_as_readable_as_any_other_file(tmp_path):
    """Temporary files are often private; what is written for others must not stay so."""
    (tmp_path / "plain").touch()
    (tmp_path / "plain_folder").mkdir()
    with atomic.new_file(tmp_path / "file") as partial:
        partial.touch()
    with atomic.new_folder(tmp_path / "folder"):
        pass
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "folder").stat().st_mode == (tmp_path / "plain_folder").stat().st_mode


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EFBIG, "limit on the size of a file"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "can be written to"),
        (errno.EIO, "check the disk"),
    ],
)
@pytest.mark.parametrize("new", [atomic.new_file, atomic.new_folder])
def test_an_error_of_the_disk_says_where_why_and_what_to_do(tmp_path, new, number, advice):
    with (
        pytest.raises(StoreError, match=rf"out: cannot be written: {os.strerror(number)}; .*{advice}") as caught,
        new(tmp_path / "out"),
    ):
        raise OSError(number, os.strerror(number))
    assert isinstance(caught.value.__cause__, OSError)
    assert tree(tmp_path) == {}


def test_a_parent_that_is_a_file_is_an_error_that_names_the_target(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(StoreError, match=r"file/out: cannot be written"), atomic.new_file(tmp_path / "file" / "out"):
        pass
    assert tree(tmp_path) == {"file": b"old"}


def test_an_error_about_another_file_is_left_alone(tmp_path):
    with pytest.raises(FileNotFoundError), atomic.new_file(tmp_path / "out") as partial:
        partial.write_text((tmp_path / "input").read_text())
    assert tree(tmp_path) == {}


def test_a_block_that_writes_elsewhere_does_not_leave_an_empty_file(tmp_path):
    with pytest.raises(StoreError, match="out: cannot be written"), atomic.new_file(tmp_path / "out"):
        pass
    assert tree(tmp_path) == {}


def test_a_very_long_name_works(tmp_path):
    name = "x" * 250
    with atomic.new_file(tmp_path / name) as partial:
        partial.write_text("hello")
    assert tree(tmp_path) == {name: b"hello"}


def test_long_names_that_begin_alike_have_neighbours_of_their_own(tmp_path):
    """Two imports to such outputs would work in one folder."""
    one, two = (atomic.beside(tmp_path / ("\U0001f33f" * 59 + end), "import") for end in ("a", "b"))
    assert one != two
    one.mkdir()  # not too long for the file system
    assert atomic.beside(tmp_path / "store", "import").name == ".store.import"


def test_a_file_too_large_for_the_system_leaves_nothing_behind(tmp_path):
    """A real failed write: the process may write no file above 4 KiB."""
    script = f"""
import resource
from nodewise import StoreError
from nodewise._util import atomic
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    with atomic.new_file({str(tmp_path / "a" / "out")!r}) as partial:
        partial.write_bytes(bytes(100_000))
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "out: cannot be written: File too large; raise the limit" in done.stdout
    assert tree(tmp_path) == {}


def test_where_a_link_leads_is_what_must_be_writable(tmp_path, monkeypatch):
    (tmp_path / "there" / "model").mkdir(parents=True)
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "link").symlink_to(tmp_path / "there" / "model")
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "locked")
    atomic.check_new_folder(tmp_path / "locked" / "link", overwrite=True)
    with pytest.raises(StoreError, match="locked is not writable"):
        atomic.check_new_folder(tmp_path / "locked" / "model")


def test_the_root_of_all_folders_is_refused_like_any_other():
    with pytest.raises(StoreError, match="not written by nodewise alone"):
        atomic.check_new_folder("/", overwrite=True, ours=lambda path: False)


@pytest.mark.parametrize("name", ["file/model", "m" * 300])
def test_a_name_that_cannot_be_is_refused_before_the_work(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"(file/model|mmm): "):
        atomic.check_new_folder(tmp_path / name)


def test_a_place_that_cannot_be_looked_at_is_named(tmp_path, monkeypatch):
    def exists(self):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "exists", exists)
    with pytest.raises(StoreError, match="secret"):
        atomic.check_new_folder(tmp_path / "secret" / "model")


@pytest.mark.parametrize("in_steps", [False, True])
def test_a_file_that_appears_while_the_block_runs_is_replaced_only_on_request(tmp_path, in_steps, monkeypatch):
    if in_steps:  # as on file systems that cannot rename without replacing
        monkeypatch.setattr(atomic, "_rename", lambda *_: False)
    for overwrite in (False, True):
        expected = nullcontext() if overwrite else pytest.raises(StoreError, match="already exists; pass --overwrite")
        with expected, atomic.new_file(tmp_path / "out", overwrite) as partial:
            partial.write_text("ours")
            (tmp_path / "out").write_text("theirs")
        assert tree(tmp_path) == {"out": b"ours" if overwrite else b"theirs"}
        (tmp_path / "out").unlink()


@pytest.mark.parametrize("check", [atomic.check_new_file, atomic.check_new_folder])
def test_a_path_through_a_folder_that_is_not_there_leads_to_no_other(tmp_path, check):
    """The system finds nothing at missing/../mine; realpath makes it mine, which would be replaced."""
    (tmp_path / "mine").mkdir()
    with pytest.raises(StoreError, match="does not exist; create it, or write the path without"):
        check(tmp_path / "missing" / ".." / "mine")
    (tmp_path / "there").mkdir()
    check(tmp_path / "there" / ".." / "new" / "deep")  # whose parents are made
    (tmp_path / "link").symlink_to("missing/../mine")
    with pytest.raises(StoreError, match=r"link: (already exists|this is a folder)"):
        check(tmp_path / "link")


def test_what_is_no_folder_is_refused_as_such_with_and_without_overwrite(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "lost").symlink_to("nowhere")
    for overwrite in (False, True):
        with pytest.raises(StoreError, match="file: this is a file; expected the name of a folder"):
            atomic.check_new_folder(tmp_path / "file", overwrite)
        with pytest.raises(StoreError, match="lost: this is a link that leads nowhere"):
            atomic.check_new_folder(tmp_path / "lost", overwrite)


@pytest.mark.parametrize("check", [atomic.check_new_file, atomic.check_new_folder])
def test_a_folder_that_is_closed_to_us_is_named(tmp_path, monkeypatch, check):
    def closed(path, **_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "lstat", closed)
    with pytest.raises(StoreError, match="out: cannot be written: Permission denied; change the permissions"):
        check(tmp_path / "out")
