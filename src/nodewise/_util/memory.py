"""Amounts of memory: how much there is, and how people write it."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray

_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
}
_AMOUNT = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?i?)b?\s*", re.IGNORECASE)
_HUGE_PAGE = 2 << 20  # to give back less would split one
_CGROUP = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def parse_bytes(amount: str | int) -> int:
    """A number of bytes from what a person writes.

    >>> parse_bytes("4GB"), parse_bytes("1.5 GiB"), parse_bytes("512m")
    (4000000000, 1610612736, 512000000)
    """
    match = _AMOUNT.fullmatch(str(amount))
    unit = match[2].lower() if match else ""
    if match is None or unit not in _UNITS:
        raise InputError(f"memory {amount!r}: expected an amount such as 4GB, 512MiB or a number of bytes")
    return int(float(match[1]) * _UNITS[unit])


def show_bytes(count: float) -> str:
    """A number of bytes as a person reads it.

    >>> show_bytes(43_600_000_000), show_bytes(999)
    ('43.6 GB', '999 bytes')
    """
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.3g} {unit}"


def available_memory() -> int:
    """Bytes that can be had without swapping: what the system says, or the limit of this container if that is less."""
    amounts = [_field("MemAvailable"), *(_limit(path) for path in _CGROUP)]
    known = [amount for amount in amounts if amount is not None]
    if known:
        return min(known)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 4 << 30


def memory_budget(memory: int | str | None) -> int:
    """The bytes that may be used at a time: as asked for, or a quarter of what is available."""
    return available_memory() // 4 if memory is None else parse_bytes(memory)


def resident_memory() -> int:
    """Bytes of memory that this process holds, mapped files included; 0 where the system does not say."""
    return _own_pages(1)


def mapped_memory() -> int:
    """Bytes of files that this process has mapped and that are in memory; 0 where the system does not say."""
    return _own_pages(2)


def _own_pages(field: int) -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def give_back(array: AnyArray) -> None:
    """Return the memory of an array to the system, but for its edges, while the array lives on; it then holds zeros."""
    if sys.platform != "linux":
        return
    address = array.ctypes.data
    first, last = -(-address // _HUGE_PAGE) * _HUGE_PAGE, (address + array.nbytes) // _HUGE_PAGE * _HUGE_PAGE
    if first < last:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)


def _field(name: str) -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            return next((int(line.split()[1]) << 10 for line in stream if line.startswith(f"{name}:")), None)
    except (OSError, ValueError, IndexError):
        return None


def _limit(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as stream:
            return int(stream.read())
    except (OSError, ValueError):  # "max": no limit
        return None
