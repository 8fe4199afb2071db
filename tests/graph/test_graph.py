"""Graph: what it makes of its input, and what it says to input that it cannot use."""

import dataclasses
from types import SimpleNamespace

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import nodewise as nw
from nodewise import Graph, InputError
from nodewise.graph import edge_keys as keys
from nodewise.store import Names
from oracles import graphs


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=80))
    )
)
def test_the_adjacency_is_symmetric_looped_merged_and_sorted(case):
    n, edges = case
    g = Graph.from_edges(np.array(edges, np.int64).reshape(-1, 2).T, n)
    expected = np.eye(n, dtype=bool)
    for u, v in edges:
        expected[u, v] = expected[v, u] = True
    assert np.array_equal(g.to_scipy().toarray() > 0, expected)
    assert all(np.all(np.diff(g.indices[g.indptr[v] : g.indptr[v + 1]].astype(int)) > 0) for v in range(n))
    assert g.num_edges == (expected.sum() - n) // 2


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_buckets_and_threads_build_the_same_adjacency(monkeypatch, threads):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 1000, (2, 5000)).astype(np.int32)
    whole = Graph.from_edges(edges, 1000, threads=1)
    monkeypatch.setattr(keys, "KEYS_PER_BUCKET", 64)
    parts = Graph.from_edges(edges, 1000, threads=threads)
    assert np.array_equal(whole.indptr, parts.indptr)
    assert np.array_equal(whole.indices, parts.indices)


def test_weights_of_repeats_add_up_and_two_directions_are_one_edge():
    once = Graph.from_edges(np.array([[0], [1]]), edge_weight=np.array([3.0]))
    both_ways = Graph.from_edges(np.array([[0, 1], [1, 0]]), edge_weight=np.array([3.0, 3.0]))
    repeated = Graph.from_edges(np.array([[0, 0], [1, 1]]), edge_weight=np.array([1.0, 2.0]))
    expected = np.array([[1, 3], [3, 1]])
    for g in (once, both_ways, repeated):
        assert np.array_equal(g.to_scipy().toarray(), expected)


def test_a_weighted_loop_keeps_its_weight_and_others_get_one():
    g = Graph.from_edges(np.array([[0, 0], [0, 1]]), edge_weight=np.array([7.0, 2.0]))
    assert np.array_equal(g.to_scipy().toarray(), [[7, 2], [2, 1]])


def test_degrees_count_the_loop(star, weighted_triangle):
    assert star.degrees.tolist() == [5, 2, 2, 2, 2]
    assert star.num_entries == star.degrees.sum() == 13
    assert weighted_triangle.degrees.tolist() == [7, 4, 8]


@given(graphs(), st.randoms(use_true_random=False))
def test_a_subgraph_is_the_block_of_the_matrix(g, random):
    nodes = random.sample(range(g.num_nodes), random.randint(1, g.num_nodes))
    sub = g.subgraph(np.array(nodes))
    assert np.array_equal(sub.to_scipy().toarray(), g.to_scipy().toarray()[np.ix_(nodes, nodes)])
    assert all(
        np.all(np.diff(sub.indices[sub.indptr[v] : sub.indptr[v + 1]].astype(int)) > 0) for v in range(len(nodes))
    )


def test_scipy_networkx_and_pyg_describe_the_same_graph():
    edges = np.array([[0, 1, 2], [1, 2, 3]])
    x, y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
    plain = Graph.from_edges(edges, 4, x, y)
    matrix = sp.coo_matrix((np.ones(3), edges), shape=(4, 4))
    data = SimpleNamespace(
        edge_index=torch.tensor(edges), x=torch.tensor(x), y=torch.tensor(y), num_nodes=4,
        train_mask=torch.tensor([True, False, False, True]),
    )  # fmt: skip
    others = [
        Graph.from_scipy(matrix, x, y),
        Graph.from_networkx(networkx.Graph(edges.T.tolist()), x, y),
        Graph.from_pyg(data),
    ]
    for other in others:
        assert np.array_equal(other.indices, plain.indices)
        assert np.array_equal(other.indptr, plain.indptr)
        assert np.array_equal(other.features, x)
        assert np.array_equal(other.labels, y)
    assert others[2].splits["train"].tolist() == [0, 3]


