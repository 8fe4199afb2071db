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
SECONDS = 30.0  # for one request
HERE = ("localhost", "127.0.0.1", "::1")

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


class Guard:
    """Checks each request before the application sees it, and counts what came of it.

    ``hosts``: names by which the server may be called, without ports. A page of another site that calls it (DNS
    rebinding, a form) carries another Host or Origin and is refused.
    """

    def __init__(self, app: App, hosts: Collection[str], metrics: Metrics, paths: Collection[str]) -> None:
        self.app, self.hosts, self.metrics, self.paths = app, frozenset(hosts), metrics, frozenset(paths)
        self.most_body, self.seconds = MOST_BODY, SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), [0]

        async def noting(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
            await send(message)

        try:
            await self._checked(scope, receive, noting, status)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.requests.labels(path, str(status[0])).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)

    async def _checked(self, scope: Scope, receive: Receive, send: Send, status: list[int]) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        problem = self._wrong_origin(headers)
        if problem is not None:
            await _refuse(send, 403, problem)
            return
        try:
            body = await asyncio.wait_for(self._body(headers, receive), self.seconds)
        except TimeoutError:
            await _refuse(send, 408, "the request did not arrive in time")
            return
        if body is None:
            await _refuse(
                send, 413, f"the body is larger than {self.most_body:,} bytes; ask about fewer nodes at a time"
            )
            return
        sent = [False]

        async def whole() -> MutableMapping[str, Any]:
            if sent[0]:
                return await receive()  # only a disconnect can follow
            sent[0] = True
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            await asyncio.wait_for(self.app(scope, whole, send), self.seconds)
        except TimeoutError:
            if not status[0]:
                await _refuse(send, 503, f"no answer within {self.seconds:g} s", {"retry-after": "5"})

    def _wrong_origin(self, headers: dict[bytes, str]) -> str | None:
        host = _hostname(headers.get(b"host", ""))
        if host not in self.hosts:
            return f"this server does not answer to the name {host[:100]!r}; start it with --host, or --allow-host"
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin).netloc != headers.get(b"host"):
            return "pages of other sites may not call this server"
        return None

    async def _body(self, headers: dict[bytes, str], receive: Receive) -> bytes | None:
        """The whole body, None where it is too large."""
        length = headers.get(b"content-length", "0")
        if length.isdecimal() and int(length[:19]) > self.most_body:
            return None
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"".join(parts)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.most_body:
                return None
            if not message.get("more_body"):
                return b"".join(parts)


def _hostname(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def _refuse(send: Send, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
    body = json.dumps({"detail": detail}).encode()
    fields = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
