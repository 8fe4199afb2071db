"""Work on a Ray cluster: a few more calls in flight than there are cores, results as they are made.

Ray repeats a call whose worker process or machine dies. A call that raises is not repeated: it would raise again.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nodewise._util.errors import InputError, NodewiseError
from nodewise._util.threads import thread_count
from nodewise.batch.pieces import PieceError

RETRIES = 3  # of a call whose worker died
AHEAD = 2  # calls in flight for each that can run, so that no worker waits for its next
ANSWER_SECONDS = 10.0
LOCAL = "local"  # Ray's name for a cluster of its own on this machine


@contextmanager
def connected(address: str | None = None, threads: int = 1) -> Iterator[Any]:
    """The ``ray`` module, connected: to ``address``, else to ``$RAY_ADDRESS``, else to a new cluster on this machine.

    Where the program is connected already, that connection is used and left.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS") or LOCAL
    _check_answers(address)
    cores = {"num_cpus": max(threads, thread_count(None))} if address == LOCAL else {}
    try:
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False, **cores)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _unreachable(address, error) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def scatter(
    ray: Any, function: Callable[..., Any], calls: Mapping[int, tuple[Any, ...]], threads: int
) -> Iterator[tuple[int, Any]]:
    """``function(*arguments)`` for each of ``calls``, on ``threads`` cores; yields a call's key and its result.

    After the first failure no further call is sent; it is raised when those that run have ended. If the generator is
    closed, or interrupted, those that run are ended.
    """
    remote = ray.remote(function).options(num_cpus=threads, max_retries=RETRIES, retry_exceptions=False)
    flying: dict[Any, int] = {}
    waiting = sorted(calls, reverse=True)
    failure: PieceError | None = None
    try:
        while flying or (waiting and failure is None):
            # Asked each time, because clusters grow and shrink; at least one, so that a sleeping cluster wakes up.
            room = max(1, AHEAD * int(ray.cluster_resources().get("CPU", 0) // threads)) - len(flying)
            while waiting and failure is None and room > 0:
                key = waiting.pop()
                flying[remote.remote(*calls[key])] = key
                room -= 1
            (ready,), _ = ray.wait(list(flying), num_returns=1)
            key = flying.pop(ready)
            try:
                result = ray.get(ready)
            except Exception as error:  # whatever a call raises, and what Ray raises for workers that keep dying
                failure = failure or PieceError(key, f"failed on Ray: {_cause(error)}")
            else:
                yield key, result
    finally:
        for call in flying:
            ray.cancel(call, force=True)
    if failure is not None:
        raise failure


def _check_answers(address: str) -> None:
    """Raise at once where nobody listens: Ray would try for a quarter of an hour."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:  # auto, local
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> InputError:
    said = " ".join(str(error).split())
    return InputError(f"--address {address}: no Ray cluster answers ({said}); expected HOST:PORT of its head, or auto")


def _cause(error: Exception) -> str:
    """The message of an error that Ray passes on, with its type unless it is one of ours."""
    inner = getattr(error, "cause", None) or error
    said = " ".join(str(inner).split())
    return said if isinstance(inner, NodewiseError) else f"{type(inner).__name__}: {said}"


def check_place(on: str, address: str | None) -> None:
    """Raise before any work is done where ``on`` and ``address`` cannot be used."""
    if on not in ("local", "ray"):
        raise InputError(f"on={on!r}: expected 'local' or 'ray'")
    if on == "ray":
        _import_ray()
    elif address is not None:
        raise InputError(f"--address {address}: this is for a Ray cluster; pass --on ray too, or leave it out")


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "--on ray: Ray is not installed; run pip install 'nodewise[ray]', here and on every machine of the cluster"
        ) from error
    return ray
