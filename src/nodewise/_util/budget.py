"""What an import may use: the memory that the user allows, less what the process holds already."""

from __future__ import annotations

from nodewise._util.errors import InputError
from nodewise._util.memory import resident_memory, show_bytes

RESERVE = 64 << 20  # what libraries take on the way and nobody counts


def room_for(what: str, memory: int, least: int, reserved: int = 0) -> int:
    """The bytes that are left of ``memory``; fewer than ``least`` are an error that says what would do."""
    taken = resident_memory() + RESERVE + reserved
    if memory - taken < least:
        raise too_small(what, memory, taken + least)
    return memory - taken


class TooLittleMemoryError(InputError):
    """A budget does not do."""


def too_small(what: str, memory: int, enough: int) -> TooLittleMemoryError:
    """The error for a budget that does not do."""
    wanted = -(-enough // 10**7) * 10  # in whole ten megabytes
    return TooLittleMemoryError(
        f"memory {show_bytes(memory)}: {what} takes at least {show_bytes(wanted * 10**6)}; pass --memory {wanted}MB or "
        f"more (Python: memory='{wanted}MB')"
    )
