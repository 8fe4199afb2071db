"""GraphSAINT: the sampler, and that its normalisation is unbiased."""

import itertools
import math

import numpy as np
import pytest

from nodewise import Graph
from nodewise.graph import synthetic
from nodewise.lab.rivals.graphsaint import AHEAD, GraphSAINT, Sampler, View, estimated

FALSE_ALARM = 1e-6


def tiny():
    return Graph.from_edges(np.array([[0, 1, 2, 2, 3], [1, 2, 0, 3, 4]]), features=np.eye(5), labels=np.arange(5) % 2)


def test_subgraphs_are_what_their_nodes_induce():
    graph = synthetic.dcsbm(80, avg_degree=6, classes=2, seed=3)
    sampler = Sampler(graph, 5, 3)
    adjacency = graph.to_scipy().toarray()
    for seed in range(20):
        block = sampler.draw(seed)
        nodes = block.nodes
        assert np.unique(nodes).size == nodes.size <= 20
        rows = np.zeros((nodes.size, nodes.size))
        at = np.repeat(np.arange(nodes.size), np.diff(block.indptr))
        rows[at, block.indices] = 1
        assert np.array_equal(rows, adjacency[np.ix_(nodes, nodes)])
        assert np.array_equal(graph.indices[block.entries], nodes[block.indices])
        rows_of = np.searchsorted(graph.indptr, block.entries, side="right") - 1
        assert np.array_equal(rows_of, nodes[at])


def test_subgraphs_are_drawn_as_often_as_walks_make_them():
    """Each set of nodes with its exact chance, over all roots and steps of one walk of two steps. A chi-square with
    this many bins has, by its Chernoff bound, a tail under exp(-(x - k - k log(x / k)) / 2)."""
    graph = tiny()
    transition = graph.to_scipy().toarray() / graph.degrees[:, None]
    exact: dict[frozenset[int], float] = {}
    for root, one, two in itertools.product(range(5), repeat=3):
        chance = transition[root, one] * transition[one, two] / 5
        visited = frozenset((root, one, two))
        exact[visited] = exact.get(visited, 0) + chance
    draws = 20_000
    sampler = Sampler(graph, 1, 2)
    seen = [frozenset(sampler.draw(seed).nodes.tolist()) for seed in range(draws)]
    possible = {nodes: draws * chance for nodes, chance in exact.items() if chance > 0}
    assert set(seen) == set(possible)
    statistic = sum((seen.count(nodes) - mean) ** 2 / mean for nodes, mean in possible.items())
    bins = len(possible) - 1
    limit = bins
    while math.exp(-(limit - bins - bins * math.log(limit / bins)) / 2) > FALSE_ALARM:
        limit += 1
    assert statistic < limit


def test_over_the_subgraphs_counted_the_normalisation_is_exact():
    """The mean over these subgraphs of what a node in them gets is ``D^-1 A X``, and of the loss that of all nodes."""
    graph = tiny()
    view = View(graph, GraphSAINT(roots=2, length=1, coverage=40, threads=2))
    exact = graph.to_scipy().toarray() / graph.degrees[:, None]
    subgraphs = -(-40 * 5 // view.sampler.most)
    got, visits, loss = np.zeros((5, 5)), np.zeros(5), 0.0
    each = np.array([1.0, 10.0, 100.0, 1e3, 1e4])  # one loss per node
    for seed in range(subgraphs):
        nodes, matrix = view.drawn(seed)
        got[nodes[:, None], nodes] += matrix.csr.toarray()
        visits[nodes] += 1
        loss += (view.scales.loss[nodes] * each[nodes]).sum() / subgraphs
    assert np.allclose(got / visits[:, None], exact, atol=1e-5)
    assert loss == pytest.approx(each.sum(), rel=1e-5)


def test_normalisation_estimated_beforehand_is_unbiased_for_new_subgraphs():
    """Means over 10,000 new subgraphs with scales from 100,000 others: both within six standard errors (twice in 10^9
    for one entry, so under 10^-6 for all 18)."""
    graph = tiny()
    sampler = Sampler(graph, 2, 1)
    scales = estimated(sampler, 0, 80_000, 2)
    draws, counted = 10_000, 100_000
    weight = np.zeros((draws, graph.num_entries))
    inside = np.zeros((draws, 5))
    for draw in range(draws):
        block = sampler.draw(AHEAD + draw)
        weight[draw, block.entries] = scales.entries[block.entries]
        inside[draw, block.nodes] = 1
    rows = np.repeat(np.arange(5), np.diff(graph.indptr))
    loss = inside * scales.loss
    spread = math.sqrt(1 / draws + 1 / counted)
    assert np.all(np.abs(loss.mean(0) - 1) < 6 * spread * loss.std(0))
    given = weight.sum(0) / inside.sum(0)[rows]  # of the subgraphs with the node that gets it
    share = inside.mean(0)[rows]
    errors = np.sqrt(((weight - inside[:, rows] * given) ** 2).mean(0)) / share
    assert np.all(np.abs(given - 1) <= 6 * spread * errors + 1e-6)
    assert 6 * spread * errors.max() < 0.15


def test_counts_do_not_depend_on_threads():
    sampler = Sampler(synthetic.dcsbm(200, avg_degree=6, classes=2, seed=3), 10, 2)
    one, three = sampler.count(7, 50, 1), sampler.count(7, 50, 3)
    assert all(np.array_equal(a, b) for a, b in zip(one, three, strict=True))


def test_only_training_nodes_count_and_a_subgraph_without_them_is_left_out():
    graph = synthetic.dcsbm(300, avg_degree=6, classes=2, features=4, seed=3)
    model = GraphSAINT(roots=2, length=1, epochs=2).fit(graph, range(10))
    view = model._view(graph, np.arange(10))
    labels = model._classes.encoded(graph.labels[:10])
    losses = list(model._losses(model.networks_, view, np.arange(10), labels, np.random.default_rng(0)))
    assert 0 < len(losses) < 75  # of 300 nodes in subgraphs of 4
