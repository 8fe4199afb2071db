"""Imports that are cut off: no broken store, and what is gone on with is the same store, byte for byte."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nodewise as nw
from files import write
from nodewise import InputError, StoreError
from nodewise._util import atomic, run_folder
from nodewise._util.run_folder import RunFolder
from nodewise.formats import csv as text
from nodewise.importing import building, edge_stage, feature_stage, import_store, sorting
from nodewise.importing import work_folder as work
from nodewise.store import blocks, open_store, verify_store

NODES, EDGES = 60, 500


class Killed(BaseException):
    """Not an Exception: nothing in the library may catch it to go on."""


@pytest.fixture
def small_steps(monkeypatch):
    """Everything in many small steps, and a journal after each."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(work, "NOTE_SECONDS", -1.0)
    monkeypatch.setattr(sorting, "STRIDE", 4)
    monkeypatch.setattr(text, "BLOCK_BYTES", 512)
    monkeypatch.setattr(edge_stage, "_run_size", lambda *_: 90)
    monkeypatch.setattr(edge_stage, "room_for", lambda _, __, least, ___: least)
    monkeypatch.setattr(feature_stage, "PART_BYTES", 200)


def write_files(names: bool) -> dict[str, str]:
    """Weighted edges, features in another order than the ids, and labels."""
    rng = np.random.default_rng(0)
    ids = [f"node-{i}" if names else str(i) for i in rng.permutation(NODES)]
    ends = rng.integers(0, NODES, (EDGES, 2))
    weights = rng.random(EDGES) + 0.1
    rows = "".join(f"{ids[u]},{ids[v]},{w}\n" for (u, v), w in zip(ends, weights, strict=True))
    values = rng.standard_normal((NODES, 5))
    lines = "".join(f"{name},{','.join(map(str, row))}\n" for name, row in zip(ids, values, strict=True))
    return {
        "edges": write("edges.csv", "source,target,weight\n" + rows),
        "features": write("x.csv", "node,a,b,c,d,e\n" + lines),
        "labels": write("y.csv", "node,label\n" + "".join(f"{name},{name[-1]}\n" for name in ids[::3])),
    }


def contents(folder: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def killing(monkeypatch, at: int, before: bool) -> None:
    """Die at the ``at``-th journal, before or after it is written; the dead write nothing."""
    plain, count = work.Work.save, 0

    def save(self):
        nonlocal count
        count += 1
        if count == at and not before:
            plain(self)
        if count == at:
            raise Killed
        if count < at:
            plain(self)

    monkeypatch.setattr(work.Work, "save", save)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("names", "dtype"), [(False, None), (True, "int8")])
def test_killed_at_any_journal_an_import_goes_on_to_the_same_store(monkeypatch, names, dtype):
    files = write_files(names)
    import_store(output="whole", **files, name="g", feature_dtype=dtype)
    assert verify_store("whole") > 0
    expected, at = contents("whole"), 0
    while True:
        at += 1 + at // 8  # every early one, and some of the later
        with monkeypatch.context() as patch:
            killing(patch, at, before=bool(at % 2))
            try:
                import_store(output="store", **files, name="g", feature_dtype=dtype)
            except Killed:
                pass
            else:
                break  # it ended before
        assert not Path("store").exists() or contents("store") == expected
        import_store(output="store", **files, name="g", feature_dtype=dtype, resume=True)
        assert contents("store") == expected
        assert sorted(path.name for path in Path().iterdir()) == sorted(
            ["store", "whole", "x.csv", "y.csv", "edges.csv"]
        )
        shutil.rmtree("store")
    assert at > 20


