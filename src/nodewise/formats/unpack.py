"""Files in a folder or in a zip, by name. Needed members of a zip are extracted; a folder is read in place.

Members are extracted to the cache, each whole or not at all, so that an interrupted import finds them again. They are
removed when the graph has been imported, or when the input turns out to be wrong. Until then, other processes that
need the same zip wait.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path, PureWindowsPath
from typing import IO, NamedTuple, Self

from nodewise._util.atomic import new_file
from nodewise._util.cache import cache_dir
from nodewise._util.errors import InputError, StoreError
from nodewise._util.memory import show_bytes
from nodewise._util.os_errors import reading, writing
from nodewise._util.run_folder import locked

log = logging.getLogger("nodewise")

CHUNK_BYTES = 1 << 20
_LONG = 1 << 30  # bytes whose extraction is announced in the log
_locks: dict[Path, ExitStack] = {}  # the lock of each folder that this process extracts to
_users: Counter[Path] = Counter()  # and the number of zips that are open there: edges and features may be in one file


class Member(NamedTuple):
    """A file on the disk, and its name in messages."""

    path: Path
    label: str


class Files:
    """The files of a folder by name, with '/' between folders. The end of its ``with`` block removes extracted members.

    After an error that is not about the input, extracted members stay for the next attempt.
    """

    def __init__(self, path: Path) -> None:
        self.label, self.name = str(path), path.resolve().name  # the first is for messages
        self._path = path
        self._opened: list[Zip] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(keep=kind is not None and not issubclass(kind, InputError))

    def close(self, keep: bool) -> None:
        """Remove extracted members, unless ``keep``."""
        for opened in self._opened:
            opened.close(keep)

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return (self._path / name).is_file()

    def folders(self, inside: str = "") -> list[str]:
        """The names of the folders in a folder, in order."""
        folder = self._path / inside
        with reading(folder):
            return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def root(self, *marks: str) -> str | None:
        """The prefix of names: empty, or the folder and '/' that contains one of ``marks``; None if there is none."""
        for root in ("", *(f"{folder}/" for folder in self.folders())):
            if any(self.has(root + mark) for mark in marks):
                return root
        return None

    def member(self, name: str) -> Member:
        """The file of that name; an error that names it if there is none."""
        self._check(name)
        return Member(self._path / name, str(self._path / name))

    def npz(self, name: str) -> Zip:
        """The arrays in the ``.npz`` file of that name."""
        self._opened.append(open_zip(self.member(name).path))
        return self._opened[-1]

    def _check(self, name: str) -> None:
        if not self.has(name):
            raise InputError(
                f"{self.label}: has no {name}, which belongs to this layout. Fetch the data set again, or add the file"
            )


class Zip(Files):
    """The files of a zip, which may be inside an ``outer`` one; members are extracted to ``folder``."""

    def __init__(self, label: str, source: Path | IO[bytes], folder: Path, outer: Zip | None = None) -> None:
        self.label, self._folder = label, folder
        self._outer, self._holds_lock = outer, False
        self.name = source.stem if isinstance(source, Path) else label
        with self._reading(label):
            self._archive = zipfile.ZipFile(source)
        self._infos = {info.filename: info for info in self._archive.infolist() if not info.filename.endswith("/")}
        for name in self._infos:
            place = PureWindowsPath(name)  # knows both '/' and '\' between folders
            if place.anchor or ".." in place.parts:
                raise InputError(f"{label}: has a member {name!r}, outside the archive; unpack it and name the folder")

    def has(self, name: str) -> bool:
        return name in self._infos

    def folders(self, inside: str = "") -> list[str]:
        prefix = f"{inside}/" if inside else ""
        rest = (name[len(prefix) :] for name in self._infos if name.startswith(prefix))
        return sorted({name.split("/")[0] for name in rest if "/" in name})

    def member(self, name: str) -> Member:
        self._check(name)
        self.extract(name)
        return Member(self._folder / name, f"{self.label}: {name}")

    def npz(self, name: str) -> Zip:
        self._check(name)
        label, size = f"{self.label}: {name}", self._infos[name].file_size
        if size > _LONG:
            log.info("%s: reading through %s for its list of arrays", label, show_bytes(size))
        with self._reading(label):
            return Zip(label, self._archive.open(name), self._folder / name, self)

    def close(self, keep: bool) -> None:
        self._archive.close()
        if not self._holds_lock:
            return
        self._holds_lock = False
        _users[self._folder] -= 1
        if not _users[self._folder]:
            if not keep:
                shutil.rmtree(self._folder, ignore_errors=True)
            _locks.pop(self._folder).close()

    def _lock(self) -> None:
        """Keep other processes away from the folder until this zip, or the last one open on it, is closed."""
        if self._outer is not None:
            self._outer._lock()
        elif not self._holds_lock:
            if self._folder not in _locks:
                lock = self._folder.with_name(f"{self._folder.name}.lock")
                if lock.exists():
                    log.info("%s: waiting until another process has read it", self.label)
                stack = ExitStack()
                with writing(lock):
                    lock.parent.mkdir(parents=True, exist_ok=True)
                    stack.enter_context(locked(lock))
                _locks[self._folder] = stack
                for partial in self._folder.glob("**/.*.partial-*"):  # left by a process that was killed
                    partial.unlink(missing_ok=True)
            _users[self._folder] += 1
            self._holds_lock = True

    def extract(self, *names: str) -> None:
        """Extract those of the members that exist and are not extracted yet, in the order of the file."""
        self._lock()
        wanted = [self._infos[name] for name in names if self.has(name) and not (self._folder / name).exists()]
        self._check_disk(sum(info.file_size for info in wanted))
        for info in sorted(wanted, key=lambda info: info.header_offset):  # backwards is slow in a zip inside a zip
            with new_file(self._folder / info.filename) as path, path.open("wb") as stream:
                for chunk in self._chunks(info):
                    stream.write(chunk)

    def _chunks(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        size = 0
        with self._reading(f"{self.label}: {info.filename}"), self._archive.open(info) as stream:
            while chunk := stream.read(CHUNK_BYTES):  # the last one compares the CRC-32
                size += len(chunk)
                yield chunk
            if size != info.file_size:
                raise EOFError(f"ends after {size:,} of {info.file_size:,} bytes")

    def _check_disk(self, needed: int) -> None:
        place = next(folder for folder in (self._folder, *self._folder.parents) if folder.exists())
        free = shutil.disk_usage(place).free
        if needed > free:
            error = StoreError(
                f"{self.label}: extracting it needs {show_bytes(needed)} of disk in {place}, {show_bytes(free)} are "
                f"free; free some space, or set NODEWISE_CACHE to a folder on another disk"
            )
            error.errno = errno.ENOSPC
            raise error
        if needed > _LONG:
            log.info("%s: extracting %s into %s", self.label, show_bytes(needed), self._folder)

    @staticmethod
    def _reading(label: str) -> AbstractContextManager[None]:
        # Damaged bytes can make zipfile and its decoders raise almost anything.
        return reading(label, "a valid zip", (Exception,), advice="fetch it again, or unpack it yourself")


def open_files(path: Path) -> Files:
    """The files of a folder, or of a zip as it was downloaded."""
    return Files(path) if path.is_dir() else open_zip(path)


def open_zip(path: Path) -> Zip:
    """The files of a zip on the disk."""
    with reading(path):
        state = path.stat()
    digest = hashlib.sha256(f"{path.resolve()} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()[:16]
    return Zip(str(path), path, cache_dir() / "unpacked" / f"{path.stem}-{digest}")
