"""omega, rho, tau and epsilon that are found in fit."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from nodewise import NIGCN, Graph, InputError, diffuse, diffusion_lengths, ghd, synthetic
from nodewise.diffusion.ghd import check_ghd
from nodewise.diffusion.length import tau_of_length
from nodewise.diffusion.plan import Plan
from nodewise.errors import NodewiseWarning
from nodewise.features import Quantized
from nodewise.learn import hop_weights
from nodewise.learn.head import Head
from nodewise.learn.hop_weights import HopWeights, Step, best_step, learn_hop_weights, mixed, projected, worthwhile_hops
from nodewise.learn.self_tuning import REACHES, Found

TRAIN, VAL, TEST = np.arange(80), np.arange(80, 280), np.arange(280, 1000)
QUICK = {"epochs": 60, "patience": 30, "epsilon": 0.05}


@pytest.fixture(scope="module")
def graph():
    """Neighbours say more than a node's own features."""
    return synthetic.dcsbm(1000, avg_degree=10, classes=4, features=24, homophily=0.8, signal=0.5, seed=2)


def bank_of(graph, nodes, hops=8):
    rows = diffuse(graph, nodes, length=hops, per_hop=True, engine="exact").apply(graph.features)
    return torch.from_numpy(rows), torch.from_numpy(graph.labels[nodes].astype(np.int64))


def shares_at(step, hops=8):
    shares = ghd(step.omega, step.rho, hops)
    return shares / shares.sum()


def small_head(width):
    return Head(width, 4, 32, 2, 0.5, True)


# ---------------------------------------------------------------------- omega and rho


def test_the_validation_loss_reaches_out_and_the_training_loss_falls_to_the_nodes_own_features(graph):
    train, val = bank_of(graph, TRAIN), bank_of(graph, VAL)
    start = shares_at(Step(0.0, *hop_weights.START))
    guided = shares_at(learn_hop_weights(train, val, small_head, "none", 0)[-1])
    unguided = shares_at(learn_hop_weights(train, train, small_head, "none", 0)[-1])
    assert guided[0] < start[0] < 0.3
    assert unguided[0] > 0.7


def test_on_edges_that_say_nothing_the_node_itself_counts_most(graph):
    rng = np.random.default_rng(0)
    clear = synthetic.dcsbm(1000, avg_degree=10, classes=4, features=24, homophily=0.8, signal=2.0, seed=2)
    noise = Graph.from_edges(rng.integers(0, 1000, (2, 5000)), 1000, clear.features, clear.labels)
    at = best_step(learn_hop_weights(bank_of(noise, TRAIN), bank_of(noise, VAL), small_head, "l2", 0))
    assert shares_at(at)[0] > 0.6


@pytest.mark.parametrize("start", [(0.3, 1.0), (1.5, 0.2)])
def test_where_it_starts_does_not_matter_much(graph, start, monkeypatch):
    train, val = bank_of(graph, TRAIN), bank_of(graph, VAL)
    usual = shares_at(learn_hop_weights(train, val, small_head, "l2", 0)[-1])
    monkeypatch.setattr(hop_weights, "START", start)
    other = shares_at(learn_hop_weights(train, val, small_head, "l2", 0)[-1])
    hops = np.arange(9)
    assert abs(usual @ hops - other @ hops) < 1.0  # the mean hop


def test_a_number_that_is_given_stays(graph):
    train, val = bank_of(graph, TRAIN), bank_of(graph, VAL)
    for given in ({"omega": 0.7}, {"rho": 1.0}, {"rho": 0.0}, {"omega": 1.4}):
        path = learn_hop_weights(train, val, small_head, "l2", 0, **given)
        ((name, value),) = given.items()
        assert np.allclose([getattr(step, name) for step in path], value, atol=1e-6)
        for step in path:
            check_ghd(step.omega, 0.0 if given.get("rho") == 0 else step.rho)  # whose sum exists
        if given.get("rho") != 0:  # where omega is at its bound from the start
            assert path[0] != path[-1]._replace(loss=path[0].loss)


def test_the_weights_are_those_of_ghd():
    weights = HopWeights(1.3, 0.4, 7)().detach().numpy()
    expected = ghd(1.3, 0.4, 6)
    assert np.allclose(weights, expected / expected.sum(), atol=1e-6)


