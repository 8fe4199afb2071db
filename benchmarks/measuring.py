"""What benchmarks share: a process of its own for a measurement, the memory that it holds, and results as JSON.

Imports only the standard library, so that a process holds no more than what it measures.
"""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

LOOK_EVERY = 0.05  # seconds


def alone(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """What a function returns in a new process, so that its memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *given, **options).result()


def measured(function: Callable[..., Any], *given: Any, **options: Any) -> dict[str, Any]:
    """What a function returns (``returned``) and takes in a process of its own: seconds, and the most memory held."""
    return alone(_measured, function, *given, **options)


def _measured(function: Callable[..., Any], *given: Any, **options: Any) -> dict[str, Any]:
    started = time.perf_counter()
    returned = function(*given, **options)
    return {
        "seconds": time.perf_counter() - started,
        "peak_bytes": status_bytes("VmHWM"),
        "returned": returned,
    }


def status_bytes(field: str) -> int:
    """A line of /proc/self/status, in bytes. ``VmHWM``, the most memory held, is not ``ru_maxrss``, which counts what
    the parent held when it started the process too; ``RssAnon`` is the memory held now, less mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


class Watch:
    """The most anonymous memory that this process held while it was watched; file pages are the kernel's to drop."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._stop.wait(LOOK_EVERY):
            self.peak = max(self.peak, status_bytes("RssAnon"))

    def __enter__(self) -> Watch:
        self.peak = status_bytes("RssAnon")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, status_bytes("RssAnon"))


def best_of(repeats: int, *functions: Callable[[], Any]) -> list[float]:
    """The best time of each function, taking turns so that a busy moment hits them all."""
    times = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            started = time.perf_counter()
            function()
            times[i] = min(times[i], time.perf_counter() - started)
    return times


def kept(file: Path) -> dict[str, Any]:
    """The results that a file holds; none if it is not there."""
    return json.loads(file.read_text()) if file.is_file() else {}


def keep(result: Any, file: Path | None) -> None:
    """Write results as JSON, if a file is given."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
