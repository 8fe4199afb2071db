"""A worker process that ends when the process that started it ends, however that happens."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time

LOOK_EVERY = 0.5  # seconds


@functools.cache  # one thread is enough
def end_with(parent: int) -> None:
    """End this process as soon as its parent, the process with the id ``parent``, has ended."""
    if parent != os.getpid():
        threading.Thread(target=_wait_and_end, args=(parent,), daemon=True).start()


def _wait_and_end(parent: int) -> None:
    if sys.platform == "win32":
        import _winapi

        with contextlib.suppress(OSError):  # it has ended already
            _winapi.WaitForSingleObject(_winapi.OpenProcess(0x100000, False, parent), _winapi.INFINITE)  # SYNCHRONIZE
    else:
        while os.getppid() == parent:  # an orphan gets another parent
            time.sleep(LOOK_EVERY)
    os._exit(1)
