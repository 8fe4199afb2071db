"""What a ridge teaches: shares, sureness, and that it helps."""

import numpy as np
import pytest
import torch

from nodewise import NIGCN
from nodewise.graph import synthetic
from nodewise.learn import ridge
from nodewise.learn.teach import ROUNDS, SURE, WEIGHT, brought_to, class_targets, shares_of, teach


def rows_of(count, seed, classes=3):
    """Rows around a centre per class, and their classes; the last class is rare."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, count, p=[0.6, 0.3, 0.1])
    rows = 2 * np.eye(classes, 12)[labels] + rng.normal(size=(count, 12))
    return torch.from_numpy(rows.astype(np.float32)), torch.from_numpy(labels)


def test_probabilities_are_brought_to_shares_by_a_factor_per_class():
    torch.manual_seed(0)
    proba, shares = torch.rand(300, 3).softmax(1), torch.tensor([0.7, 0.2, 0.1])
    scaled = brought_to(proba, shares)
    assert torch.allclose(scaled.mean(0), shares, atol=1e-3)
    assert torch.allclose(scaled.sum(1), torch.ones(300), atol=1e-5)
    factors = scaled / proba
    ratios = factors / factors[:, :1]  # the same for all rows
    assert torch.allclose(ratios, ratios[:1].expand_as(ratios), rtol=1e-3)


def test_the_surest_rows_are_taught_and_classes_are_as_common_as_told():
    rows, labels = rows_of(60, 0)
    free, _ = rows_of(500, 1)
    shares = shares_of(labels, 3)
    lesson = teach((rows, labels), free, ridge.solve(rows, class_targets(labels, 3), 0.6), 0.6, 4.0, shares)
    assert lesson.places.numel() == round(SURE * 500)
    found = torch.bincount(lesson.labels, minlength=3) / lesson.labels.numel()
    assert torch.allclose(found.double(), shares.double(), atol=0.12)


def test_the_taught_ridge_is_the_weighted_ridge_of_labels_and_surest_guesses():
    """Solved again here, round by round, from the definition."""
    rows, labels = rows_of(40, 0)
    free, _ = rows_of(100, 1)
    coefficients = ridge.solve(rows, class_targets(labels, 3), 0.4)
    lesson = teach((rows, labels), free, coefficients, 0.4, 4.0, None)
    for _ in range(ROUNDS):
        proba = torch.softmax(4.0 * ridge.answer(free, coefficients).double(), 1)
        sure, guess = proba.max(1)
        chosen = torch.argsort(sure, descending=True)[: round(SURE * 100)].sort().values
        targets = torch.cat([class_targets(labels, 3), class_targets(guess[chosen], 3)])
        weights = torch.cat([torch.ones(40), WEIGHT * sure[chosen].float()])
        coefficients = ridge.solve(torch.cat([rows, free[chosen]]), targets, 0.4, weights)
    assert torch.allclose(lesson.coefficients, coefficients, atol=1e-4)


@pytest.mark.parametrize("labels", [[0, 1, 2, 0, 1, 2], [0, 0, 1, 1, 2]])
def test_labels_chosen_class_by_class_do_not_tell_shares(labels):
    assert shares_of(torch.tensor(labels), 3) is None


def test_unlabelled_nodes_help_where_labels_are_few():
    """Mean over five draws of a graph: taught against not."""
    gains = []
    for seed in range(5):
        graph = synthetic.dcsbm(1500, avg_degree=6, classes=4, homophily=0.8, features=32, signal=1.0, seed=seed)
        scores = [
            NIGCN(teach=teach, seed=seed).fit(graph, range(24), range(24, 324)).score(graph, range(324, 1500))
            for teach in (True, False)
        ]
        gains.append(scores[0] - scores[1])
    assert np.mean(gains) > 0
