"""Download one file over HTTP: it continues where it stopped, is checked, and appears whole or not at all.

Received bytes are in ``NAME.part``, and what the server said about the file in ``NAME.part.json``. The next attempt, in
this run or another, asks for the rest on the condition that the file is still the same; a server that does not support
ranges, or has another file by now, sends all of it, and the download starts over. While one process downloads a file,
others that want the same file wait.

Checked are the length, if the server gives one; the SHA-256, if it is known; and the MD5 that some servers send
(Content-MD5, x-goog-hash). An ETag only identifies the file, since its meaning is up to the server. Where no SHA-256 is
known beforehand, that of the first download is recorded in ``NAME.sha256``, with the size. A file that changes on disk
is noticed from then on, but only the length, the MD5 and the checksums inside the file say whether the first download
was right.
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
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nodewise._util.atomic import new_file
from nodewise._util.errors import StoreError
from nodewise._util.memory import show_bytes
from nodewise._util.progress import Progress, silent
from nodewise._util.run_folder import locked

log = logging.getLogger("nodewise")


WAIT_SECONDS = 20.0  # for an answer, per connection and per read
RETRIES = 4  # in a row without a byte
PAUSE_SECONDS = 1.0  # before the first retry; doubled for each further one
CHUNK_BYTES = 1 << 20
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_RETRY_CODES = (408, 429, 500, 502, 503, 504)


@dataclasses.dataclass(frozen=True)
class _Remote:
    """What the server says about a file."""

    url: str
    size: int | None
    tag: str | None  # a strong ETag or a date: tells whether a later answer is about the same bytes
    md5: str | None


class _AgainError(Exception):
    """An attempt failed, and another one may continue it."""


class _NoAnswerError(_AgainError):
    """The server could not be reached."""


def download(url: str, path: Path, *, sha256: str | None = None, progress: Progress = silent) -> None:
    """Download ``url`` to ``path``; a file that is already there is left alone.

    ``progress`` hears of the bytes received, and the total where it is known. Raises StoreError if the download
    fails; the bytes received so far are kept for the next attempt, unless they are of the wrong file.
    """
    _check_address(url, sha256)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(_beside(path, ".part.lock")), _tidy(path):
            if path.is_file():  # another process has downloaded it in the meantime
                return
            with io.FileIO(_beside(path, ".part"), "a+") as stream:
                remote = _fetch_all(url, path, stream, progress, sha256)
                _verify(path, stream, remote, sha256)
                os.fsync(stream.fileno())
            _beside(path, ".part").replace(path)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"{path.parent} cannot be written ({error}); set $NODEWISE_CACHE to a folder that can"
        ) from error


def recorded_sha256(path: Path) -> str | None:
    """The SHA-256 that was recorded when ``path`` was downloaded, or None."""
    try:
        found = re.search(r"^([0-9a-f]{64}) ", _beside(path, ".sha256").read_text("utf-8"), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return found[1] if found else None


def file_digest(path: Path, kind: str = "sha256") -> str:
    """The digest of a file of any size."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


# ---------------------------------------------------------------------- files beside the file


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


@contextlib.contextmanager
def _tidy(path: Path) -> Iterator[None]:
    """At the end remove the partial file, unless there is something in it to continue from."""
    try:
        yield
    finally:
        part = _beside(path, ".part")
        if path.is_file() or not part.exists() or part.stat().st_size == 0:
            part.unlink(missing_ok=True)
            _beside(path, ".part.json").unlink(missing_ok=True)


