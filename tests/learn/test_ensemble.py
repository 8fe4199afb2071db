"""Networks side by side, their training, and the judge that gives them votes."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nodewise import InputError
from nodewise.learn import trainer
from nodewise.learn.ensemble import VOTES, Ensemble, Member, Trained, assembled, choose, of_ridge, train_members
from nodewise.learn.fitting import Learned, _calibrated
from nodewise.learn.heads import Heads
from nodewise.learn.trainer import TrainConfig, loss_of, scores_of_rows, train

CONFIG = TrainConfig(0.03, [0.001, 0.01], 60, 30, None, seed=0, threads=1)


def rows_of(count, seed, classes=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    rows = np.eye(classes, 10)[labels] * 2 + rng.normal(size=(count, 10))
    return torch.from_numpy(rows.astype(np.float32)), torch.from_numpy(labels)


def heads(count, layers=2, share=0.0, bias=True):
    return Heads(count, 10, 3, 8, layers, share, bias)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_networks_side_by_side_are_networks_one_by_one(layers, bias):
    """Against the same layers written out with torch's own functions."""
    torch.manual_seed(0)
    both, rows = heads(2, layers, bias=bias).eval(), torch.randn(5, 10)
    for i in range(2):
        out = rows
        for layer, weight in enumerate(both.weights):
            matrix = weight.view(2, -1, 10)[i].T if layer == 0 else weight[i]
            made = out @ matrix + (both.biases[layer][i] if bias else 0)
            if layer < layers - 1:
                made = torch.relu(made + out if layer > 0 else made)
            out = made
        assert torch.allclose(both(rows)[i], out, atol=1e-6)
        assert torch.allclose(both.taken(torch.tensor([i])).eval()(rows)[0], out, atol=1e-6)


def test_a_factor_on_a_network_multiplies_its_output():
    torch.manual_seed(0)
    two, rows = heads(2).eval(), torch.randn(5, 10)
    before = two(rows).detach().clone()
    assert torch.allclose(two.scaled(torch.tensor([2.0, 0.5]))(rows), before * torch.tensor([2.0, 0.5])[:, None, None])


def test_networks_of_heaviest_columns_see_no_others():
    torch.manual_seed(0)
    narrow, columns = Heads(2, 3, 3, 8, 2, 0.0, True).eval(), torch.tensor([1, 4, 7])
    wide, rows = narrow.widened(columns, 10), torch.randn(5, 10)
    assert torch.allclose(wide(rows), narrow(rows[:, columns]), atol=1e-6)


def test_training_side_by_side_is_training_one_by_one():
    """Without dropout nothing is shared between networks but the order of random starts."""
    train_rows, val = rows_of(60, 0), rows_of(60, 1)
    torch.manual_seed(5)
    start = heads(2)
    together, epochs = train(lambda draw: start.taken(torch.arange(2)), train_rows, val, CONFIG)
    for i, decay in enumerate(CONFIG.weight_decay):
        alone = replace(CONFIG, weight_decay=decay, patience=60)
        one, kept = train(lambda draw, i=i: start.taken(torch.tensor([i])), train_rows, val, alone)
        assert kept == [epochs[i]]
        assert torch.allclose(one(val[0])[0], together(val[0])[i], atol=1e-4)


def test_the_seed_decides_the_first_weights_and_the_order_of_rows():
    """Else members that differ in their seed alone would be one member."""
    rows = rows_of(60, 0)

    def answers(seed, make):
        config = replace(CONFIG, epochs=3, batch_size=16, seed=seed)
        return train(make, rows, None, config)[0](rows[0])

    torch.manual_seed(5)
    start = heads(2)
    for make in (lambda draw: Heads(2, 10, 3, 8, 2, 0.3, True, draw=draw), lambda draw: start.taken(torch.arange(2))):
        assert torch.equal(answers(1, make), answers(1, make))
        assert not torch.allclose(answers(1, make), answers(2, make), atol=1e-4)


