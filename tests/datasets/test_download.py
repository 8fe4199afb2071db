"""Downloads from a server on this machine that can break off, forget, change its mind and lie."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodewise._util.errors import StoreError
from nodewise.datasets import download as module
from nodewise.datasets.download import download, file_digest, recorded_sha256

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves one file; what it does with the next requests is set by its fields."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.headers: dict[str, str] = {"ETag": '"one"'}
        self.ranges = True  # whether it knows of parts
        self.drops: list[int] = []  # after how many bytes each of the next answers breaks off
        self.codes: list[int] = []  # errors to answer with first
        self.length: int | None = None  # a Content-Length of its own
        self.shift = 0  # how far from what was asked for a part begins
        self.asked: list[str | None] = []  # the Range of each request

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/data.zip"

    def handle_error(self, *_: Any) -> None:
        """A client that hangs up is no news."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        if server.codes:
            self.send_error(server.codes.pop(0))
            return
        same = self.headers.get("If-Range") in (server.headers.get("ETag"), server.headers.get("Last-Modified"))
        first = int(re.findall(r"\d+", wanted)[0]) if wanted and server.ranges and same else 0
        if first > len(server.content):
            self.send_error(416)
            return
        body = server.content[first:]
        self.send_response(206 if first else 200)
        if first:
            last = server.length or len(server.content)
            self.send_header("Content-Range", f"bytes {first + server.shift}-{last - 1}/{last}")
        if server.length != -1:
            self.send_header("Content-Length", str(len(body) if server.length is None else server.length - first))
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: server.drops.pop(0)] if server.drops else body)
        self.close_connection = True


