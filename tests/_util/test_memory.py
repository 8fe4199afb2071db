"""Amounts of memory as people write them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits import limited
from nodewise import InputError
from nodewise._util import memory
from nodewise._util.memory import available_memory, give_back, mapped_memory, parse_bytes, resident_memory, show_bytes


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("4GB", 4 * 10**9),
        ("4 gb", 4 * 10**9),
        ("4G", 4 * 10**9),
        (".5T", 5 * 10**11),
        ("1.5GiB", 3 << 29),
        ("512MiB", 512 << 20),
        ("64k", 64_000),
        ("2TB", 2 * 10**12),
        ("123", 123),
        (123, 123),
        ("7b", 7),
    ],
)
def test_amounts_are_read_as_people_write_them(text, amount):
    assert parse_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "GB", "4XB", "-4GB", "4 G B", "4GBs", "four", "1e9", "1.2.3", "ib"])
def test_what_is_no_amount_is_an_error_that_shows_one(text):
    with pytest.raises(InputError, match="4GB"):
        parse_bytes(text)


@given(st.integers(0, 10**16))
def test_what_is_shown_can_be_read_back(amount):
    shown = parse_bytes(show_bytes(amount).replace(" bytes", "").replace(" ", ""))
    assert abs(shown - amount) <= 0.006 * amount


def test_this_machine_has_memory():
    assert 0 < available_memory() < 1 << 50
    assert 0 < mapped_memory() < resident_memory() < 1 << 50


@pytest.mark.parametrize(
    ("limit", "expected"), [("1000000", 1_000_000), ("max", 2048 << 10), ("9223372036854771712", 2048 << 10)]
)
def test_the_limit_of_a_container_counts_where_it_is_less(monkeypatch, limit, expected):
    """Who plans for all memory of the machine is killed in a smaller container."""
    said = {"/proc/meminfo": "MemTotal: 4096 kB\nMemAvailable: 2048 kB", "/sys/fs/cgroup/memory.max": limit}
    monkeypatch.setattr(memory, "_read", lambda path: said.get(path, ""))
    assert available_memory() == expected


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_limit_on_address_space_counts_where_it_is_less():
    """As ulimit -v sets it: who plans for all memory of the machine gets a MemoryError."""
    with limited(100 << 20):
        said = available_memory()
    assert 0 < said <= 100 << 20


def test_memory_is_counted():
    before = resident_memory()
    held = bytearray(b"x" * (64 << 20))
    assert before + (48 << 20) < resident_memory() < available_memory() + before + len(held)


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has this meaning of madvise")
def test_what_is_given_back_is_no_longer_held_and_nothing_beside_it_is_touched():
    array = np.ones(16 << 20, np.int64)  # 128 MB
    part = array[3 << 20 : 13 << 20]
    before = resident_memory()
    give_back(part)
    assert resident_memory() < before - (70 << 20)
    assert np.all(array[: 3 << 20] == 1)
    assert np.all(array[13 << 20 :] == 1)
    give_back(array[:10])  # less than a page: stays
    assert np.all(array[:10] == 1)
