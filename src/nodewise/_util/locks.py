"""Locks on files and folders themselves. The system frees a lock when its process ends, however it ends."""

from __future__ import annotations

import errno
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_PAUSE = 0.01  # seconds between two attempts


@contextmanager
def alone(path: Path, wait: float = 0.0, create: bool = False) -> Iterator[bool]:
    """Hold the lock of a file or a folder; yields False where the system or the file system has no such locks.

    Raises BlockingIOError if it is taken for longer than ``wait`` seconds, FileNotFoundError if ``path`` is gone or
    another file by then. A symbolic link is not followed. ``create`` makes the file if it is not there.
    """
    if sys.platform == "win32":
        yield False
        return
    handle = _opened(path, create)
    try:
        sure = handle is not None and _locked(handle, path, time.monotonic() + wait if wait < math.inf else math.inf)
        if sure and not _same(handle, path):
            raise FileNotFoundError(errno.ENOENT, "replaced or removed by another process", str(path))
        yield sure
    finally:
        if handle is not None:
            os.close(handle)


def _opened(path: Path, create: bool) -> int | None:
    """A handle, or None where the file cannot be opened; for writing, without which some network disks lock nothing."""
    ways = os.O_RDWR | (os.O_CREAT if create else 0), os.O_RDONLY  # a folder can only be read
    for way in ways:
        try:
            return os.open(path, way | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            raise
        except OSError:
            if create:
                raise
    return None


def _locked(handle: int, path: Path, deadline: float) -> bool:
    """Wait for the lock; False where there are none."""
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _TAKEN:
                return False
            if time.monotonic() >= deadline:
                raise BlockingIOError(error.errno, "in use by another process", str(path)) from error
            time.sleep(_PAUSE)
        else:
            return True


def _same(handle: int | None, path: Path) -> bool:
    """Whether ``path`` still is what was opened, and not a new file of that name."""
    try:
        return handle is not None and os.path.samestat(os.fstat(handle), os.lstat(path))
    except OSError:
        return False
