"""The hidden folder beside the output in which an import works, and the journal of what is done there.

Files only grow, and the journal says how much of each is valid. So an import continues where it stopped, whenever that
was: what the journal does not mention yet is dropped and computed again, and what it mentions is compared with its
checksums. The finished store is renamed in one step.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodewise._util.atomic import AnyPath, beside, check_new_folder, flush, flush_file, flush_folder, name_folder
from nodewise._util.errors import InputError, NodewiseError, StoreError
from nodewise._util.memory import TooLittleMemoryError, show_bytes
from nodewise._util.os_errors import writing
from nodewise._util.run_folder import RunFolder
from nodewise._util.types import AnyArray
from nodewise._version import __version__
from nodewise.graph.unchecked import REPAIR
from nodewise.importing.checksums import Checksums
from nodewise.store import is_store
from nodewise.store.blocks import check_blocks, check_size
from nodewise.store.manifest import MANIFEST, StoredFile
from nodewise.store.writing import write_array

NOTE_SECONDS = 5.0  # at least, between two journals
MALFORMED = (TypeError, ValueError, LookupError, AttributeError, OverflowError)  # from a journal that is not ours
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_RESUME = "pass --resume to continue it, or --overwrite to start over (Python: resume=True, overwrite=True)"
_SAME = "run the same command with the same files, or pass --overwrite to start over"


class Work:
    """An import in progress. ``done`` is what the journal says; :meth:`note` adds to it."""

    def __init__(self, output: Path, job: Mapping[str, Any]) -> None:
        self.output, self._target = output, Path(os.path.realpath(output))
        self.folder = beside(self._target, "import")
        self.run = RunFolder(self.folder, "import", job, "journal.json", ours=None, advice=_SAME, output=output)
        self.store, self.runs = self.folder / "store", self.folder / "runs"
        self.done: dict[str, Any] = {}
        self.resumed = False
        self._sums = Checksums(self.folder)
        self._written: set[Path] = set()  # since the last journal, and perhaps not on the disk yet
        self._saved = 0.0

    def begin(self) -> None:
        """Start with an empty folder."""
        self.discard()
        self.done, self.resumed = {}, False
        self._sums = Checksums(self.folder)
        self._written.clear()
        for folder in (self.store, self.runs):
            folder.mkdir()
        self.save()

    def resume(self) -> None:
        """Continue where the journal ends, if there is one."""
        self.done, self.resumed = self.run.read() or {}, self.run.begun
        try:
            self._sums = Checksums(self.folder, self.done.pop("checksums", None))
            if not self.named:  # else nothing in the folder is needed any more
                self._check()
        except MALFORMED as error:
            raise self.damaged("its journal") from error

    def damaged(self, what: str) -> StoreError:
        """The error for an import that cannot continue."""
        return StoreError(
            f"{self.output}: the import cannot continue, because a file of it was damaged ({what}); pass --overwrite "
            f"to start over (Python: overwrite=True)"
        )

    def _check(self) -> None:
        """Raise if a file that the journal mentions is not what was written."""
        try:
            self._sums.check()
            for name, file in self.files.items():
                check_size(self.store / name, file)
            check_blocks(self.store, self.files)
            if self.finished and self.done["finished"] != _identity(self.store)[0]:
                raise StoreError(f"{self.store / MANIFEST}: does not match its checksum")
        except StoreError as error:
            raise self.damaged(str(error).removesuffix(f"; {REPAIR}")) from error

    def note(self, *written: Path, **done: Any) -> None:
        """Add to what is done, which depends on the files ``written``; the journal follows every few seconds."""
        self._written.update(written)
        for path in written:
            self._sums.grown(path)
        self.done.update(done)
        if time.monotonic() - self._saved > NOTE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the journal, after the files that it mentions."""
        with ThreadPoolExecutor(1) as pool:  # checksums are computed while the disk writes
            checksums = pool.submit(self._sums.update)
            for path in self._written:
                flush_file(path)
            state = {**self.done, "checksums": checksums.result()}
        self._written.clear()
        self.run.save(state)
        self._saved = time.monotonic()

    @property
    def finished(self) -> bool:
        """Whether the store is complete, and only has to be renamed and tidied up."""
        return "finished" in self.done

    @property
    def named(self) -> bool:
        """Whether the output is the finished store."""
        # The same files give the same checksum, so that of a damaged store that this one replaces may be no other.
        return self.finished and [self.done["finished"], self.done.get("inode")] == _identity(self._target)

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
        for path in (self.store / name for name in files):
            self._written.add(path)
            self._sums.drop(path)
        self.note(files={**self.done.get("files", {}), **new})

    def write_array(self, name: str, array: AnyArray, before: Iterable[AnyArray] = ()) -> None:
        """Write a file of the store from parts ``before`` and an array in memory, unless it is finished."""
        if name not in self.files:
            (self.store / name).parent.mkdir(exist_ok=True)
            self.add_files({name: write_array(self.store / name, array, before)})

    def commit(self, overwrite: bool) -> None:
        """Give the finished store its name."""
        if not self.named:  # else the last import was interrupted between these two steps
            flush(self.store)
            self._written.clear()
            self.done["finished"], self.done["inode"] = _identity(self.store)
            self.save()
            name_folder(
                self.store, self._target, overwrite, lambda: check_new_folder(self.output, overwrite, ours=is_store)
            )
            flush_folder(self._target.parent)
        self.run.clear()  # the journal last: it says that all is done until nothing else is left

    def discard(self) -> None:
        """Empty the folder: the journal first, without which nothing in it counts."""
        (self.folder / self.run.file).unlink(missing_ok=True)
        self.run.clear()

    def check_disk(self, needed: int) -> None:
        """Fail before the work if the disk is too small for it."""
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
    """A place to work. Bad input and a full disk leave nothing behind; after anything else, an import can continue."""
    work = Work(Path(output), job)
    with work.run.locked():
        if work.run.begun and not (resume or overwrite):
            raise StoreError(f"{output}: an import was started and not finished, in {work.folder}; {_RESUME}")
        if resume:
            try:
                work.resume()
            except StoreError:
                if not overwrite:
                    raise
                work.done, work.resumed = {}, False  # other work, or damaged: start over, as asked
        if not work.named:
            check_new_folder(output, overwrite, ours=is_store)
        try:
            with writing(work.output, only_in=work.folder):
                if not work.resumed:
                    work.begin()
                yield work
        except BaseException as error:
            with contextlib.suppress(OSError):  # the first error is the one that matters
                enough = work.resumed and isinstance(error, TooLittleMemoryError)  # when it began
                if (isinstance(error, InputError) and not enough) or _is_disk_full(error) or not work.done:
                    work.discard()
                elif work.run.begun:
                    work.save()
            if work.resumed and isinstance(error, MALFORMED) and not isinstance(error, NodewiseError):
                raise work.damaged(f"its journal: {error}") from error  # such as a count that is below 0
            raise


