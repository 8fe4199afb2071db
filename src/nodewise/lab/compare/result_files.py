"""The folder of a comparison: what lies in it, and when a comparison can go on there.

``arguments.json`` and ``splits.npz`` come first, then one file per method and split, whole or absent. What decides
every result stands in ``arguments.json``; the settings of a method stand beside each of its results.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from nodewise._util.atomic import new_file
from nodewise._util.errors import StoreError
from nodewise._util.run_folder import REFUSED, difference, locked_run_dir
from nodewise.graph.splits import Split, tables_of_splits
from nodewise.lab.compare.results import FinishedSplit


@dataclass(frozen=True)
class Folder:
    """Where the parts of a comparison lie."""

    path: Path

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
    with locked_run_dir(folder.path, "comparison", identity):
        write_splits(folder.splits, splits)
        yield


def write_splits(path: Path, splits: Sequence[Split]) -> None:
    """An ``.npz`` as :func:`nodewise.graph.splits.read_split_file` reads it."""
    with new_file(path) as temporary, temporary.open("wb") as stream:
        tables: dict[str, Any] = tables_of_splits(splits)
        np.savez(stream, **tables)


def read_results(folder: Folder, method: str, asked: int, settings: Mapping[str, Any] | None) -> list[Stored]:
    """The splits that ``method`` has finished; results of other settings than these are refused (None: not known)."""
    files = [folder.result(method, split) for split in range(asked)]
    found = [_read_result(file) for file in files if file.is_file()]
    for stored in found:
        if settings is not None and stored.settings != settings:
            other = difference(stored.settings, settings)
            raise StoreError(f"{folder.path}: holds results of {method} with other settings: {other}; {REFUSED}")
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
