"""Requests that a server must survive: bytes to send, and the statuses that may come back.

`tests/serve/test_attacks.py` and `serving_faults.py` send them.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket

GONE = 0  # the connection was closed, or nothing came within a moment
WAIT = 5.0  # seconds for an answer


def request(body: bytes, path: str = "/predict", more: str = "", host: str = "127.0.0.1") -> bytes:
    """A POST with a body."""
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{more}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body


def get(path: str, more: str = "", host: str = "127.0.0.1", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nhost: {host}\r\n{more}\r\n".encode("latin-1")


def post(*headers: str) -> bytes:
    """The head of a POST to /predict with these headers."""
    lines = ["POST /predict HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", *headers, "", ""]
    return "\r\n".join(lines).encode()


def neighbours(entry: str, count: int = 10_000) -> bytes:
    """As many neighbours as one question may have: `entry` for each."""
    node = '{"neighbours": [' + ",".join([entry] * count) + "]}"
    return b'{"nodes": [' + ",".join([node] * 256).encode() + b"]}"


def members(value: str) -> str:
    """Half a million fields of an object, each with this value."""
    return ",".join(f'"{i:x}":{value}' for i in range(500_000))


def framing() -> dict[str, tuple[bytes, set[int]]]:
    """By name: bytes that are not, or hardly, a request."""
    noise = random.Random(0).randbytes(4096)
    upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAA\r\n"
    return {
        "garbage": (noise, {GONE}),
        "garbage with line ends": (noise.replace(b"a", b"\r\n\r\n"), {400}),
        "a TLS greeting": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400}),
        "the HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 403}),
        "half a request line": (b"GET /abo", {GONE}),
        "half a header": (b"GET /about HTTP/1.1\r\nhost: 127.0", {GONE}),
        "half a body": (post("content-length: 14") + b'{"nodes"', {GONE}),
        "a header of 1 MB": (get("/about", f"x: {'a' * 1_000_000}\r\n"), {400}),
        "100,000 headers": (get("/about", "x: a\r\n" * 100_000), {400}),
        "a path of 100 KB": (get("/" + "a" * 100_000), {400, 404}),
        "a content-length below 0": (post("content-length: -1"), {400}),
        "a content-length with a sign": (post("content-length: +14"), {400}),
        "a content-length of 10^18": (post(f"content-length: {10**18}"), {413}),
        "a content-length of 10^40": (post(f"content-length: {10**40}"), {400}),
        "two content-lengths": (post("content-length: 14", "content-length: 15"), {400}),
        "a content-length too small": (post("content-length: 3") + b'{"nodes": [1]}', {422}),
        "chunks without an end": (post("transfer-encoding: chunked") + b"8\r\n" + b"1234567\r", {GONE}),
        "a chunk without a size": (post("transfer-encoding: chunked") + b"zz\r\n", {400}),
        "a chunk of 2^60 bytes": (post("transfer-encoding: chunked") + b"1000000000000000\r\nabc", {GONE}),
        "a chunk with much to say": (post("transfer-encoding: chunked") + b"8;" + b"a" * 1_000_000, {400}),
        "chunks and content-length": (post("transfer-encoding: chunked", "content-length: 5") + b"0\r\n\r\n", {400}),
        "compressed chunks": (post("transfer-encoding: gzip, chunked") + b"0\r\n\r\n", {400, 501}),
        "an absolute address": (get("http://evil.example/about"), {404}),
        "CONNECT": (get("evil.example:443", method="CONNECT"), {404, 405}),
        "OPTIONS *": (get("*", method="OPTIONS"), {404, 405}),
        "TRACE": (get("/about", method="TRACE"), {405}),
        "an odd method": (get("/about", method="A" * 1000), {405}),
        "NUL in a header": (get("/about", "x: a\0b\r\n"), {400}),
        "CR in a header": (get("/about", "x: a\rset-cookie: b\r\n"), {400}),
        "CRLF in the path": (get("/about%0d%0aset-cookie:%20a"), {404}),
        "a space before the colon": (get("/about", "x : a\r\n"), {400}),
        "a websocket": (get("/about", upgrade), {200}),
        "a path upwards": (get("/..%2f..%2f..%2fetc/passwd"), {404}),
        "a path with NUL and bad UTF-8": (get("/about%00%ff"), {404}),
        "another host": (get("/about", host="evil.example"), {403}),
        "a host with a user": (get("/about", host="127.0.0.1@evil.example"), {403}),
        "a host that is none": (get("/about", host="[::1"), {403}),
        "two hosts": (get("/about", "host: evil.example\r\n"), {400}),
        "no host": (b"GET /about HTTP/1.1\r\n\r\n", {400}),
        "another origin": (get("/about", "origin: http://evil.example\r\n"), {403}),
        "an origin that is none": (get("/about", "origin: http://[\r\n"), {403}),
    }


def bodies() -> dict[str, tuple[bytes, set[int]]]:
    """By name: requests with a body that is not, or hardly, a question."""
    return {
        "100,000 brackets": (request(b"[" * 100_000), {400, 422}),
        "100,000 objects": (request(b'{"nodes":' * 100_000), {400, 422}),
        "1e400": (request(b'{"nodes": [1], "coverage": 1e400}'), {422}),
        "1e400 nodes": (request(b'{"nodes": [1e400]}'), {422}),
        "an integer of 100,000 digits": (request(b'{"nodes": [' + b"1" * 100_000 + b"]}"), {400}),
        "an integer of 4,000 digits": (request(b'{"nodes": [' + b"1" * 4000 + b"]}"), {422}),
        "NaN": (request(b'{"nodes": [NaN]}'), {422}),
        "a key twice": (request(b'{"nodes": [0], "nodes": [1]}'), {200}),
        "invalid UTF-8": (request(b'{"nodes": ["\xff\xfe"]}'), {400, 422}),
        "a lone surrogate as a name": (request(rb'{"nodes": ["\ud800"]}'), {422}),
        "a lone surrogate as a field": (request(rb'{"nodes": [1], "\ud800": 1}'), {422}),
        "a lone surrogate as a feature": (
            request(rb'{"nodes": [{"neighbours": [0], "features": {"\udfff": 1}}]}', "/predict-new"), {422},
        ),
        "a lone surrogate as a class": (request(rb'{"node": 1, "class": "\ud800"}', "/explain"), {422}),
        "NUL as a name": (request(rb'{"nodes": ["\u0000"]}'), {404}),
        "a class of 4 MB": (request(json.dumps({"node": 1, "class": "a" * 4_000_000}).encode(), "/explain"), {422}),
        "no JSON": (request(b"nodes=1"), {422}),
        "nothing": (request(b""), {422}),
        "9 MB": (request(b" " * 9_000_000), {413}),
        "8 MB of spaces": (request(b" " * 8_000_000), {422}),
        "a million lists": (request(b"[" + b"[]," * 2_000_000 + b"[]]"), {422}),
        "2.5 million wrong neighbours": (request(neighbours("{}"), "/predict-new"), {422}),
        "2.5 million neighbours": (request(neighbours("0"), "/predict-new"), {200, 422, 503}),
        "a million unknown names": (request(neighbours('"é"', 4000), "/predict-new"), {422}),
        "50,000 unknown names": (request(neighbours('"é"', 195), "/predict-new"), {404}),
        "500,000 unknown fields": (request(("{" + members("1") + "}").encode()), {422}),
        "500,000 wrong features": (
            request(('{"nodes": [{"neighbours": [], "features": {' + members('""') + "}}]}").encode(), "/predict-new"),
            {422},
        ),
    }  # fmt: skip


def status_of(answer: bytes) -> int:
    """The status in the first line of an answer; GONE where there is none."""
    parts = answer.split(b" ", 2)
    return int(parts[1]) if len(parts) > 1 and parts[0].startswith(b"HTTP/1.") else GONE


def send(port: int, data: bytes, wait: float = WAIT) -> bytes:
    """The beginning of what comes back within so many seconds."""
    with socket.create_connection(("127.0.0.1", port), wait) as connection:
        with contextlib.suppress(OSError):  # refused before all was sent; the answer may be here all the same
            connection.sendall(data)
        with contextlib.suppress(OSError):
            return connection.recv(1 << 16)
    return b""
