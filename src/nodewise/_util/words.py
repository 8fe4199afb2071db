"""Words in messages."""

from __future__ import annotations

# Characters that a reader does not see: controls, halves of characters, and what turns the direction of text around.
UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"


def counted(count: int, noun: str) -> str:
    """A number and its noun, with an s unless there is one.

    >>> counted(1, "node"), counted(1200, "row")
    ('1 node', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