@pytest.mark.parametrize("weights", [None, [2.0, 0.5, 1.0, 3.0]], ids=["plain", "weighted, with a loop"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_comes_back_from_pyg_as_it_went(weights, sparse):
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    splits = {"train": np.array([0, 2]), "val": np.array([1]), "test": np.array([3])}
    edges = np.array([[0, 1, 2, 3], [1, 2, 3, 3]])
    features = sp.csr_matrix(x) if sparse else x
    g = Graph.from_edges(edges, 4, features, [0, 1, 0, -1], edge_weight=weights, splits=splits)
    data = g.to_pyg()
    back = Graph.from_pyg(data)
    assert np.array_equal(back.to_scipy().toarray(), g.to_scipy().toarray())
    assert np.array_equal(back.features, x)
    assert np.array_equal(back.labels, g.labels)
    assert {part: nodes.tolist() for part, nodes in back.splits.items()} == {p: n.tolist() for p, n in splits.items()}
    assert data.validate()


def test_networkx_names_and_weights_are_kept():
    g = networkx.Graph()
    g.add_edge("anna", "bob", weight=4.0)
    ours = Graph.from_networkx(g)
    assert list(ours.node_names) == ["anna", "bob"]
    assert ours.to_scipy().toarray().tolist() == [[1, 4], [4, 1]]


def test_networkx_nodes_of_one_name_are_refused_unless_others_are_given():
    g = networkx.Graph([(1, "1")])
    with pytest.raises(InputError, match="nodes 0 and 1 are both named '1'"):
        Graph.from_networkx(g)
    assert list(Graph.from_networkx(g, node_names=["number", "text"]).node_names) == ["number", "text"]


def test_names_may_be_numpy_strings_and_those_of_a_store_are_not_read_to_be_checked():
    graph = Graph.from_edges([[0], [1]], node_names=np.array(["a", "b"]))
    assert list(graph.node_names) == ["a", "b"]

    def load():
        raise AssertionError("names were read")

    lazy = dataclasses.replace(graph, node_names=Names(load, 2))
    assert len(lazy.replace(labels=[0, 1]).node_names) == 2


def test_arrays_cannot_be_written_to(star):
    with pytest.raises(ValueError, match="read-only"):
        star.indices[0] = 3


BAD = {
    "an edge to a node that does not exist": (dict(edge_index=[[0], [5]], num_nodes=3), "edge 0 names node 5"),
    "a negative id": (dict(edge_index=[[0], [-1]], num_nodes=3), "edge 0 names node -1"),
    "a fractional id": (dict(edge_index=[[0.0], [1.5]], num_nodes=3), "names node 1.5"),
    "ids that are words": (dict(edge_index=[["a"], ["b"]], num_nodes=3), "whole numbers"),
    "edges on their side": (dict(edge_index=np.zeros((5, 2), int), num_nodes=3), "transpose"),
    "no nodes": (dict(edge_index=np.zeros((2, 0), int), num_nodes=0), "empty"),
    "no nodes and nothing to count them by": (dict(edge_index=np.zeros((2, 0), int)), "empty"),
    "NaN in the features": (dict(features=np.array([[0.0], [np.nan], [1.0]])), "node 1 has nan in column 0"),
    "infinite features": (dict(features=np.array([[0.0, 1], [2, 3], [1.0, np.inf]])), "node 2 has inf in column 1"),
    "features too large to sum": (dict(features=np.array([[0.0, 1], [2, -1e38], [1, 1]])), "node 1 has -9.999999"),
    "infinite halves": (dict(features=np.array([[0], [np.inf], [1]], np.float16)), "node 1 has inf in column 0"),
    "a weight too large to sum": (dict(edge_weight=[1e38]), "weight 1e+38; expected a float32 above 0 and up to 1e+18"),
    "a loop too light to divide by": (dict(edge_index=[[1], [1]], edge_weight=[1e-44]), "at least 1e-16 if the edge"),
    "NaN in sparse features": (dict(features=sp.csr_matrix([[0.0], [np.nan], [0]])), "node 1 has nan in column"),
    "too few feature rows": (dict(features=np.zeros((2, 4))), "2 rows for 3 nodes"),
    "features in one dimension": (dict(features=np.zeros(3)), "num_features"),
    "features that are words": (dict(features=np.array([["a"]] * 3)), "expected numbers"),
    "too many labels": (dict(labels=np.zeros(4, int)), "4 for 3 nodes"),
    "fractional labels": (dict(labels=np.array([0.5, 1, 2])), "whole numbers"),
    "a label below -1": (dict(labels=np.array([0, -2, 1])), "node 1 has -2"),
    "a 2 in a label matrix": (dict(labels=np.array([[0, 1], [2, 0], [0, 0]])), "node 1 has 2"),
    "a negative edge weight": (dict(edge_weight=[-1.0]), "weight -1.0"),
    "an edge weight that is NaN": (dict(edge_weight=[np.nan]), "weight nan"),
    "too many edge weights": (dict(edge_weight=[1.0, 2.0]), "one weight for each of 1 edges"),
    "a weight that float32 cannot hold": (dict(edge_weight=[1e39]), "weight 1e+39"),
    "a weight that float32 rounds to 0": (dict(edge_weight=[1e-50]), "weight 1e-50"),
    "a number of nodes that is a word": (dict(num_nodes="3"), "num_nodes='3'"),
    "an infinite id": (dict(edge_index=[[0.0], [np.inf]], num_nodes=3), "names node inf"),
    "ragged labels": (dict(labels=[[0], [1, 2], [0]]), "cannot be made an array"),
    "too few label names": (dict(labels=np.array([0, 1, 2]), label_names=["a"]), "label_names: 1;"),
    "label names that are numbers": (dict(labels=np.array([0, 1, 0]), label_names=[7, 8]), "7 is not a string"),
    "two nodes of one name": (dict(node_names=["a", "b", "a"]), "nodes 0 and 2 are both named 'a'"),
    "names that are numbers": (dict(node_names=["1", 1, 2]), "node_names: 1 is not a string"),
    "a name that is missing": (dict(node_names=["a", None, "b"]), "node_names: None is not a string"),
    "too few names": (dict(node_names=["a"]), "1 names for 3 nodes"),
    "too few feature names": (dict(features=np.ones((3, 2)), feature_names=["a"]), "1 names for 2 features"),
    "feature names without features": (dict(feature_names=["a"]), "1 names for 0 features"),
    "feature names twice": (
        dict(features=np.ones((3, 3)), feature_names=["b", "a", "b"]), "columns 0 and 2 are both named 'b'"
    ),
    "feature names that are numbers": (dict(features=np.ones((3, 1)), feature_names=[7]), "7 is not a string"),
    "a split outside the graph": (dict(splits={"train": np.array([9])}), "splits['train']: entry 0 is 9"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=lambda name: name.replace(" ", "-"))
def test_bad_input_is_named(case):
    arguments, message = BAD[case]
    arguments = {"edge_index": [[0], [1]], **({} if "edge_index" in arguments else {"num_nodes": 3}), **arguments}
    with pytest.raises(InputError) as caught:
        Graph.from_edges(**arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros((2, 2))}, "rows"),
        ({"labels": np.zeros(2, int)}, "labels"),
        ({"node_names": ["x"]}, "node_names"),
        ({"node_names": ["x", "y", "z", "y", "x"]}, "nodes 1 and 3 are both named 'y'"),
        ({"splits": {"train": [99]}}, "splits"),
    ],
)
def test_replace_checks_what_is_new(star, change, message):
    with pytest.raises(InputError, match=message):
        star.replace(**change)


