"""Query: a table that is the answer of a SQLite or DuckDB database.

The query is run once, read-only, and its answer kept in a Parquet file: an import reads a table several times, and a
database need not give its rows in the same order twice.
"""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nodewise._util.errors import InputError
from nodewise._util.memory import show_bytes
from nodewise._util.os_errors import reading

ROWS = 1 << 16  # at a time
BATCH_BYTES = 16 << 20  # of text, at a time
VALUE_BYTES = 1 << 20  # that a value may have
STEPS = 1_000_000  # of SQLite, between looks at what the user does: Ctrl-C ends a query that gives no row
FILE_TIMES = 100  # bytes of an answer per byte of its database, beside an eighth of the memory
LEAST_MEMORY = 1 << 27  # for DuckDB
# A stranger's file makes DuckDB load no code, and a view in it no other file.
CLOSED: Any = {"enable_external_access": False}
SQLITE = b"SQLite format 3"  # how its files begin

_SPELLED = re.compile(r"(sqlite|duckdb):(.*?)\?(.*)", re.DOTALL)
_EXPECTED = "expected sqlite:FILE?SELECT ... or duckdb:FILE?SELECT ..."


@dataclasses.dataclass(frozen=True)
class Query:
    """A query, the file of its database and, once it has been run, the Parquet file with its ``answer``."""

    engine: str
    database: Path
    sql: str
    answer: Path | None = None

    @classmethod
    def parsed(cls, text: str) -> Query | None:
        """The query that ``text`` spells, None where it is something else, such as a path.

        >>> str(Query.parsed("sqlite:shop.db?select buyer, item from orders"))
        'sqlite:shop.db?select buyer, item from orders'
        >>> Query.parsed("edges.csv")
        """
        if not text.startswith(("sqlite:", "duckdb:")) or Path(text).exists():
            return None
        match = _SPELLED.fullmatch(text)
        if match is None or not match[2] or not match[3].strip():
            raise InputError(f"{text}: {_EXPECTED}")
        return cls(match[1], Path(match[2]), match[3].strip().rstrip(";"))

    def __str__(self) -> str:
        return f"{self.engine}:{self.database}?{' '.join(self.sql.split())[:60]}"

    def run(self, answer: Path, memory: int) -> Query:
        """This query with its answer, which is written to the Parquet file ``answer``."""
        if not self.database.is_file():
            raise InputError(f"{self.database}: no such file; {_EXPECTED}")
        with reading(self.database), self.database.open("rb") as stream:
            begins = stream.read(len(SQLITE))
        if self.engine == "duckdb" and begins == SQLITE:
            raise InputError(f"{self.database}: is a database of SQLite; write sqlite: in place of duckdb:")
        batches = self._sqlite() if self.engine == "sqlite" else self._duckdb(memory)
        with closing(batches):
            schema = next(batches)
            with self._asking(pa.ArrowException), pq.ParquetWriter(answer, schema) as writer:
                self._write(writer, batches, memory)
        return dataclasses.replace(self, answer=answer)

    def _write(self, writer: Any, batches: Iterable[Any], memory: int) -> None:
        """Write the answer; one that is out of proportion to its database may have no end."""
        most, taken = memory // 8 + FILE_TIMES * self.database.stat().st_size, 0
        for batch in batches:
            taken += batch.nbytes
            if taken > most:
                raise InputError(
                    f"{self}: the answer is larger than {show_bytes(most)}, and the database has "
                    f"{show_bytes(self.database.stat().st_size)}; if it is meant to be, raise --memory (Python: "
                    f"memory), or write the answer to a Parquet file and import that"
                )
            writer.write_batch(batch)

    def _sqlite(self) -> Generator[Any]:
        """A schema, judged by the first rows, then the rows."""
        errors = (sqlite3.Error, UnicodeError, OverflowError)  # the last two: damaged text and counts
        with self._asking(*errors), _interrupts():
            address = f"{self.database.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as connection:
                connection.set_authorizer(_without_other_files)
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
                connection.execute("PRAGMA trusted_schema = OFF")  # a database of strangers' may hold functions to call
                connection.execute("PRAGMA cell_size_check = ON")
                connection.set_progress_handler(lambda: 0, STEPS)
                answer = connection.execute(self.sql)
                names = [column[0] for column in answer.description or ()]
                if not names:
                    raise InputError(f"{self}: gives no rows; expected a SELECT")
                rows = _fetched(answer)
                kinds = [_kind({type(row[i]) for row in rows}) for i in range(len(names))]
                yield pa.schema(zip(names, kinds, strict=True))
                first = 0
                while rows:
                    arrays = [self._array(names[i], kind, rows, i, first) for i, kind in enumerate(kinds)]
                    yield pa.RecordBatch.from_arrays(arrays, names=names)
                    first += len(rows)
                    rows = _fetched(answer)

    def _array(self, name: str, kind: Any, rows: list[Any], column: int, first: int) -> Any:
        values = [row[column] for row in rows]
        if pa.types.is_string(kind):
            values = [value if value is None or isinstance(value, str) else str(value) for value in values]
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise InputError(
                f"{self}: column {name!r} holds other values than {kind} after row {first + 1:,} ({error}); write "
                f"CAST({name} AS TEXT), or AS REAL, in the query"
            ) from error

    def _duckdb(self, memory: int) -> Generator[Any]:
        """A schema, then the rows."""
        try:
            import duckdb
        except ImportError as error:
            raise InputError(f"{self}: needs DuckDB ({error}); pip install 'nodewise[sql]'") from error
        errors = (duckdb.Error, pa.ArrowException, UnicodeError)
        with self._asking(*errors), duckdb.connect(str(self.database), read_only=True, config=CLOSED) as connection:
            connection.execute(f"SET memory_limit = '{max(LEAST_MEMORY, memory // 2)}B'")
            answer = connection.sql(self.sql)
            if answer is None:
                raise InputError(f"{self}: gives no rows; expected a SELECT")
            reader = answer.to_arrow_reader(ROWS)
            yield reader.schema
            yield from reader

    def _asking(self, *errors: type[Exception]) -> AbstractContextManager[None]:
        return reading(str(self), "a query that this database answers", errors, advice="check the query and the file")


def _without_other_files(action: int, *_: Any) -> int:
    """SQLite opens a file for reading only, but others that a query names, for writing too."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


@contextmanager
def _interrupts() -> Iterator[None]:
    """Ctrl-C while SQLite works is raised in the progress handler, where sqlite3 makes an error of its own of it."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise KeyboardInterrupt from error
        raise


def _fetched(answer: sqlite3.Cursor) -> list[Any]:
    """The next rows: fewer than usual if they hold long text."""
    rows: list[Any] = []
    size = 0
    while len(rows) < ROWS and size < BATCH_BYTES and (row := answer.fetchone()) is not None:
        rows.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
    return rows


def _kind(found: set[type]) -> Any:
    """The Arrow type for values of these types; SQLite does not keep a column to one."""
    found -= {type(None)}
    if found <= {int}:
        return pa.int64()
    return pa.float64() if found <= {int, float} else pa.string()
