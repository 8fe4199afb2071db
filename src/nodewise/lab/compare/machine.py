"""What a comparison runs on, and how much memory a process has used."""

from __future__ import annotations

import os
import platform
from typing import Any

from nodewise._util.threads import thread_count


def peak_memory(process: int | str = "self") -> int | None:
    """The most bytes that a process has held so far, including mapped files; None if the system does not say."""
    found = _first_field(f"/proc/{process}/status", "VmHWM")
    return None if found is None else int(found.split()[0]) << 10


def describe_machine() -> dict[str, Any]:
    """Usable cores, bytes of memory, processor and system."""
    return {
        "cores": thread_count(None),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None,
        "processor": _first_field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "system": platform.platform(),
    }


def _first_field(path: str, name: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return next((line.partition(":")[2].strip() for line in stream if line.startswith(name)), None)
    except OSError:  # another system, or a process that has ended
        return None
