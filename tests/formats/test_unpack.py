"""Zips and folders by the same names; extraction that is whole, resumed, checked and cleaned up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import zipfile
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodewise._util.errors import InputError, StoreError
from nodewise.formats.ogb import read_ogb
from nodewise.formats.unpack import Zip, open_files
from tiny_layouts import Tiny, assert_same, write_ogb_binary, zipped

CONTENT = bytes(range(256)) * 40


def write_zip(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as stream:
        for name, content in members.items():
            stream.writestr(name, content)
    return path


def unpacked(tmp_path: Path) -> list[Path]:
    """The files in the cache, without locks."""
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_folders_and_files_are_found_alike_in_folders_and_zips(tmp_path: Path) -> None:
    names = {"top/raw/a": b"1", "top/split/time/b": b"2", "top/split/place/b": b"3", "c": b"4"}
    for name, content in names.items():
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).write_bytes(content)
    for path in (tmp_path / "all", write_zip(tmp_path / "all.zip", names)):
        with open_files(path) as files:
            assert files.name == "all"
            assert files.folders() == ["top"]
            assert files.folders("top/split") == ["place", "time"]
            assert files.folders("top/nothing") == []
            assert files.root("none", "raw/a") == "top/"
            assert files.root("c") == ""
            assert files.root("d") is None
            assert files.member("top/split/time/b").path.read_bytes() == b"2"
            with pytest.raises(InputError, match=r"all(\.zip)?: has no top/raw/z"):
                files.member("top/raw/z")


def test_only_what_is_needed_is_extracted_and_removed_in_the_end(tmp_path: Path) -> None:
    ring = Tiny.ring()
    folder = write_ogb_binary(tmp_path / "tiny", ring)
    in_place = {"edge_index.npy", "node_feat.npy", "num_nodes_list.npy", "num_edges_list.npy", "node_label.npy"}
    splits = {"train.csv.gz", "valid.csv.gz", "test.csv.gz"}
    for path, names in ((folder, in_place), (zipped(folder), in_place | splits)):
        with open_files(path) as files:
            assert_same(read_ogb(files), ring)
            assert {file.name for file in unpacked(tmp_path)} == names
        assert not unpacked(tmp_path)


KILLED = """
import os, sys
from pathlib import Path
from nodewise.formats.ogb import read_ogb
from nodewise.formats.unpack import Zip, open_files

chunks = Zip._chunks

