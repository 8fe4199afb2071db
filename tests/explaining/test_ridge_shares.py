"""What labelled nodes add where ridges vote, against a kernel ridge solved densely."""

import numpy as np
import pytest
import torch

import nodewise as nw

TRAIN, VAL = range(80), range(80, 160)


@pytest.fixture(scope="module")
def graph():
    return nw.synthetic.dcsbm(300, avg_degree=6, classes=3, features=12, signal=2.0, seed=1)


def with_a_voting_ridge(graph, **params):
    """A model in which one ridge, that was not taught, has votes."""
    for seed in range(20):
        model = nw.NIGCN(seed=seed, engine="exact", epochs=3, **params).fit(graph, TRAIN, VAL)
        if any(member.ridge and not member.taught for member in model.members_):
            return model
    raise AssertionError("no ridge got votes")


@pytest.fixture(scope="module")
def model(graph):
    return with_a_voting_ridge(graph, teach=False)


def kernel_shares(model, graph, node, targets):
    """``(z z_i + 1) alpha_i`` with ``alpha`` by inverting the kernel, as parts of the logits."""
    rows = [model.represent(graph, nodes)[:, : graph.num_features].astype(float) for nodes in (TRAIN, [node])]
    kernel = rows[0] @ rows[0].T + 1
    shift = model.found_.penalty * len(TRAIN) / 100
    alpha = np.linalg.solve(kernel + shift * np.eye(len(TRAIN)), targets)
    at = next(i for i, member in enumerate(model.members_) if member.ridge)
    factor = model.votes_[at] * model.learned_.scales[at] * model.learned_.ridge_scales[0] / model.temperature_
    return factor * (rows[0] @ rows[1][0] + 1)[:, None] * alpha


def test_each_labelled_node_adds_what_a_kernel_ridge_says(graph, model):
    shares = kernel_shares(model, graph, 200, np.eye(3)[graph.labels[TRAIN]] - 1 / 3)
    found = nw.explain(model, graph, 200, top=1000)
    classes = [str(label) for label in model.classes_]
    first, second = (classes.index(name) for name in (found.class_, found.runner_up))
    near = {"abs": 1e-4 * float(np.abs(shares).max())}
    assert len(found.ridge.nodes) == len(TRAIN)
    for one in found.ridge.nodes:
        assert one.contribution == pytest.approx(shares[one.node, first], **near)
        assert one.margin == pytest.approx(shares[one.node, first] - shares[one.node, second], **near)
        assert one.labels == [str(graph.labels[one.node])]


def test_the_shares_sum_to_the_ridges_part_of_the_logit(graph, model):
    """Nothing was taught, so nothing but labelled nodes adds."""
    for node in (0, 200, 299):
        ridge = nw.explain(model, graph, node, top=5).ridge
        total = sum(one.contribution for one in ridge.nodes) + ridge.rest.contribution
        assert total == pytest.approx(ridge.contribution, abs=1e-4)
        assert ridge.other_rows == pytest.approx(0, abs=1e-4)
        assert (len(ridge.nodes), ridge.rest.count) == (5, len(TRAIN) - 5)


def test_a_refit_ridge_has_shares_of_validation_nodes_too(graph, model):
    again = nw.NIGCN(**model.get_params()).fit(graph, TRAIN, VAL, refit=True)
    ridge = nw.explain(again, graph, 200, top=1000).ridge
    assert {one.node for one in ridge.nodes} == {*TRAIN, *VAL}
    assert ridge.other_rows == pytest.approx(0, abs=1e-4)


def test_a_saved_model_keeps_the_shares(graph, model, tmp_path):
    model.save(tmp_path / "m")
    assert nw.explain(tmp_path / "m", graph, 200).ridge == nw.explain(model, graph, 200).ridge


def test_shares_are_left_out_where_they_would_not_be_exact(graph, model):
    fewer = nw.Graph.from_edges(
        np.array([[0, 1], [1, 2]]), num_nodes=graph.num_nodes, features=graph.features, labels=graph.labels
    )
    assert nw.explain(model, fewer, 200).ridge is None
    other = nw.NIGCN(**model.get_params()).fit(graph, TRAIN, VAL, inductive=True, part=range(250))
    assert nw.explain(other, graph, 200).ridge is None
    plain = nw.NIGCN(teach=False, layers=2, weight_decay=0.001, epochs=3, seed=0).fit(graph, TRAIN, VAL)
    assert nw.explain(plain, graph, 200).ridge is None


def test_a_taught_ridge_says_what_nodes_it_labelled_itself_add(graph, monkeypatch):
    from nodewise.learn import fitting

    def only_the_taught_ridge(trained, *_):
        count = sum(len(part.members) for part in trained)
        return [float(i == 1) for i in range(count)], [1.0] * count

    monkeypatch.setattr(fitting, "choose", only_the_taught_ridge)
    model = nw.NIGCN(seed=0, engine="exact", epochs=3).fit(graph, TRAIN, VAL)
    assert [(member.ridge, member.taught) for member in model.members_] == [(True, True)]
    found = nw.explain(model, graph, 200, top=1000)
    with torch.no_grad():
        logits = model.networks_(torch.from_numpy(model.represent(graph, [200])))[0] / model.temperature_
    assert found.ridge.contribution == pytest.approx(float(logits.max()), abs=1e-5)
    assert abs(found.ridge.other_rows) > 0.01
    total = sum(one.contribution for one in found.ridge.nodes) + found.ridge.other_rows
    assert total == pytest.approx(found.ridge.contribution, abs=1e-5)
