"""One file over HTTP: it goes on where it broke off, is checked, and appears whole or not at all.

What has come so far lies in ``NAME.part``, and in ``NAME.part.json`` what the server said of the file. The next
attempt, in this run or another, asks for the rest on the condition that the file is still the same; a server that does
not know of parts, or has another file by now, sends all of it, and the download starts over. While one process is at
it, others that want the same file wait.

What is checked: the length, if the server gives one; the SHA-256, if it is known; the MD5 that some servers send
(Content-MD5, x-goog-hash). An ETag only serves to recognise the file, since what it says is the server's own business.
Where no SHA-256 is known beforehand, that of the first download is kept in ``NAME.sha256``, with the size: a file that
changes on the disk is noticed from then on, but whether the first download was right is known only by the length, the
MD5, and the checksums inside the file itself.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import http.client
import io
import json
import logging
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nodewise._util.atomic import new_file
from nodewise._util.errors import StoreError
from nodewise._util.memory import show_bytes
from nodewise._util.run_folder import locked

log = logging.getLogger("nodewise")

Progress = Callable[[int, int | None], None]  # bytes so far, and bytes in all where known

WAIT_SECONDS = 20.0  # for an answer, per connection and per read
RETRIES = 4  # in a row without a byte
PAUSE_SECONDS = 1.0  # before the first retry; doubled for each further one
CHUNK_BYTES = 1 << 20
_RETRY_CODES = (408, 429, 500, 502, 503, 504)


@dataclasses.dataclass(frozen=True)
class _Remote:
    """What the server says of a file."""

    url: str
    size: int | None
    tag: str | None  # a strong ETag or a date, by which a later answer is known to be about the same bytes
    md5: str | None

    @classmethod
    def of(cls, url: str, headers: Any, size: int | None) -> _Remote:
        etag = headers.get("ETag")
        tag = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
        return cls(url, size, tag, _md5_in(headers))


class _AgainError(Exception):
    """An attempt broke off, and another may go on with it."""


class _NoAnswerError(_AgainError):
    """The server could not be reached."""


def download(url: str, path: Path, *, sha256: str | None = None, progress: Progress | None = None) -> None:
    """Bring the file at ``url`` to ``path``; a file that is already there is left alone.

    ``progress`` is called with the bytes that have come, and those of the whole where that is known. Raises StoreError
    with what went wrong; what has come by then stays for the next time, unless it turned out to be the wrong file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f"{path.name}.part.lock")), _tidy(path):
            if path.is_file():  # another process was at it, and is done
                return
            with io.FileIO(_part(path), "a+") as stream:
                remote = _fetch_all(url, path, stream, progress or (lambda *_: None))
                _verify(path, stream, remote, sha256)
                os.fsync(stream.fileno())
            _part(path).replace(path)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"{path.parent} cannot be written ({error}); set $NODEWISE_CACHE to a folder that can"
        ) from error