@pytest.fixture
def server(urlopen: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(module, "CHUNK_BYTES", 1000)
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "data.zip"


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def interrupted(server: Server, path: Path, after: int) -> None:
    """A download that was killed after so many bytes: it cannot even clean up."""

    class KilledError(BaseException):
        pass

    def kill(_: str, done: float, total: float | None) -> None:
        if done >= after:
            raise KilledError

    with pytest.raises(KilledError):
        download(server.url, path, progress=kill)
    assert names(path) == ["data.zip.part", "data.zip.part.json"]
    server.asked.clear()


# ---------------------------------------------------------------------- what arrives


def test_a_file_arrives_whole_with_its_digest_beside_it(server: Server, path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    download(server.url, path, progress=lambda _, done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert names(path) == ["data.zip", "data.zip.sha256"]
    assert recorded_sha256(path) == SHA256 == file_digest(path)
    record = path.with_name("data.zip.sha256").read_text()
    assert f"{SHA256}  data.zip\n" in record  # as sha256sum --check reads it
    assert f"# {len(CONTENT)} bytes" in record
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_known_digest_needs_no_record(server: Server, path: Path) -> None:
    download(server.url, path, sha256=SHA256)
    assert names(path) == ["data.zip"]
    assert recorded_sha256(path) is None


def test_a_file_that_is_there_is_not_asked_for(server: Server, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"mine")
    download(server.url, path)
    assert server.asked == []
    assert (path.read_bytes(), names(path)) == (b"mine", ["data.zip"])


def test_a_server_that_does_not_say_how_long_the_file_is(server: Server, path: Path) -> None:
    server.length = -1
    totals = set()
    download(server.url, path, progress=lambda _, done, total: totals.add(total))
    assert path.read_bytes() == CONTENT
    assert totals == {None}


def test_an_empty_file_is_a_file(server: Server, path: Path) -> None:
    server.content = b""
    download(server.url, path)
    assert path.read_bytes() == b""
    assert names(path) == ["data.zip", "data.zip.sha256"]


# ---------------------------------------------------------------------- going on


def test_a_connection_that_breaks_off_is_gone_on_with_from_there(server: Server, path: Path) -> None:
    server.drops = [3_000, 2_500]
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=3000-", "bytes=5500-"]


def test_many_breaks_are_borne_as_long_as_each_time_something_comes(server: Server, path: Path) -> None:
    server.drops = [1_000] * 9
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert len(server.asked) == 10 > module.RETRIES


@pytest.mark.parametrize("headers", [{"ETag": '"one"'}, {"Last-Modified": "Tue, 01 Jan 2030 00:00:00 GMT"}])
def test_a_run_that_was_killed_is_gone_on_with_by_the_next(server: Server, path: Path, headers: dict[str, str]) -> None:
    server.headers = headers
    interrupted(server, path, after=4_000)
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert server.asked == ["bytes=4000-"]
    assert names(path) == ["data.zip", "data.zip.sha256"]


def test_a_run_that_was_killed_at_the_very_end_asks_for_nothing(server: Server, path: Path) -> None:
    interrupted(server, path, after=len(CONTENT))
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert server.asked == []


def test_a_server_that_knows_no_parts_sends_all_again(server: Server, path: Path) -> None:
    server.ranges = False
    interrupted(server, path, after=4_000)
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert server.asked == ["bytes=4000-"]


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"weak"'}])
def test_without_a_way_to_know_the_file_again_it_is_begun_again(
    server: Server, path: Path, headers: dict[str, str]
) -> None:
    server.headers = headers
    interrupted(server, path, after=4_000)
    server.content = CONTENT[::-1]
    download(server.url, path)
    assert path.read_bytes() == CONTENT[::-1]
    assert server.asked == [None]


def test_a_file_that_changed_in_between_is_begun_again(server: Server, path: Path) -> None:
    interrupted(server, path, after=4_000)
    server.content, server.headers = CONTENT[::-1] + b"longer", {"ETag": '"two"'}
    download(server.url, path)
    assert path.read_bytes() == server.content
    assert server.asked == ["bytes=4000-"]


def test_a_part_that_is_longer_than_the_file_is_begun_again(server: Server, path: Path) -> None:
    interrupted(server, path, after=4_000)
    with path.with_name("data.zip.part").open("ab") as stream:
        stream.write(CONTENT)
    download(server.url, path)
    assert path.read_bytes() == CONTENT


def test_a_part_that_is_not_the_one_asked_for_is_not_appended(server: Server, path: Path) -> None:
    interrupted(server, path, after=4_000)
    server.shift = 5
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert server.asked == ["bytes=4000-", None]


@pytest.mark.parametrize("state", ["", "[]", '{"url": 3}', None])
def test_a_part_of_which_nothing_is_known_is_begun_again(server: Server, path: Path, state: str | None) -> None:
    interrupted(server, path, after=4_000)
    if state is None:
        path.with_name("data.zip.part.json").unlink()
    else:
        path.with_name("data.zip.part.json").write_text(state)
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None]


def test_a_part_from_another_address_is_begun_again(server: Server, path: Path) -> None:
    interrupted(server, path, after=4_000)
    state = path.with_name("data.zip.part.json")
    state.write_text(json.dumps(json.loads(state.read_text()) | {"url": "http://example.org/data.zip"}))
    download(server.url, path)
    assert server.asked == [None]


def test_a_busy_server_is_asked_again(server: Server, path: Path) -> None:
    server.codes = [503, 429]
    download(server.url, path)
    assert path.read_bytes() == CONTENT


def test_two_downloads_of_one_file_do_not_mix(server: Server, path: Path) -> None:
    """The second waits for the first, and then has nothing to do."""
    started, go_on = threading.Event(), threading.Event()

    def wait(_: str, done: float, total: float | None) -> None:
        if done:
            started.set()
            go_on.wait(5)

    first = threading.Thread(target=download, args=(server.url, path), kwargs={"progress": wait})
    second = threading.Thread(target=download, args=(server.url, path))
    first.start()
    assert started.wait(5)
    second.start()
    second.join(0.1)
    assert second.is_alive()
    go_on.set()
    first.join(5)
    second.join(5)
    assert not second.is_alive()
    assert path.read_bytes() == CONTENT
    assert len(server.asked) == 1
    assert names(path) == ["data.zip", "data.zip.sha256"]


# ---------------------------------------------------------------------- giving up


def test_a_file_that_is_never_whole_is_given_up_and_kept_to_go_on_with(server: Server, path: Path) -> None:
    server.length = len(CONTENT) + 10
    with pytest.raises(StoreError, match=r"ended after 10,240 of 10,250 bytes\); 10\.2 kB of it are kept in .*\.part"):
        download(server.url, path)
    assert len(server.asked) == module.RETRIES + 2  # once with all bytes, and then in vain
    assert names(path) == ["data.zip.part", "data.zip.part.json"]


def test_a_server_that_always_begins_again_and_never_ends_is_given_up(server: Server, path: Path) -> None:
    server.ranges, server.drops = False, [4_000] * 99
    with pytest.raises(StoreError, match=r"ended after 4,000 of 10,240 bytes"):
        download(server.url, path)
    assert len(server.asked) == module.RETRIES + 2


def test_a_file_that_is_not_there_is_not_asked_for_again(server: Server, path: Path) -> None:
    server.codes = [404] * 9
    with pytest.raises(StoreError, match=r"download of http.*data\.zip failed \(HTTP Error 404"):
        download(server.url, path)
    assert len(server.asked) == 1
    assert names(path) == []


def test_no_network_costs_one_attempt(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.shutdown()
    server.server_close()
    attempts: list[int] = []
    monkeypatch.setattr(module.time, "sleep", lambda _: attempts.append(1))
    with pytest.raises(StoreError, match=r"failed \(.*refused"):
        download(server.url, path)
    assert attempts == []


def test_a_network_that_goes_away_is_waited_for(
    server: Server, path: Path, urlopen: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.drops = [2_000]
    calls: list[int] = []

    def shaky(*given: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) in (2, 3):
            raise urllib.error.URLError("unreachable")
        return urlopen(*given, **more)

    monkeypatch.setattr(urllib.request, "urlopen", shaky)
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert len(calls) == 4


def test_a_web_page_is_not_taken_for_the_file(server: Server, path: Path) -> None:
    server.headers["Content-Type"] = "text/html; charset=utf-8"
    with pytest.raises(StoreError, match=rf"sent a web page, not data\.zip.*save the file as {path}"):
        download(server.url, path)
    assert names(path) == []


def test_a_wrong_digest_is_named_and_nothing_is_kept(server: Server, path: Path) -> None:
    with pytest.raises(StoreError, match=rf"data\.zip has SHA-256 {SHA256}, expected {'0' * 64}; it was not kept"):
        download(server.url, path, sha256="0" * 64)
    assert names(path) == []


@pytest.mark.parametrize("header", ["Content-MD5", "x-goog-hash"])
def test_the_md5_of_the_server_is_compared(server: Server, path: Path, header: str) -> None:
    digest = base64.b64encode(hashlib.md5(CONTENT).digest()).decode()
    server.headers[header] = digest if header == "Content-MD5" else f"crc32c=n03x6A==, md5={digest}"
    server.drops = [4_000]  # the part that comes later has no say
    download(server.url, path)
    path.unlink()
    server.content = CONTENT[::-1]
    with pytest.raises(StoreError, match=r"has MD5 [0-9a-f]{32}, expected"):
        download(server.url, path)
    assert not path.exists()


@pytest.mark.parametrize("value", ["nonsense", "AAAA", ""])
def test_a_digest_header_that_is_none_is_passed_over(server: Server, path: Path, value: str) -> None:
    server.headers["Content-MD5"] = value
    download(server.url, path)
    assert path.read_bytes() == CONTENT


def test_a_disk_that_is_too_small_is_known_before_the_start(
    server: Server, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000))
    with pytest.raises(StoreError, match=r"data\.zip needs 10\.2 kB in .*new, where 10 kB are free; free some space"):
        download(server.url, path)
    assert names(path) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10_240))
    interrupted(server, path, after=4_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=6_240))  # enough for the rest
    download(server.url, path)
    assert path.read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made_says_how_to_choose_another(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be written.*set \$NODEWISE_CACHE"):
        download(server.url, tmp_path / "file" / "data.zip")


def test_a_record_that_is_none_is_no_digest(path: Path) -> None:
    path.parent.mkdir()
    for text in (b"", b"\xff\xfe", b"abc  data.zip\n", b"# nothing\n"):
        path.with_name("data.zip.sha256").write_bytes(text)
        assert recorded_sha256(path) is None
