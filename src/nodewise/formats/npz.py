"""NpzFile: arrays in an ``.npz`` file, never by pickle, and sparse matrices as scipy saves them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError, NodewiseError
from nodewise._util.memory import TooLittleMemoryError, room_for
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray
from nodewise.formats.npy import NpyFile
from nodewise.formats.unpack import open_zip

TIMES = 4  # memory per byte of an array: it is read, checked, sorted and copied
KIND = "an .npz file of plain arrays without Python objects, as numpy.savez writes"


class NpzFile:
    """The arrays in an ``.npz`` file by name, read on request."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._reading(), zipfile.ZipFile(path) as archive:
            self._sizes = {
                info.filename.removesuffix(".npy"): info.file_size
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }

    def __contains__(self, name: str) -> bool:
        return name in self._sizes

    def arrays(self, *names: str, needed: Sequence[str] = (), memory: int | None = None) -> dict[str, AnyArray]:
        """Those of the arrays that exist; a ``needed`` one that is missing is an error, as is too little memory."""
        missing = [name for name in needed if name not in self]
        if missing:
            raise InputError(
                f"{self.path}: has no {' and no '.join(missing)}, only {self.holds()}; expected {KIND}. "
                f"Save the missing arrays with numpy.savez under these names"
            )
        found = [name for name in (*names, *needed) if name in self]
        self._check_memory(found, memory)
        with self._reading(), np.load(self.path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in found}

    def arrays_or_files(self, *names: str, memory: int, stack: ExitStack) -> dict[str, Any]:
        """Those of the arrays that exist, in memory if they fit, else extracted to the cache until ``stack`` closes."""
        try:
            return self.arrays(*names, memory=memory)
        except TooLittleMemoryError:
            found = [f"{name}.npy" for name in names if name in self]
            members = stack.enter_context(open_zip(self.path))
            members.extract(*found)
            return {name.removesuffix(".npy"): NpyFile(*members.member(name)) for name in found}

    def matrix(self, memory: int) -> Any:
        """The matrix that ``scipy.sparse.save_npz`` wrote, as COO, or None if the file holds something else."""
        if not {"format", "shape", "data"} <= self._sizes.keys():
            return None
        self._check_memory(list(self._sizes), memory)
        with self._reading():
            matrix = sp.load_npz(self.path)
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)  # indices outside the matrix crash what reads it
            return matrix.tocoo()

    def holds(self) -> str:
        """What it holds, for messages."""
        return ", ".join(self._sizes) or "nothing"

    def _check_memory(self, names: list[str], memory: int | None) -> None:
        if memory is not None:
            room_for(f"reading {self.path}", memory, TIMES * sum(self._sizes[name] for name in names))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with reading(self.path):
            try:
                yield
            except (NodewiseError, OSError):
                raise
            except Exception as error:  # a header is evaluated as a literal, which can fail in any way
                raise InputError(
                    f"{self.path}: cannot be read ({error}); expected {KIND}. It may be cut off: copy or save it again"
                ) from error