def test_names_of_features_stay_with_their_features():
    graph = Graph.from_edges([[0, 1], [1, 2]], features=np.eye(3), labels=[0, 1, 0], feature_names=["a", "b", "c"])
    assert graph.replace(labels=None).feature_names == graph.subgraph([2, 0]).feature_names == ["a", "b", "c"]
    assert graph.replace(features=np.ones((3, 5))).feature_names is None
    assert graph.replace(features=np.ones((3, 1)), feature_names=["d"]).feature_names == ["d"]
    with pytest.raises(InputError, match="2 names for 3 features"):
        graph.replace(feature_names=["a", "b"])


def test_labels_that_came_as_floats_are_labels():
    """PyTorch Geometric keeps several labels per node as floats, and unknown ones as NaN."""
    edges = np.array([[0, 1], [1, 2]])
    one = Graph.from_edges(edges, labels=np.array([2.0, np.nan, 0.0]))
    several = Graph.from_edges(edges, labels=np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))
    assert one.labels.tolist() == [2, -1, 0]
    assert several.labels.tolist() == [[1, 0], [0, 0], [1, 1]]


def test_sparse_features_are_not_changed_in_place():
    """Two entries for one place add up in the graph, and stay two in the caller's matrix."""
    parts = (np.ones(2, np.float32), np.array([0, 0]), np.array([0, 2, 2]))
    matrix = sp.csr_matrix(parts, shape=(2, 1))
    matrix.data.flags.writeable = False
    graph = Graph.from_edges(np.array([[0], [1]]), features=matrix)
    assert graph.features.toarray().tolist() == [[2], [0]]
    assert matrix.nnz == 2


def test_importing_the_package_loads_neither_torch_nor_numba():
    import subprocess
    import sys

    code = "import nodewise, sys; print('torch' in sys.modules, 'numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]


def test_every_public_name_is_there():
    assert all(getattr(nw, name) is not None for name in nw.__all__)


def test_replacing_features_keeps_what_is_known_of_the_adjacency(weighted_triangle):
    degrees, running = weighted_triangle.degrees, weighted_triangle.cumulative_weights
    changed = weighted_triangle.replace(features=np.eye(3))
    assert changed.degrees is degrees
    assert changed.cumulative_weights is running
    doubled = weighted_triangle.replace(edge_weight=2 * weighted_triangle.edge_weight)
    assert np.array_equal(doubled.degrees, 2 * degrees)
