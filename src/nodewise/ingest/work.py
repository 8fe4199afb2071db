"""The hidden folder beside the output in which an import grows, and the journal of what is done there.

Files only grow, and the journal says how much of each is good. So an import that was cut off at any point can be gone
on with: what lies behind the journal's word is dropped and made again. The folder becomes the output in one rename.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodewise._typing import AnyArray
from nodewise._version import __version__
from nodewise.atomic import (
    AnyPath,
    check_new_folder,
    explained,
    flush,
    flush_file,
    flush_folder,
    new_file,
    swap_folders,
)
from nodewise.errors import InputError, StoreError
from nodewise.memory import show_bytes
from nodewise.store import is_store
from nodewise.store.blocks import slices
from nodewise.store.manifest import StoredFile
from nodewise.store.streaming import ArrayWriter

NOTE_SECONDS = 5.0  # between two journals, at least
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_RESUME = "pass --resume to go on with it, or --overwrite to start over (Python: resume=True, overwrite=True)"


class Work:
    """An import under way. ``done`` is what the journal says; :meth:`note` adds to it."""

    def __init__(self, output: Path, job: Mapping[str, Any]) -> None:
        self.output = output
        target = Path(os.path.realpath(output))
        self.folder = target.with_name(f".{target.name[:60]}.import")
        self.store, self.runs = self.folder / "store", self.folder / "runs"
        self._journal = self.folder / "journal.json"
        self._job = json.loads(json.dumps(job))
        self.done: dict[str, Any] = {}
        self.resumed = False
        self._written: set[Path] = set()  # and perhaps not on the disk yet
        self._saved = 0.0

    def begin(self) -> None:
        """Start with an empty folder."""
        self.discard()
        self.done, self.resumed = {}, False
        self._written.clear()
        for folder in (self.folder, self.store, self.runs):
            folder.mkdir(parents=True, exist_ok=True)
        self.save()

    def resume(self) -> None:
        """Go on where the journal ends."""
        try:
            journal = json.loads(self._journal.read_bytes())
            job, done = journal["job"], journal["done"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self.folder}: has no journal to go on from ({error}); pass --overwrite to start over"
            ) from error
        changed = sorted(key for key in self._job.keys() | job.keys() if self._job.get(key) != job.get(key))
        if changed:
            raise InputError(
                f"{self.output}: the import that was begun differs in {', '.join(changed)}; run the same command with "
                f"the same files, or pass --overwrite to start over"
            )
        self.done = done
        self.resumed = True

    def note(self, *written: Path, **done: Any) -> None:
        """Add to what is done, for which the files ``written`` matter; the journal follows every few seconds."""
        self._written.update(written)
        self.done.update(done)
        if time.monotonic() - self._saved > NOTE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the journal, behind what it speaks of."""
        for path in self._written:
            flush_file(path)
        self._written.clear()
        with new_file(self._journal) as path:
            path.write_text(json.dumps({"job": self._job, "done": self.done}), encoding="utf-8")
        self._saved = time.monotonic()

    @property
    def begun(self) -> bool:
        """Whether there is anything to go on with."""
        return self._journal.exists()

    @property
    def finished(self) -> bool:
        """Whether the store is complete and only wants its name."""
        return bool(self.done.get("finished"))

    @property
    def files(self) -> dict[str, StoredFile]:
        """The finished files of the store."""
        return {
            name: StoredFile(**{**entry, "shape": tuple(entry["shape"]), "sha256": tuple(entry["sha256"])})
            for name, entry in self.done.get("files", {}).items()
        }

    def add_files(self, files: Mapping[str, StoredFile]) -> None:
        """Note files of the store that are finished."""
        new = {name: dataclasses.asdict(file) for name, file in files.items()}
        self.note(*(self.store / name for name in files), files={**self.done.get("files", {}), **new})

    def write_array(self, name: str, array: AnyArray) -> None:
        """Write a file of the store from an array that is there already."""
        if name in self.files:
            return
        (self.store / name).parent.mkdir(exist_ok=True)
        with ArrayWriter(self.store / name, array.dtype, *array.shape[1:]) as writer:
            for part in slices(array):
                writer.append(part)
            self.add_files({name: writer.finish()})

    def commit(self, overwrite: bool) -> None:
        """Give the finished store its name."""
        if self.store.exists():  # else the last import was cut off between these two steps
            check_new_folder(self.output, overwrite, ours=is_store)
            target = Path(os.path.realpath(self.output))
            flush(self.store)
            self._written.clear()
            self.done["finished"] = True
            self.save()
            swap_folders(self.store, target)
            flush_folder(target.parent)
        shutil.rmtree(self.runs, ignore_errors=True)  # the journal knows that all is done until nothing else is left
        self.discard()

    def discard(self) -> None:
        """Remove the folder: the journal first, without which nothing in it counts."""
        with contextlib.suppress(OSError):
            self._journal.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def check_disk(self, needed: int) -> None:
        """Refuse to start what cannot end well."""
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            error = StoreError(
                f"{self.output}: the import needs {show_bytes(needed)} of disk, {show_bytes(free)} are free; free some "
                f"space or choose another place"
            )
            error.errno = errno.ENOSPC
            raise error


@contextmanager
def working(output: AnyPath, job: Mapping[str, Any], overwrite: bool, resume: bool) -> Iterator[Work]:
    """A place to work. Bad input and a full disk leave nothing behind; after anything else one can go on."""
    work = Work(Path(output), job)
    if work.begun and not (resume or overwrite):
        raise StoreError(f"{output}: an import was begun and not ended; {_RESUME}")
    if work.begun and resume:
        work.resume()
    if work.store.exists() or not work.resumed:
        check_new_folder(output, overwrite, ours=is_store)
    new_parents = [folder for folder in work.folder.parents if not folder.exists()]
    try:
        with explained(work.output, only_in=work.folder):
            if not work.resumed:
                work.begin()
            yield work
    except BaseException as error:
        if isinstance(error, InputError) or _is_disk_full(error):
            work.discard()
            _remove_empty(new_parents)
        elif work.folder.exists():
            with contextlib.suppress(OSError):  # the error that matters is the first
                work.save()
        raise


def is_begun(output: AnyPath) -> bool:
    """Whether an import to ``output`` was begun and not ended."""
    return Work(Path(output), {}).begun


def fingerprint(files: Iterable[Path]) -> list[Any]:
    """What tells whether files are still those that were read."""
    states = [(path, path.stat()) for path in _all_files(files)]
    return [[str(path.resolve()), state.st_size, state.st_mtime_ns] for path, state in states]


def job_of(files: Iterable[Path], **options: Any) -> dict[str, Any]:
    """What an import is, so that one that is gone on with is the same."""
    return {"files": fingerprint(files), "nodewise": __version__, **options}


def _all_files(files: Iterable[Path]) -> Iterator[Path]:
    for path in files:
        if path.is_dir():
            yield from sorted(inside for inside in path.rglob("*") if inside.is_file())
        elif path.exists():
            yield path


def _is_disk_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            return True
        error = error.__cause__
    return False


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
