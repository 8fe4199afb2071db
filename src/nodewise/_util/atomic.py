"""New files and folders that appear complete or not at all.

The output is written to a hidden sibling of the target, on the same file system. Once complete, it is flushed to the
disk and gets the target's name. A failure before that leaves the target as it was, and nothing else behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from nodewise._util.errors import StoreError
from nodewise._util.os_errors import writing

AnyPath = str | os.PathLike[str]
Ours = Callable[[Path], bool]
PARTIAL = r"\..+\.partial-[0-9a-f]{8}"  # the names of outputs that are not complete


def new_file(path: AnyPath) -> AbstractContextManager[Path]:
    """Write a file: the block gets a path to write to, which becomes ``path`` when the block ends without an error.

    The block must write to exactly the path it gets; an existing file is replaced.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "not a regular file"
        raise StoreError(f"{target}: this is {kind}; expected the name of a file to write; choose another name")
    return _staged(target, _try_file, os.replace)


def new_folder(path: AnyPath, overwrite: bool = False, *, ours: Ours | None = None) -> AbstractContextManager[Path]:
    """Write a folder: the block fills an empty one, which becomes ``path`` when the block ends without an error.

    With ``overwrite`` an existing folder is replaced; with ``ours``, only one that is empty or that ``ours`` recognizes
    as written by nodewise with nothing else in it, so that a mistyped path does not cost another folder.
    """
    check_new_folder(path, overwrite, ours=ours)
    return _staged(Path(path), os.mkdir, swap_folders)


def check_new_folder(path: AnyPath, overwrite: bool = False, *, ours: Ours | None = None) -> None:
    """Raise what :func:`new_folder` would, before a long computation starts."""
    target = Path(path)
    real = Path(os.path.realpath(target))
    with writing(target):
        _put_back(real)
        place = next(folder for folder in (*real.parents, real) if folder.exists())
    if not os.access(place, os.W_OK):
        raise StoreError(f"{target}: {place} is not writable; choose another place, or change its permissions")
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise StoreError(f"{target}: already exists; pass --overwrite (Python: overwrite=True) or choose another place")
    if not target.is_dir():
        raise StoreError(f"{target}: this is a file; expected the name of a folder to write; choose another place")
    if ours is None or ours(target):
        return
    with writing(target):
        others = sorted(os.listdir(target))
    if others:
        raise StoreError(
            f"{target}: holds {others[0]!r} and was not written by nodewise alone, so it is not overwritten; delete it "
            f"yourself or choose another place"
        )


@contextmanager
def _staged(path: Path, create: Callable[[Path], None], commit: Callable[[Path, Path], None]) -> Iterator[Path]:
    target = Path(os.path.realpath(path))  # the target of a link is replaced, not the link
    partial = _sibling(target, "partial")
    new_parents = [folder for folder in target.parents if not folder.exists()]
    try:
        with writing(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            create(partial)
        with writing(path, only_in=partial):
            yield partial
        with writing(path):
            flush(partial)
            commit(partial, target)
            flush_folder(target.parent)
    except BaseException:
        discard(partial)
        for folder in new_parents:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def beside(target: Path, purpose: str) -> Path:
    """A hidden name next to ``target``, different for each target and short enough for every file system."""
    name = target.name
    if len(name) > 50:
        name = f"{name[:50]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
    return target.with_name(f".{name}.{purpose}")


def _sibling(target: Path, purpose: str) -> Path:
    """A free name beside ``target``; not from tempfile, whose files and folders only their owner can read."""
    return beside(target, f"{purpose}-{secrets.token_hex(4)}")


def _try_file(partial: Path) -> None:
    """Fail now if no file can be made. It is removed again: a block that writes elsewhere must not leave it empty."""
    partial.touch(exist_ok=False)
    partial.unlink()


def swap_folders(partial: Path, target: Path) -> None:
    """Give ``partial`` the name ``target``, and remove the folder that had it."""
    if not target.exists():
        partial.rename(target)
        return
    if not _exchange(partial, target):
        old = _sibling(target, "old")
        target.rename(old)  # killed after this step, the next writer puts it back
        try:
            partial.rename(target)
        except BaseException:
            old.rename(target)
            raise
        old.rename(partial)  # a folder called old is always complete
    shutil.rmtree(partial, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap the names of two folders in a single step, where the system and the file system can."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return renameat2 is not None and renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def _put_back(target: Path) -> None:
    """Undo the first step of a :func:`swap_folders` that was killed before the second."""
    if not os.path.lexists(target):
        for old in list(target.parent.glob(glob.escape(beside(target, "old").name) + "-*"))[:1]:
            old.rename(target)


def flush(partial: Path) -> None:
    """Write a file, or a folder with all it holds, from the page cache to the disk."""
    for path in (*partial.rglob("*"), partial):
        (flush_folder if path.is_dir() else flush_file)(path)


def flush_file(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)  # Windows flushes only what can be written
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # some systems cannot, and the files themselves are safe by now
        flush_file(path)


def discard(path: Path) -> None:
    """Remove a file or a folder; what cannot be removed stays."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
