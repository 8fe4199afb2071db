"""Text files of rows, plain or compressed by gzip or zstd, read as columns, one block of rows at a time.

A first line without a number in its first two fields, or whose first field is the name of a node column, is taken as
column names, unless ``header`` says otherwise. Fields are separated as the first line shows: by commas, tabs,
semicolons or, in files that are not called .csv or .tsv, blanks. In those files, leading lines that start with '#' or
'%' are comments, as in the edge lists of SNAP and KONECT.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, AnyStr

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from nodewise._util.errors import InputError, warn
from nodewise._util.memory import RESERVE, memory_budget, resident_memory, show_bytes, too_small
from nodewise._util.os_errors import reading
from nodewise._util.words import counted
from nodewise.formats.columns import NUMBER, WHOLE, Column

NODE_NAMES = ("node", "id", "name", "node_id", "", "__index_level_0__")  # the last two: an index saved by pandas
END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"))
LABEL_NAMES = ("label", "y", "class")
KNOWN_NAMES = {*NODE_NAMES, *LABEL_NAMES, *itertools.chain(*END_NAMES)}
BLANK = " "  # any number of spaces and tabs
USUAL = {".csv": ",", ".tsv": "\t", ".txt": "\t", ".edges": BLANK, ".edgelist": BLANK, ".el": BLANK, ".dat": BLANK}
STRICT = (".csv", ".tsv")  # no comments, and blanks do not separate fields
DELIMITER_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", BLANK: "spaces"}
NAMED_DELIMITERS = {"comma": ",", "tab": "\t", "\\t": "\t", "semicolon": ";", "space": BLANK}
CODECS = {  # by the first bytes of a file; the last: frames that zstd skips, which pzstd writes
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    **{bytes([kind]) + b"\x2a\x4d\x18": "zstd" for kind in range(0x50, 0x60)},
}
QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"\S*|\S+')  # a field between blanks
QUOTED_BYTES = re.compile(QUOTED.pattern.encode())
EXCEL = re.compile(r"sep=([,;|:\t ])\s*$", re.IGNORECASE)  # a first line that tells Excel what separates fields
COMPRESSED = (".gz", ".zst", ".zstd")
FOREIGN = {  # how files begin that are something else than their names say
    b"PAR1": "a Parquet file; name it .parquet",
    b"PK\x03\x04": "a zip or Excel file; extract it, or save it as CSV",
    b"\xff\xfe": "text in UTF-16 or UTF-32; save it in UTF-8",
    b"\xfe\xff": "text in UTF-16; save it in UTF-8",
}
WHICH = (
    "If it is a row, pass --no-header, or --header-in with those of edges, features and labels that have names of "
    "columns; if it is not, --header (Python: header=False, header=['labels'], header=True)"
)
NO_NUMBERS = ("", "nan", "na", "null", "inf", "+inf", "-inf")  # written for missing numbers
BLOCK_BYTES = 1 << 20  # Arrow reads dozens ahead
SAMPLE_BYTES = 1 << 20  # from which the number of rows is estimated
ROWS_PER_BLOCK = 8  # at least, if rows are as long as the first two: a row must fit into a block
BLOCKS = 32  # that are in memory at a time, as text or parsed
LINE_TIMES = 256  # memory per byte of the longest line
LEAST_LINE, LEAST_COLUMNS = 1 << 20, 1 << 12  # which are read with any memory
COLUMN_BYTES = 1 << 13  # of memory per column, however short


@dataclasses.dataclass
class TextTable:
    """A text file whose first lines have been read."""

    path: Any  # or what else messages call it
    source: Path
    names: list[str]
    named: bool  # the names come from the file
    guessed: bool  # whether there are names was guessed, not given
    comments: int  # lines before the first row
    sample: list[str] | None  # the fields of the first row; None where there is no row
    delimiter: str = ","
    block_bytes: int = BLOCK_BYTES  # parsed at a time
    longest: int = LEAST_LINE  # that a line may be, where lines are read one by one
    lines: bool = False  # a row is a line: no line breaks in quotes
    file: Any = None  # the open file, which knows how far it was read

    def share(self) -> float:
        """The share of the file that has been read."""
        if self.file is None or self.file.closed:
            return 0.0 if self.file is None else 1.0
        return float(self.file.tell() / max(1, self.source.stat().st_size))

    @property
    def rows(self) -> int:
        """The number of rows, for which the whole file is read."""
        return sum(len(part[0]) for part in self.parts({0: pa.large_binary()}))

    def most_rows(self) -> int:
        """About how many rows there are, rather too many: half as many again as the first megabyte suggests."""
        with _reading(self.path):
            file, stream = opened_bytes(self.source)
            sample = stream.read(SAMPLE_BYTES)
            rows = max(sample.count(b"\n"), sample.count(b"\r")) + 1
            return int(1.5 * rows * self.source.stat().st_size / max(1, file.tell()))

    def parts(self, kinds: Mapping[int, Any]) -> Iterator[list[Column]]:
        """The columns with the indices in ``kinds``, one block of rows at a time.

        Each is of the Arrow type given, or text from the first block on where a value does not fit. Type None is for
        ids and labels: int64 if the first value is a whole number, else text.
        """
        if self.sample is None:
            return
        last = len(self.names) - 1
        types = {last: pa.large_binary(), **{i: self._type(i) if k is None else k for i, k in kinds.items()}}
        rows, end = 0, None
        with _reading(self.path):
            for batch in self._batches(types):
                chunks = {i: pa.chunked_array([batch.column(f"c{i}")]) for i in kinds}
                yield [Column(self.path, self.names[i], chunk, first=rows) for i, chunk in chunks.items()]
                rows += batch.num_rows
                end = batch.column(f"c{last}")[-1].as_py() if batch.num_rows else end
        self._check_quotes(rows, end)

    def _batches(self, types: Mapping[int, Any]) -> Iterator[Any]:
        rows = 0
        try:
            for batch in _opened(self, types):
                yield batch
                rows += batch.num_rows
        except pa.ArrowInvalid:
            # Types do not fit, or rows are uneven: read bytes, so that the error can name the place.
            yield from _raw_batches(self, sorted(types), rows)

    def first_is_text(self) -> bool:
        """Whether the first column holds text, judged by its first value."""
        value = self.sample[0].strip().lower() if self.sample else ""
        return value not in NO_NUMBERS and not re.match(NUMBER, value)

    def _type(self, index: int) -> Any:
        sample = self.sample or []
        return pa.int64() if index < len(sample) and re.match(WHOLE, sample[index]) else pa.large_string()

    def _check_quotes(self, rows: int, end: Any) -> None:
        """Refuse an open quote in the last column, which swallows all rows after it without another error."""
        value = end.encode() if isinstance(end, str) else end
        if isinstance(value, bytes) and b"\n" in value and _count_quotes(self.source) % 2:
            raise self.open_quote(rows)

    def open_quote(self, row: int) -> InputError:
        return InputError(
            f"{self.path}: row {row:,} opens a quote that is never closed; close it, or double each quote inside a "
            f"quoted field"
        )


def is_text(path: Path) -> bool:
    """Whether the name of ``path`` is that of a text file."""
    return _suffix(path) in USUAL


def checked_delimiter(delimiter: str | None) -> str | None:
    """One character, from what the user says.

    >>> checked_delimiter("tab"), checked_delimiter("|")
    ('\\t', '|')
    """
    if delimiter is None:
        return None
    found = NAMED_DELIMITERS.get(delimiter, delimiter)
    if len(found) != 1 or not found.isascii() or found.isalnum() or found in '"\r\n.-+':
        raise InputError(
            f"--delimiter {delimiter!r}: expected one character that is not in numbers or words, or comma, tab, "
            f"semicolon or space"
        )
    return found


def open_text(
    path: Path, header: bool | None = None, delimiter: str | None = None, memory: int | None = None
) -> TextTable:
    """Read the first lines of ``path`` and find the names of its columns."""
    with _reading(path):
        with opened_bytes(path)[1] as stream:
            begin = stream.read(4)
        foreign = next((what for bytes_, what in FOREIGN.items() if begin.startswith(bytes_)), None)
        if foreign is not None:
            raise InputError(f"{path}: is {foreign}")
    table = _table(path, path, header, delimiter, memory)
    if not table.names:
        raise InputError(f"{path}: the file is empty; expected rows of fields separated by {_named(table.delimiter)}")
    if any("\udc80" <= letter <= "\udcff" for letter in "".join(table.names)):
        raise InputError(f"{path}: the first line is not text in UTF-8; save the file in that encoding")
    return table


def open_lines(path: Path, label: str, memory: int) -> TextTable:
    """Rows without names of columns, with commas between fields and no line breaks in them; the file may be empty."""
    return dataclasses.replace(_table(path, label, False, ",", memory), lines=True)


def _table(path: Path, label: Any, header: bool | None, delimiter: str | None, memory: int | None) -> TextTable:
    """A table without columns where the file is empty."""
    budget = memory_budget(memory)
    room = max(0, budget - resident_memory() - RESERVE)
    longest = max(LEAST_LINE, room // LINE_TIMES)
    refusal = InputError(
        f"{label}: a line is longer than {longest:,} bytes, the most that is read with {show_bytes(budget)} of memory; "
        f"check that lines end, raise --memory (Python: memory), or use Parquet"
    )
    with _reading(label):
        comments, commented, delimiter, records = _first_records(path, delimiter, 2 * longest, refusal)
    first = records[:1]
    named = bool(first) and (_is_header(first[0], commented) if header is None else header)
    columns = len(first[0]) if first else 0
    if columns > LEAST_COLUMNS and COLUMN_BYTES * columns > room:
        raise too_small(
            f"reading {label}, which has {columns:,} columns,", budget, budget - room + COLUMN_BYTES * columns
        )
    names = [field.strip() for field in first[0]] if named else [str(i + 1) for i in range(columns)]
    rest = records[1:] if named else records
    row = 4 * max((sum(len(field) + 1 for field in record) for record in records), default=0)  # up to 4 bytes a letter
    block = max(BLOCK_BYTES, row, min(ROWS_PER_BLOCK * row, room // BLOCKS))
    sample = rest[0] if rest else None
    return TextTable(label, path, names, named, header is None, comments, sample, delimiter, block, longest)


def refuse_header_that_is_data(table: TextTable, columns: list[Column]) -> None:
    """Refuse a guessed header whose names also occur as values, since it was probably a row."""
    if not (table.named and table.guessed):
        return
    text = [column for column in columns if pa.types.is_large_string(column.values.type)]
    for column, name in itertools.product(text, [column.name for column in text]):
        if pc.index(column.values, name).as_py() >= 0:
            raise InputError(
                f"{table.path}: the first line may be column names or a row: {name!r} occurs as a value, too. {WHICH}"
            )
    if len(text) == len(columns) and not any(name.strip().lower() in KNOWN_NAMES for name in table.names):
        warn(f"{table.path}: the first line ({', '.join(table.names)[:80]}) is taken as names of columns. {WHICH}")


def _reading(path: Any) -> AbstractContextManager[None]:
    return reading(path, "a text file", (EOFError, csv.Error), advice="fetch or write it again")


def _named(delimiter: str) -> str:
    return DELIMITER_NAMES.get(delimiter, repr(delimiter))


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def opened_bytes(path: Path) -> tuple[Any, Any]:
    """The open file, which knows how far it was read, and the stream of its bytes, decompressed."""
    file = pa.OSFile(str(path))
    begin = file.read(4)
    file.seek(0)
    codec = next((codec for magic, codec in CODECS.items() if begin.startswith(magic)), None)
    return file, file if codec is None else pa.CompressedInputStream(file, codec)


class _Head(io.RawIOBase):
    """The first bytes of a stream; more than ``most`` are refused."""

    def __init__(self, stream: Any, most: int, refusal: InputError) -> None:
        self._stream, self._left, self._refusal = stream, most, refusal

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._stream.read(len(buffer))
        self._left -= len(chunk)
        if self._left < 0:
            raise self._refusal
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _whole_lines(stream: Any, table: TextTable) -> Iterator[bytes]:
    """Blocks of lines; where blanks separate fields, one tab stands for each run of them, and none at either end."""
    rest = b""
    for block in _with_line_feeds(stream, table.block_bytes):
        lines, end, rest = (rest + block).rpartition(b"\n")
        if len(rest) > table.longest:
            raise InputError(
                f"{table.path}: a line is longer than {table.longest:,} bytes; check that lines end, raise --memory "
                f"(Python: memory), or use Parquet"
            )
        if end:
            yield _even(lines, table.delimiter) + end
    if rest:
        yield _even(rest, table.delimiter)


def _with_line_feeds(stream: Any, size: int) -> Iterator[bytes]:
    """Blocks in which each line ends in a line feed, where the file may have a carriage return, alone or before it."""
    held = b""  # the next block may begin with a line feed
    while block := stream.read(size):
        block = held + block
        held = b"\r" if block.endswith(b"\r") else b""
        block = block.removesuffix(held)
        yield block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block
    if held:
        yield b"\n"


def _even(lines: bytes, delimiter: str) -> bytes:
    if delimiter != BLANK:
        return lines
    return b"\n".join(b"\t".join(_fields(line, b'"', QUOTED_BYTES)) for line in lines.split(b"\n"))


def _fields(line: AnyStr, quote: AnyStr, quoted: re.Pattern[AnyStr]) -> list[AnyStr]:
    """The fields of a line between blanks; those in quotes may hold blanks."""
    return quoted.findall(line) if quote in line else line.split()


def _is_header(first: list[str], after_comments: bool) -> bool:
    if first[0].strip().lower() in NODE_NAMES and len(first) > 1:
        return True
    if after_comments:  # which say what there is to say, so that a line of words is a row
        return all(field.strip().lower() in KNOWN_NAMES for field in first[:2])
    return not any(re.match(NUMBER, field) for field in first[:2])


def _first_records(
    path: Path, delimiter: str | None, most: int, refusal: InputError
) -> tuple[int, bool, str, list[list[str]]]:
    """How many lines hold no record, whether any is a comment, the delimiter, and up to two records after them.

    All of that may take up to ``most`` bytes.
    """
    comments, commented, suffix = 0, False, _suffix(path)
    with opened_bytes(path)[1] as stream:
        # Bytes that are not text pass here: reading the column names their row.
        head = io.BufferedReader(_Head(stream, most, refusal))
        lines = io.TextIOWrapper(head, "utf-8-sig", errors="surrogateescape", newline="")
        for line in lines:
            if line.strip("\r\n") and (suffix in STRICT or not line.startswith(("#", "%"))):
                if not comments and (excel := EXCEL.match(line)):
                    comments, delimiter = 1, delimiter or excel[1]
                    continue
                delimiter = delimiter or _delimiter(line, suffix)
                rest: Iterator[str] = itertools.chain([line], lines)
                if delimiter == BLANK:
                    rest = (BLANK.join(_fields(line, '"', QUOTED)) for line in rest)
                before = csv.field_size_limit(most)  # of the whole process, but only for this moment
                try:
                    records = (record for record in csv.reader(rest, delimiter=delimiter) if record)
                    return comments, commented, delimiter, list(itertools.islice(records, 2))
                finally:
                    csv.field_size_limit(before)
            comments, commented = comments + 1, commented or bool(line.strip())
    return comments, commented, delimiter or USUAL.get(suffix, ","), []


def _delimiter(line: str, suffix: str) -> str:
    """What separates the fields of a line: what is usual for such a file or, where that does not occur, another."""
    usual = USUAL.get(suffix, ",")
    if suffix not in STRICT and re.search(r" \t|\t ", line):
        return BLANK
    others = ("\t", ";", ",", *((BLANK,) if suffix not in STRICT else ()))
    candidates = others if usual == BLANK else (usual, *others)
    return next((found for found in candidates if found in line.strip()), usual)


def _opened(table: TextTable, types: Mapping[int, Any], threads: bool = True, on_uneven: Any = None) -> Any:
    """A reader of batches; Arrow reads the first one here."""
    table.file, stream = opened_bytes(table.source)
    if table.delimiter == BLANK or table.lines:
        return _line_batches(table, _whole_lines(stream, table), types, threads, on_uneven)
    return pacsv.open_csv(stream, *_options(table, types, threads, on_uneven))


def _options(
    table: TextTable, types: Mapping[int, Any], threads: bool, on_uneven: Any, first: bool = True, size: int = 0
) -> tuple[Any, Any, Any]:
    read = pacsv.ReadOptions(
        use_threads=threads,
        block_size=max(size, table.block_bytes),
        skip_rows=table.comments if first else 0,
        column_names=[f"c{i}" for i in range(len(table.names))],  # the file's own need not be unique
        skip_rows_after_names=int(table.named and first),
    )
    delimiter = "\t" if table.delimiter == BLANK else table.delimiter
    parse = pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_uneven)
    convert = pacsv.ConvertOptions(
        column_types={f"c{i}": kind for i, kind in types.items()},
        include_columns=[f"c{i}" for i in types],
        null_values=[""],
        strings_can_be_null=False,
    )
    return read, parse, convert


def _line_batches(
    table: TextTable, blocks: Iterator[bytes], types: Mapping[int, Any], threads: bool, on_uneven: Any
) -> Iterator[Any]:
    """Batches of rows, block by block: Arrow's own reader of streams works on in a thread of its own, which crashes
    where the process ends before the file does."""
    before, passed = 0, table.comments + table.named  # lines; those that are no rows
    for block in blocks:
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        if before + count > passed and (before or block.split(b"\n", passed)[-1].strip()):

            def offset(row: Any, before: int = before) -> Any:
                return on_uneven(row._replace(number=row.number + before))

            handler = None if on_uneven is None else offset
            # The handler is not called for a row that is not text; a replaced letter is no number, either.
            text = block.decode("utf-8", "replace").encode() if handler is not None and table.lines else block
            options = _options(table, types, threads, handler, first=not before, size=len(text) + 1)
            yield from pacsv.read_csv(pa.BufferReader(text), *options).to_batches()
        before += count


def _raw_batches(table: TextTable, columns: list[int], skip: int) -> Iterator[Any]:
    """Columns as bytes, without the first ``skip`` rows; a row with too many or too few fields is an error."""
    uneven: list[Any] = []

    def note(row: Any) -> str:
        uneven.append(row)
        return "error"

    rows = 0
    try:
        for batch in _opened(table, dict.fromkeys(columns, pa.large_binary()), threads=False, on_uneven=note):
            if rows + batch.num_rows > skip:
                yield batch.slice(max(0, skip - rows))
            rows += batch.num_rows
    except pa.ArrowInvalid as error:
        if uneven:
            row = uneven[0]
            raise InputError(
                f"{table.path}: row {row.number - table.comments - table.named:,} has "
                f"{counted(row.actual_columns, 'column')}, the first line has {row.expected_columns}; fields are "
                f"separated by {_named(table.delimiter)}. Fix the row"
            ) from error
        if "straddl" not in str(error):
            between = _named(table.delimiter)
            raise InputError(f"{table.path}: {error}; expected {between} between fields") from error
        if _count_quotes(table.source) % 2:
            raise table.open_quote(rows + 1) from error
        raise InputError(
            f"{table.path}: row {rows + 1:,} is longer than {table.block_bytes:,} bytes; split the row or use Parquet"
        ) from error


def _count_quotes(path: Path) -> int:
    with _reading(path), opened_bytes(path)[1] as stream:
        return sum(part.count(b'"') for part in iter(lambda: stream.read(1 << 20), b""))
