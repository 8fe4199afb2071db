"""Random access to deflated bytes, by remembering the state of the decoder on the way.

Deflate can only be read front to back. A decoder in the middle of it is 40 kB, though, so one is kept every
``STEP_BYTES`` of output: whoever wants byte p starts from the last one before it and inflates less than a step. A zip
inside a zip can so be read where it lies, by several readers at once, and nothing is unpacked to the disk.
"""

from __future__ import annotations

import bisect
import threading
import zlib
from typing import Any, Protocol

STEP_BYTES = 128 << 20
CHUNK_BYTES = 1 << 20  # of compressed bytes


class Bytes(Protocol):
    """Bytes by place; an answer may be shorter than asked for, and is empty only behind the end."""

    def read_at(self, position: int, count: int) -> bytes: ...
    def close(self) -> None: ...


class Checkpoints:
    """Decoders at rising places of one deflated stream, shared by all that read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: list[int] = []
        self._states: list[tuple[int, int, Any]] = []  # bytes given out, bytes taken in, decoder

    def note(self, given: int, taken: int, decoder: Any) -> None:
        """Keep a copy of ``decoder`` if it is a step beyond the last."""
        if given < (self._places[-1] if self._places else 0) + STEP_BYTES:
            return  # most calls: no need for the lock
        with self._lock:
            if not self._places or given >= self._places[-1] + STEP_BYTES:
                self._states.append((given, taken, decoder.copy()))
                self._places.append(given)

    def reach(self, position: int) -> int:
        """The place of the last state at or before ``position``."""
        with self._lock:
            at = bisect.bisect_right(self._places, position) - 1
            return self._places[at] if at >= 0 else 0

    def before(self, position: int) -> tuple[int, int, Any]:
        """The last state at or before ``position``, with a decoder to use up."""
        with self._lock:
            at = bisect.bisect_right(self._places, position) - 1
            if at < 0:
                return 0, 0, zlib.decompressobj(-zlib.MAX_WBITS)
            given, taken, decoder = self._states[at]
            return given, taken, decoder.copy()


class Inflater:
    """One reader of the ``packed`` deflated bytes that begin at ``start`` of ``holder``."""

    def __init__(self, holder: Bytes, start: int, packed: int, checkpoints: Checkpoints) -> None:
        self._holder, self._start, self._packed = holder, start, packed
        self._checkpoints = checkpoints
        self._restart(0)

    def read_at(self, position: int, count: int) -> bytes:
        """Up to ``count`` bytes from ``position`` on; none where the deflated bytes have ended."""
        if position < self._given or self._checkpoints.reach(position) > self._given:
            self._restart(position)
        while self._given < position:
            if not self._inflate(min(CHUNK_BYTES, position - self._given)):
                return b""
        return self._inflate(count)

    def close(self) -> None:
        self._holder.close()

    def _restart(self, position: int) -> None:
        self._given, self._taken, self._decoder = self._checkpoints.before(position)
        self._waiting = b""

    def _inflate(self, count: int) -> bytes:
        while True:
            if not self._waiting:
                wanted = min(CHUNK_BYTES, self._packed - self._taken)
                self._waiting = self._holder.read_at(self._start + self._taken, wanted) if wanted else b""
            chunk = self._waiting
            data: bytes = self._decoder.decompress(chunk, count)
            self._waiting = self._decoder.unconsumed_tail
            self._taken += len(chunk) - len(self._waiting)
            if data or not chunk or self._decoder.eof:
                break
        self._given += len(data)
        self._checkpoints.note(self._given, self._taken, self._decoder)
        return data
