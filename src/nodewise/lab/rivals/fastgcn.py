"""FastGCN: GCN whose layers take a sample of nodes instead of all neighbours.

Chen et al., "FastGCN: Fast Learning with Graph Convolutional Networks via Importance Sampling", ICLR 2018, Section 3:
``S H`` becomes ``1/t sum over t draws v of S[:, v] H[v] / q(v)``, where ``q(v)`` is the probability of ``v``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.types import DoubleArray, IntArray
from nodewise.lab.rivals.gcn import GCN
from nodewise.lab.rivals.layered import LayeredView
from nodewise.lab.rivals.params import Whole


@dataclass(eq=False, repr=False, kw_only=True)
class FastGCN(GCN):
    """``samples``: nodes that a layer draws for a batch. Predictions take all neighbours.

    The layer next to the features is not sampled, as in the paper's experiments (its ``S X`` does not change).
    """

    BATCHED = True

    samples: Whole = 400
    batch_size: Whole | None = 256

    @staticmethod
    @lru_cache(maxsize=1)  # the same for all batches and epochs
    def _importance(view: LayeredView) -> DoubleArray:
        return column_importance(view.matrix)

    def _train_out(
        self, network: nn.Module, view: LayeredView, nodes: IntArray, rng: np.random.Generator
    ) -> torch.Tensor:
        sampled = partial(sampled_rows, view.matrix, self._importance(view), self.samples, rng)
        out: torch.Tensor = network(*view.made_by([*[sampled] * (self.layers - 1), view.matrix.__getitem__], nodes))
        return out


def column_importance(matrix: sp.csr_matrix) -> DoubleArray:
    """``q(v)`` of the paper's Equation 10: proportional to the squared length of column ``v``, and summing to one."""
    squares = np.bincount(matrix.indices, np.square(matrix.data, dtype=np.float64), matrix.shape[1])
    return np.asarray(squares / squares.sum())


def sampled_rows(
    matrix: sp.csr_matrix, importance: DoubleArray, samples: int, rng: np.random.Generator, targets: IntArray
) -> sp.csr_matrix:
    """Rows of ``targets`` with the columns of ``samples`` draws, each divided by ``samples * q``: unbiased.

    Only the targets' neighbours are drawn, as in the authors' program: other columns are zero in these rows. Where that
    many draws save nothing, the rows are exact.
    """
    rows = matrix[targets]
    near = np.unique(rows.indices)
    if near.size <= samples:
        return rows
    q = importance[near] / importance[near].sum()
    scale = np.zeros(matrix.shape[1])
    scale[near] = rng.multinomial(samples, q) / (samples * q)
    drawn = sp.csr_matrix((rows.data * scale[rows.indices], rows.indices, rows.indptr), shape=rows.shape)
    drawn.eliminate_zeros()
    return drawn