def is_begun(output: AnyPath) -> bool:
    """Whether an import to ``output`` was started and not finished."""
    return Work(Path(output), {}).run.begun


def job_of(files: Iterable[Path], **options: Any) -> dict[str, Any]:
    """Everything that the result of an import depends on: paths, sizes and times of its files, and its options."""
    return {"files": _states(files), "nodewise": __version__, **options}


@contextmanager
def unchanged(files: Iterable[Path]) -> Iterator[None]:
    """Raise if one of the files changes while the block reads them, also in place of the error that this led to."""
    files = list(files)
    before = _states(files)
    try:
        yield
    except Exception as error:
        _check_same(before, _states(files), error)
        raise
    _check_same(before, _states(files))


def _check_same(before: list[list[Any]], now: list[list[Any]], error: Exception | None = None) -> None:
    changed = [path for path, *state in [*before, *now] if [path, *state] not in before or [path, *state] not in now]
    if changed:
        raise InputError(
            f"{changed[0]}: changed while it was read; run the same command again once nothing writes to it"
        ) from error


def _states(files: Iterable[Path]) -> list[list[Any]]:
    """The path, size and time of each file."""
    states = [(path, path.stat()) for path in all_files(files)]
    return [[str(path.resolve()), state.st_size, state.st_mtime_ns] for path, state in states]


def all_files(files: Iterable[Path]) -> Iterator[Path]:
    """The files, and those in folders among them."""
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


def _identity(store: Path) -> list[Any]:
    """The checksum of the manifest, which has those of all files, and the number of the folder itself."""
    try:
        return [hashlib.sha256((store / MANIFEST).read_bytes()).hexdigest(), store.stat().st_ino]
    except OSError:
        return ["", 0]