def _remembered(path: Path, url: str) -> _Remote | None:
    try:
        remote = _Remote(**json.loads(_beside(path, ".part.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return remote if remote.url == url and remote.tag and isinstance(remote.size, int | None) else None


# ---------------------------------------------------------------------- transfer


def _fetch_all(url: str, path: Path, stream: io.FileIO, progress: Progress, sha256: str | None) -> _Remote:
    """Repeat attempts until the file is complete, or several in a row have received nothing."""
    failures, most, answered = 0, 0, False
    while True:
        try:
            return _attempt(url, path, stream, progress, sha256)
        except _AgainError as error:
            reason = error
        answered = answered or not isinstance(reason, _NoAnswerError)
        # Only more than ever before is progress: a server may make us start over again and again.
        done = stream.seek(0, os.SEEK_END)
        failures, most = (0, done) if done > most else (failures + 1, most)
        # Without a first answer there is probably no network, and waiting would not help.
        if failures > RETRIES or not answered:
            kept = (
                f"; {show_bytes(done)} of it are kept in {_beside(path, '.part')}, and the next attempt continues there"
            )
            raise StoreError(f"download of {url} failed ({reason}){kept if done else ''}") from reason
        log.warning("download of %s was interrupted (%s); trying to continue", url, reason)
        time.sleep(PAUSE_SECONDS * 2 ** max(0, failures - 1))


def _attempt(url: str, path: Path, stream: io.FileIO, progress: Progress, sha256: str | None) -> _Remote:
    remote = _remembered(path, url)
    done = stream.seek(0, os.SEEK_END)
    if remote is not None and remote.size == done:
        return remote  # complete, but the last run ended before it was verified
    if remote is None and done:
        stream.truncate(done := 0)
    with _answer(url, remote, done, stream) as response:
        if response.status == http.client.PARTIAL_CONTENT and remote is not None:
            _check_range(response, remote, done, stream)
        else:
            stream.truncate(done := 0)
            remote = _first_answer(response, url, path)
        _check_address(response.url, sha256)  # it may have been redirected
        _check_room(path, remote, done)
        progress(path.name, done, remote.size)
        while chunk := _chunk(response):
            done += len(chunk)
            while chunk:  # as a disk fills up, one write may take a part, and only the next one fails
                chunk = chunk[stream.write(chunk) :]
            progress(path.name, done, remote.size)
    if remote.size is not None and done != remote.size:
        if done > remote.size:
            stream.truncate(0)
        raise _AgainError(f"it ended after {done:,} of {remote.size:,} bytes")
    return remote


def _check_address(url: str, sha256: str | None) -> None:
    """Refuse an address whose answer anyone on the way could have changed, unless its digest is known."""
    address = urllib.parse.urlsplit(url)
    if address.scheme != "https" and sha256 is None and address.hostname not in LOOPBACK:
        raise StoreError(
            f"download of {url} refused: it is not https, and no SHA-256 is known to check it by; download it by other "
            f"means and put it in place"
        )


def _answer(url: str, remote: _Remote | None, done: int, stream: io.FileIO) -> Any:
    """The server's response to a request for the missing bytes."""
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
    """What the server says about the file, saved for attempts that continue the download."""
    if response.headers.get_content_type() == "text/html":
        raise StoreError(
            f"download of {url} failed: it sent a web page, not {path.name}. The file may have moved, need a sign-in, "
            f"or have been downloaded too often today: open the address in a browser and save the file as {path}"
        )
    length, etag = response.headers.get("Content-Length", ""), response.headers.get("ETag")
    tag = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")
    remote = _Remote(url, int(length) if length.isdigit() else None, tag, _md5_in(response.headers))
    _beside(path, ".part.json").write_text(json.dumps(dataclasses.asdict(remote)), "utf-8")
    return remote


def _check_range(response: Any, remote: _Remote, done: int, stream: io.FileIO) -> None:
    """Start over if the server sends another range than the one requested."""
    given = re.match(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    fits = given is not None and int(given[1]) == done and given[2] in ("*", str(remote.size))
    if not fits:
        stream.truncate(0)
        raise _AgainError("it sent another part of the file than the one requested")


def _check_room(path: Path, remote: _Remote, done: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if remote.size is not None and remote.size - done > free:
        raise StoreError(
            f"{path.name} needs {show_bytes(remote.size - done)} in {path.parent}, where {show_bytes(free)} are free; "
            f"free some space, or set $NODEWISE_CACHE to a folder on a larger disk"
        )


def _chunk(response: Any) -> bytes:
    try:
        return bytes(response.read(CHUNK_BYTES))
    except (OSError, http.client.HTTPException) as error:
        raise _AgainError(str(error) or type(error).__name__) from error


# ---------------------------------------------------------------------- checks


def _md5_in(headers: Any) -> str | None:
    """The MD5 of the whole file, in hexadecimal, if the server sends one."""
    given = [headers.get("Content-MD5", "")]
    given += re.findall(r"md5=([A-Za-z0-9+/=]+)", ",".join(headers.get_all("x-goog-hash", [])))
    for text in given:
        with contextlib.suppress(ValueError):
            if len(digest := base64.b64decode(text, validate=True)) == 16:
                return digest.hex()
    return None


def _verify(path: Path, stream: io.FileIO, remote: _Remote, sha256: str | None) -> None:
    """Compare the digests that are known; record the SHA-256 if it was not."""
    actual = file_digest(_beside(path, ".part"))
    checks = [("SHA-256", actual, sha256)]
    if remote.md5 is not None:
        checks.append(("MD5", file_digest(_beside(path, ".part"), "md5"), remote.md5))
    for kind, found, expected in checks:
        if expected is not None and found != expected:
            stream.truncate(0)
            raise StoreError(f"{remote.url} has {kind} {found}, expected {expected}; it was not kept")
    if sha256 is None:
        with new_file(_beside(path, ".sha256")) as record:
            size = stream.seek(0, os.SEEK_END)
            record.write_text(
                f"# {size} bytes, as first downloaded from {remote.url}\n{actual}  {path.name}\n", "utf-8"
            )
