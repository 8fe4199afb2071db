"""Damage to files, as chance and strangers do it: any bytes, and values that still parse but make no sense.

``damaged`` knows the formats: it changes what is inside an archive, a compressed file, a header or a document, and
packs it again with the checksums that fit, so that the change reaches the code behind the parser.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import pickle
import re
import sqlite3
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BOMB_BYTES = 512 << 20  # of a compressed file, unpacked
DEEP, LONG = "@deep@", "@long@"  # stand for JSON that json.dumps cannot write
WHOLE = (0, 1, -1, 2, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**40, 2**62, 2**63 - 1, -(2**63), 2**64 - 1)
ODD_NUMBERS = (*WHOLE, 2**64, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), -float("inf"))
ODD_TEXT = (
    "",
    " ",
    "\0",
    '"',
    '""',
    "'",
    "\\",
    "\n",
    "a" * 5000,
    "ü",
    "\ud800",
    "🙂",
    "../..",
    "/dev/zero",
    "nan",
    "%s",
)
ODD_VALUES = (*ODD_NUMBERS, *ODD_TEXT, None, True, False, [], {}, [None], [[]], {"": None}, DEEP, LONG)
ODD_WORDS = tuple(
    word.encode("utf-8", "surrogatepass")
    for word in (
        *ODD_TEXT, "1e400", "-1", "NaN", "inf", str(10**30), "1" * 400, "0x10", "1_000", "1.5", "00", "-0", "+1", "1,1",
        "null", "true", "<![CDATA[", "&lol;", "&#0;", "2147483648", "4294967296", "9223372036854775808", "1e-320",
    )
)  # fmt: skip
DTYPES = ("<f8", ">i4", "<i8", "|O", "|S5", "<U3", "<c16", "|V8", "<M8[ns]", "<f2", "<u8", "|b1", "|i1", "<f4", "<i4")
SEPARATORS = (b"", b",", b",,", b"\t", b"\n", b"\r", b"\r\n", b"\0", b'"', b" ", b"#", b";", b"\xff", b"\xef\xbb\xbf")
Damage = Callable[[bytes, Random, bytes], bytes]


def damaged(name: str, data: bytes, rng: Random, other: bytes) -> bytes:
    """The content of the file ``name``, changed; ``other``: the content of another file, to splice in."""
    knowing = next((damage for end, damage in KNOWN.items() if name.endswith(end)), None)
    if knowing is None or rng.random() < 0.25:
        return _bytes(data, rng, other)
    try:
        return knowing(data, rng, other)
    except Exception:  # it was damaged before, so that it cannot be taken apart
        return _bytes(data, rng, other)


# ---------------------------------------------------------------------- bytes


def _bytes(data: bytes, rng: Random, other: bytes) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        data = rng.choice((_flip, _flip, _cut, _extend, _repeat, _splice, _number, _number, _remove))(data, rng, other)
    return data


def _flip(data: bytes, rng: Random, other: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(changed)) if rng.random() < 0.7 else rng.randrange(min(len(changed), 256))
        changed[place] = rng.choice((changed[place] ^ (1 << rng.randrange(8)), rng.randrange(256), 0, 255))
    return bytes(changed)


def _cut(data: bytes, rng: Random, other: bytes) -> bytes:
    return data[: rng.choice((0, 1, len(data) - 1, rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))]


def _extend(data: bytes, rng: Random, other: bytes) -> bytes:
    return data + rng.choice((b"\0", b"\n", rng.randbytes(rng.randrange(1, 200)), data, other))


def _block(data: bytes, rng: Random) -> tuple[int, int]:
    first = rng.randrange(len(data) + 1)
    return first, min(len(data), first + rng.choice((1, 4, 8, 16, 64, 512)))


def _repeat(data: bytes, rng: Random, other: bytes) -> bytes:
    first, last = _block(data, rng)
    return data[:last] + data[first:last] * rng.choice((1, 1, 3, 50)) + data[last:]


def _remove(data: bytes, rng: Random, other: bytes) -> bytes:
    first, last = _block(data, rng)
    return data[:first] + data[last:]


def _splice(data: bytes, rng: Random, other: bytes) -> bytes:
    first, last = _block(other, rng)
    place = rng.randrange(len(data) + 1)
    keep = rng.choice((place, place + last - first))
    return data[:place] + other[first:last] + data[keep:]


def _number(data: bytes, rng: Random, other: bytes) -> bytes:
    """A whole number of 1, 2, 4 or 8 bytes in place of what is there, more often near the beginning or end."""
    size = rng.choice((1, 2, 4, 8))
    if len(data) < size:
        return data
    reach = len(data) - size + 1
    place = rng.choice(
        (rng.randrange(reach), rng.randrange(min(reach, 128)), reach - 1 - rng.randrange(min(reach, 128)))
    )
    value = rng.choice(WHOLE) % 256**size
    return data[:place] + value.to_bytes(size, rng.choice(("little", "big"))) + data[place + size :]


# ---------------------------------------------------------------------- text and JSON

_WORD = re.compile(rb"[^\s,;|<>=\"'{}\[\]():/]+")


def _text(data: bytes, rng: Random, other: bytes) -> bytes:
    action = rng.randrange(8)
    if action < 5:
        for _ in range(rng.choice((1, 1, 1, 3))):
            words = list(_WORD.finditer(data))
            if words:
                word = rng.choice(words)
                data = data[: word.start()] + rng.choice((*ODD_WORDS, rng.choice(words)[0])) + data[word.end() :]
        return data
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    if action == 5:
        lines[place : place + 1] = rng.choice(([], [lines[place]] * 2, [lines[place] * 2], [b""], [rng.choice(lines)]))
        return b"\n".join(lines)
    if action == 6:
        at = rng.randrange(len(data) + 1)
        return data[:at] + rng.choice(SEPARATORS) + data[at + rng.randrange(2) :]
    codec = rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7"))
    return rng.choice((data.replace(b"\n", b"\r"), data.replace(b",", b"\t"), data.decode("latin-1").encode(codec)))


def _json(data: bytes, rng: Random, other: bytes) -> bytes:
    value = changed(json.loads(data), rng)
    text = json.dumps(value).replace(f'"{DEEP}"', "[" * 100_000 + "]" * 100_000).replace(f'"{LONG}"', "9" * 5000)
    if rng.random() < 0.05 and (keys := re.findall(r'"\w+": ', text)):
        key = rng.choice(keys)
        text = text.replace(key, f"{key}null, {key}", 1)
    return text.encode("utf-8", "surrogatepass")


def _json_lines(data: bytes, rng: Random, other: bytes) -> bytes:
    if rng.random() < 0.3:
        return _text(data, rng, other)
    lines = data.splitlines()
    place = rng.randrange(len(lines))
    lines[place] = _json(lines[place], rng, other)
    return b"\n".join(lines) + b"\n"


def changed(value: Any, rng: Random) -> Any:
    """A JSON value with one thing changed somewhere inside."""
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key = rng.choice(list(value))
        fates: tuple[Callable[[], Any], ...] = (
            lambda: {name: inner for name, inner in value.items() if name != key},
            lambda: {rng.choice((*ODD_TEXT, key + "x")) if name == key else name: value[name] for name in value},
            lambda: {**value, key: value[rng.choice(list(value))]},
            *[lambda: {**value, key: changed(value[key], rng)}] * 9,
        )
        return rng.choice(fates)()
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        fates = (
            lambda: value[:place] + value[place + 1 :],
            lambda: value[:place] + value[place:] * rng.choice((2, 20)),
            *[lambda: [*value[:place], changed(value[place], rng), *value[place + 1 :]]] * 6,
        )
        return rng.choice(fates)()
    if type(value) in (int, float) and rng.random() < 0.4:
        return rng.choice((value + 1, value - 1, -value, 2 * value, 1000 * value, value / 2, float(value), str(value)))
    return rng.choice(ODD_VALUES)


# ---------------------------------------------------------------------- arrays


def _npy(data: bytes, rng: Random, other: bytes) -> bytes:
    head = 10 + int.from_bytes(data[8:10], "little")
    header, body = data[10:head].decode("latin-1"), data[head:]
    what = rng.randrange(5)
    if what == 0:
        header = re.sub(r"'descr': '[^']*'", f"'descr': {rng.choice(DTYPES)!r}", header)
    elif what == 1:
        header = re.sub(r"'shape': \([^)]*\)", f"'shape': {_odd_shape(header, rng)}", header)
    elif what == 2:
        header = header.replace("False", rng.choice(("True", "None", "[]", "1", "(" * 300)))
    elif what == 3:
        header = _text(header.encode("latin-1"), rng, other).decode("latin-1")
    else:
        body = _items(header, body, rng)
    text = header.rstrip().encode("latin-1", "replace")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return data[:8] + (len(text) & 0xFFFF).to_bytes(2, "little") + text + body


def _odd_shape(header: str, rng: Random) -> str:
    shape = [int(length) for length in re.findall(r"\d+", header[header.rindex("(") :])]
    if shape and rng.random() < 0.5:
        place = rng.randrange(len(shape))
        shape[place] = rng.choice((shape[place] + 1, shape[place] - 1, 2 * shape[place], *WHOLE))
    else:
        shape = list(rng.choice(((), (0,), shape[::-1], (*shape, 1), (1, *shape), (2**32, 2**32), (1,) * 40, (-1, -1))))
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _items(header: str, body: bytes, rng: Random) -> bytes:
    """The array with a few odd values."""
    try:
        array = np.frombuffer(body, re.search(r"'descr': '([^']*)'", header)[1]).copy()  # type: ignore[index]
    except (TypeError, ValueError):
        return body
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rng.choice((1, 1, 3)) if array.size else 0):
            place, value = rng.randrange(array.size), rng.choice(ODD_NUMBERS[:-1])
            try:
                array[place] = rng.choice((value, array[rng.randrange(array.size)]))
            except (OverflowError, TypeError, ValueError):
                array.view(np.uint8)[place] = 255
    return array.tobytes()


def _safetensors(data: bytes, rng: Random, other: bytes) -> bytes:
    head = 8 + int.from_bytes(data[:8], "little")
    header, body = data[8:head], data[head:]
    if rng.random() < 0.6:
        header = _json(header, rng, other)
    else:
        body = _items(f"'descr': '{rng.choice(('<f4', '<i8'))}'", body[: len(body) // 8 * 8], rng)
    return len(header).to_bytes(8, "little") + header + body


def _pickle(data: bytes, rng: Random, other: bytes) -> bytes:
    value = pickle.loads(data)
    if isinstance(value, dict):
        key = rng.choice(list(value))
        value[key] = rng.choice((value[key] * 2, [], [10**9], [-1], [2**70], ["a"], [1.5], [None], None, {}, "x"))
        value[rng.choice((key, -1, 10**9, "a", None, 2**70))] = value[key]
    elif hasattr(value, "indptr"):
        part = rng.choice(("data", "indices", "indptr"))
        array = getattr(value, part)
        odd = _items(f"'descr': '{array.dtype.str}'", array.tobytes(), rng)
        setattr(value, part, rng.choice((np.frombuffer(odd, array.dtype), array[:-1], array.astype(object), None, [1])))
        if rng.random() < 0.3:
            value._shape = rng.choice(((10**9, 4), (2**62, 2**62), (-1, 3), (1,), None, "ab"))
    else:
        value = rng.choice(
            (value[:-1], value[:, :0], value.astype("f8") * np.nan, value.astype(object), value.tolist(), 7)
        )
    return pickle.dumps(value, rng.randrange(5))


# ---------------------------------------------------------------------- archives and databases


@functools.lru_cache(maxsize=8)
def _bomb(pattern: bytes) -> bytes:
    """Half a gigabyte, as a gzip file."""
    packer, block = zlib.compressobj(1, zlib.DEFLATED, 31), pattern * ((1 << 20) // len(pattern))
    return b"".join(packer.compress(block) for _ in range(BOMB_BYTES >> 20)) + packer.flush()


def _compressed(data: bytes, rng: Random, other: bytes, codec: str) -> bytes:
    if codec == "gzip" and rng.random() < 0.002:
        return _bomb(rng.choice((b"\0", b"a", b"1,", b"0\n", b'"')))
    plain = pa.input_stream(pa.BufferReader(data), compression=codec).read()
    inner = _text(plain, rng, other) if rng.random() < 0.7 else _bytes(plain, rng, other)
    packed = gzip.compress(inner, 1, mtime=0) if codec == "gzip" else pa.compress(inner, "zstd", asbytes=True)
    return rng.choice((packed, packed, packed, packed + packed, packed + b"\0", packed[:-4]))


def _zip(data: bytes, rng: Random, other: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    place = rng.randrange(len(members))
    name, content = members[place]
    fate = rng.random()
    if fate < 0.002 and name.endswith(".npy"):
        return _zip_bomb(tuple(members), name, rng.choice(("<i8", "<f4", "<f8")), rng.choice((0, 2, -2, -1)))
    if fate < 0.7:
        members[place] = name, damaged(name, content, rng, rng.choice(members)[1])
    elif fate < 0.75:
        members.append((name, content))
    elif fate < 0.8:
        del members[place]
    elif fate < 0.85:
        members[place] = rng.choice(("", "../" + name, "/" + name, name + "/", "é" * 90, "a\\b")) + name[-4:], content
    else:
        members[place] = name, rng.choice(members)[1]
    return _zipped(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))


def _zipped(members: list[tuple[str, bytes]], method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that occurs twice
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


@functools.lru_cache(maxsize=64)
def _zip_bomb(members: tuple[tuple[str, bytes], ...], bomb: str, item: str, row: int) -> bytes:
    """The archive, with half a gigabyte of zeros as its array ``bomb``."""
    count = BOMB_BYTES // np.dtype(item).itemsize
    shape = (count,) if row == 0 else (count // row, row) if row > 0 else (-row, count // -row)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type, info._compresslevel = zipfile.ZIP_DEFLATED, 1  # those of the archive are not taken
            with archive.open(info, "w") as stream:
                if name != bomb:
                    stream.write(content)
                    continue
                facts = {"descr": item, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, facts)
                for _ in range(BOMB_BYTES >> 24):
                    stream.write(bytes(1 << 24))
    return file.getvalue()


ODD_THRIFT = (  # of a Parquet footer or page head: more than there is, and structures in each other
    *(bytes([0x19, 0xF0 | kind]) + b"\xff\xff\xff\xff\x07" for kind in (1, 3, 6, 7, 8, 9, 12)),
    *(bytes([kind]) + b"\xff" * length + b"\1" for kind in (0x15, 0x18, 0x1B) for length in (3, 9, 99_999)),
    *(bytes([kind]) * 50_000 for kind in (0x1C, 0x19, 0x1B, 0x11, 0)),
)


def _parquet_heads(data: bytes, rng: Random) -> bytes:
    """With odd bytes in the pages or in the footer, whose length fits again."""
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    parts, place, odd = [data[:end], data[end:-8]], rng.choice((0, 1, 1)), rng.choice(ODD_THRIFT)
    at = rng.randrange(len(parts[place]))
    parts[place] = parts[place][:at] + odd + parts[place][at + rng.choice((0, 1, len(odd))) :]
    return b"".join(parts) + len(parts[1]).to_bytes(4, "little") + b"PAR1"


def _parquet(data: bytes, rng: Random, other: bytes) -> bytes:
    if rng.random() < 0.2:
        return _parquet_heads(data, rng)
    table = pq.read_table(io.BytesIO(data))
    if table.num_rows > 10**6:  # which a file that was damaged before may say
        return _parquet_heads(data, rng)
    if rng.random() < 0.002:
        return _parquet_bomb(tuple(table.column_names), rng.choice((b"x", b"1", b"\xff")), rng.choice((100, 10**5)))
    place = rng.randrange(table.num_columns)
    for _ in range(rng.choice((1, 1, 2))):
        column = next(_odd_columns(table.num_rows, rng))
        name = rng.choice((table.column_names[place], table.column_names[0], *ODD_TEXT[:6]))
        table = table.set_column(place, name, column) if rng.random() < 0.8 else table.append_column(name, column)
    file = io.BytesIO()
    pq.write_table(
        table, file, compression=rng.choice(("none", "snappy", "gzip", "zstd")), row_group_size=rng.choice((2, 99))
    )
    return file.getvalue()


@functools.lru_cache(maxsize=64)
def _parquet_bomb(names: tuple[str, ...], letter: bytes, length: int) -> bytes:
    """Half a gigabyte of text: two long values that all rows share."""
    rows = BOMB_BYTES // length // len(names)
    values = pa.array([letter * length, letter * (length - 1)], pa.binary())
    column = pa.DictionaryArray.from_arrays(np.arange(rows, dtype=np.int32) % 2, values)
    if letter.isalnum():
        column = column.cast(pa.dictionary(pa.int32(), pa.string()))
    file = io.BytesIO()
    pq.write_table(pa.table([column] * len(names), names=list(names)), file, compression="zstd", store_schema=False)
    return file.getvalue()


def _odd_columns(rows: int, rng: Random) -> Iterator[Any]:
    makers: tuple[Callable[[], Any], ...] = (
        lambda: pa.nulls(rows),
        lambda: pa.array([rng.choice((0, 1, -1, 2**62, None)) for _ in range(rows)], pa.int64()),
        lambda: pa.array([rng.choice((0.0, 1.0, float("nan"), 1e308, None)) for _ in range(rows)], pa.float64()),
        lambda: pa.array([rng.choice(("", "a", "\0", "1", "x" * 999, None)) for _ in range(rows)], pa.large_string()),
        lambda: pa.array([rng.choice((b"\xff", b"", b"1")) for _ in range(rows)], pa.binary()),
        lambda: pa.array([[1.5, None]] * rows, pa.list_(pa.float32())),
        lambda: pa.array([{"a": 1}] * rows, pa.struct([("a", pa.int8())])),
        lambda: pa.array([2**63] * rows, pa.uint64()),
        lambda: pa.array([10**37] * rows, pa.decimal128(38)),
        lambda: pa.array([rng.randrange(99)] * rows, pa.timestamp("ns", "UTC")),
        lambda: pa.array(["a"] * rows).dictionary_encode(),
        lambda: pa.array([bool(rng.randrange(2)) for _ in range(rows)]),
        lambda: pa.array([0.5] * rows, pa.float16()),
        lambda: pa.array([1] * rows, pa.duration("s")),
        lambda: pa.array([(("k", 1),)] * rows, pa.map_(pa.string(), pa.int64())),
    )
    while True:
        yield rng.choice(makers)()


def _sqlite(data: bytes, rng: Random, other: bytes) -> bytes:
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(data)
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
        table = rng.choice(tables)
        column = rng.choice([row[1] for row in database.execute(f"PRAGMA table_info({table})")])
        row = database.execute(f"SELECT rowid FROM {table} LIMIT 1 OFFSET {rng.randrange(3)}").fetchone()[0]
        value = rng.choice((None, b"\xff\0", "", "\0", "x" * 9999, 2**62, -1, 1.5, 1e308, float("inf")))
        database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))
        if rng.random() < 0.2:  # text that is not UTF-8
            database.execute(f"UPDATE {table} SET {column} = CAST(X'FFFE00' AS TEXT) WHERE rowid = ?", (row,))
        database.commit()
        return database.serialize()
    finally:
        database.close()


KNOWN: dict[str, Damage] = {
    ".json": _json,
    ".log": _json_lines,
    ".npy": _npy,
    ".npz": _zip,
    ".zip": _zip,
    ".gz": functools.partial(_compressed, codec="gzip"),
    ".zst": functools.partial(_compressed, codec="zstd"),
    ".parquet": _parquet,
    ".safetensors": _safetensors,
    ".db": _sqlite,
    **dict.fromkeys((".csv", ".tsv", ".txt", ".edges", ".mtx", ".graphml", ".gexf", ".index"), _text),
    **dict.fromkeys((".x", ".y", ".tx", ".ty", ".allx", ".ally", ".graph"), _pickle),
}