def test_each_network_keeps_its_own_best_weights():
    train_rows, val = rows_of(30, 0), rows_of(80, 1)
    torch.manual_seed(5)
    start = heads(2, share=0.3)
    best = [(-1.0, -np.inf)] * 2

    def watch(_):
        nonlocal best
        made.eval()
        best = [max(pair) for pair in zip(best, scores_of_rows(made, val), strict=True)]

    made = start.taken(torch.arange(2))
    trained, _ = train(lambda draw: made, train_rows, val, CONFIG, after_epoch=watch)
    assert [tuple(map(pytest.approx, pair)) for pair in best] == scores_of_rows(trained, val)


def test_given_epochs_are_the_ones_whose_weights_are_kept():
    train_rows = rows_of(30, 0)
    seen = {}

    def watch(epoch):
        seen[epoch] = made.eval()(train_rows[0]).detach().clone()

    torch.manual_seed(5)
    made = heads(2)
    trained, epochs = train(lambda draw: made, train_rows, [3, 7], CONFIG, after_epoch=watch)
    assert epochs == [3, 7]
    assert torch.equal(trained(train_rows[0])[0], seen[3][0])
    assert torch.equal(trained(train_rows[0])[1], seen[7][1])


def test_taught_rows_are_learned_from():
    """Rows of a class that has no labels: only taught rows have it."""
    labelled, taught, test = (rows_of(n, seed) for n, seed in ((200, 0), (200, 1), (200, 2)))
    few = labelled[1] < 2
    plain, _ = train(lambda draw: heads(2), (labelled[0][few], labelled[1][few]), None, CONFIG)
    both, _ = train(lambda draw: heads(2), (labelled[0][few], labelled[1][few]), None, CONFIG, taught)
    rare = test[1] == 2
    found = [(net(test[0][rare]).argmax(2) == 2).float().mean() for net in (plain, both)]
    assert found[0] < 0.2
    assert found[1] > 0.6


def test_losses_of_several_networks_are_those_of_each():
    torch.manual_seed(0)
    out, labels = torch.randn(3, 20, 4), torch.randint(0, 4, (20,))
    weights = trainer.balancing_weights(labels)
    for several in (labels, (torch.rand(20, 4) < 0.4).float()):
        each = [loss_of(one, several, weights if several.ndim == 1 else None) for one in out]
        assert torch.allclose(loss_of(out, several, weights if several.ndim == 1 else None), torch.stack(each))


def test_members_of_one_depth_train_together_and_keep_their_order():
    roster = [Member(2, False, 0.01), Member(1, False, 0.03), Member(2, False, 0.001), Member(2, True, 0.01)]
    made = []
    rows = rows_of(30, 0), rows_of(50, 3), rows_of(40, 1)

    def make(member, count, draw):
        made.append((count, member.layers))
        return heads(count, member.layers)

    parts = train_members(roster, make, lambda member: rows, CONFIG)
    assert sorted(made) == [(1, 1), (1, 2), (2, 2)]
    order = [(m.layers, m.taught, m.weight_decay) for part in parts for m in part.members]
    assert order == [(1, False, 0.03), (2, False, 0.001), (2, False, 0.01), (2, True, 0.01)]
    assert all(m.epoch > 0 for part in parts for m in part.members)


def trained(*logits):
    """Members that say the given logits of rows that are one-hot."""
    return [of_ridge(torch.cat([one, torch.zeros(1, one.shape[1])]), 1.0, 0.0, False) for one in logits]


