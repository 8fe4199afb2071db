"""Ridge regression on rows, in closed form: it chooses the diffusion and labels unlabelled rows.

Every solution is of rows with a column of ones added, ``Z1 = [Z, 1]``, so that the bias is one more coefficient:
``(Z1' W Z1 + s I) B = Z1' W Y`` in the columns, or ``B = Z1' (Z1 Z1' + s W^-1)^-1 Y`` in the rows, whichever is fewer.
"""

from __future__ import annotations

import torch

BLOCK = 256  # rows of a product at a time


def solve(rows: torch.Tensor, targets: torch.Tensor, shift: float, weights: torch.Tensor | None = None) -> torch.Tensor:
    """Coefficients ``(columns + 1, outputs)``, the last row being the bias; ``weights``: what each row counts.

    >>> solve(torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0], [-1.0]]), shift=2.0)
    tensor([[0.5000],
            [0.0000]])
    """
    rows, targets = with_ones(rows), targets.double()
    count, columns = rows.shape
    if count <= columns:
        system = gram(rows)
        system.diagonal().add_(shift if weights is None else shift / weights.double())
        return rows.T @ _solved(system, targets).to(rows.dtype)
    weighted = rows if weights is None else rows * weights[:, None].to(rows.dtype)
    system = gram(rows.T if weights is None else (rows * weights[:, None].to(rows.dtype).sqrt()).T)
    system.diagonal().add_(shift)
    return _solved(system, weighted.T.double() @ targets).to(rows.dtype)


def answer(rows: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
    """The ridge's predictions for rows."""
    return torch.addmm(coefficients[-1], rows, coefficients[:-1])


def duals(
    rows: torch.Tensor,
    targets: torch.Tensor,
    shift: float,
    coefficients: torch.Tensor,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """``alpha`` of these rows in ``B = Z1' alpha``: what a ridge answers is a sum over the rows that it was solved on.

    Row ``i`` adds ``(z z_i + 1) alpha_i`` to the answer for ``z``, and ``alpha_i = w_i (y_i - f(z_i)) / s``.
    """
    left = targets.double() - answer(rows.double(), coefficients.double())
    return (left if weights is None else left * weights.double()[:, None]) / shift


def gram(rows: torch.Tensor) -> torch.Tensor:
    """``rows @ rows.T`` in float64, the half below the diagonal multiplied and the other one copied."""
    count = rows.shape[0]
    product = torch.empty(count, count, dtype=torch.float64, device=rows.device)
    for first in range(0, count, BLOCK):
        last = min(count, first + BLOCK)
        product[first:last, :last] = rows[first:last] @ rows[:last].T
        product[:first, first:last] = product[first:last, :first].T
    return product


def with_ones(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows, rows.new_ones(rows.shape[0], 1)], 1)


def _solved(system: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.cholesky_solve(right, torch.linalg.cholesky(system))


class Path:
    """Ridges of one training set for every penalty, by one eigendecomposition of the fewer of rows and columns."""

    def __init__(self, rows: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None = None) -> None:
        root = torch.ones(rows.shape[0], 1) if weights is None else weights.sqrt()[:, None]
        ones, targets = with_ones(rows) * root, targets.double() * root
        self._ones, self._targets, self._root = ones, targets, root
        self._in_rows = ones.shape[0] <= ones.shape[1]
        system = gram(ones if self._in_rows else ones.T)
        values, vectors = torch.linalg.eigh(system)
        self._values: torch.Tensor = values
        self._vectors: torch.Tensor = vectors
        right = targets if self._in_rows else ones.T.double() @ targets
        self._turned: torch.Tensor = self._vectors.T @ right

    def basis(self, rows: torch.Tensor) -> torch.Tensor:
        """Other rows as :meth:`answers` takes them: made once, for all penalties."""
        ones = with_ones(rows)
        return (ones @ self._ones.T if self._in_rows else ones).double() @ self._vectors

    def answers(self, basis: torch.Tensor, shift: float) -> torch.Tensor:
        """The predictions of the ridge with this penalty."""
        return basis @ (self._turned / (self._values + shift)[:, None])

    def left_out(self, shift: float) -> torch.Tensor:
        """For every training row ``i``, the prediction of a ridge solved without it: exact, and not solved again.

        ``y_i - f(i) = alpha_i / inverse(K + s I)_ii`` in the rows; in the columns ``(y_i - f_all(i)) / (1 - h_ii)``.
        """
        scale = 1 / (self._values + shift)
        if self._in_rows:
            alpha = self._vectors @ (self._turned * scale[:, None])
            return (self._targets - alpha / (self._vectors**2 @ scale)[:, None]) / self._root
        turned = self._ones.double() @ self._vectors
        fitted, own = turned @ (self._turned * scale[:, None]), turned**2 @ scale
        return (self._targets - (self._targets - fitted) / (1 - own).clamp_min(1e-12)[:, None]) / self._root
