"""Run a function over chunks on threads; kernels release the GIL, so threads are enough."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from nodewise._util.errors import InputError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def thread_count(threads: int | None) -> int:
    """The number of threads to use: the given one, or as many as this process may run on."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise InputError(f"threads={threads!r}: expected a whole number of at least 1, or None for all cores")
    return threads


def map_chunks(function: Callable[[Chunk], Result], chunks: Iterable[Chunk], threads: int) -> list[Result]:
    """``[function(c) for c in chunks]``, on ``threads`` threads; after an error the rest is dropped."""
    chunks = list(chunks)
    if threads == 1 or len(chunks) < 2:
        return [function(chunk) for chunk in chunks]
    pool = ThreadPoolExecutor(min(threads, len(chunks)))
    try:
        futures = [pool.submit(function, chunk) for chunk in chunks]
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
