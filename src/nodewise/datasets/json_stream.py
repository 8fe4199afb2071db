"""One large JSON object, an item at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from nodewise.datasets.archive import Cursor, Member
from nodewise.errors import InputError

CHUNK_BYTES = 1 << 20
MAX_ITEM = 1 << 24  # characters; an item that is longer is no item of ours
_GOES_ON = ("", *".eE")  # behind a number, this may be the rest of it: 0.5 up to its point is 0
_SPACE = re.compile(r"[ \t\r\n]*")


def json_items(member: Member) -> Iterator[tuple[str, Any]]:
    """The items of the object that is the whole of ``member``, in the order of the file."""
    with member.open() as cursor:
        text = _Text(cursor, member.label)
        text.take("{")
        more = not text.next_is("}")
        while more:
            key = text.value()
            text.take(":")
            if not isinstance(key, str):
                raise text.wrong()
            yield key, text.value()
            more = text.next_is(",")
        text.take("}")
        text.finish()
        member.check(cursor)


class _Text:
    """What lies ahead in the file, with as much of it in memory as the next item needs."""

    def __init__(self, cursor: Cursor, label: str) -> None:
        self._cursor, self._label = cursor, label
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._scan = json.JSONDecoder().raw_decode
        self._buffer, self._at, self._passed = "", 0, 0

    def next_is(self, letter: str) -> bool:
        """Whether the next letter is this; a comma is then taken."""
        self._skip_space()
        found = self._buffer[self._at : self._at + 1] == letter
        self._at += found and letter == ","
        return found

    def take(self, letter: str) -> None:
        self._skip_space()
        if self._buffer[self._at : self._at + 1] != letter:
            raise self.wrong()
        self._at += 1

    def value(self) -> Any:
        """The next value. A number may go on in the next chunk: only what follows it says that it has ended."""
        self._skip_space()
        while True:
            try:
                value, end = self._scan(self._buffer, self._at)
            except (ValueError, RecursionError) as error:
                if not self._more():
                    raise self.wrong() from error
                continue
            if self._buffer[end : end + 1] in _GOES_ON and self._more():
                continue
            self._at = end
            return value

    def finish(self) -> None:
        self._skip_space()
        if self._at < len(self._buffer):
            raise self.wrong()

    def wrong(self) -> InputError:
        found = self._buffer[self._at : self._at + 20]
        return InputError(
            f"{self._label}: character {self._passed + self._at:,} is wrong ({found!r}); expected one JSON object with "
            f"an entry for each node. It is cut off or something else: fetch or write it again"
        )

    def _skip_space(self) -> None:
        while True:
            self._at = _SPACE.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._buffer) or not self._more():
                return

    def _more(self) -> bool:
        """Read on, and forget what is behind; False at the end."""
        if len(self._buffer) - self._at > MAX_ITEM:
            return False
        data = self._cursor.read(CHUNK_BYTES) or b""
        try:
            text = self._decode(data, not data)
        except UnicodeDecodeError as error:
            raise InputError(f"{self._label}: is not text in UTF-8 ({error}); fetch or write it again") from error
        self._passed += self._at
        self._buffer, self._at = self._buffer[self._at :] + text, 0
        return bool(data)
