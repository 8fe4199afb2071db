"""Outputs appear whole or not at all.

What is written goes to a hidden sibling of the target, on the same file system. Once complete it is flushed to the
disk and takes the target's name. Whatever fails before that leaves the target as it was, and no trace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from nodewise.errors import NodewiseError, StoreError

AnyPath = str | os.PathLike[str]
Ours = Callable[[Path], bool]

_ADVICE = {
    errno.ENOSPC: "free some space or choose another place",
    errno.EDQUOT: "free some space or choose another place",
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f) or choose another place",
    errno.EACCES: "change the permissions of its folder or choose another place",
    errno.EPERM: "change the permissions of its folder or choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOENT: "check that its folder is still there",
    errno.ENOTDIR: "a part of this path is a file, not a folder: choose another place",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def new_file(path: AnyPath) -> AbstractContextManager[Path]:
    """Write a file: the block gets a path to write to, which becomes ``path`` when the block ends without an error.

    The block must write to exactly the path it gets; an existing file is replaced.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "not a regular file"
        raise StoreError(f"{target}: this is {kind}, and a file is to be written; choose another name")
    return _staged(target, _try_file, os.replace)


def new_folder(path: AnyPath, overwrite: bool = False, *, ours: Ours | None = None) -> AbstractContextManager[Path]:
    """Write a folder: the block fills an empty one, which becomes ``path`` when the block ends without an error.

    With ``overwrite`` an existing folder is replaced; with ``ours``, only one that is empty or of which ``ours`` says
    that it was written by us and holds nothing else: a mistyped path does not cost a folder of something else.
    """
    check_new_folder(path, overwrite, ours=ours)
    return _staged(Path(path), os.mkdir, swap_folders)


def check_new_folder(path: AnyPath, overwrite: bool = False, *, ours: Ours | None = None, inside: bool = False) -> None:
    """Raise what :func:`new_folder` would, for those who want to know before they start a long computation.

    ``inside``: a folder that is there is not replaced, but written into.
    """
    target = Path(path)
    real = Path(os.path.realpath(target))
    with explained(target):
        place = next(folder for folder in [real] * inside + [*real.parents, real] if folder.exists())
    if not os.access(place, os.W_OK):
        raise StoreError(f"{target}: {place} cannot be written in; choose another place, or change its permissions")
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise StoreError(f"{target}: exists already; pass --overwrite (Python: overwrite=True) or choose another place")
    if not target.is_dir():
        raise StoreError(f"{target}: this is a file, and a folder is to be written; choose another place")
    if ours is None or ours(target):
        return
    with explained(target):
        others = sorted(os.listdir(target))
    if others:
        raise StoreError(
            f"{target}: holds {others[0]!r} and was not written as a whole by nodewise, so it is not overwritten; "
            f"delete it yourself or choose another place"
        )


@contextmanager
def _staged(path: Path, create: Callable[[Path], None], commit: Callable[[Path, Path], None]) -> Iterator[Path]:
    target = Path(os.path.realpath(path))  # through a link, what it points to is replaced, not the link
    partial = _sibling(target, "partial")
    new_parents = [folder for folder in target.parents if not folder.exists()]
    try:
        with explained(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            create(partial)
        with explained(path, only_in=partial):
            yield partial
        with explained(path):
            flush(partial)
            commit(partial, target)
            flush_folder(target.parent)
    except BaseException:
        _discard(partial)
        for folder in new_parents:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def explained(path: Path, only_in: Path | None = None) -> Iterator[None]:
    """Turn an OSError into a StoreError about ``path``; with ``only_in``, leave those about other files alone."""
    try:
        yield
    except NodewiseError:
        raise
    except OSError as error:
        about = error.filename
        if only_in is not None and isinstance(about, str) and not Path(about).is_relative_to(only_in):
            raise
        advice = _ADVICE.get(error.errno or 0, "check the disk or choose another place")
        reason = error.strerror or str(error)
        raise StoreError(f"{path}: cannot be written: {reason}; {advice}") from error


def _sibling(target: Path, purpose: str) -> Path:
    """A free name beside ``target``; not by tempfile, whose files and folders only their owner can read."""
    return target.with_name(f".{target.name[:60]}.{purpose}-{secrets.token_hex(4)}")


def _try_file(partial: Path) -> None:
    """Fail now where no file can be made. It is not kept: a block that writes elsewhere must not leave it empty."""
    partial.touch(exist_ok=False)
    partial.unlink()


def swap_folders(partial: Path, target: Path) -> None:
    if not target.exists():
        partial.rename(target)
        return
    old = _sibling(target, "old")
    target.rename(old)
    try:
        partial.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def flush(partial: Path) -> None:
    """Bring a file, or all that a folder holds, from the page cache to the disk."""
    if not partial.is_dir():
        flush_file(partial)
        return
    for folder, _, files in os.walk(partial):
        for name in files:
            flush_file(Path(folder, name))
        flush_folder(Path(folder))


def flush_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot, and the files themselves are safe by now
        flush_file(path)


def _discard(partial: Path) -> None:
    if partial.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            partial.unlink()
