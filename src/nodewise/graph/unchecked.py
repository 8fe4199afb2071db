"""Arrays of a store that was not verified: checked as a whole before they are used, or read by code that bounds itself.

A store of any size opens at once, so nobody has looked at its values. Whoever reads ``graph.indices``, or a part of a
sparse matrix of features, gets an array that was checked: once, on first use. Code that touches a few rows of a large
array asks for ``graph.unchecked("indices")`` instead, and checks what it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from nodewise._util.errors import StoreError
from nodewise._util.pagecache import file_span
from nodewise._util.types import AnyArray, Features

REPAIR = "the store is damaged: import it again or restore it from a copy"
Value = TypeVar("Value")
MISSING: Any = object()


class Unchecked(NamedTuple):
    """What a field holds until it is used: arrays, and the function that raises unless they are sound."""

    value: Any
    check: Callable[[Any], object]


class CheckedOnUse(Generic[Value]):
    """A field of a dataclass; an :class:`Unchecked` value is checked when the field is first read."""

    def __init__(self, default: Any = MISSING) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> Value:
        if instance is None:
            if self._default is MISSING:
                raise AttributeError(self._name)  # which tells the dataclass that there is no default
            default: Value = self._default
            return default
        held: Any = instance.__dict__[self._name]
        if isinstance(held, Unchecked):
            held.check(held.value)
            instance.__dict__[self._name] = held = held.value
        found: Value = held
        return found

    def __set__(self, instance: object, value: Value) -> None:
        instance.__dict__[self._name] = value


class UncheckedRows(sp.csr_matrix):  # type: ignore[misc]
    """A sparse matrix whose parts are checked when one of them is first read; :func:`csr_parts` gives them as they are.

    What scipy makes of it, such as some of its rows, is made of checked parts.
    """

    _check: Callable[[], object] | None = None

    @classmethod
    def of(cls, parts: tuple[AnyArray, ...], shape: tuple[int, int], check: Callable[[], object]) -> UncheckedRows:
        """From ``data``, ``indices`` and ``indptr``, of which none is read."""
        matrix = cls((1, 1), dtype=parts[0].dtype)
        matrix._shape = shape
        matrix.data, matrix.indices, matrix.indptr = parts
        matrix._check = check
        return matrix

    @property
    def nnz(self) -> int:
        return int(self.__dict__["_data"].size)

    def _part(self, name: str) -> AnyArray:
        if self._check is not None:
            self._check()
            self._check = None
        part: AnyArray = self.__dict__[name]
        return part

    data = property(lambda self: self._part("_data"), lambda self, part: self.__dict__.update(_data=part))
    indices = property(lambda self: self._part("_indices"), lambda self, part: self.__dict__.update(_indices=part))
    indptr = property(lambda self: self._part("_indptr"), lambda self, part: self.__dict__.update(_indptr=part))


def csr_parts(matrix: sp.csr_matrix) -> tuple[AnyArray, AnyArray, AnyArray]:
    """``indptr``, ``indices`` and ``data``, not checked: for kernels that bound what they read."""
    if isinstance(matrix, UncheckedRows):
        return matrix.__dict__["_indptr"], matrix.__dict__["_indices"], matrix.__dict__["_data"]
    return matrix.indptr, matrix.indices, matrix.data


def check_finite(rows: AnyArray, features: Features) -> None:
    """Raise where ``rows``, made of ``features``, hold what is no number; features are finite when a graph is made.

    Their sum tells: it is one pass without a copy, and sums of features of the largest size fit into float32.
    """
    if not np.isfinite(rows.sum(dtype=np.float32)):
        raise damaged(features, "features", "holds values that are not finite numbers")


def damaged(array: Any, otherwise: str, what: str) -> StoreError:
    """The error for an array with impossible values: named by its file or, without one, by ``otherwise``."""
    parts = csr_parts(array) if isinstance(array, sp.csr_matrix) else (getattr(array, "codes", array),)
    span = file_span(parts[-1]) if isinstance(parts[-1], np.ndarray) else None
    return StoreError(f"{otherwise if span is None else span.path}: {what}; {REPAIR}")
