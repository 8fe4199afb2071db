"""New files and folders that appear complete or not at all.

The output is written to a hidden sibling of the target, on the same file system. Once complete, it is flushed to the
disk and gets the target's name. A failure before that leaves the target as it was, and nothing else behind. A kill
can leave the sibling: its process holds a lock on it while it lives, so the next writer of the target knows what may
be removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from nodewise._util.errors import StoreError
from nodewise._util.locks import alone
from nodewise._util.os_errors import writing

AnyPath = str | os.PathLike[str]
Ours = Callable[[Path], bool]
PARTIAL = r"\..+\.partial-[0-9a-f]{8}"  # the names of outputs that are not complete
KEEP, EXCHANGE = 1, 2  # ways of Linux to rename, where the file system has them
PATIENCE = 10.0  # seconds to wait for another process that renames or removes something


def new_file(path: AnyPath, overwrite: bool = True) -> AbstractContextManager[Path]:
    """Write a file: the block gets a path to write to, which becomes ``path`` when the block ends without an error.

    The block must write to exactly the path it gets. An existing file is replaced or, without ``overwrite``, an error,
    also one that appears while the block runs.
    """
    check_new_file(path, overwrite)

    def commit(partial: Path, target: Path) -> None:
        if partial.stat().st_mtime_ns == 0:
            raise FileNotFoundError(errno.ENOENT, "nothing was written", str(partial))
        if overwrite or not _rename(partial, target, KEEP):
            check_new_file(path, overwrite)
            os.replace(partial, target)

    return _staged(Path(path), _empty_file, commit)


def check_new_file(path: AnyPath, overwrite: bool = False) -> None:
    """Raise if no file can be written here, or one is there and may not be replaced, before a long computation."""
    target, real = Path(path), real_path(path)
    with writing(target):
        if real.exists() and not real.is_file():
            kind = "a folder" if real.is_dir() else "not a regular file"
            raise StoreError(f"{target}: this is {kind}; expected the name of a file to write; choose another name")
        if real.exists() and not overwrite:
            raise StoreError(
                f"{target}: already exists; pass --overwrite (Python: overwrite=True) or choose another name"
            )


def real_path(path: AnyPath) -> Path:
    """Where ``path`` leads, through links. Raises where nothing can be written under this name."""
    target = Path(path)
    with writing(target):
        with contextlib.suppress(FileNotFoundError):
            os.lstat(target)  # fails if the name is too long, inside of a file or of a folder that is closed to us
        upwards = [i for i, part in enumerate(target.parts) if part == ".."]
        if upwards and not (begin := Path(*target.parts[: upwards[-1] + 1])).exists():
            # The system finds nothing here, but realpath would drop the missing folder and lead to another place.
            raise StoreError(f"{target}: {begin} does not exist; create it, or write the path without '..'")
    return Path(os.path.realpath(target))


def new_folder(path: AnyPath, overwrite: bool = False, *, ours: Ours | None = None) -> AbstractContextManager[Path]:
    """Write a folder: the block fills an empty one, which becomes ``path`` when the block ends without an error.

    With ``overwrite`` an existing folder is replaced; with ``ours``, only one that is empty or that ``ours`` recognizes
    as written by nodewise with nothing else in it, so that a mistyped path does not cost another folder.
    """
    check_new_folder(path, overwrite, ours=ours)

    def commit(partial: Path, target: Path) -> None:
        name_folder(partial, target, overwrite, lambda: check_new_folder(path, overwrite, ours=ours))

    return _staged(Path(path), os.mkdir, commit)


def check_new_folder(path: AnyPath, overwrite: bool = False, *, ours: Ours | None = None) -> None:
    """Raise what :func:`new_folder` would, before a long computation starts."""
    target, real = Path(path), real_path(path)
    with writing(target):
        _tidy(real)
        place = next(folder for folder in (*real.parents, real) if folder.exists())
    if not os.access(place, os.W_OK):
        raise StoreError(f"{target}: {place} is not writable; choose another place, or change its permissions")
    if not os.path.lexists(target) and not real.exists():
        return
    if not real.is_dir():
        kind = "a file" if real.exists() else "a link that leads nowhere"
        raise StoreError(f"{target}: this is {kind}; expected the name of a folder to write; choose another place")
    if not overwrite:
        raise StoreError(f"{target}: already exists; pass --overwrite (Python: overwrite=True) or choose another place")
    if ours is None or ours(real):
        return
    with writing(target):
        others = sorted(os.listdir(real))
    if others:
        raise StoreError(
            f"{target}: holds {others[0]!r} and was not written by nodewise alone, so it is not overwritten; delete it "
            f"yourself or choose another place"
        )


@contextmanager
def _staged(path: Path, create: Callable[[Path], None], commit: Callable[[Path, Path], None]) -> Iterator[Path]:
    target = Path(os.path.realpath(path))  # the target of a link is replaced, not the link
    new_parents = [folder for folder in target.parents if not folder.exists()]
    partial = None
    with contextlib.ExitStack() as held:
        try:
            with writing(path):
                target.parent.mkdir(parents=True, exist_ok=True)
                _tidy(target)
                partial = _claimed(target, create, held)
            with writing(path, only_in=partial):
                yield partial
            with writing(path):
                flush(partial)
                commit(partial, target)
                flush_folder(target.parent)
        except BaseException:
            if partial is not None:
                discard(partial)
            for folder in new_parents:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise


def _claimed(target: Path, create: Callable[[Path], None], held: contextlib.ExitStack) -> Path:
    """A new file or folder beside ``target``, locked until ``held`` is closed."""
    while True:
        partial = _sibling(target, "partial")
        create(partial)
        with contextlib.suppress(FileNotFoundError):  # another writer took it for a left-over, before it was locked
            held.enter_context(alone(partial, PATIENCE))
            return partial


def beside(target: Path, purpose: str) -> Path:
    """A hidden name next to ``target``, different for each target and short enough for every file system."""
    name = target.name
    if len(name) > 50:
        name = f"{name[:50]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
    return target.parent / f".{name}.{purpose}"


def _sibling(target: Path, purpose: str) -> Path:
    """A free name beside ``target``; not from tempfile, whose files and folders only their owner can read."""
    return beside(target, f"{purpose}-{secrets.token_hex(4)}")


def _empty_file(partial: Path) -> None:
    """A file from 1970, so that it can be told whether anything was written to it."""
    partial.touch(exist_ok=False)
    os.utime(partial, (0, 0))


def name_folder(partial: Path, target: Path, overwrite: bool, check: Callable[[], None]) -> None:
    """Give ``partial`` its name; ``check`` raises if ``target`` may not be replaced, as it may have come in between."""
    check()
    if overwrite:
        swap_folders(partial, target)
    else:
        partial.rename(target)  # which fails if there is a folder by now


def swap_folders(partial: Path, target: Path) -> None:
    """Give ``partial`` the name ``target``, and remove the folder that had it."""
    while True:  # until no other process comes in between
        put_back(target)
        if os.path.lexists(target):
            if _rename(partial, target, EXCHANGE) or _swap_in_steps(partial, target):
                discard(partial)
                return
        else:
            try:
                partial.rename(target)
                return
            except OSError:
                if not os.path.lexists(target):
                    raise


def _swap_in_steps(partial: Path, target: Path) -> bool:
    """Swap the names of two folders; False if another process has replaced ``target`` in the meantime."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(alone(target, PATIENCE))
        except FileNotFoundError:
            return False
        old = _sibling(target, "old")
        target.rename(old)  # killed after this step, the next reader or writer puts it back
        try:
            partial.rename(target)
        except BaseException:
            old.rename(target)
            raise
        old.rename(partial)  # a folder called old is always complete
        return True


