"""Files of a folder, of a zip, or of a zip inside a zip, behind one interface: names, and cursors that stream.

Nothing is unpacked. A member that is stored is a window on the file that holds it; one that is deflated is inflated
while it is read (:mod:`nodewise.datasets.inflate`). The CRC-32 that a zip keeps of each member is compared once the
member has been read through, also where two cursors read a half each.
"""

from __future__ import annotations

import abc
import io
import logging
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from nodewise.datasets.inflate import Bytes, Checkpoints, Inflater
from nodewise.errors import InputError
from nodewise.memory import show_bytes

log = logging.getLogger("nodewise")

READ_BYTES = 16 << 20  # at most, at a time
_LONG = 1 << 30  # bytes to inflate before the user should know why it takes time
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_ENCRYPTED = 0x1
_CRC_POLYNOMIAL = 0xEDB88320
# What zipfile raises over a file that is no zip, or a damaged one.
_DAMAGE = (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, struct.error, MemoryError)


# ---------------------------------------------------------------------- bytes


class Cursor(io.RawIOBase):
    """A place in a member. ``first`` is where it was last moved to, ``crc`` the CRC-32 of what was read since."""

    def __init__(self, label: str, size: int, content: Bytes) -> None:
        self._label, self._content = label, content
        self.size = size
        self.first = self.place = self.crc = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError(f"{self._label}: a place before its beginning was asked for")
        if base + offset != self.place:
            self.first = self.place = base + offset
            self.crc = 0
        return self.place

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``, unless the member ends; one that ends before its size is an error."""
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self.size - self.place))
        done = 0
        while done < wanted:
            with damage_explained(self._label):
                data = self._content.read_at(self.place, min(wanted - done, READ_BYTES))
            if not data:
                raise InputError(
                    f"{self._label}: ends after {self.place:,} of {self.size:,} bytes; it is cut off or damaged. "
                    f"Fetch it again"
                )
            view[done : done + len(data)] = data
            self.crc = zlib.crc32(data, self.crc)
            self.place += len(data)
            done += len(data)
        return wanted

    def close(self) -> None:
        if not self.closed:
            self._content.close()
        super().close()


class _FileBytes:
    def __init__(self, path: Path) -> None:
        self._stream = path.open("rb", buffering=0)

    def read_at(self, position: int, count: int) -> bytes:
        self._stream.seek(position)
        return self._stream.read(count)

    def close(self) -> None:
        self._stream.close()


class _StoredBytes:
    def __init__(self, holder: Bytes, start: int) -> None:
        self._holder, self._start = holder, start

    def read_at(self, position: int, count: int) -> bytes:
        return self._holder.read_at(self._start + position, count)

    def close(self) -> None:
        self._holder.close()


# ---------------------------------------------------------------------- members


class Member(abc.ABC):
    """A file by what it is called in messages and its size; any number of cursors can read it at once."""

    label: str
    size: int

    @abc.abstractmethod
    def content(self) -> Bytes:
        """Its bytes, for one reader, who closes them."""

    def open(self) -> Cursor:
        """A cursor at the beginning."""
        return Cursor(self.label, self.size, self.content())

    @abc.abstractmethod
    def check(self, *runs: Cursor) -> None:
        """Compare the CRC-32 with that of ``runs``, which were read one behind the other's end and cover the whole."""

    @abc.abstractmethod
    def verify(self) -> None:
        """Read it through for its CRC-32 alone, for those who will then read it in another order."""

    def read(self) -> bytes:
        """All of it, checked."""
        with self.open() as cursor:
            content = cursor.read(self.size) or b""
            self.check(cursor)
        return content


class FileMember(Member):
    """A file on the disk; there is no CRC-32 to compare."""

    def __init__(self, path: Path) -> None:
        self.label, self._path = str(path), path
        with damage_explained(self.label):
            self.size = path.stat().st_size

    def content(self) -> Bytes:
        with damage_explained(self.label):
            return _FileBytes(self._path)

    def check(self, *runs: Cursor) -> None:
        pass

    def verify(self) -> None:
        pass