def test_the_judge_votes_as_greedy_selection_by_hand():
    torch.manual_seed(0)
    labels = torch.randint(0, 3, (50,))
    truth = torch.nn.functional.one_hot(labels, 3).float()
    members = [truth * sharp + torch.randn(50, 3) for sharp in (0.5, 1.5, 1.5, 0.0)]
    votes, scales = choose(trained(*members), (torch.eye(50), labels), None)
    tempered = [one.double() * scale for one, scale in zip(members, scales, strict=True)]
    alone = torch.stack([torch.nn.functional.cross_entropy(one, labels, reduction="none") for one in tempered])
    excess = alone - alone[alone.mean(1).argmin()]
    running = [i for i in range(4) if excess[i].mean() <= 2 * excess[i].std() / 50**0.5]
    assert 3 not in running  # knows nothing
    expected, total = [0.0] * 4, torch.zeros(50, 3).double()
    for count in range(1, VOTES + 1):
        losses = {i: torch.nn.functional.cross_entropy((total + tempered[i]) / count, labels) for i in running}
        best = min(losses, key=losses.get)
        expected[best] += 1 / VOTES
        total = total + tempered[best]
    assert votes == pytest.approx(expected)
    assert sum(votes) == pytest.approx(1)


def test_the_judge_forgives_a_member_that_is_too_sure():
    """By raw log-loss the sure one would lose to one that knows nothing."""
    labels = torch.arange(90) % 3
    truth = torch.nn.functional.one_hot(labels, 3).float()
    sure = truth * 200
    sure[:20] = sure[:20].roll(1, 1)
    votes, _ = choose(trained(sure, torch.zeros(90, 3)), (torch.eye(90), labels), None)
    assert votes[0] > 0.5


def test_the_temperature_is_found_on_rows_that_did_not_choose_who_votes():
    """Each member knows every other row and is wrong about the rest: whoever a half of the rows chooses is wrong about
    the other half, and its confidence is worth nothing."""
    labels = torch.arange(60) % 3
    truth = torch.nn.functional.one_hot(labels, 3).float() * 5
    even = (torch.arange(60) % 2 == 0)[:, None]
    parts = trained(*(torch.where(mine, truth, truth.roll(1, 1)) for mine in (even, ~even)))
    members, votes, scales = [part.members[0] for part in parts], [0.5, 0.5], [1.0, 1.0]
    both = Learned(assembled(parts, votes, scales), members, votes, scales, [], 1.0, 0.5)
    found = _calibrated(both, parts, (torch.eye(60), labels), SimpleNamespace(balanced=False))
    assert torch.softmax(truth[0] / found.temperature, 0).max() < 0.4


def test_an_ensemble_is_the_weighted_mean_of_its_members():
    torch.manual_seed(0)
    parts = [Trained([Member(2, False, 0.1)] * 3, heads(3).eval()), *trained(torch.randn(10, 3))]
    votes, scales = [0.25, 0.0, 0.5, 0.25], [1.0, 3.0, 2.0, 4.0]
    rows = torch.randn(6, 10)
    said = torch.cat([part.heads(rows) for part in parts])
    expected = sum(vote * scale * one for vote, scale, one in zip(votes, scales, said, strict=True))
    ensemble = assembled(parts, votes, scales)
    assert torch.allclose(ensemble(rows), expected, atol=1e-5)
    again = Ensemble.of_shapes(ensemble.shapes)
    again.load_state_dict(ensemble.state_dict())
    assert torch.equal(again.eval()(rows), ensemble(rows))


def test_a_failure_in_one_kind_of_members_ends_the_others():
    """Otherwise an interrupted command would continue to train for as long as the longest kind takes."""
    roster, training, epochs = [Member(1, False, 0.03), Member(2, False, 0.01)], threading.Event(), []
    rows = rows_of(30, 0), None, rows_of(40, 1)

    def make(member, count, draw):
        if member.layers == 2:
            assert training.wait(60)  # fail only when the other kind is at work
            raise InputError("no such network")
        return heads(count, member.layers)

    def progress(done, total):
        epochs.append(done)
        training.set()

    patient = replace(CONFIG, epochs=20_000, patience=20_000, threads=2)  # seconds, if it is not ended
    with pytest.raises(InputError, match="no such network"):
        train_members(roster, make, lambda member: rows, patient, progress)
    assert 0 < epochs[-1] < 20_000
