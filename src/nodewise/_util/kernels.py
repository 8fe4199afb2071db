"""numba's ``njit``, for kernels whose compiled code is kept, with a cache that cannot stop a command."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache

from nodewise._util.errors import warn


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


def njit(**options: Any) -> Callable[[Any], Any]:
    """As numba's. Compiled code is kept for the next process."""

    def compiled(function: Any) -> Any:
        kernel = numba.njit(**options)(function)
        kernel._cache = _Cache(function)
        return kernel

    return compiled
