"""The files of a comparison: where they are, and the results in them.

``arguments.json`` and ``splits.npz`` come first, then one file per method and split, whole or absent. What decides
every result is in ``arguments.json``; the settings of a method are kept with each of its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nodewise._util.atomic import new_file
from nodewise._util.errors import StoreError
from nodewise._util.json_file import read_json, typed_fields
from nodewise._util.run_folder import REFUSED, difference
from nodewise.graph.splits import Split, tables_of_splits
from nodewise.lab.compare.results import FinishedSplit

AGES = 1e9  # seconds: no method takes so long


@dataclass(frozen=True)
class Folder:
    """The paths in the folder of a comparison."""

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


class Stored(NamedTuple):
    """A result as it is in its file."""

    settings: Mapping[str, Any]
    params: Mapping[str, Any]
    split: FinishedSplit


def write_splits(path: Path, splits: Sequence[Split]) -> None:
    """An ``.npz`` that :func:`nodewise.formats.split_file.read_split_file` reads."""
    with new_file(path) as temporary, temporary.open("wb") as stream:
        tables: dict[str, Any] = tables_of_splits(splits)
        np.savez(stream, **tables)


def read_results(folder: Folder, method: str, asked: int, settings: Mapping[str, Any]) -> list[Stored]:
    """The splits that ``method`` has finished; results with other settings are refused."""
    files = [folder.result(method, split) for split in range(asked)]
    found = [_read_result(file) for file in files if file.is_file()]
    for stored in found:
        if stored.settings != settings:
            other = difference(stored.settings, settings)
            raise StoreError(f"{folder.path}: holds results of {method} with other settings: {other}; {REFUSED}")
    return found


def _read_result(file: Path) -> Stored:
    try:
        content = read_json(file)
        facts = typed_fields(Stored, content, besides=("split",), others=True)
        split = FinishedSplit(**typed_fields(FinishedSplit, content, others=True))
        scores = [split.val_f1, split.test_f1, split.test_macro_f1, split.test_calibration_error]
        seconds = [split.preparation_seconds, split.train_seconds]
        if not all(0 <= score <= 1 for score in scores if score is not None) or not all(0 <= s < AGES for s in seconds):
            raise ValueError("a score or a time is out of bounds")
        return Stored(**facts, split=split)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{file}: cannot be read as a result ({error}); delete it and run the command again"
        ) from error
