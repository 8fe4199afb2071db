"""Pipes and devices where a command expects a file: they may never answer, or never end."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

import nodewise as nw
from files import write
from nodewise._util.errors import StoreError

SECONDS = 20


@pytest.fixture(params=["pipe", "/dev/zero"])
def special(request):
    """Puts a pipe, or a link to a device, in the place of a file."""

    def put(path: str | Path) -> Path:
        Path(path).unlink(missing_ok=True)
        if request.param == "pipe":
            os.mkfifo(path)
        else:
            Path(path).symlink_to(request.param)
        return Path(path)

    return put


@contextmanager
def in_time():
    def stop(*_):
        raise AssertionError(f"still waiting after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store and a model."""
    folder = tmp_path_factory.mktemp("made")
    graph = nw.synthetic.dcsbm(60, 6.0, 3, features=4)
    nw.write_store(graph, folder / "store")
    nw.NIGCN(epochs=2, threads=1).fit(graph, range(20), range(20, 40)).save(folder / "model")
    return folder


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst", "npy", "npz", "parquet", "mtx", "graphml", "zip"])
def test_edges(run, special, ending):
    path = special(f"edges.{ending}")
    with in_time():
        code, _, err = run("import", "--edges", path, "-o", "s")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{path}: not a regular file but a pipe or a device; save what comes from it to a file first" in err
    assert not Path("s").exists()


@pytest.mark.parametrize("option", ["--features", "--labels", "--node-names"])
def test_files_about_nodes(run, special, option):
    path = special("values.csv")
    with in_time():
        code, _, err = run("import", "--edges", write("e.csv", "0,1\n1,2\n"), option, path, "-o", "s")
    assert code == 2
    assert f"{path}: not a regular file" in err


@pytest.mark.parametrize(
    ("command", "option"),
    [("predict", "--nodes"), ("predict", "--new-edges"), ("evaluate", "--labels"), ("train", "--split-file"),
     ("train", "--preset")],
)  # fmt: skip
def test_files_beside_a_graph(run, special, made, command, option):
    path = special("given.json" if option == "--preset" else "given.csv")
    model = () if command == "train" else (made / "model",)
    output = () if command == "evaluate" else ("-o", "out.csv")
    with in_time():
        code, _, err = run(command, *model, made / "store", option, path, *output)
    assert code == 2
    assert str(path) in err
    assert "not a regular file" in err


@pytest.mark.parametrize("file", ["manifest.json", "indices.npy", "features.npy"])
def test_a_file_of_a_store(special, made, tmp_path, file):
    nw.write_store(nw.open_store(made / "store"), tmp_path / "s")
    special(tmp_path / "s" / file)
    with in_time(), pytest.raises(StoreError, match=rf"s[:/].*({file}: not a regular file|has no {file})"):
        nw.open_store(tmp_path / "s", verify=True)


def test_an_output_is_refused_before_the_work(run, special, made, monkeypatch):
    path = special("out.csv")
    monkeypatch.setattr("nodewise.batch.runner._complete", lambda *_, **__: pytest.fail("computed"))
    with in_time():
        code, _, err = run("predict", made / "model", made / "store", "-o", path, "--overwrite")
    assert code == 2
    assert "out.csv: this is not a regular file; expected the name of a file to write" in err
    assert os.listdir() == ["out.csv"]


def test_a_shard_of_a_job_that_goes_on(run, special, made):
    command = ("predict", made / "model", made / "store", "-o", "out")
    assert run(*command)[0] == 0
    shard = special("out/part-00000.parquet")
    with in_time():
        code, _, err = run(*command)
    assert code == 2
    assert re.search(rf"{shard}: (this is not a regular file|is a symbolic link)", err)
