"""Scales of logits, calibration error, and conformal sets."""

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.metrics import log_loss as sklearns_log_loss

from nodewise import InputError
from nodewise.learn.calibrate import best_scale, calibration_error, conformal_threshold, log_loss, losses_of, sets_of


def draw(count=200, classes=4, seed=0, sharp=3.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(count, classes)) * sharp
    proba = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([rng.choice(classes, p=p) for p in proba])
    return logits, proba, labels


def test_log_loss_is_scikit_learns():
    logits, proba, labels = draw()
    ours = log_loss(torch.from_numpy(logits), torch.from_numpy(labels))
    assert float(ours) == pytest.approx(sklearns_log_loss(labels, proba))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_the_best_scale_is_what_a_line_search_finds(weighted, several):
    logits, _, labels = draw(sharp=5.0)
    truth = torch.from_numpy(
        (np.random.default_rng(1).random((200, 4)) < 0.3).astype(np.float32) if several else labels
    )
    weights = torch.rand(200).double() + 0.1 if weighted else None
    scores = torch.from_numpy(logits)

    def loss(log_scale):
        """Where one label in 202 is wrong: any class then, or of several labels each with probability a half."""
        scaled = float(np.exp(log_scale)) * scores
        anything = -torch.log_softmax(scaled, 1).mean(1)
        if several:
            halves = torch.full_like(scaled, 0.5)
            anything = torch.nn.functional.binary_cross_entropy_with_logits(scaled, halves, reduction="none").mean(1)
        labels = truth.double() if several else truth
        losses = losses_of(scaled, labels) * 201 / 202 + anything / 202
        return float(losses.mean() if weights is None else (losses * weights).sum() / weights.sum())

    by_hand = minimize_scalar(loss, bounds=(np.log(1e-3), np.log(1e3)), method="bounded", options={"xatol": 1e-9})
    scale, least = best_scale(scores, truth, weights)
    plain = log_loss(scale * scores, truth.double() if several else truth, weights)
    assert float(least) == pytest.approx(float(plain))
    if not several:  # of labels that logits say nothing about, the scale goes to its bound
        assert float(scale) == pytest.approx(np.exp(by_hand.x), rel=1e-3)


def test_a_few_rows_that_are_all_right_do_not_make_anybody_certain():
    """Of two classes and n rows, no more than what n right answers can vouch for: (n + 1.5) / (n + 2)."""
    labels = torch.tensor([0, 1] * 20)
    logits = torch.nn.functional.one_hot(labels, 2).double()
    scale, _ = best_scale(logits, labels)
    assert float(torch.softmax(scale * logits, 1)[0, 0]) == pytest.approx(41.5 / 42, rel=1e-4)


def test_a_single_logit_is_scaled_without_a_warning():
    """Of one node and one class; torch warns of the standard deviation of a single number."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scale, _ = best_scale(torch.ones(1, 1), torch.tensor([0]))
    assert 0 < float(scale) < np.inf


def test_scales_of_several_are_those_of_each_alone():
    logits = torch.stack([torch.from_numpy(draw(seed=i, sharp=1.0 + i)[0]) for i in range(3)])
    labels = torch.from_numpy(draw()[2])
    together = best_scale(logits, labels)[0]
    assert torch.allclose(together, torch.stack([best_scale(one, labels)[0] for one in logits]))


def test_probabilities_that_are_true_have_little_calibration_error():
    """2,000 draws from the probabilities themselves: the error is noise. One over-sure by far is not."""
    _, proba, labels = draw(count=2000)
    sure = proba**4 / (proba**4).sum(1, keepdims=True)
    assert calibration_error(proba, labels) < 0.04 < calibration_error(sure, labels)


def test_calibration_error_is_the_mean_gap_of_bins():
    proba = np.array([[0.62, 0.38], [0.65, 0.35], [0.1, 0.9], [0.05, 0.95]])
    labels = np.array([0, 1, 1, 1])
    expected = (abs((0.62 + 0.65) / 2 - 0.5) * 2 + abs(0.9 - 1) + abs(0.95 - 1)) / 4
    assert calibration_error(proba, labels) == pytest.approx(expected)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_conformal_sets_hold_the_truth_as_often_as_they_promise(coverage):
    """Mean coverage over 400 draws of 99 calibration and 50 other nodes lies between the promise and 1/100 above it.

    A draw's coverage has a standard deviation of at most 0.09 (0.05 of the threshold, 0.07 of the 50 nodes), so the
    mean of 400 is within 4.5 standard errors (0.02) but for a chance of less than 1 in 10^5, whatever the model.
    """
    rng = np.random.default_rng(0)
    _, proba, labels = draw(count=20_000, sharp=2.0)
    proba = proba**0.3 / (proba**0.3).sum(1, keepdims=True)  # not calibrated: the promise does not need it
    found = []
    for _ in range(400):
        nodes = rng.choice(20_000, 149, replace=False)
        threshold = conformal_threshold(proba[nodes[:99]], labels[nodes[:99]], coverage)
        found.append(np.mean(proba[nodes[99:], labels[nodes[99:]]] >= threshold))
    assert coverage - 0.02 < np.mean(found) < coverage + 0.01 + 0.02


def test_a_set_is_never_empty():
    chosen = sets_of(np.array([[0.3, 0.4, 0.3], [0.9, 0.05, 0.05]]), 0.8)
    assert chosen.tolist() == [[False, True, False], [True, False, False]]


def test_too_few_nodes_for_a_coverage_say_how_much_they_can_vouch_for():
    with pytest.raises(InputError, match=r"9 held-out nodes can vouch for at most 0\.9"):
        conformal_threshold(np.full((9, 2), 0.5), np.zeros(9, np.int64), 0.95)
    with pytest.raises(InputError, match=r"coverage=1\.0"):
        conformal_threshold(np.full((9, 2), 0.5), np.zeros(9, np.int64), 1.0)
