"""Parameters as dataclass fields that carry their default and their help text."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def param(default: Any, text: str) -> Any:
    """A field of a dataclass that becomes an option of the command line; ``text`` is its help.

    >>> from dataclasses import dataclass, fields
    >>> @dataclass
    ... class Walk:
    ...     length: int = param(3, "Steps per walk.")
    >>> Walk().length, fields(Walk)[0].metadata["help"]
    (3, 'Steps per walk.')
    """
    return field(default=default, metadata={"help": text})
