"""Amounts of memory: parse and show them, how much is available or in use, and giving some back."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray

with suppress(ImportError):  # Windows has none
    import resource

_UNITS = {unit: 1000**power for power, unit in enumerate(("", "k", "m", "g", "t"))}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("kmgt", 1)}
_AMOUNT = re.compile(r"\s*([0-9]{0,18}\.?[0-9]{1,18})\s*([kmgt]?i?)b?\s*", re.IGNORECASE)
_HUGE_PAGE = 2 << 20  # giving back less would split one
_CGROUP = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

RESERVE = 64 << 20  # what libraries allocate on the way


def parse_bytes(amount: str | int) -> int:
    """A number of bytes from what a person writes.

    >>> parse_bytes("4GB"), parse_bytes("1.5 GiB"), parse_bytes("512m")
    (4000000000, 1610612736, 512000000)
    """
    if type(amount) is int and amount >= 0:
        return amount
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
    """Bytes available without swapping: what the system says, or the limit of a container or process if it is less."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    amounts = [int(text) for text in map(_read, _CGROUP) if text.isdigit()]  # "max": no limit
    if found:
        amounts.append(int(found[1]) << 10)
    if (limit := address_space()) < math.inf:
        amounts.append(max(0, int(limit) - _own_pages(0)))
    if amounts:
        return min(amounts)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 4 << 30


def address_space() -> float:
    """The bytes of address space that this process may have."""
    if sys.platform != "linux":
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return math.inf if limit == resource.RLIM_INFINITY else limit


def memory_budget(memory: int | str | None) -> int:
    """The bytes that may be used at a time: those given, or a quarter of what is available."""
    return available_memory() // 4 if memory is None else parse_bytes(memory)


def resident_memory() -> int:
    """Bytes of memory that this process holds, mapped files included; 0 where the system does not say."""
    return _own_pages(1)


def mapped_memory() -> int:
    """Bytes of files that this process has mapped and that are in memory; 0 where the system does not say."""
    return _own_pages(2)


def _own_pages(field: int) -> int:
    counts = _read("/proc/self/statm").split()
    return int(counts[field]) * os.sysconf("SC_PAGE_SIZE") if counts else 0


def _read(path: str) -> str:
    """What the system says in a file, or nothing where it has no such file."""
    try:
        return Path(path).read_text("ascii").strip()
    except OSError:
        return ""


def give_back(array: AnyArray) -> None:
    """Return the memory of an array to the system, except at its edges; the array then holds zeros there."""
    if sys.platform != "linux":
        return
    address = array.ctypes.data
    first, last = -(-address // _HUGE_PAGE) * _HUGE_PAGE, (address + array.nbytes) // _HUGE_PAGE * _HUGE_PAGE
    if first < last:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)


def trim_memory() -> None:
    """Return to the system what was freed and is kept for later by the allocators of C and of Arrow."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):  # glibc
        ctypes.CDLL(None).malloc_trim(0)


def room_for(what: str, memory: int, least: int, reserved: int = 0) -> int:
    """The bytes that are left of ``memory``; fewer than ``least`` are an error that says what would be enough."""
    taken = resident_memory() + RESERVE + reserved
    if memory - taken < least:
        raise too_small(what, memory, taken + least)
    return memory - taken


class TooLittleMemoryError(InputError):
    """A memory budget is too small."""


def too_small(what: str, memory: int, enough: int) -> TooLittleMemoryError:
    """The error for a budget below ``enough``."""
    wanted = -(-enough // 10**7) * 10  # in whole ten megabytes
    return TooLittleMemoryError(
        f"memory {show_bytes(memory)}: {what} takes at least {show_bytes(wanted * 10**6)}; pass --memory {wanted}MB or "
        f"more (Python: memory='{wanted}MB')"
    )
