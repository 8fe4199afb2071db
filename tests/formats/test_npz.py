"""Graphs in one .npz file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from nodewise._util.errors import InputError
from nodewise.datasets import load
from nodewise.formats.graph_npz import read_npz
from nodewise.formats.split_file import read_split_file

NO_CSR = dict.fromkeys(("x_data", "x_indices", "x_indptr", "x_shape"))


def test_sparse_features_labels_and_edges_come_back(tiny_npz: Callable[..., Path]) -> None:
    graph = read_npz(tiny_npz())
    assert graph.name == "ring"
    assert graph.num_edges == 6
    assert isinstance(graph.features, sp.csr_matrix)
    assert graph.features.dtype == np.float32
    assert np.array_equal(graph.features.toarray(), np.eye(6, 4))
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, 1, 0, 1, -1, 0]


def test_dense_features_come_back(tiny_npz: Callable[..., Path]) -> None:
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    assert np.array_equal(read_npz(tiny_npz(x=x, **NO_CSR)).features, x)


def test_a_file_without_features_is_a_graph_without_features(tiny_npz: Callable[..., Path]) -> None:
    assert read_npz(tiny_npz(**NO_CSR)).features is None


def test_a_matrix_of_labels_means_several_labels_per_node(tiny_npz: Callable[..., Path]) -> None:
    y = np.eye(6, 3, dtype=np.int8)
    graph = read_npz(tiny_npz(y=y))
    assert graph.multilabel
    assert np.array_equal(graph.labels, y)


def test_labels_in_one_column_are_one_label_per_node(tiny_npz: Callable[..., Path]) -> None:
    graph = read_npz(tiny_npz(y=np.array([[0], [5], [2], [1], [-1], [0]])))
    assert not graph.multilabel
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, 5, 2, 1, -1, 0]


def test_the_official_parts_become_train_val_and_test(tiny_npz: Callable[..., Path]) -> None:
    parts = {"train_idx": np.array([3, 0]), "valid_idx": np.array([1]), "test_idx": np.array([5, 2], np.int32)}
    splits = read_npz(tiny_npz(**parts)).splits
    assert {part: nodes.tolist() for part, nodes in splits.items()} == {"train": [3, 0], "val": [1], "test": [5, 2]}


def test_other_arrays_are_left_alone(tiny_npz: Callable[..., Path]) -> None:
    """A graph's file may carry more, even objects, which are never unpickled."""
    assert read_npz(tiny_npz(year=np.full(6, 1999), note=np.array([{}], dtype=object))).num_nodes == 6


# ---------------------------------------------------------------------- files that are not what they should be


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": None}, "has no edge_index, only x_data.*numpy.savez"),
        ({"x_indptr": None}, "but no x_indptr; sparse features need all of"),
        ({"x": np.eye(6)}, "both x and x_data"),
        ({"edge_index": np.zeros((6, 2), int)}, r"shape \(6, 2\); expected \(2, num_edges\)"),
        ({"edge_index": np.array([[0], [6]])}, "names node 6"),
        ({"edge_index": np.array([[0], [-1]])}, "names node -1"),
        ({"y": np.zeros((6, 2, 2), int)}, r"y has shape \(6, 2, 2\)"),
        ({"y": np.array(3)}, r"y has shape \(\)"),
        ({"y": np.linspace(0, 1, 6)}, "labels: .*expected whole numbers"),
        ({"y": np.array([0, 1, 0, 1, 0])}, "names node 5"),
        ({"x_shape": np.array([6, 3])}, "not the parts of one CSR matrix"),
        ({"x_shape": np.array([5, 4])}, "not the parts of one CSR matrix"),
        ({"x_shape": np.array([6, -4])}, "not the parts of one CSR matrix"),
        ({"x_shape": np.array([6.0, 4.0])}, "expected two whole numbers"),
        ({"x_indices": np.array([0, 1, 2, 99])}, "not the parts of one CSR matrix"),
        ({"x_indptr": np.array([0, 1, 9, 3, 4, 4, 4])}, "not the parts of one CSR matrix"),
        ({"x_data": np.array([1, np.nan, 1, 1])}, "node 1 has nan in column 1"),
        ({"x": np.eye(5), **NO_CSR}, "5 rows for 6 nodes"),
        ({"train_idx": np.array([0, 6])}, r"splits\['train'\]: entry 1 is 6"),
        ({"y": np.array([{}] * 6, dtype=object)}, "y.npy: is an array of Python objects, which are not read"),
    ],
)
def test_a_wrong_array_is_one_error_with_the_file_and_the_cause(
    tiny_npz: Callable[..., Path], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_npz(tiny_npz(**changes))
    assert "ring.npz: " in str(caught.value)


def test_a_file_cut_short_anywhere_is_one_error_that_names_it(tiny_npz: Callable[..., Path]) -> None:
    path = tiny_npz()
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 11):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"ring\.npz: is cut off or not an \.npz file"):
            read_npz(path)