def recorded_sha256(path: Path) -> str | None:
    """The SHA-256 that was kept when ``path`` was downloaded, or None."""
    try:
        found = re.search(r"^([0-9a-f]{64}) ", _record(path).read_text("utf-8"), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return found[1] if found else None


def file_digest(path: Path, kind: str = "sha256") -> str:
    """The digest of a file of any size."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


# ---------------------------------------------------------------------- files beside the file


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _state(path: Path) -> Path:
    return path.with_name(f"{path.name}.part.json")


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


@contextlib.contextmanager
def _tidy(path: Path) -> Iterator[None]:
    """Remove the part at the end, unless there is something in it to go on with."""
    try:
        yield
    finally:
        part = _part(path)
        if path.is_file() or not part.exists() or part.stat().st_size == 0:
            part.unlink(missing_ok=True)
            _state(path).unlink(missing_ok=True)


def _remembered(path: Path, url: str) -> _Remote | None:
    try:
        remote = _Remote(**json.loads(_state(path).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return remote if remote.url == url and remote.tag and isinstance(remote.size, int | None) else None


# ---------------------------------------------------------------------- transfer


def _fetch_all(url: str, path: Path, stream: io.FileIO, progress: Progress) -> _Remote:
    """Attempt after attempt, until all is there or several in a row have brought nothing."""
    failures, most, answered = 0, 0, False
    while True:
        try:
            return _attempt(url, path, stream, progress)
        except _AgainError as error:
            reason = error
        answered = answered or not isinstance(reason, _NoAnswerError)
        # More than ever before: a server that makes us begin again and again is not getting on.
        done = stream.seek(0, os.SEEK_END)
        failures, most = (0, done) if done > most else (failures + 1, most)
        # Without a first answer there is probably no network, and waiting would not help.
        if failures > RETRIES or not answered:
            raise StoreError(f"download of {url} failed ({reason}){_kept(path, stream)}") from reason
        log.warning("download of %s broke off (%s); trying to go on", url, reason)
        time.sleep(PAUSE_SECONDS * 2 ** max(0, failures - 1))


def _attempt(url: str, path: Path, stream: io.FileIO, progress: Progress) -> _Remote:
    remote = _remembered(path, url)
    done = stream.seek(0, os.SEEK_END)
    if remote is not None and remote.size == done:
        return remote  # whole, but the last run ended before it could be verified
    if remote is None and done:
        stream.truncate(done := 0)
    with _answer(url, remote, done, stream) as response:
        if response.status == http.client.PARTIAL_CONTENT and remote is not None:
            _check_range(response, remote, done, stream)
        else:
            stream.truncate(done := 0)
            remote = _first_answer(response, url, path)
        _check_room(path, remote, done)
        progress(done, remote.size)
        while chunk := _chunk(response):
            _append(stream, chunk)
            done += len(chunk)
            progress(done, remote.size)
    if remote.size is not None and done != remote.size:
        if done > remote.size:
            stream.truncate(0)
        raise _AgainError(f"it ended after {done:,} of {remote.size:,} bytes")
    return remote


def _answer(url: str, remote: _Remote | None, done: int, stream: io.FileIO) -> Any:
    """The server's answer to a request for what is missing."""
    headers = {"User-Agent": "nodewise", "Accept-Encoding": "identity"}
    if done and remote is not None and remote.tag:
        headers |= {"Range": f"bytes={done}-", "If-Range": remote.tag}
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=WAIT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            stream.truncate(0)
        elif error.code not in _RETRY_CODES:
            raise StoreError(f"download of {url} failed ({error})") from error
        raise _AgainError(str(error)) from error
    except (OSError, http.client.HTTPException) as error:
        raise _NoAnswerError(str(error) or type(error).__name__) from error


def _first_answer(response: Any, url: str, path: Path) -> _Remote:
    """What the server says of the file, kept for those who go on with it."""
    if response.headers.get_content_type() == "text/html":
        raise StoreError(
            f"download of {url} failed: it sent a web page, not {path.name}. The file may have moved, need a sign-in, "
            f"or have been downloaded too often today: open the address in a browser and save the file as {path}"
        )
    length = response.headers.get("Content-Length", "")
    remote = _Remote.of(url, response.headers, int(length) if length.isdigit() else None)
    _state(path).write_text(json.dumps(dataclasses.asdict(remote)), "utf-8")
    return remote


def _check_range(response: Any, remote: _Remote, done: int, stream: io.FileIO) -> None:
    """Begin again where the server sends another part than was asked for."""
    given = re.match(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    fits = given is not None and int(given[1]) == done and given[2] in ("*", str(remote.size))
    if not fits:
        stream.truncate(0)
        raise _AgainError("it sent another part of the file than was asked for")


def _check_room(path: Path, remote: _Remote, done: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if remote.size is not None and remote.size - done > free:
        raise StoreError(
            f"{path.name} needs {show_bytes(remote.size - done)} in {path.parent}, where {show_bytes(free)} are free; "
            f"make room, or set $NODEWISE_CACHE to a folder on a larger disk"
        )


def _chunk(response: Any) -> bytes:
    try:
        return bytes(response.read(CHUNK_BYTES))
    except (OSError, http.client.HTTPException) as error:
        raise _AgainError(str(error) or type(error).__name__) from error


def _append(stream: io.FileIO, chunk: bytes) -> None:
    """All of it: on a disk that fills up, a single write may take a part, and only the next one fails."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[stream.write(rest) :]


def _kept(path: Path, stream: io.FileIO) -> str:
    done = stream.seek(0, os.SEEK_END)
    return f"; {show_bytes(done)} of it are kept in {_part(path)}, to go on with next time" if done else ""


# ---------------------------------------------------------------------- checks


def _md5_in(headers: Any) -> str | None:
    """The MD5 of the whole file, in hexadecimal, where the server sends one."""
    given = [headers.get("Content-MD5", "")]
    given += re.findall(r"md5=([A-Za-z0-9+/=]+)", ",".join(headers.get_all("x-goog-hash", [])))
    for text in given:
        with contextlib.suppress(ValueError):
            if len(digest := base64.b64decode(text, validate=True)) == 16:
                return digest.hex()
    return None


def _verify(path: Path, stream: io.FileIO, remote: _Remote, sha256: str | None) -> None:
    """Compare the digests that are known; keep the SHA-256 where none was."""
    actual = file_digest(_part(path))
    checks = [("SHA-256", actual, sha256)]
    if remote.md5 is not None:
        checks.append(("MD5", file_digest(_part(path), "md5"), remote.md5))
    for kind, found, expected in checks:
        if expected is not None and found != expected:
            stream.truncate(0)
            raise StoreError(f"{remote.url} has {kind} {found}, expected {expected}; it was not kept")
    if sha256 is None:
        with new_file(_record(path)) as record:
            size = stream.seek(0, os.SEEK_END)
            record.write_text(
                f"# {size} bytes, as first downloaded from {remote.url}\n{actual}  {path.name}\n", "utf-8"
            )
