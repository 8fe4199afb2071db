"""Arrays written in parts: what numpy reads back, and the hashes of their blocks, however they were cut."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodewise.store import blocks
from nodewise.store.streaming import HEADER_BYTES, ArrayWriter

BLOCK = 256


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", BLOCK)
    monkeypatch.chdir(tmp_path)


def check(stored, array):
    """That the file holds ``array``, and that the writer says of it what is true."""
    data = Path("a.npy").read_bytes()
    assert np.array_equal(np.load("a.npy"), array)
    assert np.load("a.npy").dtype == array.dtype
    assert (stored.dtype, stored.shape, stored.bytes, stored.block_bytes) == (
        array.dtype.str,
        array.shape,
        len(data),
        BLOCK,
    )
    expected = [hashlib.sha256(data[i : i + BLOCK]).hexdigest() for i in range(0, len(data), BLOCK)]
    assert list(stored.sha256) == expected


def parts_of(array, cuts):
    return np.split(array, sorted(min(cut, array.shape[0]) for cut in cuts))


PARTS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@PARTS
@given(
    rows=st.integers(0, 300),
    cuts=st.lists(st.integers(0, 300), max_size=5),
    dtype=st.sampled_from(["<i8", "<u4", "<f4", "|i1"]),
    width=st.sampled_from([None, 1, 3]),
)
def test_any_parts_make_the_same_file(rows, cuts, dtype, width):
    shape = (rows,) if width is None else (rows, width)
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with ArrayWriter(Path("a.npy"), dtype, width) as writer:
        for part in parts_of(array, cuts):
            writer.append(part)
        assert writer.rows == rows
        stored = writer.finish()
    check(stored, array)


@PARTS
@given(
    rows=st.integers(0, 300),
    kept=st.integers(0, 300),
    garbage=st.integers(0, 100),
    finished=st.booleans(),
    cuts=st.lists(st.integers(0, 300), max_size=3),
)
def test_a_file_that_was_cut_off_goes_on_from_the_rows_kept(rows, kept, garbage, finished, cuts):
    kept = min(kept, rows)
    array = np.random.default_rng(rows).integers(0, 1000, rows).astype("<u4")
    with ArrayWriter(Path("a.npy"), "<u4") as writer:
        writer.append(array[:kept])
        writer.append(np.full(garbage, 7, "<u4"))
        if finished:
            writer.finish()
    with ArrayWriter(Path("a.npy"), "<u4", keep=kept) as writer:
        for part in parts_of(array[kept:], cuts):
            writer.append(part)
        stored = writer.finish()
    check(stored, array)


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("blocks_full", [1, 2])
def test_files_that_end_at_a_block(blocks_full, extra):
    array = np.arange(blocks_full * BLOCK - HEADER_BYTES + extra).astype("|i1")
    with ArrayWriter(Path("a.npy"), "|i1") as writer:
        writer.append(array)
        stored = writer.finish()
    check(stored, array)


def test_what_is_appended_is_converted_and_need_not_be_contiguous():
    array = np.arange(40).reshape(10, 4)
    with ArrayWriter(Path("a.npy"), "<f4", 2) as writer:
        writer.append(array[:, ::2])
        stored = writer.finish()
    check(stored, array[:, ::2].astype("<f4"))


def test_a_file_with_fewer_rows_than_are_kept_is_refused_and_left_as_it_is():
    """A journal of an import may have been altered together with its checksums, and claim any number of rows."""
    with ArrayWriter(Path("a.npy"), np.int64) as writer:
        writer.append(np.arange(30))
    size = Path("a.npy").stat().st_size
    with pytest.raises(ValueError, match=r"a\.npy: has fewer bytes than 1,000,000,000,000 rows take"):
        ArrayWriter(Path("a.npy"), np.int64, keep=10**12)
    assert Path("a.npy").stat().st_size == size
