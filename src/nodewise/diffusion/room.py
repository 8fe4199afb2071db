"""Whether results fit into memory, before they are made: an allocation that is too large ends in an error of numpy."""

from __future__ import annotations

from nodewise._util.errors import InputError
from nodewise._util.memory import available_memory, show_bytes

SMALL = 64 << 20  # bytes that are always there


def check_room(needed: int, hops: int) -> None:
    """Raise if ``needed`` bytes are more than what is available; ``hops``: how many are kept one by one."""
    if needed <= SMALL or needed <= (available := available_memory()):
        return
    kept = f"per_hop=True keeps {hops:,} hops of each node, which take" if hops > 1 else "the weights and rows take"
    advice = "bound the hops with max_hops, or " if hops > 1 else ""
    raise InputError(
        f"{kept} {show_bytes(needed)}, and {show_bytes(available)} of memory are available; {advice}ask for fewer "
        f"nodes at a time"
    )
