"""Parquet files in parts that fit in memory: nothing lost, no part larger than said, whatever the pages unpack to."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise import InputError
from nodewise.formats import parquet
from nodewise.formats.parquet import read_batches
from nodewise.formats.parquet_pages import read_chunks, read_pages

MEMORY = 1 << 30


def read(path: Path, memory: int = MEMORY, names: tuple[str, ...] = ("text",)) -> list[pa.RecordBatch]:
    names = list(names)
    return [pa.record_batch(part, names=names) for part in read_batches(path, names, list(range(len(names))), memory)]


def pages_of(path: Path):
    with path.open("rb") as stream:
        return read_pages(stream, [chunk for (chunk,) in read_chunks(path)], None)


@st.composite
def written(draw):
    """A column of text and how it is written: any encoding, compression and size of pages and groups."""
    word = st.text("ab", max_size=draw(st.sampled_from((2, 40))))
    texts = draw(st.lists(st.none() | st.sampled_from(draw(st.lists(word, min_size=1))) | word, min_size=1))
    encoding = draw(st.sampled_from(("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", None)))
    how = {
        "use_dictionary": encoding is None,
        "column_encoding": None if encoding is None else {"text": encoding},
        "compression": draw(st.sampled_from(("none", "snappy", "gzip", "zstd", "lz4", "brotli"))),
        "row_group_size": draw(st.sampled_from((1, 7, 1000))),
        "data_page_size": draw(st.sampled_from((1, 50, 10_000))),
        "write_batch_size": draw(st.sampled_from((1, 5))),  # after so many values it is seen whether a page is full
        "data_page_version": draw(st.sampled_from(("1.0", "2.0"))),
        "dictionary_pagesize_limit": draw(st.sampled_from((10, 1000))),
    }
    return texts, how


@given(written(), st.sampled_from((1, 2, 3, 10, 1000)))
def test_no_rows_in_a_row_hold_more_text_than_the_heads_of_pages_say(tmp_path_factory, column, rows):
    texts, how = column
    path = tmp_path_factory.mktemp("text") / "t.parquet"
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), path, **how)
    lengths = [len(text or "") for text in texts]
    most = max(sum(lengths[first : first + rows]) for first in range(len(lengths)))
    pages = pages_of(path)
    assert pages.values.sum() == len(texts)
    assert pages.most_text(rows) >= most


@given(written(), st.sampled_from((1, 20, 1000)))
def test_all_rows_come_once_in_their_order_in_parts_of_little_text(tmp_path_factory, column, part_bytes):
    texts, how = column
    path = tmp_path_factory.mktemp("text") / "t.parquet"
    table = pa.table({"text": pa.array(texts, pa.string()), "row": range(len(texts))})
    pq.write_table(table, path, **how | {"column_encoding": None, "use_dictionary": ["text"]})
    before, parquet.PART_BYTES = parquet.PART_BYTES, part_bytes
    try:
        parts = read(path, names=("text", "row"))
    finally:
        parquet.PART_BYTES = before
    assert pa.Table.from_batches(parts).equals(table)


WAYS = [*({"compression": kind} for kind in ("none", "gzip", "zstd", "lz4", "brotli")), {"data_page_version": "2.0"}]


@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}, *WAYS])
def test_ordinary_names_are_read_as_many_rows_at_a_time_as_ever(tmp_path, how):
    names = [f"user{i}" for i in range(2 * parquet.PART_ROWS)]
    pq.write_table(pa.table({"text": names}), tmp_path / "n.parquet", **how)
    assert pages_of(tmp_path / "n.parquet").most_text(parquet.PART_ROWS) < parquet.PART_BYTES
    assert [part.num_rows for part in read(tmp_path / "n.parquet")] == [parquet.PART_ROWS] * 2


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(parquet, "PART_BYTES", 1 << 20)
    monkeypatch.setattr(parquet, "PAGE_BYTES", 1 << 20)


ROWS, LONG = 20_000, 10_000  # 200 MB of text
SHARED = pa.DictionaryArray.from_arrays(np.zeros(ROWS, np.int32), ["x" * LONG])


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("schema", [True, False], ids=["as a dictionary", "as text"])
def test_a_long_value_that_many_rows_share_is_read_in_small_parts(tmp_path, schema):
    path = tmp_path / "n.parquet"
    pq.write_table(pa.table({"text": SHARED}), path, store_schema=schema, compression="zstd")
    assert path.stat().st_size < 2000
    sizes = []
    for (part,), _ in zip(read_batches(path, ["text"], [0], MEMORY), range(20), strict=False):
        assert pa.types.is_string(part.type)
        sizes.append(part.nbytes)
    assert max(sizes) <= 3 << 20


@pytest.mark.usefixtures("small_parts")
def test_a_column_with_a_dot_in_its_name_is_bounded_as_all_others(tmp_path):
    path = tmp_path / "n.parquet"
    pq.write_table(pa.table({"a.b": SHARED}), path, store_schema=False, compression="zstd")
    assert max(part.nbytes for part in read(path, names=("a.b",))) <= 3 << 20


@pytest.mark.usefixtures("small_parts")
def test_values_that_begin_like_the_one_before_are_read_in_small_parts(tmp_path):
    path, rows = tmp_path / "n.parquet", 5000
    how = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}, "data_page_size": 1 << 30}
    pq.write_table(pa.table({"text": ["x" * LONG] * rows}), path, **how)
    assert path.stat().st_size < 25_000
    sizes = [part.nbytes for (part,) in read_batches(path, ["text"], [0], MEMORY)]
    assert sum(sizes) > LONG * rows
    assert max(sizes) <= 3 << 20


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["text", "numbers"])
def test_a_page_that_unpacks_to_more_than_a_quarter_of_the_memory_is_refused(tmp_path, kind):
    path = tmp_path / "n.parquet"
    column = ["x" * 1000] * 10_000 if kind == "text" else np.zeros(1_260_000)
    how = {"use_dictionary": False, "data_page_size": 1 << 40, "write_batch_size": 1 << 30, "compression": "zstd"}
    pq.write_table(pa.table({"text": column}), path, row_group_size=1 << 30, max_rows_per_page=1 << 30, **how)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match=r"n.parquet: a page of each column, 10.* MB unpacked, .*raise --memory"):
        read(path, memory=39_000_000)
    assert sum(part.num_rows for part in read(path, memory=100_000_000)) == len(column)


@pytest.mark.parametrize("where", ["the first page's head", "the footer"])
def test_damaged_heads_and_footers_are_one_error(tmp_path, where):
    """Any bit changed: read, or refused. What pyarrow says of some footers ends the process."""
    path = tmp_path / "n.parquet"
    pq.write_table(pa.table({"text": ["x", "yy", "zzz"]}), path, use_dictionary=False, compression="none")
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    messages = []
    for place in range(4, 40) if where != "the footer" else range(footer, len(whole)):
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                read(path)
            except InputError as error:
                messages.append(str(error))
    assert len(messages) > 100
    assert all(str(path) in message for message in messages)


LIST_OF_DOUBLES, NUMBER = bytes([0x19, 0xF7]), bytes([0x15])  # of a structure's first field
ENDLESS = {
    "a list of 2^24 numbers that are not there": LIST_OF_DOUBLES + bytes([0x80, 0x80, 0x80, 8]),
    "one number of 128 KB": NUMBER + b"\xff" * (1 << 17),
}


@pytest.mark.parametrize("footer", ENDLESS.values(), ids=ENDLESS)
def test_a_footer_that_says_more_than_it_holds_is_refused_at_once(tmp_path, footer):
    path = tmp_path / "n.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    start = time.process_time()
    tracemalloc.start()
    with pytest.raises(ValueError, match="its footer cannot be read"):
        read_chunks(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert time.process_time() - start < 0.2


def test_a_column_that_is_said_to_hold_numbers_is_bounded_as_the_text_that_it_is(tmp_path, small_parts):
    """The footer says the type twice; pyarrow goes by the schema."""
    path = tmp_path / "n.parquet"
    pq.write_table(pa.table({"text": SHARED}), path, store_schema=False, compression="zstd")
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    byte_array, int64, encodings = 2 * 6, 2 * 2, 0x19
    kind = whole.index(bytes([0x15, byte_array, encodings]), footer) + 1
    path.write_bytes(whole[:kind] + bytes([int64]) + whole[kind + 1 :])
    assert max(part.nbytes for part in read(path)) <= 3 << 20
