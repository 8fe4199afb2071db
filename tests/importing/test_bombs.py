"""Small files that claim, or unpack to, far more than memory holds: refused within it, with what to do."""

from __future__ import annotations

import gzip
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nodewise as nw
from limits import limited
from nodewise import InputError, import_store
from nodewise._util.memory import resident_memory
from nodewise.formats.split_file import read_split_file
from tiny_layouts import Tiny, write_ogb_binary, write_ogb_csv

MORE = 700 << 20  # address space that a refusal may take beside what the process has


def refused(match: str, *files: str, more: int = MORE, **options: object) -> None:
    with limited(more), pytest.raises(InputError, match=match):
        import_store(*files[:1], "store", *files[1:], memory=resident_memory() + (300 << 20), **options)


def zipped_zeros(path: str, text: bytes, times: int) -> str:
    with gzip.open(path, "wb") as stream:
        for _ in range(times):
            stream.write(text * (1 << 20))
    return path


@pytest.mark.parametrize("name", ["line.csv.gz", "line.txt.gz"])
def test_a_line_without_an_end_is_refused(name):
    refused(rf"{name}: a line is longer than .* raise --memory", zipped_zeros(name, b"0", 60))


def test_millions_of_columns_are_refused():
    refused(r"columns.csv.gz, which has 2,097,153 columns, takes .*--memory", zipped_zeros("columns.csv.gz", b",", 2))


def test_long_names_that_a_parquet_file_repeats_are_read_within_memory():
    """Over a gigabyte of names in a file of a few kilobytes, read in parts; they are two, and so the graph is small."""
    shared = pa.DictionaryArray.from_arrays(np.arange(6000, dtype=np.int32) % 2, [end * 100_000 for end in "uv"])
    pq.write_table(pa.table({"u": shared, "v": shared[::-1]}), "e.parquet", store_schema=False)
    assert Path("e.parquet").stat().st_size < 100_000
    with limited(1 << 31):  # of addresses, of which Arrow reserves many
        import_store("e.parquet", "store", memory=resident_memory() + (640 << 20))
    assert [len(name) for name in nw.open_store("store").node_names] == [100_000] * 2


@pytest.mark.parametrize("kind", ["graphml", "gexf"])
def test_an_entity_that_makes_much_of_a_small_file_is_refused(kind):
    """A name that is repeated 2,900 times would be 290 MB, from 3 MB; the comment hides that from the XML library."""
    head = f"<!DOCTYPE {kind} [<!ENTITY a '{'x' * 100_000}'>]><{kind}><!--{'-+' * 1_500_000}-->"
    Path(f"g.{kind}").write_text(f"{head}<graph><node id='{'&a;' * 2900}'/></graph></{kind}>")
    refused(rf"g\.{kind}: .*holds declarations", f"g.{kind}", more=200 << 20)


def test_attributes_that_are_declared_for_all_elements_are_refused():
    nodes = "".join(f"<node id='{i}'/>" for i in range(3000))
    head = f"<!DOCTYPE graphml [<!ATTLIST node z CDATA '{'x' * 200_000}'>]>"
    Path("g.graphml").write_text(f"{head}<graphml><graph edgedefault='undirected'>{nodes}</graph></graphml>")
    refused(r"g\.graphml: .*holds declarations", "g.graphml", more=200 << 20)


@pytest.mark.parametrize(("kind", "name"), [("node", "about"), ("edge", "weight")])
def test_a_default_that_makes_much_of_a_small_file_is_refused(kind, name):
    """200 kB of text for each of 3,000 nodes or edges: 600 MB."""
    key = f"<key id='k' for='{kind}' attr.name='{name}' attr.type='string'><default>{'7' * 200_000}</default></key>"
    edges = "".join(f"<edge source='{i}' target='{i + 1}'/>" for i in range(3000))
    Path("g.graphml").write_text(
        f"<graphml xmlns='http://graphml.graphdrawing.org/xmlns'>{key}<graph edgedefault='undirected'>"
        f"{''.join(f'<node id={chr(34)}{i}{chr(34)}/>' for i in range(3001))}{edges}</graph></graphml>"
    )
    refused(r"reading g\.graphml takes at least", "g.graphml", more=200 << 20)


def test_ogb_labels_in_millions_of_columns_are_refused():
    folder = write_ogb_csv(Path("ogb"), Tiny.ring())
    (folder / "raw" / "node-label.csv.gz").write_bytes(gzip.compress(b"," * 4_000_000 + b"\n"))
    refused(r"node-label.csv.gz(: a line is longer|, which has 4,000,001 columns, takes).*--memory", str(folder))


def test_ogb_counts_that_unpack_to_more_than_memory_are_refused():
    folder = write_ogb_binary(Path("ogb"), Tiny.ring(), compressed=True, num_nodes_list=np.zeros(300 << 20, np.int8))
    what = r"num_nodes_list.npy: an array of int8 and shape \(314572800,\).*; expected one"
    refused(what, str(folder), more=200 << 20)


def test_a_split_file_that_unpacks_to_more_than_memory_is_refused():
    """The size is that of the directory of the zip, which readers believe: nothing is unpacked."""
    with zipfile.ZipFile("split.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for part in ("train", "val", "test"):
            archive.writestr(f"{part}.npy", b"")
    content = Path("split.npz").read_bytes()
    place = content.index(b"PK\x01\x02") + 24  # of the unpacked size of the first member
    Path("split.npz").write_bytes(content[:place] + (2**32 - 2).to_bytes(4, "little") + content[place + 4 :])
    with limited(MORE), pytest.raises(InputError, match=r"split.npz: "):
        read_split_file("split.npz", 10)


@pytest.mark.parametrize("shape", ["(2, 1000000000000000000)", "(1000000000000, 0)", "(-1, 2)"])
def test_a_header_of_an_array_that_claims_the_impossible_is_refused(shape):
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}}}".encode().ljust(117) + b"\n"
    Path("e.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    refused(r"e.npy: is ", "e.npy")


def test_an_id_is_no_promise_of_as_many_nodes():
    np.savez("far.npz", edge_index=np.array([[0], [2**32 - 2]]))
    with limited(MORE), pytest.raises(InputError, match=r"far.npz: edge_index names node 4,294,967,294"):
        nw.load("far.npz")
    Path("e.csv").write_text("0,1\n")
    Path("l.csv").write_text("node,label\n4294967294,1\n")
    refused(r"reading l.csv takes at least .*--memory", "e.csv", ids="integers", labels="l.csv")


def test_a_view_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr("nodewise.formats.sql.FILE_TIMES", 1)
    with closing(sqlite3.connect("v.db")) as connection:
        endless = "with recursive t(a) as (select 1 union all select a + 1 from t)"
        connection.execute(f"create view e as {endless} select a, a + 1 as b from t")
        connection.commit()
    with pytest.raises(InputError, match=r"the answer is larger than .* raise --memory"):
        import_store("sqlite:v.db?select * from e", "store", memory="16MB")


def test_a_download_that_anyone_could_have_changed_is_refused(tmp_path):
    from nodewise import StoreError
    from nodewise.datasets.download import download
    from nodewise.datasets.registry import DATASETS

    with pytest.raises(StoreError, match="refused: it is not https, and no SHA-256 is known"):
        download("http://example.org/data.zip", tmp_path / "data.zip")
    assert all((file.url or "https:").startswith("https:") for data in DATASETS for file in data.files)
