"""What is not overwritten, what is refused, and what a full disk leaves."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from written import everything, full_graph, sparse_graph

from nodewise import InputError, StoreError
from nodewise.store import open_store, write_store


def test_an_existing_store_is_kept_unless_told_otherwise(full):
    before = everything(open_store(full))
    with pytest.raises(StoreError, match="--overwrite"):
        write_store(sparse_graph(), full)
    assert everything(open_store(full)) == before
    write_store(sparse_graph(), full, overwrite=True)
    assert everything(open_store(full)) == everything(sparse_graph())


def test_overwrite_does_not_take_what_others_put_among_the_splits(full):
    (full / "splits" / "mine.txt").write_text("precious")
    with pytest.raises(StoreError, match="not overwritten"):
        write_store(full_graph(), full, overwrite=True)
    assert (full / "splits" / "mine.txt").read_text() == "precious"


def test_overwrite_does_not_take_a_folder_that_is_no_store(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"thesis\.tex"):
        write_store(full_graph(), tmp_path, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    "provenance",
    [{"x": float("nan")}, {"x": object()}, {"x": {1, 2}}, {(1, 2): 3}],
    ids=["nan", "object", "set", "key"],
)
def test_provenance_that_json_cannot_hold_is_refused_and_nothing_is_written(tmp_path, provenance):
    with pytest.raises(InputError, match="provenance"):
        write_store(full_graph(), tmp_path / "s", provenance=provenance)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "a\nb", "x" * 200])
def test_a_split_whose_name_is_no_file_name_is_refused_and_nothing_is_written(tmp_path, name):
    graph = full_graph().replace(splits={name: np.arange(3)})
    with pytest.raises(InputError, match="rename it"):
        write_store(graph, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [False, True])
def test_a_full_disk_leaves_the_old_store_and_nothing_else(tmp_path, names):
    """A real failed write: the process may write no file above 64 KiB."""
    write_store(full_graph(), tmp_path / "s")
    what = "node_names=[secrets.token_hex(20) for _ in range(n)]" if names else "features=np.ones((n, 8), np.float32)"
    script = f"""
import resource
import secrets
import numpy as np
from nodewise import Graph, StoreError, write_store
n = 7000
graph = Graph.from_edges(np.array([[0], [1]]), n, {what})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
for target in ("s", "new/deep/t"):
    try:
        write_store(graph, {str(tmp_path)!r} + "/" + target, overwrite=True)
    except StoreError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.count("cannot be written: File too large; raise the limit") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    assert everything(open_store(tmp_path / "s")) == everything(full_graph())
