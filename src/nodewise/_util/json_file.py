"""JSON that anyone may have written: read within bounds, then checked against the types that the code expects.

Python's own reader also takes NaN, numbers beyond every float, names given twice and halves of characters; each of
these would raise somewhere else, much later.
"""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import json
import math
import os
import stat
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from nodewise._util.memory import show_bytes

MOST_BYTES = 1 << 28
WHOLE = 1 << 63  # whole numbers are at most this: as many classes can be labels of int64


def read_regular(file: Path, most: int) -> bytes:
    """The content of a regular file of at most ``most`` bytes; any other is a ValueError. Never waits for a pipe."""

    def opened(path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    with open(file, "rb", opener=opened) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        if status.st_size > most:
            raise ValueError(f"it has {show_bytes(status.st_size)}; expected at most {show_bytes(most)}")
        return stream.read(status.st_size)


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises OSError, or ValueError with what is wrong."""
    return parsed_json(read_regular(file, MOST_BYTES))


def parsed_json(data: bytes) -> dict[str, Any]:
    """The object that JSON text holds; anything else is a ValueError."""
    try:
        found = json.loads(
            data.decode(), object_pairs_hook=_object, parse_int=_whole, parse_float=_number, parse_constant=_number
        )
        if b"\\ud" in data.lower():
            json.dumps(found, ensure_ascii=False).encode()  # fails at half a character
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("holds no JSON object")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r:.60} is given twice")
        found[name] = value
    return found


def _whole(text: str) -> int:
    if len(text) > 20 or not abs(int(text)) <= WHOLE:
        raise ValueError(f"{text:.30} is too large a number")
    return int(text)


def _number(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text:.30} is not a finite number")
    return float(text)


def plain_value(value: Any) -> Any:
    """The ``default`` of :func:`json.dumps`: a dataclass as its fields, a numpy number as a Python number."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is not a number, text, or the like")


def typed(kind: Any, value: Any, name: str = "content") -> Any:
    """A JSON value as ``kind``: a type hint of plain types, lists and mappings of them, or a class with typed fields.

    Raises ValueError if it is anything else; ``name``: what the message calls it.

    >>> typed(tuple[int, float | None], [3, None])
    (3, None)
    >>> typed(list[int], [3, True], "votes")
    Traceback (most recent call last):
    ValueError: votes[1] is True; expected int
    """
    if kind is Any or type(value) is kind or (kind is float and type(value) is int):
        return value
    origin, inner = _form(kind)
    if origin in (Union, UnionType):
        made = _first_that_fits(kind, value, name)
    elif origin is Literal and isinstance(value, str) and value in inner:
        made = value
    elif (origin is list or inner[1:] == (...,)) and isinstance(value, list):
        plain = all(type(item) is inner[0] for item in value)  # which may be many
        made = origin(value if plain else (typed(inner[0], item, f"{name}[{i}]") for i, item in enumerate(value)))
    elif origin is tuple and isinstance(value, list) and len(value) == len(inner):
        made = tuple(typed(inner[i], item, f"{name}[{i}]") for i, item in enumerate(value))
    elif origin in (dict, collections.abc.Mapping) and isinstance(value, dict):
        made = {key: typed(inner[1], item, f"{name}[{key!r:.40}]") for key, item in value.items()}
    elif _field_names(kind) and isinstance(value, dict):
        made = kind(**typed_fields(kind, value, name))
    else:
        raise _wrong(kind, value, name)
    return made


def _first_that_fits(union: Any, value: Any, name: str) -> Any:
    for kind in _form(union)[1]:
        with contextlib.suppress(ValueError):
            return typed(kind, value)
    raise _wrong(union, value, name)


def _wrong(kind: Any, value: Any, name: str) -> ValueError:
    return ValueError(f"{name} is {value!r:.60}; expected {kind.__name__ if isinstance(kind, type) else kind}")


def typed_fields(
    kind: Any, value: dict[str, Any], name: str = "", *, besides: tuple[str, ...] = (), others: bool = False
) -> dict[str, Any]:
    """The fields of a dataclass, a named tuple or a typed dictionary, each as its type says.

    ``besides``: fields that come from elsewhere; ``others``: names that are no fields may be there too.
    """
    hints, place = _hints(kind), f"{name}." if name else ""
    every = _field_names(kind)
    wanted = {field: needed for field, needed in every.items() if field not in besides}
    unknown = [key for key in value if key not in wanted]
    if unknown and not others:
        raise ValueError(f"{place}{unknown[0]!s:.60} is not known")
    missing = [field for field, needed in wanted.items() if needed and field not in value]
    if missing:
        raise ValueError(f"{place}{missing[0]} is missing")
    return {field: typed(hints[field], value[field], f"{place}{field}") for field in wanted if field in value}


_hints = functools.cache(get_type_hints)


@functools.cache
def _form(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """What a type hint is made of: ``list[int]`` of list and ``(int,)``."""
    return get_origin(kind), get_args(kind)


@functools.cache
def _field_names(kind: Any) -> dict[str, bool]:
    """The names of the fields of a class, and whether each has to be given; none for other types."""
    if is_dataclass(kind):
        made = [field for field in fields(kind) if field.init]
        return {field.name: field.default is field.default_factory is MISSING for field in made}
    if is_typeddict(kind):
        return {name: name in kind.__required_keys__ for name in kind.__annotations__}
    return {name: name not in kind._field_defaults for name in getattr(kind, "_fields", ())}