@pytest.mark.usefixtures("small_steps")
def test_files_are_on_the_disk_before_the_journal_mentions_them(monkeypatch):
    """After a power cut an import must not continue from rows that never left the page cache."""
    fsync, save, sizes, mentioned = os.fsync, RunFolder.save, {}, set()

    def sync(handle):
        fsync(handle)
        sizes[os.fstat(handle).st_ino] = os.fstat(handle).st_size

    def save_journal(self, state):
        files = [self.path / "store" / name for name in state.get("files", {})]
        files += [self.path / "runs" / f"{run:06}.keys" for run in range(len(state.get("runs", [])))]
        mentioned.update(file.name for file in files)
        assert {file.name: sizes.get(file.stat().st_ino) for file in files} == {
            file.name: file.stat().st_size for file in files
        }
        save(self, state)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(RunFolder, "save", save_journal)
    import_store(output="store", **write_files(names=False), name="g")
    assert mentioned >= {"features.npy", "indices.npy", "labels.npy", "000000.keys", "000005.keys"}


SCRIPT = """
import os, signal, sys
from nodewise.importing import import_store
from nodewise.importing import edge_stage
from nodewise.importing import sorting
from nodewise.importing import work_folder as work
work.NOTE_SECONDS, sorting.STRIDE = -1.0, 4
edge_stage._run_size = lambda *_: 90
kill_in = sys.argv[1]
plain = getattr(work.Work if kill_in == "commit" else sorting if kill_in == "rows_of" else edge_stage, kill_in)
calls = 0
def dying(*arguments):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(*arguments)
setattr(work.Work if kill_in == "commit" else sorting if kill_in == "rows_of" else edge_stage, kill_in, dying)
import_store("edges.csv", "store", "x.csv", "y.csv", name="g", resume=sys.argv[3] == "resume")
"""


@pytest.mark.parametrize(("where", "call"), [("write_run", 3), ("rows_of", 1), ("commit", 1)])
def test_kill_9_leaves_no_store_and_work_to_go_on_with(monkeypatch, where, call):
    files = write_files(names=True)
    monkeypatch.setattr(edge_stage, "_run_size", lambda *_: 90)
    import_store(output="whole", **files, name="g")

    def run(*arguments: str) -> int:
        return subprocess.run([sys.executable, "-c", SCRIPT, *arguments], check=False).returncode

    assert run(where, str(call), "new") == -signal.SIGKILL
    assert not Path("store").exists()
    assert run(where, "1000", "resume") == 0
    assert contents("store") == contents("whole")
    assert not Path(".store.import").exists()


