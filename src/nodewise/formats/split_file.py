"""Read train, validation and test splits from an ``.npz`` file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray
from nodewise.formats.npz import NpzFile
from nodewise.graph.splits import PARTS, Split, checked_split

MOST_SPLITS = 10_000  # in one file


def read_split_file(path: str | Path, num_nodes: int) -> list[Split]:
    """The splits in an ``.npz`` file with integer arrays ``train``, ``val`` and ``test``, one row per split."""
    path = Path(path)
    arrays = NpzFile(path).arrays(needed=PARTS)
    tables = {part: _table(path, part, arrays[part]) for part in PARTS}
    rows = {part: table.shape[0] for part, table in tables.items()}
    if len(set(rows.values())) != 1:
        counts = ", ".join(f"{part} {number:,}" for part, number in rows.items())
        raise InputError(f"{path}: the number of rows differs ({counts}); expected one row per split in each array")
    if not 1 <= rows["train"] <= MOST_SPLITS:
        raise InputError(
            f"{path}: its arrays have {rows['train'] or 'no'} rows; expected one row per split, at most "
            f"{MOST_SPLITS:,}. Write the splits again"
        )
    return [
        checked_split(f"{path}: row {i}", {p: tables[p][i] for p in PARTS}, num_nodes) for i in range(rows["train"])
    ]


def _table(path: Path, part: str, array: AnyArray) -> AnyArray:
    if array.ndim not in (1, 2) or array.dtype.kind not in "iu":
        raise InputError(
            f"{path}: {part} has shape {array.shape} and type {array.dtype}; expected whole numbers, "
            f"one row of node ids per split (of a mask: numpy.flatnonzero)"
        )
    return np.atleast_2d(array)
