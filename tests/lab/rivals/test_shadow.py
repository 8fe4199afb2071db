"""ShaDow-GCN: scopes, subgraphs and read-outs against brute force."""

import itertools
import math

import numpy as np
import pytest
from dense_oracles import pagerank, propagation
from hypothesis import given
from hypothesis import strategies as st

from nodewise import Graph
from nodewise.graph import synthetic
from nodewise.lab.rivals.neighbourhoods import induced
from nodewise.lab.rivals.shadow import ShaDowGCN, near, symmetric_values
from oracles import graphs


@given(graphs(), st.integers(0, 99))
def test_induced_subgraphs_are_those_of_the_dense_adjacency(graph, seed):
    rng = np.random.default_rng(seed)
    lists = [rng.permutation(graph.num_nodes)[: rng.integers(1, graph.num_nodes + 1)] for _ in range(4)]
    starts = np.concatenate(([0], np.cumsum([one.size for one in lists])))
    blocks = induced(graph, starts, np.concatenate(lists))
    adjacency = graph.to_scipy().toarray()
    chosen = np.array([2, 0, 2])
    for some, wanted in ((blocks, range(4)), (blocks.some(chosen), chosen)):
        size = some.nodes.size
        got, expected = np.zeros((2, size, size))
        rows = np.repeat(np.arange(size), np.diff(some.indptr))
        got[rows, some.indices] = symmetric_values(graph, some)
        for s, which in enumerate(wanted):
            part = slice(some.starts[s], some.starts[s + 1])
            inside = adjacency[np.ix_(lists[which], lists[which])]
            scale = 1 / np.sqrt(inside.sum(1))
            expected[part, part] = inside * np.outer(scale, scale)
        assert np.allclose(got, expected, atol=1e-6)


def scopes(model, graph, targets):
    starts, nodes = model._scopes(graph, targets)
    return [nodes[a:b] for a, b in itertools.pairwise(starts)]


def test_a_pagerank_scope_holds_the_heaviest_nodes():
    graph = synthetic.dcsbm(300, avg_degree=8, classes=2, features=4, seed=5)
    model = ShaDowGCN(budget=12, alpha=0.2, epsilon=1e-6)
    exact = pagerank(propagation(graph, 1, 0), 0.2)
    for target, nodes in enumerate(scopes(model, graph, np.arange(300))):
        assert nodes[0] == target
        assert np.unique(nodes).size == nodes.size == min(12, np.count_nonzero(exact[target] > 1e-9))
        outside = np.setdiff1d(np.arange(300), nodes)
        # A push falls short of each weight by less than epsilon d_v: whatever is heavier by more must be in.
        least = exact[target, nodes].min()
        assert np.all(exact[target, outside] - 1e-6 * graph.degrees[outside] <= least + 1e-6)


def test_a_node_is_in_its_scope_even_where_others_are_heavier():
    star = Graph.from_edges(np.array([[0] * 30, range(1, 31)]))
    assert scopes(ShaDowGCN(budget=1, alpha=0.01), star, np.array([4]))[0].tolist() == [4]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_scope_without_a_bound_is_all_within_its_hops(hops):
    graph = synthetic.dcsbm(150, avg_degree=3, classes=2, seed=6)
    reach = np.linalg.matrix_power(graph.to_scipy().toarray(), hops) > 0
    starts, nodes = near(graph, np.arange(150), hops, 150, 0, 2)
    for target in range(150):
        got = nodes[starts[target] : starts[target + 1]]
        assert got[0] == target
        assert np.array_equal(np.sort(got), np.flatnonzero(reach[target]))


def test_a_bounded_scope_takes_random_edges_evenly():
    """A hub with 21 edges, its loop among them, takes 5 of them: each leaf comes in 5/21 of 20,000 draws. Within 6
    standard errors, twice in 10^9 for one leaf; and each draw has 5 different edges."""
    draws, copies = 20_000, np.arange(20_000)[:, None] * 21
    edges = np.stack([np.broadcast_to(copies, (draws, 20)).ravel(), (copies + np.arange(1, 21)).ravel()])
    graph = Graph.from_edges(edges)
    starts, nodes = near(graph, copies[:, 0], 1, 5, 3, 1)
    leaves = np.bincount(nodes % 21, minlength=21)[1:] / draws
    share = 5 / 21
    assert np.all(np.abs(leaves - share) < 6 * math.sqrt(share * (1 - share) / draws))
    assert set(np.diff(starts)) == {5, 6}  # the loop, where it is taken, finds nothing new
    again = near(graph, copies[:, 0], 1, 5, 3, 3)
    assert all(np.array_equal(a, b) for a, b in zip((starts, nodes), again, strict=True))


@pytest.mark.parametrize("readout", ["target", "mean", "max"])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_an_answer_is_that_of_a_dense_gcn_on_the_nodes_own_subgraph(readout, layers):
    graph = synthetic.dcsbm(120, avg_degree=6, classes=3, features=5, seed=8)
    model = ShaDowGCN(layers=layers, hidden=7, readout=readout, budget=10, epochs=2).fit(graph, range(20))
    asked = np.array([110, 4, 110, 63])
    network = model.networks_
    own = {name: value.numpy() for name, value in network.state_dict().items()}
    adjacency = graph.to_scipy().toarray()
    for node, got in zip(asked, model.predict_proba(graph, asked), strict=True):
        nodes = scopes(model, graph, np.array([node]))[0]
        inside = adjacency[np.ix_(nodes, nodes)]
        inside /= np.sqrt(np.outer(inside.sum(1), inside.sum(1)))
        rows = np.maximum(inside @ (graph.features[nodes] @ own["first.weight"] + own["first.bias"]), 0)
        for layer in range(layers - 1):
            mapped = rows @ own[f"rest.{layer}.weight"].T + own[f"rest.{layer}.bias"]
            rows = np.maximum(inside @ mapped, 0)
        pooled = {"target": rows[:0, 0], "mean": rows.mean(0), "max": rows.max(0)}[readout]
        scores = own["answer.weight"] @ np.concatenate((rows[0], pooled)) + own["answer.bias"]
        assert np.allclose(got, np.exp(scores) / np.exp(scores).sum(), atol=1e-4)
