"""Read a Matrix Market file (``.mtx``, also ``.mtx.gz``): an adjacency, or sparse features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.memory import room_for
from nodewise._util.os_errors import reading

ENTRY_BYTES = 64  # of memory per entry: parsed, expanded by symmetry, checked and copied


def read_matrix_market(path: Path, memory: int) -> Any:
    """The matrix as COO."""
    from scipy.io import mminfo, mmread

    # Scipy's parser has many kinds of errors; a file with the wrong header is a ValueError.
    with reading(path, "a Matrix Market file", (Exception,), advice="fetch or write it again"):
        rows, _, entries, _, field, _ = mminfo(str(path))
        room_for(f"reading {path}", memory, ENTRY_BYTES * (entries + rows))
        if field == "complex":
            raise InputError(f"{path}: a matrix of complex numbers; expected real ones")
        return sp.coo_matrix(mmread(str(path)))
