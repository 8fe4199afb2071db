"""Folders of long runs, so that the same command continues where an interrupted one stopped; and locks.

One process at a time works in a folder and holds its ``.lock``. One file records which work the folder belongs to (its
identity: all that decides the results) and what the next run needs to know (its state), with a digest of both.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodewise._util.atomic import PARTIAL, discard, discard_dead, new_file, real_path
from nodewise._util.errors import InputError, StoreError
from nodewise._util.json_file import read_json
from nodewise._util.locks import alone
from nodewise._util.os_errors import writing

ARGUMENTS, LOCK, FORMAT_VERSION = "arguments.json", ".lock", 1
ATTEMPTS = 100  # at a folder that others remove as they end
REFUSED = "choose another folder, or delete this one to start again"


@dataclass(frozen=True)
class RunFolder:
    """The folder of some ``work`` ("comparison"), which ``identity`` distinguishes from other work of its kind.

    ``file`` records the identity. ``ours``: a pattern of the names that the work writes there, which may be
    overwritten; None for a hidden folder, where all is ours. ``advice``: what to do about other work in the folder.
    ``output``: what messages call the folder, if users know it by another name.
    """

    path: Path
    work: str
    identity: Mapping[str, Any]
    file: str = ARGUMENTS
    ours: str | None = ""
    advice: str = REFUSED
    output: Path | None = None

    @property
    def begun(self) -> bool:
        return (self.path / self.file).is_file()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and keep other processes out. A folder that is empty at the end is removed."""
        place = self.output or self.path
        real_path(place)  # raises where nothing can be written
        with writing(place):
            if not self.begun:
                self._check_names("")
            self._check_links()
        new_parents = [folder for folder in self.path.parents if not folder.exists()]
        busy = f"{place}: another {self.work} is under way in this folder; wait until it ends, or choose another folder"
        try:
            with contextlib.ExitStack() as stack:
                with writing(place):
                    _make_and_lock(self.path, busy, stack)
                stack.callback(_drop_partial, self.path)
                _drop_partial(self.path)
                yield
        finally:
            for folder in (self.path, *new_parents):
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def save(self, state: Any) -> None:
        """Record the identity, and the state that the next run needs."""
        content = {"format": f"nodewise-{self.work}", "format_version": FORMAT_VERSION}
        content |= {"identity": self.identity, "state": state}
        write_json(self.path / self.file, {**content, "sha256": _digest(content)})

    def read(self, overwrite: bool = False) -> Any:
        """The state that was saved last, or None. Other work in the folder is an error; ``overwrite`` removes it."""
        if not self.begun:
            return None
        there, state = self._content()
        here = json.loads(json.dumps(self.identity))
        if there == here:
            return state
        if not overwrite:
            place = self.output or self.path
            raise StoreError(f"{place}: holds another {self.work}: {difference(there, here)}; {self.advice}")
        self._check_names(self.ours)
        self.clear()
        return None

    def clear(self) -> None:
        """Remove all but the lock; the file with the identity last, so that a killed removal can be repeated."""
        for entry in sorted(self.path.iterdir(), key=lambda entry: entry.name == self.file):
            if entry.name != LOCK:
                discard(entry)

    def _content(self) -> tuple[dict[str, Any], Any]:
        file, form = self.path / self.file, f"nodewise-{self.work}"
        try:
            content = read_json(file)
            digest = content.pop("sha256")
            if (content["format"], content["format_version"]) != (form, FORMAT_VERSION):
                raise ValueError(f"expected format {form}, version {FORMAT_VERSION}")
            if digest != _digest(content):
                raise ValueError("altered since it was written")
            return dict(content["identity"]), content["state"]
        except (OSError, ValueError, LookupError, TypeError) as error:
            advice = self.advice if self.ours is None else REFUSED  # perhaps not ours: nothing is overwritten
            raise StoreError(f"{file}: does not say which {self.work} this is ({error}); {advice}") from error

    def _check_links(self) -> None:
        """Raise if a link leads from a place of ours to elsewhere, where all would be written and removed."""
        ours = re.compile(".*" if self.ours is None else f"{re.escape(self.file)}|{re.escape(LOCK)}|{self.ours}")
        links = [self.path] if self.output is not None and self.path.is_symlink() else []
        if not links and self.path.is_dir():
            with writing(self.path):
                links = [entry for entry in self.path.iterdir() if ours.fullmatch(entry.name) and entry.is_symlink()]
        if links:
            raise StoreError(f"{links[0]}: is a symbolic link, which nodewise did not make; delete it")

    def _check_names(self, ours: str | None) -> None:
        """Raise if the folder holds a file that work of this kind does not write."""
        if os.path.lexists(self.path) and not self.path.is_dir():
            kind = "a file" if self.path.exists() else "a link that leads nowhere"
            raise StoreError(
                f"{self.path}: this is {kind}; expected the name of a folder to write; choose another place"
            )
        if self.ours is None or not self.path.is_dir():
            return
        known = re.compile(f"{re.escape(self.file)}|{re.escape(LOCK)}|{PARTIAL}|{ours}")
        with writing(self.path):
            others = sorted(entry.name for entry in self.path.iterdir() if not known.fullmatch(entry.name))
        if others:
            raise StoreError(
                f"{self.path}: holds {others[0]!r} and is no {self.work} of nodewise; choose another folder"
            )


@contextlib.contextmanager
def locked_run_dir(path: Path, work: str, identity: Mapping[str, Any]) -> Iterator[None]:
    """Make the folder of some ``work``, or check that it belongs to the same work; keep other processes out."""
    run = RunFolder(path, work, identity)
    with run.locked():
        if run.read() is None:
            run.save({})
        yield


@contextlib.contextmanager
def locked(file: Path, busy: str | None = None) -> Iterator[None]:
    """Keep other processes out of the block: they wait, or get an error with the message ``busy``.

    The system frees the lock when its process ends, however it ends; that ``file`` exists means nothing.
    """
    with contextlib.ExitStack() as stack:
        try:
            _take(file, busy is None, stack)
        except BlockingIOError as error:
            raise InputError(busy) from error
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows cannot remove an open file; there filelock does once closed
                file.unlink()


def _take(file: Path, wait: bool, stack: contextlib.ExitStack) -> None:
    if sys.platform == "win32":
        from filelock import FileLock, Timeout

        try:
            stack.enter_context(FileLock(file, timeout=-1 if wait else 0, thread_local=False))
        except Timeout as error:
            raise BlockingIOError(str(error)) from error
        return
    while True:
        try:
            stack.enter_context(alone(file, math.inf if wait else 0, create=True))
            return
        except FileNotFoundError:  # the process that held it before removed it
            if not file.parent.is_dir():
                raise


def _make_and_lock(folder: Path, busy: str, stack: contextlib.ExitStack) -> None:
    for left in reversed(range(ATTEMPTS)):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            stack.enter_context(locked(folder / LOCK, busy))
            return
        except FileNotFoundError:  # the process that used the folder before removed it
            if not left:
                raise


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """What differs between two mappings, in words."""
    words = []
    for name in {**there, **here}:
        old, new = there.get(name), here.get(name)
        if old != new:
            long = any(isinstance(value, list | dict) and len(str(value)) > 60 for value in (old, new))
            words.append(f"{name} is {'not the same' if long else f'{_short(old)} there and {_short(new)} here'}")
    return ", ".join(words)


def _short(value: Any) -> str:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else str(value)


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _drop_partial(folder: Path) -> None:
    """Remove what killed writers left behind."""
    for entry in folder.rglob(".*.partial-*"):
        if re.fullmatch(PARTIAL, entry.name):
            discard_dead(entry)
