"""Nodes and labels by name, and graphs of other libraries that have them as tensors."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from nodewise import Graph, InputError, open_store, write_store
from nodewise.graph import names
from nodewise.store import Names

PEOPLE = ["ann", "bob", "carol", "dave"]
EDGES = np.array([[0, 1, 2], [1, 2, 3]])


@pytest.fixture
def people():
    return Graph.from_edges(EDGES, node_names=PEOPLE, splits={"train": ["dave", "ann"]})


@pytest.mark.parametrize(
    "nodes",
    [["dave", "bob"], ("dave", "bob"), np.array(["dave", "bob"]), np.array(["dave", "bob"], object), [3, 1]],
    ids=["list", "tuple", "strings", "objects", "ids"],
)
def test_nodes_are_found_by_name_and_by_id(people, nodes):
    found = people.nodes(nodes)
    assert found.tolist() == [3, 1]
    assert found.dtype == np.int64


def test_a_name_may_come_twice_and_there_may_be_none(people):
    assert people.nodes(["bob", "ann", "bob"]).tolist() == [1, 0, 1]
    assert people.nodes([]).tolist() == people.nodes(np.array([], str)).tolist() == []


def test_pandas_series_are_names_too(people):
    pandas = pytest.importorskip("pandas")
    assert people.nodes(pandas.Series(["carol", "ann"])).tolist() == [2, 0]


def test_splits_and_subgraphs_take_names(people):
    assert people.splits["train"].tolist() == [3, 0]
    assert people.replace(splits={"val": ["bob"]}).splits["val"].tolist() == [1]
    assert people.subgraph(["carol", "bob"]).node_names == ["carol", "bob"]


def test_a_store_finds_the_same_nodes_whatever_the_parts_of_its_names(people, tmp_path, monkeypatch):
    monkeypatch.setattr(names, "AT_ONCE", 3)
    write_store(people, tmp_path / "store")
    stored = open_store(tmp_path / "store")
    assert isinstance(stored.node_names, Names)
    assert stored.nodes(["dave", "ann", "carol"]).tolist() == [3, 0, 2]


def test_names_are_not_read_where_nodes_are_ids(people):
    def load():
        raise AssertionError("names were read")

    lazy = dataclasses.replace(people, node_names=Names(load, 4))
    assert lazy.nodes([2]).tolist() == [2]


BAD = {
    "one that is misspelt": (["ann", "Carrol"], "nodes: entry 1 is 'Carrol', and there is no such node"),
    "with the nearest": (["carrol"], "expected a node's name. Did you mean 'carol'?"),
    "names among ids": ([0, "ann"], "entry 0 is 0, others are names; expected all ids or all names"),
    "a name that is missing": (np.array(["ann", None], object), "entry 1 is None"),
    "a name alone": ("ann", "expected a list of node ids or names, as ['ann']"),
    "a table of names": ([["ann"], ["bob"]], "shape (2, 1)"),
    "an id out of range": ([4], "node ids are whole numbers from 0 to 3"),
}


@pytest.mark.parametrize("case", BAD, ids=lambda name: name.replace(" ", "-"))
def test_nodes_that_do_not_exist_are_named(people, case):
    nodes, message = BAD[case]
    with pytest.raises(InputError) as caught:
        people.nodes(nodes)
    assert message in str(caught.value)


def test_the_nearest_of_many_names_is_offered():
    """All begin alike, and only some can be compared."""
    many = Graph.from_edges([[0], [1]], 30_000, node_names=[f"paper-{i:05}" for i in range(30_000)])
    with pytest.raises(InputError, match=r"Did you mean 'paper-26\d+' or 'paper-26\d+' or 'paper-26\d+'\?"):
        many.nodes(["paper-2678x"])


def test_a_name_in_a_graph_without_names_is_told(people):
    with pytest.raises(InputError, match=r"nodes: 'ann' is a name, and the nodes of this graph have no names"):
        people.replace(node_names=None).nodes(["ann"])


# ---------------------------------------------------------------------- labels


WORDS = {
    "None": ["red", "blue", None, "red"],
    "NaN": ["red", "blue", float("nan"), "red"],
    "empty": ["red", "blue", "", "red"],
    "strings of numpy": np.array(["red", "blue", "", "red"]),
    "NaN that numpy made a string": np.array(["red", "blue", np.nan, "red"]),
    "objects of numpy": np.array(["red", "blue", None, "red"], object),
}


@pytest.mark.parametrize("labels", WORDS.values(), ids=WORDS)
def test_labels_that_are_strings_are_numbered_in_order(labels):
    made = Graph.from_edges(EDGES, labels=labels)
    replaced = Graph.from_edges(EDGES, labels=[0, 0, 0, 1], label_names=["cat", "dog"]).replace(labels=labels)
    for graph in (made, replaced):
        assert graph.labels.tolist() == [1, 0, -1, 1]
        assert graph.labels.dtype == np.int64
        assert graph.label_names == ["blue", "red"]


@pytest.mark.parametrize("kind", ["object", "string", "category"])
def test_labels_of_pandas_are_read_with_what_it_has_for_missing_ones(kind):
    pandas = pytest.importorskip("pandas")
    graph = Graph.from_edges(EDGES, labels=pandas.Series(["red", "blue", None, "red"], dtype=kind))
    assert (graph.labels.tolist(), graph.label_names) == ([1, 0, -1, 1], ["blue", "red"])


def test_label_names_that_are_given_number_the_labels():
    graph = Graph.from_edges(EDGES, labels=["red", "blue", None, "red"], label_names=["red", "green", "blue"])
    assert graph.labels.tolist() == [0, 2, -1, 0]
    with pytest.raises(InputError, match="labels: node 1 has 'blue', which is not in label_names"):
        Graph.from_edges(EDGES, labels=["red", "blue", None, "red"], label_names=["red", "green"])


def test_labels_that_are_numbers_keep_their_names():
    graph = Graph.from_edges(EDGES, labels=["red", "blue", None, "red"])
    assert graph.replace(labels=[0, 0, 1, -1]).label_names == ["blue", "red"]
    with pytest.raises(InputError, match="expected all strings, None for unknown, or all whole numbers"):
        Graph.from_edges(EDGES, labels=["red", 3, None, "red"])


# ---------------------------------------------------------------------- DGL and PyTorch Geometric


def dgl_graph(**changes):
    """What :meth:`Graph.from_dgl` uses of a ``DGLGraph``, by the same names."""
    known = dict(
        is_homogeneous=True,
        num_nodes=lambda: 4,
        edges=lambda: (torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3])),
        ndata={
            "feat": torch.arange(8.0).reshape(4, 2).requires_grad_(),
            "label": torch.tensor([[0], [1], [0], [1]]),
            "train_mask": torch.tensor([True, False, False, True]),
            "test_mask": torch.tensor([0, 1, 0, 0], dtype=torch.uint8),
        },
        edata={"w": torch.tensor([1.0, 2.0, 3.0])},
    )
    return SimpleNamespace(**known | changes)


def test_dgl_graphs_keep_features_labels_masks_and_weights():
    graph = Graph.from_dgl(dgl_graph(), weight="w", node_names=PEOPLE)
    plain = Graph.from_edges(EDGES, edge_weight=[1, 2, 3])
    assert np.array_equal(graph.to_scipy().toarray(), plain.to_scipy().toarray())
    assert graph.features.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert graph.labels.tolist() == [0, 1, 0, 1]
    assert {part: nodes.tolist() for part, nodes in graph.splits.items()} == {"train": [0, 3], "test": [1]}
    assert Graph.from_dgl(dgl_graph()).edge_weight is None


def test_columns_that_a_dgl_graph_does_not_have_are_named():
    """Without its features a graph would be learned from random vectors, and nobody would know."""
    bare = dgl_graph(ndata={"x": torch.ones(4, 1)})
    with pytest.raises(InputError, match=r"features='feat': not in graph.ndata, which has 'x'"):
        Graph.from_dgl(bare)
    assert Graph.from_dgl(bare, features="x", labels=None).num_features == 1


def test_graphs_of_several_kinds_are_refused_with_what_to_do():
    with pytest.raises(InputError, match=r"expected one kind of each, as dgl.to_homogeneous\("):
        Graph.from_dgl(dgl_graph(is_homogeneous=False))
    data = HeteroData()
    data["person"].x = torch.ones(3, 2)
    data["person", "knows", "person"].edge_index = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(InputError, match=r"a HeteroData; expected one kind of node and edge, as data.to_homogeneous"):
        Graph.from_pyg(data)
    assert Graph.from_pyg(data.to_homogeneous()).num_features == 2
