"""A store whose files were altered: it is noticed, and said which."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written import SLOW_DISK, everything, rewrite_manifest, sparse_graph

from nodewise import Graph, StoreError
from nodewise.store import blocks as block_files
from nodewise.store import open_store, reading, verify_store, write_store


@SLOW_DISK
@given(data=st.data())
def test_a_flipped_bit_anywhere_is_noticed(stored, data):
    before = everything(open_store(stored))
    path = data.draw(st.sampled_from(sorted(p for p in stored.rglob("*") if p.is_file())))
    good = path.read_bytes()
    position = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bad)
    try:
        graph = open_store(stored)
    except StoreError:
        pass
    else:  # only a space for another space in the manifest, which is the same JSON
        assert path.name == "manifest.json"
        assert everything(graph) == before
    finally:
        path.write_bytes(good)


@SLOW_DISK
@given(data=st.data())
def test_an_unverified_store_with_a_flipped_bit_fails_cleanly_or_not_at_all(stored, data):
    path = data.draw(st.sampled_from(sorted(p for p in stored.rglob("*") if p.is_file())))
    good = path.read_bytes()
    # Headers are where parsing can go wrong, so look there more often than elsewhere.
    position = data.draw(st.integers(0, min(len(good), 128) - 1) | st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bad)
    try:
        graph = open_store(stored, verify=False)
        _ = None if graph.node_names is None else list(graph.node_names)
    except StoreError:
        pass
    finally:
        path.write_bytes(good)


@SLOW_DISK
@given(data=st.data())
def test_a_truncated_file_is_noticed_even_unverified(stored, data):
    path = data.draw(st.sampled_from(sorted(p for p in stored.rglob("*") if p.is_file())))
    good = path.read_bytes()
    path.write_bytes(good[: data.draw(st.integers(0, len(good) - 2))])  # the last byte of the manifest is a newline
    try:
        with pytest.raises(StoreError):
            open_store(stored, verify=False)
    finally:
        path.write_bytes(good)


def test_a_bad_block_is_named_by_file_and_number(tmp_path, monkeypatch):
    monkeypatch.setattr(block_files, "BLOCK_BYTES", 4096)
    write_store(Graph.from_edges(np.array([[0], [1]]), 3000, np.ones((3000, 7))), tmp_path / "s")
    with (tmp_path / "s" / "features.npy").open("r+b") as file:
        file.seek(3 * 4096 + 5)
        file.write(b"\xff")
    with pytest.raises(StoreError, match=r"features\.npy: block 3 of 21"):
        verify_store(tmp_path / "s")


def test_a_large_store_is_verified_only_when_asked(full, monkeypatch):
    monkeypatch.setattr(reading, "VERIFY_UP_TO", 0)
    with (full / "features.npy").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    open_store(full)
    with pytest.raises(StoreError, match=r"features\.npy: block 0"):
        open_store(full, verify=True)


@pytest.mark.parametrize("name", ["indptr.npy", "features.npy", "names.parquet", "splits/train.npy"])
def test_a_missing_file_is_named(full, name):
    (full / name).unlink()
    with pytest.raises(StoreError, match=rf"{name}: no such file or folder; the store is damaged"):
        open_store(full, verify=False)


def test_a_file_of_another_type_or_shape_is_noticed_without_verifying(full):
    labels = np.load(full / "labels.npy")
    np.save(full / "labels.npy", labels.view(np.float64))  # the same size
    with pytest.raises(StoreError, match=r"labels\.npy: holds <f8 values of shape \(30,\), the manifest says <i8"):
        open_store(full, verify=False)
    np.save(full / "labels.npy", labels.reshape(5, 6))
    with pytest.raises(StoreError, match=r"labels\.npy: holds <i8 values of shape \(5, 6\)"):
        open_store(full, verify=False)


@pytest.mark.parametrize(("at", "value"), [(0, 1), (-1, 7)])
def test_row_pointers_that_do_not_span_the_entries_are_noticed_without_verifying(full, at, value):
    indptr = np.load(full / "indptr.npy")
    indptr[at] = value
    np.save(full / "indptr.npy", indptr)
    with pytest.raises(StoreError, match=r"indptr\.npy: runs from"):
        open_store(full, verify=False)


def forge(folder: Path, name: str, change) -> None:
    """Alter an array and the checksums with it."""
    array = np.load(folder / name)
    change(array)
    np.save(folder / name, array)
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    rewrite_manifest(folder, lambda content: content["files"][name].update(sha256=[digest]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("indices.npy", 30),
        ("indptr.npy", 10**6),
        ("weights.npy", np.nan),
        ("weights.npy", -1),
        ("labels.npy", -2),
        ("splits/train.npy", 30),
        ("splits/train.npy", -1),
    ],
)
def test_a_forged_array_that_points_outside_is_noticed(full, name, value):
    forge(full, name, lambda array: array.__setitem__(1, value))
    with pytest.raises(StoreError, match=rf"{name}: holds impossible values"):
        open_store(full)


@pytest.mark.parametrize("row", range(3, 9))
def test_a_row_without_entries_is_noticed_wherever_blocks_are_cut(full, monkeypatch, row):
    """Every node has its loop."""
    forge(full, "indptr.npy", lambda array: array.__setitem__(row + 1, array[row]))
    monkeypatch.setattr(block_files, "BLOCK_BYTES", 32)  # four numbers are read at a time
    with pytest.raises(StoreError, match=r"indptr\.npy: holds impossible values"):
        open_store(full)


@pytest.mark.parametrize(("name", "value"), [("features_indices.npy", 9), ("features_indptr.npy", 10**6)])
def test_forged_sparse_features_that_point_outside_are_noticed(tmp_path, name, value):
    write_store(sparse_graph(), tmp_path / "s")
    forge(tmp_path / "s", name, lambda array: array.__setitem__(1, value))
    with pytest.raises(StoreError, match=rf"{name}: holds impossible values"):
        open_store(tmp_path / "s")


def test_a_pickled_array_is_not_loaded(full):
    """Loading this one would make a folder."""

    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(full / "attacked"),)

    np.save(full / "labels.npy", np.array([Attack()], object), allow_pickle=True)
    data = (full / "labels.npy").read_bytes().ljust(400, b"\x00")
    (full / "labels.npy").write_bytes(data)
    changes = {"bytes": len(data), "sha256": [hashlib.sha256(data).hexdigest()]}
    rewrite_manifest(full, lambda content: content["files"]["labels.npy"].update(changes))
    with pytest.raises(StoreError, match=r"labels\.npy: is not an \.npy file"):
        open_store(full)
    assert not (full / "attacked").exists()
