"""GRAND+ against dense sums of hops, and what random propagation does on average."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nodewise.diffusion.walks import Weights
from nodewise.graph import synthetic
from nodewise.lab.rivals.grandplus import GRANDPlus, disagreement, dropped, hop_weights, summing_to_one
from nodewise.lab.rivals.neighbourhoods import hop_sums
from oracles import dense_weights, graphs

FLOAT = 1e-6  # weights are kept in single precision
FALSE_ALARM = 1e-6


@given(graphs(), st.sampled_from(["ppr", "avg", "single"]), st.integers(0, 5), st.sampled_from([1e-6, 1e-2, 0.2]))
def test_gfpush_is_within_its_bound_of_the_exact_sum(graph, propagation, order, epsilon):
    n = graph.num_nodes
    hops = hop_weights(propagation, order, 0.3)
    assert hops.sum() == pytest.approx(1)
    found = hop_sums(graph, np.arange(n), hops, epsilon, n, 1).weights
    rows = np.zeros((n, n))
    rows[np.repeat(np.arange(n), np.diff(found.indptr)), found.nodes] = found.values
    short = dense_weights(graph, np.arange(n), np.full(n, order), hops) - rows
    assert short.min() > -FLOAT
    bound = hops @ np.arange(1, order + 2) * epsilon * graph.degrees
    assert np.all(short <= bound + FLOAT)


def test_hops_weigh_as_they_are_named():
    assert np.allclose(hop_weights("ppr", 2, 0.5), np.array([4, 2, 1]) / 7)
    assert np.allclose(hop_weights("avg", 3, 0.5), 0.25)
    assert hop_weights("single", 2, 0.5).tolist() == [0, 0, 1]


def test_random_propagation_keeps_the_mean():
    """Hoeffding's bound for 20,000 draws in ``[0, w / (1 - share)]``, with a union over the entries: a false alarm is
    seen less than once in 10^6 runs."""
    draws, share = 20_000, 0.4
    row = np.array([0.5, 0.3, 0.15, 0.05], np.float32)
    many = Weights(np.arange(0, 4 * draws + 1, 4), np.tile(np.arange(4), draws), np.tile(row, draws))
    values = dropped(many, share, np.random.default_rng(0)).values.reshape(draws, 4)
    bound = row / (1 - share) * math.sqrt(math.log(2 * row.size / FALSE_ALARM) / (2 * draws))
    assert np.all(np.abs(values.mean(0) - row) <= bound)
    assert set(np.round(np.unique(values[:, 0]), 5)) == {0.0, np.float32(round(0.5 / 0.6, 5))}
    correlation = np.corrcoef(values[:, 0], values[:, 1])[0, 1]
    assert abs(correlation) * math.sqrt(draws) < 4.9  # neighbours are dropped one by one: once in 10^6 runs


def test_kept_weights_sum_to_one():
    graph = synthetic.dcsbm(200, avg_degree=8, classes=2, seed=0)
    weights = summing_to_one(hop_sums(graph, np.arange(200), np.full(4, 0.25), 1e-5, 5, 1).weights)
    assert np.allclose(np.add.reduceat(weights.values, weights.indptr[:-1]), 1, atol=1e-5)


def test_predictions_are_pulled_to_their_sharpened_mean_where_it_is_sure():
    chances = torch.tensor([[[0.9, 0.1, 0.0], [0.4, 0.3, 0.3]], [[0.7, 0.1, 0.2], [0.3, 0.4, 0.3]]])
    outs = [torch.log(c.clamp_min(1e-12)) for c in chances]
    mean = np.array([0.8, 0.1, 0.1])  # the second node's mean reaches 2 / 3 in no class
    sharp = mean**2 / (mean**2).sum()
    expected = np.mean([((c[0].numpy() - sharp) ** 2).sum() for c in chances])
    assert float(disagreement(outs, 0.5)) == pytest.approx(expected, rel=1e-5)
    assert float(disagreement([o[1:] for o in outs], 0.5)) == 0


def test_agreement_counts_more_with_every_step_of_the_warm_up():
    """With a network that stays as it is, nothing dropped and all nodes in every step, only the weight of the agreement
    grows: 0, 1/2, 1, 1."""
    graph = synthetic.dcsbm(200, avg_degree=8, classes=3, features=6, signal=3.0, seed=2)
    nodes = np.arange(30)
    everything = dict(drop_node=0.0, dropout=0.0, unlabelled_batch=200)
    model = GRANDPlus(epochs=30, warmup=2, temperature=0.5, **everything).fit(graph, nodes)
    view, labels, rng = model._view(graph, nodes), torch.from_numpy(graph.labels[nodes]), np.random.default_rng(0)
    network = model._make_network(6, 3)
    network.load_state_dict(model.networks_.state_dict())
    with torch.no_grad():
        losses = [float(next(model._losses(network, view, nodes, labels, rng))) for _ in range(4)]
        known = float(torch.nn.functional.cross_entropy(model._out(network, view, nodes), labels))
    assert losses[0] == pytest.approx(known, rel=1e-5)
    agreement = losses[2] - known
    assert agreement > 1e-4
    assert losses[1] - known == pytest.approx(agreement / 2, rel=1e-2)
    assert losses[3] == pytest.approx(losses[2], rel=1e-5)


def test_training_draws_unlabelled_nodes_and_answers_without_dropping():
    graph = synthetic.dcsbm(200, avg_degree=8, classes=3, features=6, seed=2)
    model = GRANDPlus(epochs=3, unlabelled=50).fit(graph, range(30))
    view = model._view(graph, np.arange(5))
    assert view.pool.size == 50
    assert set(view.pool) <= set(view.found.nodes)
    there, back = model.predict_proba(graph, [7, 9]), model.predict_proba(graph, [9, 7])[::-1]
    assert np.allclose(there, back, rtol=0, atol=1e-6)  # a product may round by where in a matrix a row lies
