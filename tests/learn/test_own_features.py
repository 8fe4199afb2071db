"""Members that see each node's own features beside the diffused ones."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nodewise import NIGCN, Graph
from nodewise.diffusion import exact
from nodewise.graph import synthetic
from nodewise.graph.features import normalize
from nodewise.learn import ensemble, fitting
from nodewise.learn.ensemble import Ensemble, Member
from nodewise.learn.heads import Heads

NODES = 600


@pytest.fixture(scope="module")
def graph():
    """Half of a label is told by the neighbourhood, half by the node alone: neither is enough."""
    base = synthetic.dcsbm(NODES, avg_degree=12, classes=2, homophily=0.95, features=8, signal=1.5, seed=0)
    rng = np.random.default_rng(1)
    bit = rng.integers(0, 2, NODES)
    alone = np.where(bit[:, None] == 1, 2.0, -2.0) + rng.normal(size=(NODES, 2))
    features = np.hstack([base.features, alone]).astype(np.float32)
    return base.replace(features=features, labels=2 * base.labels + bit)


@pytest.fixture(scope="module")
def model(graph):
    return NIGCN(seed=0).fit(graph, range(100), range(100, 300))


@pytest.mark.parametrize("row_norm", ["l2", "none"])
@pytest.mark.parametrize("columns_at_a_time", [None, 3])
def test_own_features_stand_beside_diffused_rows(graph, row_norm, columns_at_a_time):
    """Made at once or in blocks of columns."""
    memory = None if columns_at_a_time is None else columns_at_a_time * exact.COLUMN_BYTES * NODES
    plain = NIGCN(omega=1.0, rho=0.3, engine="exact", feature_norm="l1", row_norm=row_norm, memory=memory).row_maker
    nodes = np.random.default_rng(0).permutation(NODES)[:400]
    own = normalize(normalize(graph.features[nodes], "l1"), row_norm)
    expected = np.hstack([plain.rows(graph, nodes), own])
    assert np.allclose(replace(plain, own=True).rows(graph, nodes), expected, atol=1e-6)


def test_they_get_votes_where_they_are_needed_and_gain(graph, model, monkeypatch):
    assert any(member.own for member in model.members_)
    assert model.represent(graph, [3]).shape == (1, 2 * graph.num_features)
    monkeypatch.setattr(fitting, "ROSTER", tuple(member for member in ensemble.ROSTER if not member.own))
    without = NIGCN(seed=0).fit(graph, range(100), range(100, 300))
    rest = np.arange(300, NODES)
    assert model.score(graph, rest) > without.score(graph, rest)


def test_a_saved_model_makes_the_same_rows(graph, model, tmp_path):
    model.save(tmp_path / "model")
    again = NIGCN.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(graph, range(50)), model.predict_proba(graph, range(50)))


def test_rows_hold_nothing_that_no_voter_looks_at(graph, monkeypatch):
    monkeypatch.setattr(fitting, "ROSTER", (Member(2, False, 0.002),))
    model = NIGCN(seed=0).fit(graph, range(100), range(100, 300), refit=True)
    assert model.represent(graph, [3]).shape == (1, graph.num_features)
    assert all(shape["inputs"] == graph.num_features for shape in model.learned_.ensemble.shapes)


def test_a_refit_keeps_who_sees_what(graph, model):
    again = NIGCN(seed=0).fit(graph, range(100), range(100, 300), refit=True)
    assert [member.own for member in again.members_] == [member.own for member in model.members_]
    assert again.score(graph, range(300, NODES)) > 0.6


def test_narrowed_networks_say_what_they_said():
    torch.manual_seed(0)
    rows = torch.randn(7, 10)
    for layers in (1, 2):
        narrow = Heads(2, 6, 3, 4, layers, 0.0, bias=True).eval()
        wide = narrow.widened(torch.arange(6), 10)
        assert torch.allclose(Ensemble([wide])(rows), Ensemble([narrow])(rows[:, :6]), atol=1e-6)
        assert torch.equal(Ensemble([wide]).narrowed(6)(rows[:, :6]), Ensemble([narrow])(rows[:, :6]))


def test_edgeless_nodes_have_rows_too():
    features = np.eye(4, dtype=np.float32)
    graph = Graph.from_edges(np.zeros((2, 0), np.int64), num_nodes=4, features=features, labels=[0, 1, 0, 1])
    maker = replace(NIGCN(feature_norm="none").row_maker, own=True)
    assert np.allclose(maker.rows(graph, np.arange(4)), np.hstack([features, features]))
