"""Temporary folders that do not stay behind: those that a killed process left, the next one removes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nodewise._util.atomic import discard, discard_dead
from nodewise._util.locks import alone

PREFIX = "nodewise-work-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder among temporary files (``$TMPDIR``), locked by this process and removed at the end."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_mine(left):
            discard_dead(left)
    with ExitStack() as stack:
        yield _new_folder(stack)


def _new_folder(stack: ExitStack) -> Path:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            stack.enter_context(alone(folder))
        except (FileNotFoundError, BlockingIOError):  # another process took it for one that was left
            continue
        stack.callback(discard, folder)  # before the lock is freed
        return folder


def _is_mine(folder: Path) -> bool:
    try:
        return not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid()
    except OSError:
        return False
