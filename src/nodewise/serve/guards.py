"""What every request passes: its Host and Origin, the size of its body, the time it takes; and what is counted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

MOST_BODY = 8 << 20  # bytes
MOST_BODIES = 4 * MOST_BODY  # of all requests that are not answered yet
SECONDS = 30.0  # for one request
HERE = ("localhost", "127.0.0.1", "::1")
CLOSE = {"connection": "close"}  # what is left of the request is not read

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Metrics:
    """Prometheus metrics of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("path", "status")
        self.requests = Counter("nodewise_requests", "Requests.", labels, registry=self.registry)
        buckets = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
        self.seconds = Histogram(
            "nodewise_request_seconds", "Seconds per request.", ("path",), registry=self.registry, buckets=buckets
        )
        self.waiting = Gauge("nodewise_waiting_nodes", "Nodes that wait for an answer.", registry=self.registry)
        self.nodes = Counter("nodewise_answered_nodes", "Nodes answered.", registry=self.registry)
        self.batches = Counter("nodewise_batches", "Batches of nodes computed together.", registry=self.registry)

    def note_batch(self, size: int) -> None:
        self.batches.inc()
        self.nodes.inc(size)


class RefusedError(Exception):
    """A request that the application does not see: the status and detail of the answer, and further headers."""


class Guard:
    """Checks each request before the application sees it, and counts what came of it.

    ``hosts``: names by which the server may be called, without ports. A page of another site that calls it (DNS
    rebinding, a form) carries another Host or Origin and is refused.
    """

    def __init__(self, app: App, hosts: Collection[str], metrics: Metrics, paths: Collection[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, frozenset(paths)
        self.hosts = frozenset(host.lower() for host in hosts)
        self.most_body, self.most_bodies, self.seconds = MOST_BODY, MOST_BODIES, SECONDS
        self.held = 0  # bytes of bodies that are not answered yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, body = time.perf_counter(), [0], bytearray()

        async def noting(message: MutableMapping[str, Any]) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                status[0] = message["status"]

        try:
            await self._checked(scope, receive, noting, body)
        except RefusedError as refusal:
            if not status[0]:
                await _refuse(send, *refusal.args)
                status[0] = refusal.args[0]
        except Exception:
            status[0] = status[0] or 500
            raise
        finally:
            self.held -= len(body)
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.requests.labels(path, str(status[0])).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)

    async def _checked(self, scope: Scope, receive: Receive, send: Send, body: bytearray) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        self._check_origin(headers)
        try:
            whole = await asyncio.wait_for(self._read(headers, receive, body), self.seconds)
        except TimeoutError:
            raise RefusedError(408, "the request did not arrive in time", CLOSE) from None
        if not whole:
            return  # nobody is there to be answered
        sent = [False]

        async def once() -> MutableMapping[str, Any]:
            if sent[0]:
                return await receive()  # only a disconnect can follow
            sent[0] = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        try:
            await asyncio.wait_for(self.app(scope, once, send), self.seconds)
        except TimeoutError:
            raise RefusedError(503, f"no answer within {self.seconds:g} s", {"retry-after": "5"}) from None

    def _check_origin(self, headers: dict[bytes, str]) -> None:
        host = _hostname(headers.get(b"host", ""))
        if host not in self.hosts:
            known = f"this server does not answer to the name {host[:100]!r}; start it with --host, or --allow-host"
            raise RefusedError(403, known)
        origin = headers.get(b"origin")
        if origin is not None and origin.partition("://")[2] != headers[b"host"]:
            raise RefusedError(403, "pages of other sites may not call this server")

    async def _read(self, headers: dict[bytes, str], receive: Receive, body: bytearray) -> bool:
        """Read the body; whether it came to its end."""
        length = headers.get(b"content-length")
        if length is not None and b"transfer-encoding" in headers:
            # A proxy may believe the one and we the other, and a part of the body be taken for another request.
            raise RefusedError(400, "the request has both a content-length and a transfer-encoding", CLOSE)
        too_large = f"the body is larger than {self.most_body:,} bytes; ask about fewer nodes at a time"
        if length is not None and int(length) > self.most_body:
            raise RefusedError(413, too_large)
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            part = message.get("body", b"")
            body += part
            self.held += len(part)
            if len(body) > self.most_body:
                raise RefusedError(413, too_large)
            if self.held > self.most_bodies:
                raise RefusedError(503, "too many large questions at once; ask again", {"retry-after": "1"})
            if not message.get("more_body"):
                return True


def _hostname(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def problem(detail: str) -> bytes:
    """The body of an answer that says what is wrong; ASCII, since not every string that was sent can be encoded."""
    return json.dumps({"detail": detail}).encode()


async def _refuse(send: Send, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
    body = problem(detail)
    fields = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    encoded = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