class ZipMember(Member):
    """A file in a zip."""

    def __init__(self, holder: Member, info: zipfile.ZipInfo) -> None:
        self.label = f"{holder.label}: {info.filename}"
        self.size = info.file_size
        self._holder, self._info = holder, info
        self._checkpoints = Checkpoints()
        self.deflated = info.compress_type == zipfile.ZIP_DEFLATED
        if info.flag_bits & _ENCRYPTED or not (self.deflated or info.compress_type == zipfile.ZIP_STORED):
            raise InputError(
                f"{self.label}: is encrypted or packed in a way that is not read; expected a member that is stored or "
                f"deflated. Unpack the archive and name the folder"
            )
        if not self.deflated and info.file_size != info.compress_size:
            raise InputError(f"{self.label}: the zip gives two sizes for it; it is damaged. Fetch the archive again")

    def content(self) -> Bytes:
        holder = self._holder.content()
        start = self._start(holder)
        if not self.deflated:
            return _StoredBytes(holder, start)
        return Inflater(holder, start, self._info.compress_size, self._checkpoints)

    def check(self, *runs: Cursor) -> None:
        crc = end = 0
        for run in runs:
            if run.first != end:
                raise ValueError("the runs do not follow one another")
            crc = crc32_combine(crc, run.crc, run.place - run.first)
            end = run.place
        if end != self.size:
            raise ValueError("the runs do not cover the member")
        if crc != self._info.CRC:
            raise InputError(
                f"{self.label}: its CRC-32 is {crc:08x}, the archive says {self._info.CRC:08x}: it is damaged. "
                f"Fetch the archive again"
            )

    def verify(self) -> None:
        with self.open() as cursor:
            while cursor.read(READ_BYTES):
                pass
            self.check(cursor)

    def _start(self, holder: Bytes) -> int:
        """Where its bytes begin: behind a header whose length only the header itself knows."""
        place, header = int(self._info.header_offset), b""
        while len(header) < _LOCAL_HEADER.size:
            with damage_explained(self._holder.label):
                more = holder.read_at(place + len(header), _LOCAL_HEADER.size - len(header))
            if not more:
                break
            header += more
        if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
            raise InputError(f"{self.label}: is not where the archive says; it is damaged. Fetch the archive again")
        _, name, extra = _LOCAL_HEADER.unpack(header)
        return place + _LOCAL_HEADER.size + int(name) + int(extra)


def crc32_combine(first: int, second: int, length: int) -> int:
    """The CRC-32 of two stretches of bytes in a row, from those of each; ``length`` is the second's.

    >>> crc32_combine(zlib.crc32(b"node"), zlib.crc32(b"wise"), 4) == zlib.crc32(b"nodewise")
    True
    """
    # Zeros behind a message multiply its CRC by a power of x, modulo the polynomial; bits are kept in reverse.
    power, square = 0x80000000, 0x00800000  # 1, and x^8: one byte
    while length:
        if length & 1:
            power = _times(power, square)
        square = _times(square, square)
        length >>= 1
    return _times(power, first) ^ second


def _times(a: int, b: int) -> int:
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_CRC_POLYNOMIAL if b & 1 else 0)
    return product


# ---------------------------------------------------------------------- folders and zips


class Files(abc.ABC):
    """Files by name, with '/' between folders; ``label`` is what they are called in messages."""

    label: str

    @abc.abstractmethod
    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""

    @abc.abstractmethod
    def folders(self, inside: str = "") -> list[str]:
        """The names of the folders in a folder, in order."""

    @abc.abstractmethod
    def _open(self, name: str) -> Member: ...

    def member(self, name: str) -> Member:
        """The file of that name; an error that names it where there is none."""
        if not self.has(name):
            raise InputError(
                f"{self.label}: has no {name}, which belongs to this layout. Fetch the data set again, or add the file"
            )
        return self._open(name)

    def root(self, *marks: str) -> str | None:
        """What to put before names: nothing, or the folder and '/' that hold one of ``marks``; None where none does."""
        for root in ("", *(f"{folder}/" for folder in self.folders())):
            if any(self.has(root + mark) for mark in marks):
                return root
        return None


class Folder(Files):
    """Files in a folder on the disk."""

    def __init__(self, path: Path) -> None:
        self.label, self._path = str(path), path

    def has(self, name: str) -> bool:
        return (self._path / name).is_file()

    def folders(self, inside: str = "") -> list[str]:
        with damage_explained(self.label):
            folder = self._path / inside
            return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def _open(self, name: str) -> Member:
        return FileMember(self._path / name)


class Zip(Files):
    """Files in a zip, which may itself be a member of one. Its list of contents, at its end, is read once."""

    def __init__(self, holder: Member) -> None:
        self.label, self._holder = holder.label, holder
        self._members: dict[str, ZipMember] = {}
        if isinstance(holder, ZipMember) and holder.deflated and holder.size > _LONG:
            log.info("%s: reading through %s for its list of contents", self.label, show_bytes(holder.size))
        with damage_explained(self.label), holder.open() as cursor, zipfile.ZipFile(cast(Any, cursor)) as archive:
            self._infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}

    def has(self, name: str) -> bool:
        return name in self._infos

    def folders(self, inside: str = "") -> list[str]:
        prefix = f"{inside.rstrip('/')}/" if inside else ""
        rest = (name[len(prefix) :] for name in self._infos if name.startswith(prefix))
        return sorted({name.split("/")[0] for name in rest if "/" in name})

    def _open(self, name: str) -> Member:
        if name not in self._members:  # one object a member: its checkpoints are worth keeping
            self._members[name] = ZipMember(self._holder, self._infos[name])
        return self._members[name]


def open_files(path: Path) -> Files:
    """The files of a folder, or of a zip as it was downloaded."""
    return Folder(path) if path.is_dir() else Zip(FileMember(path))


@contextmanager
def damage_explained(label: str) -> Iterator[None]:
    """Turn what can go wrong with a file into an InputError about ``label``."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{label}: no such file or folder; check the path") from error
    except OSError as error:
        raise InputError(
            f"{label}: cannot be read ({error.strerror or error}); check the file or fetch it again"
        ) from error
    except (*_DAMAGE, zlib.error) as error:
        raise InputError(f"{label}: is cut off, damaged or no zip ({error}); fetch it again") from error