def begin(monkeypatch, files):
    """An import that was interrupted before its runs were merged."""
    with monkeypatch.context() as patch:
        patch.setattr(building, "merge_runs", interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_store(output="store", **files)


def test_a_left_over_import_is_neither_lost_nor_taken_for_a_new_one(monkeypatch):
    files = write_files(names=False)
    begin(monkeypatch, files)
    with pytest.raises(StoreError, match=r"store: an import was started.*--resume.*--overwrite"):
        import_store(output="store", **files)
    with pytest.raises(StoreError, match=r"store: holds another import: feature_dtype is None there and int8 here"):
        import_store(output="store", **files, feature_dtype="int8", resume=True)
    os.utime("edges.csv", (1, 1))
    with pytest.raises(StoreError, match=r"files is not the same; run the same command.*or pass --overwrite"):
        import_store(output="store", **files, resume=True)
    assert Path(".store.import").exists()
    import_store(output="store", **files, overwrite=True)
    assert not Path(".store.import").exists()
    assert verify_store("store")


def test_an_import_that_goes_on_with_too_little_memory_keeps_its_work(monkeypatch):
    files = write_files(names=False)
    begin(monkeypatch, files)
    with pytest.raises(InputError, match="--memory"):
        import_store(output="store", **files, resume=True, memory="1MB")
    assert list(Path(".store.import/runs").iterdir())
    import_store(output="store", **files, resume=True)
    assert verify_store("store")


def test_what_cannot_be_gone_on_from_is_started_over_where_overwriting_is_allowed(monkeypatch):
    files = write_files(names=False)
    begin(monkeypatch, files)
    import_store(output="store", **files, feature_dtype="int8", resume=True, overwrite=True)
    assert verify_store("store")


def test_a_journal_that_holds_something_else_is_an_error_or_started_over(monkeypatch):
    files = write_files(names=False)
    begin(monkeypatch, files)
    monkeypatch.setattr(RunFolder, "read", lambda self: 5)
    with pytest.raises(StoreError, match=r"cannot continue.*its journal"):
        import_store(output="store", **files, resume=True)
    import_store(output="store", **files, resume=True, overwrite=True)
    assert verify_store("store")


def test_a_damaged_store_with_the_same_manifest_is_not_taken_for_the_new_one(monkeypatch):
    files = write_files(names=False)
    import_store(output="store", **files, name="g")
    expected = contents("store")
    Path("store/indices.npy").write_bytes(bytes(len(expected["indices.npy"])))
    with monkeypatch.context() as patch:
        patch.setattr(work, "name_folder", interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_store(output="store", **files, name="g", overwrite=True)
    import_store(output="store", **files, name="g", resume=True, overwrite=True)
    assert contents("store") == expected


def test_a_second_import_to_the_same_output_is_refused_while_the_first_is_under_way(monkeypatch):
    """Both would write to the same files."""
    files, merge = write_files(names=False), building.merge_runs

    def merge_later(*arguments):
        for how in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(InputError, match="store: another import is under way"):
                import_store(output="store", **files, **how)
        return merge(*arguments)

    monkeypatch.setattr(building, "merge_runs", merge_later)
    import_store(output="store", **files)
    assert verify_store("store")


AT_ONCE = """
import sys, time
from nodewise import InputError, StoreError
from nodewise.importing import import_store
outputs, mine = sys.argv[2:], sys.argv[1]
print("ready", flush=True)
for output in outputs:
    sys.stdin.readline()
    try:
        import_store(mine, output.replace("MINE", mine[0]), overwrite=True, name="g")
        print("done", flush=True)
    except (InputError, StoreError) as error:
        print(error, flush=True)
"""


def test_two_imports_at_once_give_whole_stores_or_a_clear_error():
    """To one output, through a link as well; and to two with long names that begin alike, where neither is in the
    way of the other."""
    write("a.csv", "".join(f"{i},{i + 1}\n" for i in range(3000)))
    write("b.csv", "".join(f"{i},{i + 2}\n" for i in range(2000)))
    for output, graph in (("a_alone", "a.csv"), ("b_alone", "b.csv")):
        import_store(graph, output, name="g")
    alone = [contents("a_alone"), contents("b_alone")]
    Path("real").mkdir()
    Path("link").symlink_to("real")
    long = "real/" + "x" * 80
    places = {"a.csv": "real/out", "b.csv": "link/out"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, mine, *[places[mine]] * 8, *[f"{long}MINE"] * 2],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for mine in ("a.csv", "b.csv")
    ]  # fmt: skip
    assert [process.stdout.readline() for process in running] == ["ready\n"] * 2
    said = []
    for attempt in range(10):
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        said.append([process.stdout.readline().strip() for process in running])
        if attempt < 8:
            assert "done" in said[-1]
            assert verify_store("real/out")
            assert contents("real/out") in alone
    assert said[8:] == [["done", "done"]] * 2
    assert [contents(f"{long}a"), contents(f"{long}b")] == alone
    refused = {line for pair in said for line in pair} - {"done"}
    assert all("another import is under way" in line for line in refused)
    assert sorted(os.listdir("real")) == ["out", f"{'x' * 80}a", f"{'x' * 80}b"]
    for process in running:
        process.communicate()


def test_a_journal_that_was_altered_is_not_gone_on_from(monkeypatch):
    files = write_files(names=False)
    begin(monkeypatch, files)
    journal = Path(".store.import/journal.json")
    journal.write_text(journal.read_text().replace('"largest": 59', '"largest": 58'))
    with pytest.raises(
        StoreError, match=r"journal\.json: does not say which import.*altered.*--overwrite to start over"
    ):
        import_store(output="store", **files, resume=True)
    import_store(output="store", **files, overwrite=True)
    assert verify_store("store")


def damage(folder: Path, rng: np.random.Generator) -> str:
    """Change, cut off or lengthen a file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = files[rng.integers(len(files))]
    content = bytearray(file.read_bytes())
    kind = rng.integers(8)
    if kind == 0:
        file.unlink()
    elif kind == 1:
        file.write_bytes(content[: rng.integers(len(content) + 1)])
    elif kind == 2:
        file.write_bytes(content + rng.bytes(16))
    elif content:
        for place in rng.integers(0, len(content), 1 + rng.integers(3)):
            content[place] ^= 1 << rng.integers(8)
        file.write_bytes(content)
    return file.name


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("names", "at"), [(True, 9), (False, 40), (True, 60), (False, 75), (True, 1000)])
def test_whatever_is_damaged_an_import_goes_on_to_the_same_store_or_says_so(monkeypatch, names, at):
    """One changed key gave a store with half the edges, and other keys a crash. ``at``: the journal after which the
    import is killed; the last is the one of a finished store."""
    files, rng, found = write_files(names), np.random.default_rng(at), set()
    import_store(output="whole", **files, name="g", feature_dtype="int8")
    with monkeypatch.context() as patch:
        killing(patch, at, before=False)
        patch.setattr(work, "name_folder", killed)
        with pytest.raises(Killed):
            import_store(output="store", **files, name="g", feature_dtype="int8")
    shutil.copytree(".store.import", "kept")
    for _ in range(12):
        shutil.rmtree(".store.import", ignore_errors=True)
        shutil.rmtree("store", ignore_errors=True)
        shutil.copytree("kept", ".store.import")
        where = damage(Path(".store.import"), rng)
        try:
            import_store(output="store", **files, name="g", feature_dtype="int8", resume=True)
        except StoreError as error:
            found.add((where, "--overwrite to start over" in str(error)))
        else:
            assert contents("store") == contents("whole")
    assert {advised for _, advised in found} == {True}


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(
    ("file", "place", "value", "message"),
    [
        ("runs/000001.keys", 20, 0, r"000001\.keys: its keys are not those of a run"),
        ("runs/000001.keys", -1, 1 << 63, r"000001\.keys: its keys are not those of a run"),
        ("runs/000001.keys", -1, 59 << 32 | 60, r"000001\.keys: its keys are not those of a run"),
        ("runs/000001.keys", -1, 60 << 32, r"000001\.keys: its keys are not those of a run"),
        ("names.lengths", 7, 1 << 63, r"names\.bytes: has fewer bytes than 60 names take"),
    ],
)
def test_a_file_that_was_altered_together_with_the_journal_is_one_error(monkeypatch, file, place, value, message):
    """Keys out of order, or of nodes that there are not, let a kernel write outside its arrays; lengths took 4 GB."""
    files = write_files(names=True)
    with monkeypatch.context() as patch:
        patch.setattr(building, "merge_runs", killed)
        with pytest.raises(Killed):
            import_store(output="store", **files)
    altered, journal = Path(".store.import") / file, Path(".store.import/journal.json")
    numbers = np.fromfile(altered, np.uint64)
    numbers[place] = value
    numbers.tofile(altered)
    content = json.loads(journal.read_text())
    del content["sha256"]
    content["state"]["checksums"] = {}
    journal.write_text(json.dumps({**content, "sha256": run_folder._digest(content)}))
    with pytest.raises(StoreError, match=rf"{message}.*--overwrite to start over"):
        import_store(output="store", **files, resume=True)


def killed(*_, **__):
    raise Killed


@pytest.mark.parametrize("in_steps", [False, True])
def test_killed_after_the_swap_an_import_does_not_bring_the_old_store_back(monkeypatch, in_steps):
    """The old store then lies where the new one was made."""
    files = write_files(names=False)
    import_store(output="whole", **files, name="g")
    write("other.csv", "0,1\n")
    import_store("other.csv", "store")
    if in_steps:
        monkeypatch.setattr(atomic, "_rename", lambda *_: False)

    with monkeypatch.context() as patch:
        patch.setattr(atomic.shutil, "rmtree", killed)
        with pytest.raises(Killed):
            import_store(output="store", **files, name="g", overwrite=True)
    assert Path(".store.import/store").exists()
    import_store(output="store", **files, name="g", resume=True)
    assert contents("store") == contents("whole")
    assert not Path(".store.import").exists()


def interrupted(*_):
    raise KeyboardInterrupt


def test_bad_input_leaves_nothing_behind():
    write("edges.csv", "0,1\n1,-2\n")
    with pytest.raises(InputError):
        import_store("edges.csv", "new/folder/store")
    assert [path.name for path in Path().iterdir()] == ["edges.csv"]


def test_a_disk_that_fills_leaves_nothing_behind(monkeypatch):
    write("edges.csv", "0,1\n1,2\n")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(edge_stage, "write_run", full)
    with pytest.raises(StoreError, match=r"^store: cannot be written: No space left.*free some space"):
        import_store("edges.csv", "store")
    assert [path.name for path in Path().iterdir()] == ["edges.csv"]


def test_a_disk_that_is_too_small_is_known_before_it_starts(monkeypatch):
    np.save("edges.npy", np.zeros((2, 1_000_000), np.int8))
    np.save("x.npy", np.zeros((10, 3)))

    monkeypatch.setattr(work.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 20_000_000}))
    # 2 keys of 8 bytes and 2 entries of 4 an edge; for 10 nodes 11 places, 10 loops, 30 numbers
    with pytest.raises(StoreError, match=r"store: the import needs 24 MB of disk, 20 MB are free"):
        import_store("edges.npy", "store", "x.npy")
    assert sorted(path.name for path in Path().iterdir()) == ["edges.npy", "x.npy"]


def test_an_existing_store_is_replaced_only_when_asked():
    write("edges.csv", "0,1\n")
    import_store("edges.csv", "store")
    with pytest.raises(StoreError, match="already exists"):
        import_store("edges.csv", "store")
    with pytest.raises(StoreError, match="already exists"):
        import_store("edges.csv", "store", resume=True)
    import_store("edges.csv", "store", overwrite=True)
    Path("notes").mkdir()
    write("notes/text.txt", "mine")
    with pytest.raises(StoreError, match="not overwritten"):
        import_store("edges.csv", "notes", overwrite=True)
    assert Path("notes/text.txt").read_text() == "mine"


def test_an_import_that_goes_on_after_sorting_does_not_take_ids_for_names(monkeypatch):
    """Then the edges are not read again, and the few ids in the labels must not be all that was seen."""
    write("edges.csv", "".join(f"{i},{i + 1}\n" for i in range(40)))
    write("y.csv", "node,label\n3,a\n40,b\n")
    with monkeypatch.context() as patch:
        patch.setattr(building, "merge_runs", interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_store("edges.csv", "store", labels="y.csv")
    import_store("edges.csv", "store", labels="y.csv", resume=True)
    assert open_store("store").node_names is None


# ---------------------------------------------------------------------- input that changes


def test_a_file_that_changes_while_it_is_read_is_one_error_and_no_store(tmp_path, monkeypatch):
    """What was read before and after would not belong together."""
    monkeypatch.chdir(tmp_path)
    files = write_files(names=True)

    def append(*_):
        with Path("edges.csv").open("a") as stream:
            stream.write("new,newer,1\n")

    with pytest.raises(InputError, match=r"edges.csv: changed while it was read; run the same command again"):
        import_store(output="store", **files, progress=append)
    assert {path.name for path in tmp_path.iterdir()} == set(files.values())
    import_store(output="store", **write_files(names=True))


@pytest.mark.parametrize("nodes", [60, 20])
def test_a_store_that_is_replaced_while_it_is_added_to_is_one_error(tmp_path, monkeypatch, nodes):
    """By one of the same size, or of another, with which what was read before makes no sense."""
    monkeypatch.chdir(tmp_path)
    first, other = (nw.synthetic.dcsbm(count, avg_degree=8, features=4, seed=count) for count in (60, nodes))
    nw.write_store(first, "old")

    def replace(stage, *_):
        nw.write_store(other.replace(features=other.features + 1), "old", overwrite=True)

    write("more.csv", "0,1\n1,2\n")
    with pytest.raises(InputError, match=r"old/\S+: changed while it was read; run the same command again"):
        nw.append_store("old", "new", "more.csv", progress=replace)
    assert {path.name for path in tmp_path.iterdir()} == {"old", "more.csv"}
