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
from tiny_layouts import Tiny, edges_of, read_through, write_graphsaint, write_ogb_binary, write_ogb_csv, zipped

from nodewise import import_store, open_store
from nodewise.datasets.layouts import read_layout
from nodewise.errors import InputError


@pytest.mark.parametrize("write", [write_ogb_csv, write_ogb_binary, write_graphsaint])
def test_a_folder_or_zip_is_recognised_by_what_is_in_it(write: object, tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny", Tiny.ring())  # type: ignore[operator]
    for path in (folder, str(zipped(folder)), zipped(folder, top=False)):
        raw = read_layout(path)
        assert raw is not None
        assert (raw.num_nodes, raw.edges.count, raw.name) == (8, 8, "tiny")
    outer = tmp_path / "outer"
    outer.mkdir()
    folder.rename(outer / "tiny")
    assert read_layout(outer) is not None


def test_anything_else_is_none(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("0,1\n")
    np.savez(tmp_path / "ring.npz", edge_index=np.zeros((2, 1), int))
    assert read_layout(tmp_path) is None
    assert read_layout(tmp_path / "edges.csv") is None
    assert read_layout(tmp_path / "ring.npz") is None
    assert read_layout(tmp_path / "none") is None
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_text("")
    assert read_layout(zipped(tmp_path / "a")) is None


def test_a_zip_that_is_cut_off_is_not_taken_for_something_else(tmp_path: Path) -> None:
    path = zipped(write_ogb_csv(tmp_path / "tiny", Tiny.ring()))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"tiny\.zip: is cut off"):
        read_layout(path)


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
    message, raw = "", None
    try:
        raw = read_layout(path)
        if raw is not None:
            read_through(raw)
    except InputError as error:
        message = str(error)
    assert not message or "tiny.zip" in message
    assert message or raw is None or np.array_equal(edges_of(raw), Tiny.ring().edges)
    shutil.rmtree(folder)


@pytest.mark.parametrize("write", [write_ogb_csv, write_ogb_binary, write_graphsaint])
def test_a_whole_graph_is_imported_as_edges_alone(write: Any, tmp_path: Path) -> None:
    tiny = Tiny.ring()
    for number, path in enumerate((write(tmp_path / "tiny", tiny), zipped(tmp_path / "tiny"))):
        import_store(path, tmp_path / f"store-{number}")
        graph = open_store(tmp_path / f"store-{number}", verify=True)
        assert np.array_equal(graph.indptr, np.arange(0, 25, 3))  # a ring: two neighbours and a loop each
        assert np.allclose(graph.features, tiny.features)
        assert np.array_equal(graph.labels, tiny.labels)
        assert {part: nodes.tolist() for part, nodes in graph.splits.items()}.keys() == {"train", "val", "test"}
    with pytest.raises(InputError, match="tiny: a whole graph, with features and labels of its own; leave --features"):
        import_store(tmp_path / "tiny", tmp_path / "other", features="x.npy")
