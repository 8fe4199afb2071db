"""Numpy files -> arrays in parts, never by pickle; sparse matrices, which are read whole."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from nodewise._typing import AnyArray
from nodewise.datasets.archive import FileMember, Zip
from nodewise.datasets.npy import NpyMember
from nodewise.errors import InputError
from nodewise.ingest.budget import room_for

TIMES = 4  # a sparse matrix is read, checked, sorted and copied


def open_array(path: Path) -> NpyMember:
    """The array in an ``.npy`` file."""
    return NpyMember(FileMember(path))


class NpzFile:
    """The arrays in an ``.npz`` file by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip = Zip(FileMember(path))
        with zipfile.ZipFile(path) as archive:
            self.names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def open(self, name: str) -> NpyMember:
        return NpyMember(self._zip.member(f"{name}.npy"))

    def whole(self, *names: str, memory: int) -> dict[str, AnyArray]:
        """Those of the arrays ``names`` that are there, read at once; an error where ``memory`` is too small."""
        members = {name: self.open(name) for name in names if name in self}
        self._check_memory(members, memory)
        return {name: member.whole() for name, member in members.items()}

    def matrix(self, memory: int) -> Any:
        """The matrix that ``scipy.sparse.save_npz`` wrote, as COO, or None where the file holds something else."""
        if not {"format", "shape", "data"} <= set(self.names):
            return None
        self._check_memory({name: self.open(name) for name in self.names}, memory)
        with _loading(self.path):
            matrix = sp.load_npz(self.path)
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)  # indices outside the matrix crash what reads it
            return matrix.tocoo()

    def _check_memory(self, members: Mapping[str, NpyMember], memory: int) -> None:
        size = sum(member.member.size for member in members.values())
        room_for(f"reading {self.path}", memory, TIMES * size)

    def holds(self) -> str:
        """What it holds, for messages."""
        return ", ".join(sorted(self.names)) or "nothing"


@contextmanager
def _loading(path: Path) -> Iterator[None]:
    """Turn whatever numpy and scipy raise over a damaged file into an InputError about ``path``."""
    try:
        yield
    except Exception as error:  # a header is evaluated as a literal, which can fail in every way
        raise InputError(f"{path}: is cut off or no sparse matrix ({error}); fetch or write it again") from error
