"""NpzFile: arrays in an ``.npz`` file, never by pickle, and sparse matrices as scipy saves them."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise._util.memory import TooLittleMemoryError, available_memory, memory_budget, room_for, show_bytes
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray
from nodewise.formats.npy import NpyFile, read_header
from nodewise.formats.unpack import CHUNK_BYTES, open_zip
from nodewise.graph.checks import check_parts

TIMES = 4  # memory per byte of an array: it is read, checked, sorted and copied
FILE_TIMES = 40  # memory per byte of a file that is read without a limit; a small file gets a quarter of memory
ROW_BYTES = 64  # of memory per row of a matrix, which may be empty
KIND = "an .npz file of plain arrays without Python objects, as numpy.savez writes"
CSR_PARTS = ("data", "indices", "indptr")
MATRIX_PARTS = {
    "csr": CSR_PARTS,
    "csc": CSR_PARTS,
    "bsr": CSR_PARTS,
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


class NpzFile:
    """The arrays in an ``.npz`` file by name, read on request."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._reading(), zipfile.ZipFile(path) as archive:
            self._members = {
                info.filename.removesuffix(".npy"): info
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def arrays(self, *names: str, needed: Sequence[str] = (), memory: int | None = None) -> dict[str, AnyArray]:
        """Those of the arrays that exist; a ``needed`` one that is missing is an error, as is too little memory.

        Without ``memory``, what may be used follows the size of the file.
        """
        missing = [name for name in needed if name not in self]
        if missing:
            raise InputError(
                f"{self.path}: has no {' and no '.join(missing)}, only {self.holds()}; expected {KIND}. "
                f"Save the missing arrays with numpy.savez under these names"
            )
        found = [name for name in (*names, *needed) if name in self]
        self._check_memory(found, memory)
        with self._reading(), zipfile.ZipFile(self.path) as archive:
            return {name: self._array(archive, name) for name in found}

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
        if not {"format", "shape", "data"} <= self._members.keys():
            return None
        about = self.arrays("format", "shape", memory=memory)
        kind = str(about["format"].astype(str)) if about["format"].dtype.kind in "SU" else ""
        shape = about["shape"]
        if kind not in MATRIX_PARTS or shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
            shown = shape.tolist() if shape.size <= 4 else f"an array of shape {shape.shape}"
            raise InputError(
                f"{self.path}: a matrix of format {kind[:20]!r} and shape {shown}; expected one of "
                f"{', '.join(MATRIX_PARTS)}, and two counts. Save its tocsr() with scipy.sparse.save_npz"
            )
        parts = self.arrays(needed=MATRIX_PARTS[kind], memory=memory)
        room_for(f"reading {self.path}", memory, ROW_BYTES * int(shape[0]))
        if parts["data"].dtype.kind not in "biuf":
            raise InputError(f"{self.path}: a matrix of {parts['data'].dtype}; expected numbers")
        data, *places = parts.values()
        with self._reading():
            given = (data, tuple(places)) if kind == "coo" else (data, *places)
            matrix = getattr(sp, f"{kind}_matrix")(given, shape=tuple(shape.tolist()))
            if hasattr(matrix, "check_format"):
                check_parts(matrix)
            return matrix.tocoo()

    def holds(self) -> str:
        """What it holds, for messages."""
        return ", ".join(self._members)[:200] or "nothing"

    def _array(self, archive: zipfile.ZipFile, name: str) -> AnyArray:
        info = self._members[name]
        with archive.open(info) as stream:
            header = read_header(stream, f"{self.path}: {info.filename}", info.file_size)
            values = np.empty(info.file_size - header.offset, np.uint8)
            done = 0
            while chunk := stream.read(CHUNK_BYTES):  # the last one compares the CRC-32
                values[done : done + len(chunk)] = np.frombuffer(chunk, np.uint8)
                done += len(chunk)
        if done != values.size:
            raise EOFError(f"{info.filename} ends after {done:,} of {values.size:,} bytes")
        array: AnyArray = values.view(header.dtype).reshape(header.shape, order="F" if header.by_columns else "C")
        return array.astype(header.dtype.newbyteorder("="), copy=False)

    def _check_memory(self, names: list[str], memory: int | None) -> None:
        needed = TIMES * sum(self._members[name].file_size for name in names)
        if memory is not None:
            room_for(f"reading {self.path}", memory, needed)
            return
        with reading(self.path):
            size = self.path.stat().st_size
        most = max(memory_budget(None), min(available_memory(), FILE_TIMES * size))
        if needed > most:
            raise InputError(
                f"{self.path}: reading its arrays takes {show_bytes(needed)} of memory, and {show_bytes(most)} may be "
                f"used for a file of {show_bytes(size)}; make a store of it with `nodewise import`, which needs less, "
                f"or use a machine with more memory"
            )

    def _reading(self) -> AbstractContextManager[None]:
        # Damaged bytes can make zipfile, its decoders and scipy raise almost anything.
        return reading(self.path, KIND, (Exception,), advice="copy or save it again")
