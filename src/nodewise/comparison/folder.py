"""The folder of a comparison: what lies in it, and when it may be gone on with.

``arguments.json`` and ``splits.npz`` come first, then a file a method and split, whole or absent. What decides every
result stands in ``arguments.json``; the settings of a method stand beside each of its results.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nodewise.atomic import explained, new_file
from nodewise.comparison.results import FinishedSplit
from nodewise.errors import InputError, StoreError
from nodewise.splits import PARTS, Split

FORMAT, FORMAT_VERSION = "nodewise-comparison-arguments", 1
REFUSED = "choose another folder, or delete this one to compare anew"


@dataclass(frozen=True)
class Folder:
    """Where the parts of a comparison lie."""

    path: Path

    @property
    def arguments(self) -> Path:
        return self.path / "arguments.json"

    @property
    def splits(self) -> Path:
        return self.path / "splits.npz"

    def method(self, name: str) -> Path:
        return self.path / "results" / name

    def result(self, name: str, split: int) -> Path:
        return self.method(name) / f"split-{split:03d}.json"

    def failure(self, name: str) -> Path:
        return self.method(name) / "failed.json"

    def log(self, name: str) -> Path:
        return self.method(name) / "log.txt"


@dataclass(frozen=True)
class Stored:
    """A result as it lies in the folder."""

    settings: Mapping[str, Any]
    params: Mapping[str, Any]
    split: FinishedSplit


@contextlib.contextmanager
def held(folder: Folder, identity: Mapping[str, Any], splits: Sequence[Split]) -> Iterator[None]:
    """Make the folder, or check that the one that is there belongs to the same comparison, and keep others out."""
    if folder.arguments.is_file():
        _check_same(folder, identity)
    else:
        _check_empty(folder.path)
        write_json(folder.arguments, {"format": FORMAT, "format_version": FORMAT_VERSION, "identity": identity})
    with folder.arguments.open("rb") as stream:
        _lock(stream, folder.path)
        write_splits(folder.splits, splits)
        for partial in folder.path.glob("**/.*.partial-*"):  # left by a worker that was killed as it wrote
            with contextlib.suppress(OSError):
                partial.unlink()
        yield


def _lock(stream: BinaryIO, path: Path) -> None:
    """For this process alone, until the file is closed or the process ends, however it ends."""
    with contextlib.suppress(ImportError):  # no such locks on Windows
        import fcntl

        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{path}: another comparison is under way in this folder; wait until it ends, or choose another folder"
            ) from None


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_splits(path: Path, splits: Sequence[Split]) -> None:
    """An ``.npz`` as :func:`nodewise.splits.read_split_file` reads it."""
    with new_file(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **_tables(splits))


def digest_of_splits(splits: Sequence[Split]) -> str:
    digest = hashlib.sha256()
    for part, table in _tables(splits).items():
        digest.update(f"{part} {table.shape}".encode() + table.tobytes())
    return digest.hexdigest()


def _tables(splits: Sequence[Split]) -> dict[str, Any]:
    try:
        return {part: np.array([getattr(split, part) for split in splits], "<i8") for part in PARTS}
    except ValueError as error:
        raise InputError("splits: their sizes differ; expected as many nodes of each part in every split") from error


def read_results(folder: Folder, method: str, asked: int, settings: Mapping[str, Any] | None) -> list[Stored]:
    """The splits that ``method`` has finished; results of other settings than these are refused (None: not known)."""
    files = [folder.result(method, split) for split in range(asked)]
    found = [_read_result(file) for file in files if file.is_file()]
    for stored in found:
        if settings is not None and stored.settings != settings:
            difference = _difference(stored.settings, settings)
            raise StoreError(f"{folder.path}: holds results of {method} with other settings: {difference}; {REFUSED}")
    return found


def _read_result(file: Path) -> Stored:
    try:
        content = json.loads(file.read_bytes())
        result = {field.name: content[field.name] for field in fields(FinishedSplit)}
        return Stored(dict(content["settings"]), dict(content["params"]), FinishedSplit(**result))
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise StoreError(
            f"{file}: cannot be read as a result ({error}); delete it, and the same command makes it again"
        ) from error


def _check_same(folder: Folder, identity: Mapping[str, Any]) -> None:
    try:
        content = json.loads(folder.arguments.read_bytes())
        if (content["format"], content["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"expected format {FORMAT}, version {FORMAT_VERSION}")
        before = dict(content["identity"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise StoreError(f"{folder.arguments}: cannot be read as a comparison's ({error}); {REFUSED}") from error
    if before != identity:
        raise StoreError(f"{folder.path}: holds another comparison: {_difference(before, identity)}; {REFUSED}")


def _check_empty(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path}: this is a file, and a folder is to be written; choose another place")
    with explained(path):
        others = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    if others:
        raise StoreError(f"{path}: holds {others[0]!r} and is no comparison of nodewise; choose another folder")


def _difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return ", ".join(f"{name} is {_short(there.get(name))} there and {_short(here.get(name))} here" for name in names)


def _short(value: Any) -> str:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else str(value)
