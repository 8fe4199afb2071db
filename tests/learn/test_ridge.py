"""Ridge regression in closed form, against what solving by hand gives."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from nodewise.learn import ridge


def problem(rows, columns, outputs=3, seed=0):
    torch.manual_seed(seed)
    return torch.randn(rows, columns), torch.randn(rows, outputs)


def by_hand(rows, targets, shift, weights=None):
    """The normal equations of rows with a column of ones, in double precision."""
    ones = np.hstack([rows.double().numpy(), np.ones((rows.shape[0], 1))])
    weight = np.ones(rows.shape[0]) if weights is None else weights.double().numpy()
    system = ones.T @ (weight[:, None] * ones) + shift * np.eye(ones.shape[1])
    return np.linalg.solve(system, ones.T @ (weight[:, None] * targets.double().numpy()))


@pytest.mark.parametrize(("count", "columns"), [(12, 40), (40, 12), (20, 19), (20, 20)])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_and_columns_give_the_same_ridge(count, columns, weighted):
    """Whichever are fewer are solved; both must be the normal equations' solution."""
    rows, targets = problem(count, columns)
    weights = torch.rand(count) + 0.1 if weighted else None
    expected = by_hand(rows, targets, 0.7, weights)
    assert np.allclose(ridge.solve(rows, targets, 0.7, weights).numpy(), expected, atol=1e-4)


def test_it_is_scikit_learns_ridge_with_a_penalised_bias():
    rows, targets = problem(30, 8)
    ones = ridge.with_ones(rows).numpy()
    expected = Ridge(alpha=2.0, fit_intercept=False).fit(ones, targets.numpy())
    assert np.allclose(ridge.solve(rows, targets, 2.0).numpy().T, expected.coef_, atol=1e-4)
    assert np.allclose(ridge.answer(rows, ridge.solve(rows, targets, 2.0)), expected.predict(ones), atol=1e-4)


@pytest.mark.parametrize(("count", "columns"), [(12, 40), (40, 12)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_path_holds_the_ridge_of_every_penalty(count, columns, weighted):
    rows, targets = problem(count, columns)
    others, _ = problem(7, columns, seed=1)
    weights = torch.rand(count) + 0.1 if weighted else None
    path = ridge.Path(rows, targets, weights)
    basis = path.basis(others)
    for shift in (0.01, 1.0, 50.0):
        expected = ridge.answer(others.double(), torch.from_numpy(by_hand(rows, targets, shift, weights)))
        assert torch.allclose(path.answers(basis, shift), expected, atol=1e-4)


@pytest.mark.parametrize(("count", "columns"), [(12, 40), (40, 12)])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaving_one_out_by_closed_form_is_leaving_each_out_by_hand(count, columns, weighted):
    """If the formula were wrong, a search without validation nodes would judge by rows that it learned from."""
    rows, targets = problem(count, columns)
    weights = torch.rand(count) + 0.1 if weighted else None
    left_out = ridge.Path(rows, targets, weights).left_out(0.5)
    for i in range(count):
        others = torch.arange(count) != i
        without = by_hand(rows[others], targets[others], 0.5, None if weights is None else weights[others])
        expected = ridge.answer(rows[i : i + 1].double(), torch.from_numpy(without))[0]
        assert torch.allclose(left_out[i], expected, atol=1e-3)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 700])
def test_a_gram_matrix_made_of_blocks_is_the_product(count):
    rows = torch.randn(count, 5, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(ridge.gram(rows), (rows @ rows.T).double(), atol=1e-5)
    assert torch.equal(ridge.gram(rows), ridge.gram(rows).T)