def test_altered_bytes_inside_an_array_are_found(tiny_npz: Callable[..., Path]) -> None:
    path = tiny_npz()
    content = bytearray(path.read_bytes())
    first_data = 30 + int.from_bytes(content[26:28], "little") + int.from_bytes(content[28:30], "little")
    content[first_data + 40] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"ring\.npz: edge_index\.npy: is cut off or not a valid \.npy array"):
        read_npz(path)


def test_a_single_array_under_the_wrong_ending_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "array.npz"
    with path.open("wb") as stream:
        np.save(stream, np.arange(3))
    with pytest.raises(InputError, match=r"array\.npz: is cut off or not .*not a zip file"):
        read_npz(path)


def test_a_file_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.npz: no such file"):
        read_npz(tmp_path / "gone.npz")


# ---------------------------------------------------------------------- real files

# Nodes, edges, features, classes: as PyTorch Geometric's documentation lists them, which counts each edge twice.
SHCHUR = {
    "amazon-computers": (13_752, 245_861, 767, 10),
    "amazon-photo": (7_650, 119_081, 745, 8),
    "coauthor-cs": (18_333, 81_894, 6_805, 15),
    "coauthor-physics": (34_493, 247_962, 8_415, 5),
}


@pytest.mark.parametrize("name", SHCHUR)
def test_the_co_purchase_and_co_author_graphs_have_their_known_sizes(data_dir: Path, name: str) -> None:
    graph = load(name, data_dir)
    assert graph.labels is not None
    classes = np.unique(graph.labels)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, classes.size) == SHCHUR[name]


@pytest.mark.parametrize("name", [*SHCHUR, "arxiv-standin"])
def test_the_fixed_splits_of_these_graphs_have_twenty_training_nodes_per_class(data_dir: Path, name: str) -> None:
    graph = load(name, data_dir)
    assert graph.labels is not None
    for split in read_split_file(data_dir / "splits" / f"{name}.npz", graph.num_nodes):
        assert set(np.bincount(graph.labels[split.train])) == {20}


def test_the_arxiv_parts_cover_every_node_once(data_dir: Path) -> None:
    graph = load("arxiv-standin", data_dir)
    together = np.concatenate([graph.splits[part] for part in ("train", "val", "test")])
    assert np.array_equal(np.sort(together), np.arange(169_343))


def test_blogcatalog_has_39_labels_several_per_node_and_no_features(data_dir: Path) -> None:
    graph = load("blogcatalog-multilabel", data_dir)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (10_312, 333_983, 0)
    assert graph.labels is not None
    assert graph.labels.shape == (10_312, 39)
    assert graph.labels.sum(axis=1).max() > 1


def test_weights_are_read_and_labels_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "weighted.npz"
    np.savez(path, edge_index=np.array([[0, 1], [1, 2]]), edge_weight=np.array([2.0, 3.0]), x=np.eye(3))
    graph = read_npz(path)
    assert graph.labels is None
    assert graph.to_scipy().toarray().tolist() == [[1, 2, 0], [2, 1, 3], [0, 3, 1]]
