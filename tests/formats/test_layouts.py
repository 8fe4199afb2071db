"""Layouts recognised by their content."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise import import_store, open_store
from nodewise._util.errors import InputError
from nodewise.formats.layouts import open_layout
from tiny_layouts import Tiny, edges_of, read_through, write_graphsaint, write_ogb_binary, write_ogb_csv, zipped


@pytest.mark.parametrize("write", [write_ogb_csv, write_ogb_binary, write_graphsaint])
def test_a_folder_or_zip_is_recognised_by_what_is_in_it(write: object, tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny", Tiny.ring())  # type: ignore[operator]
    for path in (folder, zipped(folder), zipped(folder, top=False)):
        with open_layout(path) as read:
            assert read is not None
            raw = read()
            assert (raw.num_nodes, raw.edges.count, raw.name) == (8, 8, "tiny")
    outer = tmp_path / "outer"
    outer.mkdir()
    folder.rename(outer / "tiny")
    with open_layout(outer) as read:
        assert read is not None


def test_anything_else_is_none(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("0,1\n")
    np.savez(tmp_path / "ring.npz", edge_index=np.zeros((2, 1), int))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_text("")
    for name in (".", "edges.csv", "ring.npz", "none", zipped(tmp_path / "a")):
        with open_layout(tmp_path / name) as read:
            assert read is None


def test_a_zip_that_is_cut_off_is_not_taken_for_something_else(tmp_path: Path) -> None:
    path = zipped(write_ogb_csv(tmp_path / "tiny", Tiny.ring()))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"tiny\.zip: is cut off"), open_layout(path):
        pass


@settings(max_examples=150, deadline=None)
@given(
    write=st.sampled_from([write_ogb_csv, write_ogb_binary, write_graphsaint]),
    compression=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
    places=st.lists(st.floats(0, 1, exclude_max=True), max_size=4),
    value=st.integers(0, 255),
    cut=st.floats(0.5, 1),
)
def test_a_damaged_zip_is_an_input_error_or_the_same_graph(
    write: Any, compression: int, places: list[float], value: int, cut: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Or another graph where the damage hides a file that may be missing; but never another kind of error."""
    folder = tmp_path_factory.mktemp("layout")
    path = zipped(write(folder / "tiny", Tiny.ring()), compression)
    content = bytearray(path.read_bytes())
    for place in places:
        content[int(place * len(content))] = value
    path.write_bytes(content[: int(cut * len(content))])
    message = ""
    try:
        with open_layout(path) as read:
            if read is not None:
                raw = read()
                read_through(raw)
                assert np.array_equal(edges_of(raw), Tiny.ring().edges)
    except InputError as error:
        message = str(error)
    assert not message or "tiny.zip" in message
    shutil.rmtree(folder)


@pytest.mark.parametrize("write", [write_ogb_csv, write_ogb_binary, write_graphsaint])
def test_a_whole_graph_is_imported_as_edges_alone(write: Any, tmp_path: Path) -> None:
    tiny = Tiny.ring()
    write(tmp_path / "tiny", tiny)
    for compression in (None, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = tmp_path / "tiny" if compression is None else zipped(tmp_path / "tiny", compression)
        import_store(path, tmp_path / "store", overwrite=True)
        assert not list((tmp_path / "cache" / "unpacked").glob("*"))
        graph = open_store(tmp_path / "store", verify=True)
        assert np.array_equal(graph.indptr, np.arange(0, 25, 3))  # a ring: two neighbours and a loop each
        assert np.allclose(graph.features, tiny.features)
        assert np.array_equal(graph.labels, tiny.labels)
        assert {part: nodes.tolist() for part, nodes in graph.splits.items()}.keys() == {"train", "val", "test"}
    with pytest.raises(InputError, match="tiny: a whole graph, with features and labels of its own; leave --features"):
        import_store(tmp_path / "tiny", tmp_path / "other", features="x.npy")
