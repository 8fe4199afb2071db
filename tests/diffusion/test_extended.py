"""New nodes over a graph: against a dense matrix in which they have their edges one way."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nodewise as nw
from nodewise import Graph, InputError, diffuse
from nodewise.diffusion.length import diffusion_lengths
from nodewise.graph.features import Quantized

HOW = dict(omega=1.2, rho=0.3, tau=1.0)


def dense_steps(graph, more):
    """``P`` with rows for the new nodes, whose columns no node of the graph reaches."""
    n, count = graph.num_nodes, more.num_nodes
    full = np.zeros((count, count))
    full[:n, :n] = graph.to_scipy().toarray()
    full[n:] = more.links.toarray()
    return full / full.sum(1, keepdims=True)


def dense_weights(graph, more, nodes, **how):
    """``sum over l <= l_u of U(l) P^l[u]``."""
    steps, lengths = dense_steps(graph, more), diffusion_lengths(more, nodes, how["tau"])
    hops = nw.ghd(how["omega"], how["rho"], int(lengths.max()))
    power, total = np.eye(more.num_nodes), np.zeros((len(nodes), more.num_nodes))
    for hop, weight in enumerate(hops):
        total += np.where(lengths >= hop, weight, 0.0)[:, None] * power[nodes]
        power = power @ steps
    return total


@st.composite
def extensions(draw):
    """A small graph, perhaps weighted, and new nodes with edges to it and to each other."""
    n, new = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    old = np.array(draw(st.lists(ends, min_size=1, max_size=15))).T
    ends = st.tuples(st.integers(n, n + new - 1), st.integers(0, n + new - 1))
    edges = np.array([*draw(st.lists(ends, max_size=12)), (n + new - 1, 0)]).T
    weighted = draw(st.booleans())
    weights = [np.linspace(0.5, 2, pairs.shape[1]) if weighted else None for pairs in (old, edges)]
    features = np.random.default_rng(0).normal(size=(n + new, 3)).astype(np.float32)
    graph = Graph.from_edges(old, n, features[:n], edge_weight=weights[0])
    return graph, graph.extended(edges, features[n:], edge_weight=weights[1])


@given(extensions())
def test_exact_weights_of_new_nodes_are_those_of_one_way_edges(pair):
    graph, more = pair
    nodes = np.arange(more.num_nodes)[::-1]
    expected = dense_weights(graph, more, nodes, **HOW)
    found = diffuse(more, nodes, engine="exact", **HOW)
    assert np.allclose(found.matrix.toarray(), expected, atol=1e-6)
    rows = np.concatenate([graph.features, more.features.second])
    assert np.allclose(found.apply(more.features), expected @ rows, atol=1e-5)


@pytest.fixture(scope="module")
def graph():
    return nw.synthetic.dcsbm(400, avg_degree=8, classes=3, features=12, signal=2.0, seed=1)


@pytest.fixture(scope="module")
def more(graph):
    random = np.random.default_rng(5)
    edges = np.stack([400 + np.repeat(np.arange(6), 5), random.integers(0, 400, 30)])
    edges = np.concatenate([edges, [[400, 401], [401, 402]]], axis=1)
    return graph.extended(edges, random.normal(size=(6, 12)).astype(np.float32))


@pytest.mark.parametrize("engine", ["exact", "walks", "stratified"])
def test_nodes_of_the_graph_have_the_results_that_they_had_bit_for_bit(graph, more, engine):
    nodes = np.array([3, 77, 399])
    before, after = (diffuse(g, nodes, engine=engine, epsilon=0.05, **HOW) for g in (graph, more))
    assert np.array_equal(before.matrix.toarray(), after.matrix.toarray()[:, :400])
    assert np.array_equal(before.apply(graph.features, "l1"), after.apply(more.features, "l1"))


@pytest.mark.parametrize("engine", ["walks", "stratified"])
def test_sampled_weights_of_new_nodes_are_unbiased(graph, more, engine):
    """Mean of 200 draws. A weight is a mean of at least 64 walks per neighbour, each at most 1; by Hoeffding and a
    union bound over 6 x 406 entries this fails by chance less than 4872 * exp(-2 * 200 * 64 * 0.03^2) < 1e-6 times."""
    nodes = more.new_nodes
    mean = np.mean(
        [diffuse(more, nodes, engine=engine, epsilon=0.1, seed=s, **HOW).matrix.toarray() for s in range(200)], 0
    )
    assert np.abs(mean - dense_weights(graph, more, nodes, **HOW)).max() < 0.03


@pytest.mark.parametrize("engine", ["exact", "walks", "stratified"])
@pytest.mark.parametrize("norm", ["none", "l1", "l2"])
@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "sparse"])
def test_rows_are_the_weights_times_the_features(graph, more, engine, norm, kind):
    kinds = {
        "float32": lambda rows: rows,
        "float16": lambda rows: rows.astype(np.float16),
        "int8": Quantized.of,
        "sparse": lambda rows: sp.csr_matrix(np.where(rows > 0, rows, 0)),
    }
    old = graph.replace(features=kinds[kind](graph.features))
    over = old.extended(np.stack(more.links.nonzero()) + np.array([[400], [0]]), more.features.second)
    nodes = np.array([402, 7, 405, 400])
    found = diffuse(over, nodes, engine=engine, epsilon=0.05, **HOW)
    features = over.features[np.arange(406)]
    dense = (features.toarray() if sp.issparse(features) else np.asarray(features)).astype(np.float64)
    if norm != "none":
        dense /= np.maximum(np.linalg.norm(dense, 1 if norm == "l1" else 2, axis=1, keepdims=True), 1e-30)
    assert np.allclose(found.apply(over.features, norm), found.matrix @ dense, atol=2e-4)


def test_exact_rows_in_blocks_of_columns_are_the_same(more):
    rows = diffuse(more, more.new_nodes, engine="exact", **HOW).apply(more.features)
    few = diffuse(more, more.new_nodes, engine="exact", **HOW)
    few._memory = 4 * 4 * few._bank.nodes.size * few._bank.hops * 5  # five columns at a time
    assert np.allclose(few.apply(more.features), rows, atol=1e-6)


# ---------------------------------------------------------------------- the graph and the model


def test_new_nodes_have_names_degrees_and_no_labels(graph):
    named = graph.replace(node_names=[f"n{i}" for i in range(400)])
    edges = [["new", "new", "newer"], ["n3", "n3", "new"]]
    more = named.extended(edges, np.zeros((2, 12)), names=["new", "newer"])
    assert more.nodes(["newer", "n7", "new"]).tolist() == [401, 7, 400]
    assert more.degrees_of(np.array([400, 401, 3])).tolist() == [3, 2, named.degrees_of(np.array([3]))[0]]
    assert more.num_edges == named.num_edges + 2
    assert more.labels[np.array([400, 5, 401])].tolist() == [-1, graph.labels[5], -1]
    assert [more.node_names[i] for i in (0, 399, 400, 401)] == ["n0", "n399", "new", "newer"]


def test_a_model_labels_new_nodes_as_it_would_in_the_graph(graph):
    """Take 100 nodes out, train on the rest, bring them back as new ones: most get the label that they have."""
    random = np.random.default_rng(0)
    order = random.permutation(400)
    rest, out = np.sort(order[:300]), np.sort(order[300:])
    part = graph.subgraph(rest)
    place = np.full(400, -1)
    place[rest], place[out] = np.arange(300), 300 + np.arange(100)
    adjacency = graph.to_scipy().tocoo()
    ends = place[np.stack([adjacency.row, adjacency.col])]
    ends = ends[:, (ends >= 300).any(0) & (ends[0] != ends[1])]
    model = nw.NIGCN(seed=0, epochs=60).fit(part, train=np.arange(150), val=np.arange(150, 300))
    more = part.extended(ends, graph.features[out])
    assert np.array_equal(model.predict(more, np.arange(300)), model.predict(part))
    assert (model.predict(more, more.new_nodes) == graph.labels[out]).mean() > 0.85


def test_a_graph_without_features_labels_new_nodes_by_their_neighbours(graph):
    plain = graph.replace(features=None)
    model = nw.NIGCN(seed=0, epochs=60).fit(plain, train=np.arange(0, 400, 2), val=np.arange(1, 400, 4))
    alike = np.flatnonzero(graph.labels == 1)[:12]
    more = plain.extended([[400] * 12, alike])
    assert model.predict(more, [400]).tolist() == [1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(edges=[[0], [1]]), r"no new node; expected at least one"),
        (dict(edges=[[4, 0], [0, 1]], features=[[0.0]]), r"edge 1 joins nodes 0 and 1.*nodewise append"),
        (dict(edges=[[4], [9]], features=[[0.0]]), r"node 9; the graph has 4 nodes and 1 are new"),
        (dict(edges=[[4], [0]]), r"features: none, and graph has 1; expected a row per new node"),
        (dict(edges=[[4], [0]], features=[[0.0, 1.0]]), r"features: 2 columns, graph has 1"),
        (dict(edges=[[4, 0]], features=[[0.0]]), r"edges: an array of shape \(1, 2\)"),
        (dict(edges=[["a"], [0]], features=[[0.0]]), r"'a' is a name, and the nodes of graph have none"),
        (dict(edges=[[4], [0]], features=[[0.0]], names=["a"]), r"names: the nodes of graph have none"),
        (dict(edges=[[4], [0]], features=[[0.0]], edge_weight=[1.0]), r"edge_weight: given, and"),
    ],
)  # fmt: skip
def test_what_cannot_be_laid_over_a_graph_is_said(given, message):
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]], features=np.zeros((4, 1)))
    given = {name: np.array(value) if name == "features" else value for name, value in given.items()}
    with pytest.raises(InputError, match=message):
        graph.extended(**given)


@pytest.mark.parametrize(
    ("edges", "names", "message"),
    [
        ([["x"], ["bob"]], ["bob"], r"names: 'bob' is a node of graph already"),
        ([["x"], ["bbo"]], ["x"], r"edges: 'bbo' is neither a new node nor one of graph.*Did you mean 'bob'"),
        ([["x"], ["bob"]], ["x", "x"], r"names: new nodes 0 and 1 are both named 'x'"),
        ([["x"], ["bob"]], None, r"names: none, and the nodes of graph have names"),
    ],
)
def test_names_of_new_nodes_are_their_own(edges, names, message):
    graph = Graph.from_edges([[0, 1], [1, 2]], node_names=["ann", "bob", "cy"])
    with pytest.raises(InputError, match=message):
        graph.extended(edges, names=names)