def test_rows_mixed_from_a_bank_are_those_of_the_diffusion(graph):
    bank, _ = bank_of(graph, TRAIN, 5)
    rows = mixed(bank, HopWeights(0.9, 0.5, 6)(), "l2").detach().numpy()
    direct = diffuse(graph, TRAIN, 0.9, 0.5, length=5, engine="exact").apply(graph.features)
    assert np.allclose(rows, direct / np.linalg.norm(direct, axis=1, keepdims=True), atol=1e-5)


def test_the_best_step_is_where_the_losses_around_are_least():
    losses = [5, 4, 9, 0, 9, 4, 1, 1, 1, 1, 1, 4, 5, 5]  # one lucky low is not it
    assert best_step([Step(loss, i, 0) for i, loss in enumerate(losses)]).omega == 8


def test_hops_are_worth_it_until_a_hundredth_of_the_weight_is_left():
    assert worthwhile_hops(np.array([0.5, 0.3, 0.195, 0.004, 0.001])) == 2
    assert worthwhile_hops(np.array([1.0])) == 0


# ---------------------------------------------------------------------- features


def test_a_projection_does_not_depend_on_how_many_columns_are_taken_at_once(monkeypatch):
    rows = np.random.default_rng(0).standard_normal((20, 100)).astype(np.float32)
    at_once = projected(rows, "l1", 3)
    monkeypatch.setattr(hop_weights, "COLUMNS_AT_ONCE", 7)
    for features in (rows, sp.csr_matrix(rows)):
        assert np.allclose(projected(features, "l1", 3), at_once, atol=1e-6)


@pytest.mark.parametrize("kind", ["dense", "half", "bytes", "sparse"])
def test_a_projection_keeps_angles(kind):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 900)).astype(np.float32) * (rng.random((60, 900)) < 0.1)
    rows[1::2] += rows[::2]
    features = {
        "dense": rows,
        "half": rows.astype(np.float16),
        "bytes": Quantized.of(rows),
        "sparse": sp.csr_matrix(rows),
    }
    made = projected(features[kind], "l2", 0)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert made.shape == (60, hop_weights.WIDEST)
    # an inner product of unit rows has a standard error of at most sqrt(2 / width): five of them
    assert np.abs(made @ made.T - unit @ unit.T).max() < 5 * math.sqrt(2 / hop_weights.WIDEST)


# ---------------------------------------------------------------------- tau


@pytest.mark.parametrize("convention", ["paper", "reference"])
@pytest.mark.parametrize("hops", [1, 4, 9])
def test_tau_of_a_length_gives_nodes_of_the_mean_degree_that_length(convention, hops):
    ring = Graph.from_edges(np.array([np.arange(50), (np.arange(50) + 1) % 50]))
    tau = tau_of_length(ring, hops, convention) * (1 + 1e-9 * (1 if convention == "reference" else -1))
    assert set(diffusion_lengths(ring, np.arange(50), tau, convention).tolist()) == {hops}


def test_a_graph_without_edges_has_a_tau_too():
    assert tau_of_length(Graph.from_edges(np.zeros((2, 0), int), 4), 3) == 1.0


# ---------------------------------------------------------------------- in the estimator


def test_fit_finds_the_four_and_says_how(graph):
    fitted = NIGCN(**{**QUICK, "epsilon": "auto"}).fit(graph, TRAIN, VAL)
    found = fitted.found_
    assert found.guide == "validation nodes"
    assert 0 < found.hops <= hop_weights.DEEPEST
    assert found.tau == pytest.approx(tau_of_length(graph, found.hops))
    assert found.epsilon == 0.01
    used = fitted._diffusion(graph)
    assert (used["omega"], used["rho"], used["tau"], used["epsilon"]) == (found.omega, found.rho, found.tau, 0.01)
    named = NIGCN(found.omega, found.rho, found.tau, 0.01, max_hops=hop_weights.DEEPEST, epochs=60, patience=30)
    assert np.array_equal(named.set_params(engine=fitted.engine_).represent(graph, TEST), fitted.represent(graph, TEST))


def test_it_does_better_than_the_node_alone_and_as_well_as_a_hand_picked_depth(graph):
    alone = NIGCN(length=0, **QUICK).fit(graph, TRAIN, VAL).score(graph, TEST)
    picked = NIGCN(1.0, 0.5, 1.0, **QUICK).fit(graph, TRAIN, VAL).score(graph, TEST)
    auto = NIGCN(**QUICK).fit(graph, TRAIN, VAL).score(graph, TEST)
    assert auto > alone + 0.1
    assert auto > picked - 0.03


