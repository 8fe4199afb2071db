"""Connections: how many there may be, how long one may say nothing, and how they end."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol

from nodewise._util.errors import InputError
from nodewise.serve.guards import SECONDS

BACKLOG = 128  # connections that the system holds, and that asyncio may take at once before it counts them
OTHER_FILES, LEAST_CONNECTIONS = 64, 16  # of a worker
MOST_CONNECTIONS = 2000  # per worker; for one more, that which has waited longest for its request is closed
LAST_CALL = 0.25  # seconds in which requests that are on their way are still answered once the server ends


def connection_limit() -> int:
    """How many connections a worker may hold: half of the files that it may open at most, and no more than 2,000."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * MOST_CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    room = soft - BACKLOG - OTHER_FILES
    if room < LEAST_CONNECTIONS:
        raise InputError(
            f"only {soft} files may be open at a time, too few for a server; raise the hard limit (ulimit -Hn) to 1024"
        )
    return min(MOST_CONNECTIONS, soft // 2, room)


class Connection(H11Protocol):
    """uvicorn's connection, with an end to waiting.

    uvicorn waits forever for the first request of a connection, for the rest of a header and for a client that does
    not read; so a few thousand silent connections would keep everybody else out.
    """

    _oldest_first: ClassVar[dict[Connection, None]] = {}  # by the time of the last answer
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        most = self.limit_concurrency
        if most is not None and len(self.connections) >= most:
            for one in self._oldest_first:
                if one is not self and one.request_is_missing():
                    one.transport.abort()
                    # Now: asyncio tells of its end only once all new connections have been taken.
                    self._oldest_first.pop(one)
                    self.connections.discard(one)
                    break  # where all others are being answered, this one gets 503

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._oldest_first.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()  # may begin with the next request, if that is here already

    def shutdown(self) -> None:
        """Answer what is on its way, say that it was the last, and end."""
        headers = self.server_state.default_headers
        if CLOSE_HEADER not in headers:
            headers.append(CLOSE_HEADER)
        self.loop.call_later(LAST_CALL, self._end)

    def request_is_missing(self) -> bool:
        """Whether no request is here as a whole and unanswered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; or end, where an answer to the same request is on its way already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def _end(self) -> None:
        if self.conn.our_state is not h11.ERROR and not self.transport.is_closing():
            super().shutdown()

    def _wait(self) -> None:
        """Another request has to begin within the time limit."""
        self._oldest_first.pop(self, None)
        self._oldest_first[self] = None
        self._close_after(SECONDS)

    def _close_after(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._late, self.cycle)

    def _late(self, before: Any) -> None:
        if self.cycle is before or self.transport.is_closing():
            self.transport.abort()  # unlike close, this does not wait for a client that does not read
        else:
            self._close_after(3 * SECONDS)  # to arrive, to be answered, to be read
