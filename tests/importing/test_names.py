"""Names -> numbers: those of a dictionary that is filled in the same order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodewise.importing import hashing
from nodewise.importing import name_table as names
from nodewise.importing.name_table import NameFile, NameTable, TooManyNamesError, estimate_names, table_bytes

NAMES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ROOM = 8 << 20
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40) | st.sampled_from(["a", "b", "ab"])


def column(values):
    return pa.chunked_array([pa.array(values, pa.large_string())])


def numbered(rows):
    """What the table should say of rows of names, and all names in order."""
    seen = {}
    numbers = [[seen.setdefault(name, len(seen)) for name in row] for row in rows]
    return numbers, list(seen)


@NAMES
@given(parts=st.lists(st.lists(st.tuples(NAME, NAME), max_size=20), max_size=4))
def test_names_are_numbered_row_by_row_as_they_first_appear(parts):
    table = NameTable(Path(), ROOM)
    expected, order = numbered([row for part in parts for row in part])
    found = [table.number(*(column([row[side] for row in part]) for side in (0, 1))).T for part in parts if part]
    assert (np.concatenate(found).tolist() if found else []) == expected
    assert len(table) == len(order)
    assert table.file[0 : len(table)].to_pylist() == order


@NAMES
@given(all_names=st.lists(NAME, unique=True, max_size=40), keep=st.integers(0, 40), step=st.integers(1, 7))
def test_a_table_is_made_again_from_its_file(all_names, keep, step):
    keep = min(keep, len(all_names))
    NameTable(Path(), ROOM).number(column(all_names))
    table = NameTable(Path(), ROOM, keep=keep)
    assert len(table) == keep
    assert table.number(column(all_names))[0].tolist() == list(range(len(all_names)))
    parts = [table.file[first : first + step].to_pylist() for first in range(0, len(all_names), step)]
    assert [name for part in parts for name in part] == all_names


def test_tables_grow_and_names_of_a_slice_are_its_own(monkeypatch):
    monkeypatch.setattr(names, "LEAST_SLOTS", 8)
    everything = pa.array([f"name {i}" for i in range(5000)], pa.large_string())
    table = NameTable(Path(), ROOM)
    assert table.number(everything.slice(4000, 500))[0].tolist() == list(range(500))
    assert table.number(everything)[0, :2].tolist() == [500, 501]
    assert len(table) == 5000


def test_a_full_table_says_so():
    table = NameTable(Path(), table_bytes(1000))
    with pytest.raises(TooManyNamesError):
        table.number(column([str(i) for i in range(100_000)]))


@pytest.mark.parametrize("count", [10, 3_000, 300_000])
def test_distinct_names_are_counted_nearly(count):
    firsts = range(0, count, 100_000)
    parts = [column([f"user {i}" for i in range(first, min(first + 100_000, count))]) for first in firsts]
    assert abs(estimate_names([*parts, *parts]) - count) < 0.03 * count + 1  # repeats do not count


def test_the_hash_is_murmur3():
    """The reference values of MurmurHash3_x64_128 with seed 0."""
    texts = ["", "hello", "hello, world", "The quick brown fox jumps over the lazy dog"]
    expected = [
        (0x0000000000000000, 0x0000000000000000),
        (0xCBD8A7B341BD9B02, 0x5B1E906A48AE1D19),
        (0x342FAC623A5EBC8E, 0x4CDCBC079642414D),
        (0xE34BBC7BBC071B6C, 0x7A433CA9C49A9347),
    ]
    found = names._hashes(column(texts))
    assert [tuple(int(part) for part in row) for row in found] == expected


def test_equal_hashes_are_equal_strings_for_many_strings():
    texts = [f"{'x' * (i % 33)}{i}" for i in range(50_000)]
    assert np.unique(names._hashes(column(texts)), axis=0).shape[0] == len(texts)


def test_a_file_of_names_that_is_continued_drops_what_follows():
    file = NameFile(Path(), 0)
    file.append(np.array([1, 2, 3]), np.frombuffer(b"abbccc", np.uint8))
    file.close()
    again = NameFile(Path(), 2)
    again.append(np.array([1]), np.frombuffer(b"d", np.uint8))
    assert again[0:3].to_pylist() == ["a", "bb", "d"]
    assert hashing.EMPTY == 2**32 - 1
