"""Members of zips at any place in any order, against the bytes that went in."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.datasets import archive, inflate
from nodewise.datasets.archive import FileMember, Folder, Zip, crc32_combine, open_files
from nodewise.errors import InputError

CONTENT = np.random.default_rng(5).integers(0, 40, 9_000).astype(np.uint8).tobytes()  # packs to two thirds


def write_zip(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as stream:
        for name, content in members.items():
            stream.writestr(name, content)
    return path


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_the_crc_of_two_pieces_is_that_of_the_whole(first: bytes, second: bytes) -> None:
    assert crc32_combine(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


@settings(max_examples=60, deadline=None)
@given(
    moves=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9_100), st.integers(0, 3_000)), max_size=12),
    outer=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
    inner=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
)
def test_two_cursors_read_any_places_of_a_zip_in_a_zip(
    moves: list[tuple[int, int, int]], outer: int, inner: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", inner) as stream:
        stream.writestr("a.bin", b"before")
        stream.writestr("b.bin", CONTENT)
    path = write_zip(tmp_path_factory.mktemp("zip") / "a.zip", {"in.zip": packed.getvalue()}, outer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inflate, "STEP_BYTES", 700)
        patch.setattr(inflate, "CHUNK_BYTES", 90)
        member = Zip(open_files(path).member("in.zip")).member("b.bin")
        cursors = [member.open(), member.open()]
        for which, place, count in moves:
            cursors[which].seek(place)
            assert cursors[which].read(count) == CONTENT[place : place + count]
            assert cursors[which].crc == zlib.crc32(CONTENT[cursors[which].first : cursors[which].place])
        for cursor in cursors:
            cursor.close()
        assert member.read() == CONTENT


def test_a_second_reader_starts_from_what_the_first_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The point of keeping decoders: the last byte costs one step, not the whole stream."""
    monkeypatch.setattr(inflate, "STEP_BYTES", 1_000)
    monkeypatch.setattr(inflate, "CHUNK_BYTES", 100)
    member = open_files(write_zip(tmp_path / "a.zip", {"b.bin": CONTENT})).member("b.bin")
    asked: list[int] = []
    plain = archive._FileBytes.read_at
    monkeypatch.setattr(
        archive._FileBytes, "read_at", lambda self, place, count: asked.append(count) or plain(self, place, count)
    )
    costs = []
    for _ in range(2):
        asked.clear()
        with member.open() as cursor:
            cursor.seek(8_999)
            assert cursor.read(1) == CONTENT[-1:]
        costs.append(sum(asked))
    assert costs[0] > 4_500  # all of the packed bytes
    assert costs[1] < 1_000  # those of a step, a header, and a chunk too many


def test_runs_must_cover_the_member_before_its_crc_can_be_compared(tmp_path: Path) -> None:
    member = open_files(write_zip(tmp_path / "a.zip", {"b.bin": CONTENT})).member("b.bin")
    with member.open() as first, member.open() as second:
        first.read(4_000)
        with pytest.raises(ValueError, match="cover"):
            member.check(first)
        second.seek(5_000)
        second.read(4_000)
        with pytest.raises(ValueError, match="follow"):
            member.check(first, second)
        first.read(1_000)
        member.check(first, second)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_wrong_crc_is_named_with_archive_and_member(tmp_path: Path, compression: int) -> None:
    path = write_zip(tmp_path / "a.zip", {"x/b.bin": CONTENT}, compression)
    stated = zlib.crc32(CONTENT).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(stated, b"\x01\x02\x03\x04"))
    member = open_files(path).member("x/b.bin")
    for read in (member.read, member.verify):
        with pytest.raises(InputError, match=r"a\.zip: x/b\.bin: its CRC-32 is [0-9a-f]{8}, the archive says 04030201"):
            read()


def test_deflated_bytes_that_are_garbage_or_end_too_soon(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"b.bin": CONTENT})
    content = bytearray(path.read_bytes())
    content[100:200] = b"\xff" * 100
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.zip: b\.bin: "):
        open_files(path).member("b.bin").read()
    short = zlib.compressobj(wbits=-15)
    packed = short.compress(CONTENT[:100]) + short.flush()
    content = bytearray(write_zip(path, {"b.bin": CONTENT}).read_bytes())
    content[35 : 35 + len(packed)] = packed  # behind a header of 30 bytes and a name of 5: a whole stream, too short
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.zip: b\.bin: ends after 100 of 9,000 bytes"):
        open_files(path).member("b.bin").read()


def test_a_header_that_is_not_where_it_should_be(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"b.bin": CONTENT})
    path.write_bytes(b"XX" + path.read_bytes()[2:])
    with pytest.raises(InputError, match=r"a\.zip: b\.bin: is not where the archive says"):
        open_files(path).member("b.bin").open()


def test_encrypted_and_foreign_packing_say_to_unpack(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"b.bin": CONTENT}, zipfile.ZIP_LZMA)
    with pytest.raises(InputError, match=r"a\.zip: b\.bin: is encrypted or packed.*Unpack the archive"):
        open_files(path).member("b.bin")


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "b.bin"
    path.write_bytes(CONTENT)
    member = FileMember(path)
    path.write_bytes(CONTENT[:10])
    with pytest.raises(InputError, match=r"b\.bin: ends after 10 of 9,000 bytes"):
        member.read()
    path.unlink()
    with pytest.raises(InputError, match=r"b\.bin: no such file"):
        member.read()


def test_folders_and_files_are_found_alike_in_folders_and_zips(tmp_path: Path) -> None:
    names = {"top/raw/a": b"1", "top/split/time/b": b"2", "top/split/place/b": b"3", "c": b"4"}
    for name, content in names.items():
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).write_bytes(content)
    for files in (Folder(tmp_path / "all"), open_files(write_zip(tmp_path / "all.zip", names))):
        assert files.folders() == ["top"]
        assert files.folders("top/split") == ["place", "time"]
        assert files.folders("top/nothing") == []
        assert files.root("none", "raw/a") == "top/"
        assert files.root("c") == ""
        assert files.root("d") is None
        assert files.member("top/split/time/b").read() == b"2"
        with pytest.raises(InputError, match=r"all(\.zip)?: has no top/raw/z"):
            files.member("top/raw/z")


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.zip: no such file"):
        open_files(tmp_path / "none.zip")
