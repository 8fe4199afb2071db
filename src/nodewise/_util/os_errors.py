"""Errors of the operating system as one message: which file, what is wrong with it, what to do next."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodewise._util.errors import InputError, NodewiseError, StoreError

_WRITE_ADVICE = {
    errno.ENOSPC: "free some space or choose another place",
    errno.EDQUOT: "free some space or choose another place",
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f) or choose another place",
    errno.EACCES: "change the permissions of its folder or choose another place",
    errno.EPERM: "change the permissions of its folder or choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOENT: "check that its folder is still there",
    errno.ENOTDIR: "a part of this path is a file, not a folder: choose another place",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EEXIST: "another process has written it in the meantime: choose another place",
    errno.ENOTEMPTY: "another process has written it in the meantime: choose another place",
}


@contextmanager
def writing(path: Path, only_in: Path | None = None) -> Iterator[None]:
    """Turn an OSError into a StoreError about ``path``; with ``only_in``, leave those about other files alone."""
    try:
        yield
    except NodewiseError:
        raise
    except OSError as error:
        about = error.filename
        if only_in is not None and isinstance(about, str) and not Path(about).is_relative_to(only_in):
            raise
        advice = _WRITE_ADVICE.get(error.errno or 0, "check the disk or choose another place")
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}; {advice}") from error


def _is_special(path: str | Path) -> bool:
    """Whether there is something here that is neither a file nor a folder."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def reading(
    path: str | Path,
    kind: str = "a file of its kind",
    damage: tuple[type[Exception], ...] = (),
    raises: type[NodewiseError] = InputError,
    advice: str = "check the file or fetch it again",
) -> Iterator[None]:
    """Turn an OSError into an error about ``path``, and one of ``damage`` into one that says it is not ``kind``.

    ``raises``: InputError for a user's file, StoreError for one that nodewise wrote. A pipe or a device in the place of
    the file is refused at once: it may never answer, or never end.

    >>> with reading("edges.csv"):
    ...     raise FileNotFoundError(2, "No such file or directory")
    Traceback (most recent call last):
    nodewise._util.errors.InputError: edges.csv: no such file or folder; check the path
    """
    if _is_special(path):
        what_next = "save what comes from it to a file first" if raises is InputError else advice
        raise raises(f"{path}: not a regular file but a pipe or a device; {what_next}")
    try:
        yield
    except NodewiseError:
        raise
    except FileNotFoundError as error:
        what_next = "check the path" if raises is InputError else advice
        raise raises(f"{path}: no such file or folder; {what_next}") from error
    except IsADirectoryError as error:
        raise raises(f"{path}: this is a folder; expected a file") from error
    except Exception as error:
        if not isinstance(error, (OSError, *damage)):
            raise
        if isinstance(error, OSError) and error.strerror is not None:
            raise raises(f"{path}: cannot be read: {error.strerror}; {advice}") from error
        raise raises(f"{path}: is cut off or not {kind} ({error}); {advice}") from error
