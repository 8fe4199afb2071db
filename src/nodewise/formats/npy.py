"""NpyFile: an array in an ``.npy`` file, read in parts; numbers or text, never Python objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray

ADVICE = "fetch or save it again"


class NpyFile:
    """An array on the disk: ``file[first:last]`` reads a part of it.

    The file is mapped again for each part, so that parts read before do not count as memory in use.
    """

    def __init__(self, path: Path, label: str | None = None) -> None:
        self.path, self.label = path, label or str(path)
        array = self._mapped()
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype[Any] = array.dtype.newbyteorder("=")
        self.nbytes = array.nbytes
        if self.dtype.kind not in "biufSU":
            raise InputError(f"{self.label}: is an array of {self.dtype}; expected numbers")
        expected, size = array.offset + array.nbytes, path.stat().st_size
        if size != expected:
            raise InputError(f"{self.label}: is {size:,} bytes long; {self} takes {expected:,}; {ADVICE}")

    def __getitem__(self, part: Any) -> AnyArray:
        return np.array(self._mapped()[part], self.dtype, order="C")

    def __str__(self) -> str:
        return f"an array of {self.dtype} and shape {self.shape}"

    def _mapped(self) -> np.memmap[Any, Any]:
        # A header is evaluated as a literal, which can fail in any way.
        with reading(self.label, "a valid .npy array", (Exception,), advice=ADVICE):
            try:
                return np.lib.format.open_memmap(self.path, mode="r")
            except ValueError as error:
                if "Python objects" not in str(error):
                    raise
                raise InputError(
                    f"{self.label}: is an array of Python objects, which are not read since they could run code; "
                    f"expected numbers. Save it with array.astype(float), or as a table"
                ) from error
