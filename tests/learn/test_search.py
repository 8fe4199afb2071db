"""The search: hop banks against diffusing anew, ridge against solving by hand, and what is chosen."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from nodewise import NIGCN, diffuse, ghd
from nodewise.diffusion.params import DiffusionParams
from nodewise.graph import synthetic
from nodewise.learn import search as module
from nodewise.learn.calibrate import best_scale
from nodewise.learn.ridge import answer, solve
from nodewise.learn.search import PENALTIES, Sample, heaviest_columns, judged, mixed, narrowed, search
from nodewise.learn.teach import class_targets


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(600, avg_degree=8, classes=3, homophily=0.85, features=20, signal=1.5, seed=1)


def sample(graph, nodes):
    return Sample(graph, np.asarray(nodes), torch.from_numpy(graph.labels[nodes].astype(np.int64)))


def test_rows_mixed_from_a_bank_are_rows_of_that_curve(graph):
    nodes = np.arange(50)
    bank = diffuse(graph, nodes, engine="exact", per_hop=True, length=6).apply(graph.features, "l1")
    rows = diffuse(graph, nodes, 1.3, 0.3, engine="exact", length=6).apply(graph.features, "l1")
    made = mixed(torch.from_numpy(bank), torch.from_numpy(ghd(1.3, 0.3, 6).astype(np.float32)), "l2")
    assert np.allclose(made, rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-5)


def test_losses_are_those_of_ridges_solved_one_by_one(graph):
    torch.manual_seed(0)
    train, val = ((torch.randn(n, 30), torch.randint(0, 3, (n,))) for n in (25, 40))
    losses, right = judged(train, val, 3)
    for penalty, loss in zip(PENALTIES, losses, strict=True):
        said = answer(val[0], solve(train[0], class_targets(train[1], 3), penalty * 25 / 100))
        assert loss == pytest.approx(float(best_scale(said, val[1])[1]), abs=1e-4)
    assert right.shape == (40,)


def test_the_search_finds_a_reach_that_a_far_worse_one_does_not_have(graph):
    params = DiffusionParams(tau=1.0, length=12, epsilon=0.05)
    found = search(sample(graph, np.arange(60)), sample(graph, np.arange(60, 260)), 3, params, "l2")
    alone = [module.ALONE]
    without = search(sample(graph, np.arange(60)), sample(graph, np.arange(60, 260)), 3, params, "l2", curves=alone)
    assert found.loss < without.loss - 0.05
    assert found.omega > 0.3


def test_without_validation_nodes_it_judges_by_nodes_left_out(graph):
    params = DiffusionParams(tau=1.0, length=12, epsilon=0.05)
    found = search(sample(graph, np.arange(90)), None, 3, params, "l2")
    assert found.guide == "training nodes, each left out in turn"
    assert found.omega > 0.3


@pytest.mark.parametrize("sparse", [False, True])
def test_wide_features_are_cut_down_to_their_heaviest_columns(sparse):
    rng = np.random.default_rng(0)
    features = (rng.random((200, 30)) * (rng.random((200, 30)) < 0.5) * np.linspace(0.1, 3, 30)).astype(np.float32)
    scaled = features / np.maximum(np.abs(features).sum(1, keepdims=True), 1e-12)
    given = sp.csr_matrix(features) if sparse else features
    columns = heaviest_columns(given, "l1", 7, seed=0)
    assert columns.tolist() == sorted(np.argsort(-np.square(scaled).sum(0))[:7])
    cut = narrowed(given, "l1", columns)
    assert np.allclose(cut.toarray() if sparse else cut, scaled[:, columns], atol=1e-6)
    assert heaviest_columns(given, "l1", 30, seed=0) is None


def test_what_the_user_gives_is_the_only_choice(graph):
    model = NIGCN(omega=0.7, feature_norm="l2", epochs=4).fit(graph, range(60), range(60, 160))
    assert model.found_.omega == 0.7
    assert model.found_.feature_norm == "l2"
    assert set(model.auto_params_) == {"rho", "epsilon", "hops"}


def test_inductive_search_sees_the_training_part_alone(graph, monkeypatch):
    """Rows of training nodes must come from the subgraph, those of validation nodes from the whole."""
    seen = []
    plain = module.diffuse
    monkeypatch.setattr(module, "diffuse", lambda g, nodes, **how: seen.append(g.num_nodes) or plain(g, nodes, **how))
    NIGCN(epochs=4).fit(graph, range(60), range(300, 400), inductive=True, part=range(200))
    assert set(seen) == {200, 600}
