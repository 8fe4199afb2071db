"""FastGCN: GCN whose layers take a sample of nodes instead of all neighbours.

Chen et al., "FastGCN: Fast Learning with Graph Convolutional Networks via Importance Sampling", ICLR 2018, Section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.types import DoubleArray, IntArray
from nodewise.lab.rivals.gcn import GCN
from nodewise.lab.rivals.layered import LayeredView
from nodewise.learn.task import check_whole
from nodewise.learn.trainer import loss_of


@dataclass(eq=False, repr=False, kw_only=True)
class FastGCN(GCN):
    """``samples``: nodes that a layer draws for a batch. Answers take all neighbours.

    The layer next to the features is not sampled, as in the paper's experiments (its ``S X`` does not change).

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> FastGCN(epochs=30, seed=0).fit(g, range(60), range(60, 120)).score(g, range(120, 500)) > 0.6
    True
    """

    samples: int = 400
    batch_size: int | None = 256

    def check_params(self) -> None:
        super().check_params()
        check_whole("samples", self.samples)

    @staticmethod
    @lru_cache(maxsize=1)  # an epoch asks for what the last one did
    def _importance(view: LayeredView) -> DoubleArray:
        return column_importance(view.matrix)

    def _losses(
        self, network: nn.Module, view: LayeredView, nodes: IntArray, labels: torch.Tensor, rng: np.random.Generator
    ) -> Iterator[torch.Tensor]:
        sampled = partial(sampled_rows, view.matrix, self._importance(view), self.samples, rng)
        for chosen in self._batches(nodes.size, rng):
            needed = view.made_by([*[sampled] * (self.layers - 1), view.matrix.__getitem__], nodes[chosen])
            yield loss_of(network(needed.inputs, needed.matrices), labels[torch.from_numpy(chosen)])


def column_importance(matrix: sp.csr_matrix) -> DoubleArray:
    """``q(v)`` of the paper's Equation 10: proportional to the squared length of column ``v``, and summing to one."""
    squares = np.bincount(matrix.indices, np.square(matrix.data, dtype=np.float64), matrix.shape[1])
    return np.asarray(squares / squares.sum())


def sampled_rows(
    matrix: sp.csr_matrix, importance: DoubleArray, samples: int, rng: np.random.Generator, targets: IntArray
) -> sp.csr_matrix:
    """Rows of ``targets`` with the columns of ``samples`` draws, each over ``samples * q``: right in the mean.

    Draws are among the targets' neighbours only, as in the authors' program: other columns are zero in these rows.
    Where that many draws are no saving the rows are exact.
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
