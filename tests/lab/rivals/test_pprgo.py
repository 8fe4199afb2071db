"""PPRGo against dense PageRank."""

import numpy as np
import pytest
from dense_oracles import pagerank as exact_pagerank
from dense_oracles import propagation
from hypothesis import given
from hypothesis import strategies as st

from nodewise import Graph
from nodewise.graph import synthetic
from nodewise.lab.rivals.neighbourhoods import Neighbourhoods, pagerank
from nodewise.lab.rivals.pprgo import PPRGo, symmetric
from oracles import graphs

FLOAT = 1e-6  # weights are kept in single precision


def dense(found, count):
    rows = np.zeros((found.nodes.size, count))
    at = np.repeat(np.arange(found.nodes.size), np.diff(found.weights.indptr))
    rows[at, found.weights.nodes] = found.weights.values
    return rows


@given(graphs(), st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from([1e-4, 1e-2, 0.3]))
def test_push_falls_short_of_pagerank_by_less_than_epsilon_times_the_degree(graph, alpha, epsilon):
    found = pagerank(graph, np.arange(graph.num_nodes), alpha, epsilon, graph.num_nodes, 1)
    short = exact_pagerank(propagation(graph, 1, 0), alpha) - dense(found, graph.num_nodes)
    assert short.min() > -FLOAT
    assert np.all(short < epsilon * graph.degrees + FLOAT)


def test_the_table_grows_with_the_push_and_stays_right():
    graph = synthetic.dcsbm(6000, avg_degree=12, classes=2, seed=4)  # beyond the first table, which has 1,024 slots
    nodes = np.array([5999, 0, 17, 17])
    found = pagerank(graph, nodes, 0.1, 1e-6, graph.num_nodes, 1)
    assert found.nodes.tolist() == [0, 17, 5999]
    transition = graph.to_scipy().multiply(1 / graph.degrees[:, None]).tocsr()
    for node, got in zip(found.nodes, dense(found, graph.num_nodes), strict=True):
        row, total = np.zeros(graph.num_nodes), np.zeros(graph.num_nodes)
        row[node] = 1.0
        for hop in range(200):
            total += 0.1 * 0.9**hop * row
            row = row @ transition
        assert np.count_nonzero(got) > 1024
        assert np.all(total - got < 1e-6 * graph.degrees + FLOAT)
        assert np.all(total - got > -FLOAT)


def test_the_heaviest_are_kept_on_any_number_of_threads():
    graph = synthetic.dcsbm(400, avg_degree=8, classes=2, seed=1)
    nodes = np.arange(0, 400, 3)
    whole = dense(pagerank(graph, nodes, 0.2, 1e-4, 400, 1), 400)
    found = pagerank(graph, nodes, 0.2, 1e-4, 7, 1)
    for row, kept in zip(whole, dense(found, 400), strict=True):
        assert np.count_nonzero(kept) == 7
        assert np.array_equal(kept[kept > 0], row[kept > 0])
        assert row[kept == 0].max() <= kept[kept > 0].min()
    again = pagerank(graph, nodes, 0.2, 1e-4, 7, 3)
    assert all(np.array_equal(a, b) for a, b in zip(found.weights, again.weights, strict=True))


def test_weights_become_those_of_the_symmetric_walk(lollipop):
    found = pagerank(lollipop, np.arange(8), 0.3, 1e-9, 8, 1)
    expected = exact_pagerank(propagation(lollipop), 0.3)
    assert np.allclose(dense(Neighbourhoods(found.nodes, symmetric(lollipop, found)), 8), expected, atol=1e-5)


def test_scores_are_weighted_sums_of_the_networks_answers_for_single_nodes():
    graph = synthetic.dcsbm(200, avg_degree=8, classes=3, features=6, seed=2)
    model = PPRGo(epochs=3, top_k=9).fit(graph, range(30))
    asked = np.array([150, 3, 150, 77])
    first, last = (p.detach().numpy() for p in model.networks_.parameters())
    alone = np.maximum(graph.features @ first, 0) @ last.T
    found = pagerank(graph, asked, model.alpha, model.epsilon, 9, 1)
    weights = dense(Neighbourhoods(found.nodes, symmetric(graph, found)), 200)
    scores = (weights @ alone)[np.searchsorted(found.nodes, asked)]
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert np.allclose(model.predict_proba(graph, asked), chances, atol=1e-5)


def test_a_node_that_no_push_pays_for_still_finds_its_neighbours():
    star = Graph.from_edges(np.array([[0] * 50, range(1, 51)]))
    found = pagerank(star, np.array([0]), 0.5, 0.5, 60, 1)  # epsilon d_0 is far above the weight of 1
    assert found.weights.nodes.tolist() == [0]
    assert found.weights.values[0] == pytest.approx(0.5)
