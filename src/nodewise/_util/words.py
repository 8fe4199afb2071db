"""Words in messages."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number and its noun, with an s unless there is one.

    >>> counted(1, "node"), counted(1200, "row")
    ('1 node', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