def _rename(one: Path, other: Path, how: int) -> bool:
    """Rename in a single step, to EXCHANGE the names or KEEP what has the other; False if that is not possible."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here = -100  # AT_FDCWD
    return renameat2 is not None and renameat2(here, os.fsencode(one), here, os.fsencode(other), how) == 0


def put_back(path: AnyPath) -> None:
    """Undo a :func:`swap_folders` that was killed between its steps, or wait for the end of one that is under way.

    For readers that do not find ``path``.
    """
    if os.path.exists(path) or "\0" in os.fspath(path):
        return
    target = Path(os.path.realpath(path))
    for old in sorted(_left(target, "old"), key=_changed, reverse=True):
        with contextlib.suppress(OSError), alone(old, PATIENCE):
            if not os.path.lexists(target):
                old.rename(target)


def _tidy(target: Path) -> None:
    """Put back or remove what killed writers of ``target`` left beside it."""
    put_back(target)
    for path in _left(target, "partial"):
        discard_dead(path)
    for path in _left(target, "old"):
        if os.path.lexists(target):
            discard_dead(path)


def _left(target: Path, purpose: str) -> list[Path]:
    """The siblings of ``target`` for this purpose, those of live writers among them."""
    name = re.compile(re.escape(beside(target, purpose).name) + "-[0-9a-f]{8}")
    try:
        with os.scandir(target.parent) as entries:
            return [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]
    except OSError:
        return []


def _changed(path: Path) -> int:
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return 0


def discard_dead(path: Path) -> None:
    """Remove a partial file or folder, unless a live process holds it."""
    with contextlib.suppress(OSError), alone(path) as sure:
        if sure:
            discard(path)


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
    """Remove a file, a folder or a link; what cannot be removed stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