def test_a_second_fit_starts_afresh(graph):
    model = NIGCN(**QUICK).fit(graph, TRAIN, VAL)
    once, network = model.found_, model.network_
    other = synthetic.dcsbm(600, avg_degree=40, classes=3, features=8, homophily=0.4, signal=2.0, seed=1)
    model.fit(other, np.arange(60), np.arange(60, 160)).fit(graph, TRAIN, VAL)
    assert (model.found_, model.network_) == (once, network)


def test_networks_are_compared_on_rows_from_anywhere(graph, monkeypatch):
    """Training nodes may come class by class."""
    monkeypatch.setattr("nodewise.learn.nigcn.CONTEST_ROWS", 30)
    rows = torch.arange(80.0)[:, None], torch.arange(80)
    some = NIGCN()._some_rows(rows)
    assert len(some[1].unique()) == 30
    assert some[1].max() > 40
    assert torch.equal(some[0][:, 0].long(), some[1])


def test_numbers_given_are_left_alone(graph):
    fitted = NIGCN(1.15, 0.1, 1.9, 0.05, epochs=2).fit(graph, TRAIN, VAL)
    assert fitted.found_ is None
    partly = NIGCN(omega=0.8, tau=1.2, epsilon=0.05, epochs=2).fit(graph, TRAIN, VAL)
    assert (partly.found_.omega, partly.found_.tau) == (0.8, 1.2)


def test_without_validation_nodes_training_nodes_are_held_back(graph):
    found = NIGCN(**QUICK).fit(graph, TRAIN).found_
    assert found.guide == "training nodes held back, 5 times"
    shares = ghd(found.omega, found.rho, hop_weights.DEEPEST)
    assert shares[0] / shares.sum() < 0.5  # it did not fall to the node's own features


def test_a_class_is_in_every_fold():
    from nodewise.learn.self_tuning import _folds

    labels = np.repeat([0, 1, 2], [10, 5, 25])
    folds = _folds(labels, np.random.default_rng(0))
    counts = np.array([[np.sum(folds[labels == c] == f) for f in range(5)] for c in range(3)])
    assert counts.tolist() == [[2] * 5, [1] * 5, [5] * 5]


def test_too_few_nodes_to_hold_any_back_is_a_guess_that_is_told(graph):
    with pytest.warns(NodewiseWarning, match="no validation nodes, and too few training nodes"):
        fitted = NIGCN(epochs=2).fit(graph.replace(labels=np.arange(1000) % 2), [0, 1, 2])
    assert fitted.found_.guide == "nothing"


def test_inductive_search_never_sees_the_rest_of_the_graph(graph):
    rng = np.random.default_rng(3)
    part = np.arange(300)
    source = np.repeat(np.arange(1000), np.diff(graph.indptr))
    inside = (source < 300) & (graph.indices < 300)
    extra = np.stack([rng.integers(300, 1000, 3000), rng.integers(0, 1000, 3000)])
    edges = np.concatenate([np.stack([source, graph.indices.astype(np.int64)])[:, inside], extra], axis=1)
    rewired = Graph.from_edges(edges, 1000, graph.features, graph.labels)
    kept = Graph.from_edges(edges[:, : inside.sum()], 1000, graph.features, graph.labels)
    first, second = (NIGCN(**QUICK).fit(g, TRAIN, inductive=True, part=part).found_ for g in (kept, rewired))
    assert (first.omega, first.rho) == (second.omega, second.rho)


def test_the_depth_found_is_gone_to_in_the_part_and_in_the_whole_graph(graph):
    """Two nodes of three are not in the part, and as many of its neighbours has a node lost."""
    fitted = NIGCN(**QUICK).fit(graph, TRAIN, VAL, inductive=True, part=np.arange(330))
    hops = fitted.found_.hops
    assert hops > 2
    for seen, nodes in ((graph, TEST), (graph.subgraph(np.arange(330)), TRAIN)):
        assert abs(np.median(fitted._planned(seen, nodes).lengths) - hops) <= 1
    assert fitted.found_.tau == tau_of_length(graph, hops)


def test_what_was_found_does_not_depend_on_the_memory_that_is_free(monkeypatch):
    rng = np.random.default_rng(0)
    wide = synthetic.dcsbm(400, avg_degree=8, classes=2, features=8, signal=1.0, seed=0)
    noise = sp.random(400, 1200, 0.01, "csr", np.float32, rng)
    wide = wide.replace(features=sp.hstack([sp.csr_matrix(wide.features), noise], "csr"))
    found = []
    for free in (1 << 40, 1 << 22):
        monkeypatch.setattr("nodewise.memory.available_memory", lambda free=free: free)
        found.append(NIGCN(**QUICK, layers=2, weight_decay=0.01, bias=True).fit(wide, TRAIN, VAL).found_)
    assert found[0] == found[1]


