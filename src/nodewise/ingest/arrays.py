"""Numpy files -> arrays, never by pickle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._typing import AnyArray
from nodewise.errors import InputError
from nodewise.ingest.text import reading


@contextmanager
def _loading(path: Path) -> Iterator[None]:
    """Turn whatever numpy and scipy raise over a damaged file into an InputError about ``path``."""
    with reading(path):
        try:
            yield
        except OSError:
            raise
        except Exception as error:  # a header is evaluated as a literal, which can fail in every way
            if "allow_pickle" in str(error):
                raise InputError(
                    f"{path}: holds Python objects; expected arrays of numbers or text. Save it with those alone"
                ) from error
            raise InputError(f"{path}: is cut off or not a numpy file ({error}); fetch or write it again") from error


def read_npy(path: Path, mmap: bool = False) -> AnyArray:
    """The array in an ``.npy`` file; with ``mmap`` it stays on the disk."""
    with _loading(path):
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: holds several arrays; expected one. Name the file .npz")
    return array


def read_npz(path: Path) -> dict[str, AnyArray]:
    """All arrays in an ``.npz`` file by name."""
    with _loading(path), np.load(path, allow_pickle=False) as content:
        return dict(content)


def sparse_matrix(path: Path, arrays: dict[str, AnyArray]) -> Any:
    """The matrix that ``scipy.sparse.save_npz`` wrote, or None where ``arrays`` are something else."""
    if not {"format", "shape", "data"} <= arrays.keys():
        return None
    with _loading(path):
        matrix = sp.load_npz(path)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)  # indices outside the matrix crash what reads it
        return matrix.tocoo()
