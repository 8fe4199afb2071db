"""numba's ``njit``, for kernels whose compiled code is kept, with a cache that cannot stop a command."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache

from nodewise._util.errors import warn

CACHE = "NUMBA_CACHE_DIR"


class _Cache(FunctionCache):
    """A damaged file, as a power cut leaves it, is written again; on a disk that is full, kernels are not kept."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (OSError, MemoryError):  # the file may be sound
            return None
        except Exception:  # anything can come of reading a damaged file
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:  # a damaged index, too, that could not be made again
            _tell(self.cache_path, getattr(error, "strerror", None) or str(error))


@functools.cache
def _tell(folder: str, reason: str) -> None:
    warn(
        f"{folder}: compiled kernels cannot be kept there ({reason}), so each run compiles them again; free some space "
        f"or change its permissions, or set NUMBA_CACHE_DIR to another folder"
    )


def _cache_of(function: Any) -> _Cache:
    """Where numba keeps a kernel or, if it finds no place, in a folder of the user's own among temporary files."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~")
    if os.environ.get(CACHE) or os.path.isabs(home):  # else numba makes a folder called ~
        with suppress(RuntimeError):  # numba refuses to load the kernel
            return _Cache(function)
    if folder := _own_folder():
        os.environ[CACHE] = folder  # for processes that this one starts
        numba.config.CACHE_DIR = folder  # type: ignore[attr-defined]
    return _Cache(function)


def _own_folder() -> str | None:
    """A temporary folder that only this user can write to: a cache of compiled code that others can write runs theirs.

    The same in each run, or a new one where another user has its name; None where there is no place for it.
    """
    try:
        folder = os.path.join(tempfile.gettempdir(), f"nodewise-kernels-{getattr(os, 'getuid', lambda: 0)()}")
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            found = os.lstat(folder)
            if found.st_mode & 0o170077 != 0o040000 or found.st_uid != os.getuid():
                folder = tempfile.mkdtemp(prefix="nodewise-kernels-")
                atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
    except OSError:
        return None


def njit(**options: Any) -> Callable[[Any], Any]:
    """As numba's. Compiled code is kept for the next process."""

    def compiled(function: Any) -> Any:
        kernel = numba.njit(**options)(function)
        kernel._cache = _cache_of(function)
        return kernel

    return compiled