def test_what_was_found_is_saved(graph, tmp_path):
    fitted = NIGCN(**QUICK).fit(graph, TRAIN, VAL)
    fitted.save(tmp_path / "model")
    again = NIGCN.load(tmp_path / "model")
    assert again.found_ == fitted.found_
    assert again.network_ == fitted.network_
    assert np.array_equal(again.predict_proba(graph, TEST), fitted.predict_proba(graph, TEST))


def test_several_labels_a_node_are_found_for_too(graph):
    several = graph.replace(labels=np.stack([graph.labels == c for c in range(4)], 1).astype(np.int8))
    assert NIGCN(**QUICK).fit(several, TRAIN, VAL).found_.hops > 0


@pytest.mark.parametrize("name", ["omega", "rho", "tau", "epsilon", "layers", "weight_decay"])
def test_a_word_that_is_not_auto_is_refused(graph, name):
    with pytest.raises(InputError, match=f"{name}='best': expected a number, or 'auto'"):
        NIGCN(**{name: "best"}).fit(graph, TRAIN, VAL)


# ---------------------------------------------------------------------- an allowance


def test_an_allowance_decides_epsilon(graph, monkeypatch):
    """What a diffusion costs is told by the plan, here one over epsilon."""

    def plans(graph, nodes, **how):
        return SimpleNamespace(plan=Plan("walks", "", {"walks": 1 / how["epsilon"]}))

    monkeypatch.setattr("nodewise.learn.diffused.plan_diffusion", plans)
    model = NIGCN(omega=1.0, rho=0.5, tau=1.0)
    for allowance, expected in ((1000.0, 0.01), (100.0, 0.01), (99.0, 0.02), (12.0, 0.1)):
        assert model._affordable_epsilon(graph, TEST, allowance) == pytest.approx(expected)
    with pytest.warns(NodewiseWarning, match=r"even with epsilon=0\.2"):
        assert model._affordable_epsilon(graph, TEST, 1.0) == 0.2


def test_a_fit_keeps_to_its_allowance(graph):
    free = NIGCN(**{**QUICK, "epsilon": "auto"}).fit(graph, TRAIN, VAL)
    ample = NIGCN(**{**QUICK, "epsilon": "auto"}, allowance=1e9).fit(graph, TRAIN, VAL)
    assert ample.found["epsilon"] == free.found["epsilon"] == 0.01
    with pytest.warns(NodewiseWarning, match=r"allowance=1e-09: rows for 280 nodes"):
        tight = NIGCN(**{**QUICK, "epsilon": "auto"}, allowance=1e-9).fit(graph, TRAIN, VAL)
    assert tight.found["epsilon"] == 0.2
    assert (tight.found["omega"], tight.found["rho"]) == (free.found["omega"], free.found["rho"])
    with pytest.raises(InputError, match="allowance=0"):
        NIGCN(allowance=0).fit(graph, TRAIN, VAL)


# ---------------------------------------------------------------------- a short reach


FOUND = (1.5, 0.2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [((0.5, 0.6, 0.5), REACHES[0]), ((0.5, 0.5, 0.6), REACHES[1]), ((0.6, 0.5, 0.5), FOUND), ((0.5, 0.5, 0.5), FOUND)],
)
def test_another_reach_is_taken_where_it_has_more_labels_right(graph, monkeypatch, values, expected):
    known = dict(zip((FOUND[0], *(omega for omega, _ in REACHES)), values, strict=True))
    deep = Found(*FOUND, 5.0, 0.01, hop_weights.DEEPEST, "validation nodes")
    monkeypatch.setattr("nodewise.learn.nigcn.find", lambda *args: deep)
    monkeypatch.setattr(NIGCN, "_value", lambda model, train, val: known[model.found_.omega])
    fitted = NIGCN(**QUICK).fit(graph, TRAIN, VAL)
    assert (fitted.found_.omega, fitted.found_.rho) == expected
    assert (fitted.found_.hops < deep.hops) == (expected == REACHES[0])


def test_numbers_that_are_given_have_no_rival(graph):
    assert NIGCN(omega=2.0, **QUICK).fit(graph, TRAIN, VAL).found_.omega == 2.0
