"""Arrays in files: read ahead in blocks, whole or not at all."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise import StoreError
from nodewise._util import pagecache


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    np.save(path, np.random.default_rng(0).standard_normal((5000, 33)).astype(np.float32))
    return np.load(path, mmap_mode="r")


def forget(array):
    """Ask the system to drop the file from memory."""
    span = pagecache.file_span(array)
    handle = os.open(span.path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


@given(st.lists(st.integers(0, 5000), min_size=2, max_size=30, unique=True), st.booleans(), st.integers(0, 2))
def test_blocks_are_the_rows_asked_for(matrix, cuts, cold, way):
    cuts = sorted(cuts)
    ranges = list(itertools.pairwise(cuts))[::2]
    if cold:
        forget(matrix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pagecache, "RESIDENT", 2.0)  # as if nothing were in memory
        patch.setattr(pagecache, "FREE_BYTES", 1 << 60 if way else 0)  # past the page cache, or through it
        if way == 2:  # a file system that knows no direct reads
            patch.setattr(os, "O_DIRECT", 0)
        for (first, last), block in zip(ranges, pagecache.RowBlocks(matrix, ranges), strict=True):
            assert np.array_equal(block, matrix[first:last])


def test_what_is_in_memory_is_used_where_it_lies(matrix):
    pagecache.preload(matrix)
    assert pagecache.resident_share(matrix) == 1.0
    (block,) = pagecache.RowBlocks(matrix, [(10, 20)])
    assert np.shares_memory(block, matrix)


def test_preloading_brings_all_of_it_in(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3_000_000))
    array = np.load(tmp_path / "a.npy", mmap_mode="r")
    forget(array)
    if pagecache.resident_share(array) > 0.5:
        pytest.skip("this file system keeps its files in memory")
    assert pagecache.preload(array) == array.nbytes
    assert pagecache.resident_share(array) == 1.0
    assert pagecache.preload(array) == 0


def test_a_view_knows_its_place_in_the_file(matrix):
    whole, part = pagecache.file_span(matrix), pagecache.file_span(np.asarray(matrix)[100:200])
    assert part.offset == whole.offset + 100 * 33 * 4
    assert part.size == 100 * 33 * 4
    assert pagecache.file_span(np.zeros(3)) is None
    assert pagecache.resident_share(np.zeros(3)) == 1.0


@pytest.mark.parametrize("direct", [True, False])
def test_a_truncated_file_is_named(tmp_path, monkeypatch, direct):
    path = tmp_path / "features.npy"
    np.save(path, np.zeros((100_000, 8), np.float32))
    rows = np.load(path, mmap_mode="r")
    monkeypatch.setattr(pagecache, "RESIDENT", 2.0)
    monkeypatch.setattr(pagecache, "FREE_BYTES", 1 << 60 if direct else 0)
    os.truncate(path, 1 << 20)
    with pytest.raises(StoreError, match=r"features\.npy: ends at byte 1,048,576, and its values should end"):
        list(pagecache.RowBlocks(rows, [(0, 50), (90_000, 100_000)]))


def test_a_disk_that_fails_is_named(tmp_path, monkeypatch):
    path = tmp_path / "features.npy"
    np.save(path, np.zeros((1000, 8), np.float32))
    rows = np.load(path, mmap_mode="r")
    monkeypatch.setattr(pagecache, "RESIDENT", 2.0)
    monkeypatch.setattr(pagecache, "FREE_BYTES", 1 << 60)

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(StoreError, match=r"features\.npy: cannot be read: Input/output error; run nodewise verify"):
        list(pagecache.RowBlocks(rows, [(0, 10)]))


def test_both_ways_to_ask_what_is_in_memory_agree(matrix, monkeypatch):
    pagecache.preload(matrix)
    part = matrix[100:200]
    known = pagecache.resident_share(matrix), pagecache.resident_share(part)
    monkeypatch.setattr(pagecache, "_cached_pages", lambda _: None)
    assert known == (1.0, 1.0) == (pagecache.resident_share(matrix), pagecache.resident_share(part))


def test_a_file_that_was_replaced_is_not_read_in_its_place(tmp_path):
    path = tmp_path / "features.npy"
    np.save(path, np.zeros((1000, 8), np.float32))
    rows = np.load(path, mmap_mode="r")
    assert len(list(pagecache.RowBlocks(rows, [(0, 10)]))) == 1
    np.save(tmp_path / "new.npy", np.ones((1000, 8), np.float32))
    os.replace(tmp_path / "new.npy", path)
    with pytest.raises(StoreError, match=r"features\.npy: was replaced since it was opened; open the graph again"):
        list(pagecache.RowBlocks(rows, [(0, 10)]))
