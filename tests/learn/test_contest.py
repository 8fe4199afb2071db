"""Choices compared on few labels: rows dealt anew, and halves that judge each other."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from nodewise.learn.contest import ENOUGH, MOST_DEALS, deals, dealt
from nodewise.learn.halves import CrossedHalves, halves
from nodewise.learn.metrics import macro_f1, micro_f1
from nodewise.learn.trainer import Recipe, train, train_by


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.data())
def test_each_class_has_as_many_to_learn_from_as_before(labels, data):
    labels = np.array(labels)
    training = data.draw(st.integers(1, len(labels) - 1))
    first, rest = dealt(labels, training, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert sorted([*first, *rest]) == list(range(len(labels)))
    assert sorted(labels[first]) == sorted(labels[:training])


def test_each_row_is_as_likely_to_be_learned_from_as_others_of_its_class():
    labels = np.repeat([0, 1], 10)
    rng = np.random.default_rng(0)
    count = np.zeros(20)
    for _ in range(4000):
        count[dealt(labels, 13, rng)[0]] += 1  # ten of class 0, three of ten of class 1
    assert (count[:10] == 4000).all()
    # Five standard errors of a share of 0.3: a false alarm in less than one of 100,000 runs.
    assert np.abs(count[10:] / 4000 - 0.3).max() < 5 * math.sqrt(0.3 * 0.7 / 4000)


def test_rows_of_several_labels_are_dealt_by_number():
    first, rest = dealt(np.eye(7, dtype=np.int8), 3, np.random.default_rng(0))
    assert (first.size, rest.size) == (3, 4)
    assert sorted([*first, *rest]) == list(range(7))


@pytest.mark.parametrize(("judges", "count"), [(10, MOST_DEALS), (ENOUGH - 1, 2), (ENOUGH, 1), (9 * ENOUGH, 1)])
def test_rows_are_dealt_again_where_few_can_judge(judges, count):
    rows = torch.arange(4.0 + judges)[:, None]
    labels = torch.arange(4 + judges) % 2
    dealt_rows = list(deals((rows[:4], labels[:4]), (rows[4:], labels[4:]), seed=0))
    assert len(dealt_rows) == count
    assert dealt_rows[0][0][0].ravel().tolist() == [0, 1, 2, 3]
    for first, rest in dealt_rows:
        assert torch.cat([first[0], rest[0]]).ravel().sort().values.tolist() == rows.ravel().tolist()
        assert all((part[0].ravel() % 2 == part[1]).all() for part in (first, rest))


# ---------------------------------------------------------------------- halves


def noisy(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    rows = rng.normal(size=(count, 8)) + 0.8 * np.eye(3, 8)[labels]
    return torch.from_numpy(rows.astype(np.float32)), torch.from_numpy(labels)


@given(st.integers(2, 4), st.integers(30, 60))
def test_halves_have_the_same_classes_even_where_these_alternate(classes, each):
    labels = torch.arange(classes * each) % classes
    rows = torch.arange(classes * each)
    parts = halves((rows, labels))
    assert torch.cat([part for part, _ in parts]).sort().values.equal(rows)
    assert all((labels[part] == known).all() for part, known in parts)
    even, odd = (torch.bincount(known, minlength=classes) for _, known in parts)
    assert (even - odd).abs().max() <= 2


def test_halves_are_every_other_row_where_classes_come_as_they_like():
    rows, labels = noisy(200, 3)
    assert all(part[0].equal(rows[i::2]) for i, part in enumerate(halves((rows, labels))))


@pytest.mark.parametrize("balanced", [False, True])
def test_one_network_gives_what_two_stopped_by_each_half_would(balanced):
    recipe = Recipe(0.05, 0.001, 200, 7, None, 3, 1, balanced)
    rows, val = noisy(40, 0), noisy(101, 1)
    judge = CrossedHalves(val, recipe)
    train_by(lambda: nn.Linear(8, 3), rows, judge.score, recipe)
    expected = []
    for half in (0, 1):
        stop, other = ((val[0][i::2], val[1][i::2]) for i in (half, 1 - half))
        head, _ = train(lambda: nn.Linear(8, 3), rows, stop, recipe)
        measure = macro_f1 if balanced else micro_f1
        expected.append(measure(other[1].numpy(), head(other[0]).argmax(1).numpy()))
    assert judge.value == pytest.approx(np.mean(expected), abs=1e-6)


def test_it_tells_of_every_epoch():
    recipe = Recipe(0.05, 0.001, 30, 30, None, 3, 1)
    told = []
    judge = CrossedHalves(noisy(60, 1), recipe, lambda epoch, value: told.append((epoch, value)))
    train_by(lambda: nn.Linear(8, 3), noisy(40, 0), judge.score, recipe)
    assert [epoch for epoch, _ in told] == list(range(1, 31))
    assert told[-1][1] == judge.value