def dying(self, info):
    for chunk in chunks(self, info):
        yield chunk[: len(chunk) // 2]
        if info.filename.startswith("node_feat"):
            os._exit(9)
        yield chunk[len(chunk) // 2 :]

Zip._chunks = dying
read_ogb(open_files(Path(sys.argv[1])))
"""


def test_an_extraction_that_was_killed_goes_on_with_the_members_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Tiny.ring()
    path = zipped(write_ogb_binary(tmp_path / "tiny", ring))
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, env=os.environ).returncode == 9
    left = {file.name.split("-")[0] for file in unpacked(tmp_path)}
    assert left == {"edge_index.npy", ".node_feat.npy.partial"}
    extracted: list[str] = []
    chunks = Zip._chunks
    monkeypatch.setattr(Zip, "_chunks", lambda self, info: extracted.append(info.filename) or chunks(self, info))
    with open_files(path) as files:
        assert_same(read_ogb(files), ring)
        assert "node_feat.npy" in extracted
        assert "edge_index.npy" not in extracted
        assert not [file for file in unpacked(tmp_path) if ".partial-" in file.name]
    assert not unpacked(tmp_path)


@pytest.mark.parametrize(
    ("error", "stays"), [(KeyboardInterrupt(), True), (StoreError("disk"), True), (InputError("bad"), False)]
)
def test_what_was_extracted_stays_unless_the_input_is_wrong(tmp_path: Path, error: Exception, stays: bool) -> None:
    files = open_files(write_zip(tmp_path / "a.zip", {"b.bin": CONTENT}))
    files.member("b.bin")
    with pytest.raises(type(error)), files:
        raise error
    assert bool(unpacked(tmp_path)) == stays


HOLDING = """
import sys
from pathlib import Path
from nodewise.formats.unpack import open_files

with open_files(Path(sys.argv[1])) as files:
    files.member("b.bin")
    print("extracted", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_waits_until_the_first_has_read_the_zip(tmp_path: Path) -> None:
    """Else the first would remove the members while the second reads them."""
    path = write_zip(tmp_path / "a.zip", {"b.bin": CONTENT})
    command = [sys.executable, "-c", HOLDING, str(path)]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "extracted\n"
    found: list[bytes] = []

    def read() -> None:
        with open_files(path) as files:
            found.append(files.member("b.bin").path.read_bytes())

    second = threading.Thread(target=read, daemon=True)
    second.start()
    second.join(0.5)
    assert second.is_alive()
    first.communicate()  # ends its block
    second.join(20)
    assert found == [CONTENT]
    assert not list((tmp_path / "cache" / "unpacked").iterdir())


def test_a_zip_that_is_open_twice_is_removed_by_the_last(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"b.bin": CONTENT, "c.bin": b"c"})
    with open_files(path) as outer:
        member = outer.member("b.bin").path
        with open_files(path) as inner:
            assert inner.member("c.bin").path.read_bytes() == b"c"
        assert member.read_bytes() == CONTENT
    assert not list((tmp_path / "cache" / "unpacked").iterdir())


def test_a_zip_that_changed_is_extracted_again(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"b.bin": CONTENT})
    assert open_files(path).member("b.bin").path.read_bytes() == CONTENT
    write_zip(path, {"b.bin": b"other"})
    assert open_files(path).member("b.bin").path.read_bytes() == b"other"


def test_a_zip_that_changed_within_its_size_is_extracted_again(tmp_path: Path) -> None:
    for year, content in enumerate((CONTENT, CONTENT[::-1])):
        path = write_zip(tmp_path / "a.zip", {"b.bin": content}, zipfile.ZIP_STORED)
        os.utime(path, (year, year))
        assert open_files(path).member("b.bin").path.read_bytes() == content


# ---------------------------------------------------------------------- what is broken


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_wrong_crc_is_named_with_archive_and_member(tmp_path: Path, compression: int) -> None:
    path = write_zip(tmp_path / "a.zip", {"x/b.bin": CONTENT}, compression)
    stated = zlib.crc32(CONTENT).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(stated, b"\x01\x02\x03\x04"))
    with pytest.raises(InputError, match=r"a\.zip: x/b\.bin: .*Bad CRC-32.*fetch it again"):
        open_files(path).member("x/b.bin")
    assert not unpacked(tmp_path)


def test_deflated_bytes_that_are_garbage_or_end_too_soon(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"b.bin": CONTENT})
    whole = path.read_bytes()
    for damage in (b"\xff" * 100, zlib.compress(CONTENT[:100], wbits=-15)):
        path.write_bytes(whole[:35] + damage + whole[35 + len(damage) :])  # a header of 30 bytes, a name of 5
        with pytest.raises(InputError, match=r"a\.zip: b\.bin: is cut off or not a valid zip"):
            open_files(path).member("b.bin")
    path.write_bytes(b"XX" + whole[2:])
    with pytest.raises(InputError, match=r"a\.zip: b\.bin: .*Bad magic number"):
        open_files(path).member("b.bin")
    assert not unpacked(tmp_path)


def test_an_encrypted_member_says_to_unpack(tmp_path: Path) -> None:
    content = bytearray(write_zip(tmp_path / "a.zip", {"b.bin": CONTENT}).read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag stands in front of the member and in the directory
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.zip: b\.bin: .*encrypted.*unpack it yourself"):
        open_files(tmp_path / "a.zip").member("b.bin")


@pytest.mark.parametrize("name", ["../b.bin", "a/../../b.bin", "/b.bin", "..\\b.bin", "C:/b.bin"])
def test_a_member_outside_the_archive_is_refused(tmp_path: Path, name: str) -> None:
    path = write_zip(tmp_path / "a.zip", {name: CONTENT})
    with pytest.raises(InputError, match=r"a\.zip: has a member '.*b\.bin', outside the archive"):
        open_files(path)
    assert not list(tmp_path.rglob("b.bin"))


def test_a_disk_that_is_too_small_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_zip(tmp_path / "a.zip", {"b.bin": CONTENT})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000))
    with pytest.raises(StoreError, match=r"a\.zip: extracting it needs 10\.2 kB .* 10 kB are free.*NODEWISE_CACHE"):
        open_files(path).member("b.bin")
    assert not unpacked(tmp_path)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.zip: no such file"):
        open_files(tmp_path / "none.zip")
