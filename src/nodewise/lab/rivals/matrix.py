"""Sparse matrices that torch multiplies with, by the kernel of NIGCN's exact hops, and the layers that take them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from nodewise._util.threads import map_chunks, thread_count
from nodewise._util.types import AnyArray, FloatArray, IntArray
from nodewise.diffusion.kernels.hops import propagate
from nodewise.graph import Graph
from nodewise.graph.features import row_scales
from nodewise.graph.unchecked import check_finite
from nodewise.learn.heads import dropout

WELL_FILLED = 0.2  # of a matrix: from here on the dense product is faster than the sparse one
WORTH_THREADS = 1 << 20  # multiplications below which a product stays on one thread


def over_rows(run: Callable[[int, int], Any], rows: int, work: int, threads: int) -> None:
    """``run(first, last)`` for all rows, on ``threads`` threads where ``work`` multiplications are enough for that."""
    chunks = threads if work > WORTH_THREADS else 1
    cuts = np.linspace(0, rows, chunks + 1).astype(np.int64).tolist()
    map_chunks(lambda span: run(*span), pairwise(cuts), chunks)


def frozen(array: AnyArray) -> AnyArray:
    """A read-only view: one type for the compiled kernel."""
    view = array.view()
    view.flags.writeable = False
    return view


class Pattern:
    """Where a CSR matrix has entries; matrices with the same pattern share that of the transpose."""

    def __init__(self, indptr: AnyArray, indices: AnyArray, shape: tuple[int, int]) -> None:
        self.indptr, self.indices, self.shape = frozen(indptr.astype(np.int64)), frozen(indices), shape
        self.ones = np.ones(shape[0])  # the kernel divides by degrees

    @cached_property
    def transposed(self) -> tuple[Pattern, AnyArray]:
        """The pattern of the transpose, and the order of the values in it."""
        places = sp.csr_matrix((np.arange(1, self.indices.size + 1), self.indices, self.indptr), shape=self.shape)
        turned = places.T.tocsr()
        return Pattern(turned.indptr, turned.indices, turned.shape), turned.data - 1


class SparseMatrix:
    """A constant matrix in CSR; ``matrix @ tensor`` is a tensor with a gradient.

    >>> import torch
    >>> (SparseMatrix.of(sp.identity(2, format="csr")) @ torch.tensor([[1.0], [2.0]])).tolist()
    [[1.0], [2.0]]
    """

    def __init__(self, pattern: Pattern, values: AnyArray, threads: int, *, symmetric: bool = False) -> None:
        self.pattern, self.values, self.threads, self.symmetric = pattern, frozen(values), threads, symmetric

    @classmethod
    def of(cls, matrix: sp.csr_matrix, threads: int | None = None, *, symmetric: bool = False) -> SparseMatrix:
        """From a matrix of scipy; ``symmetric``: it is its own transpose."""
        pattern = Pattern(matrix.indptr, matrix.indices, matrix.shape)
        return cls(pattern, matrix.data.astype(np.float32), thread_count(threads), symmetric=symmetric)

    @property
    def shape(self) -> tuple[int, int]:
        return self.pattern.shape

    @property
    def csr(self) -> sp.csr_matrix:
        return sp.csr_matrix((self.values, self.pattern.indices, self.pattern.indptr), shape=self.shape)

    @cached_property
    def transposed(self) -> SparseMatrix:
        if self.symmetric:
            return self
        pattern, order = self.pattern.transposed
        return SparseMatrix(pattern, self.values[order], self.threads)

    def rows(self, nodes: AnyArray) -> SparseMatrix:
        """Some rows of the matrix."""
        return SparseMatrix.of(self.csr[nodes], self.threads)

    def dropped(self, share: float) -> SparseMatrix:
        """A copy with each entry set to zero with probability ``share`` and the others scaled up to keep the mean."""
        kept = dropout(torch.from_numpy(np.array(self.values)), share).numpy()
        return SparseMatrix(self.pattern, kept, self.threads)

    def multiply(self, dense: FloatArray) -> FloatArray:
        """The product with a float32 array."""
        out = np.zeros((self.shape[0], dense.shape[1]), np.float32)  # the kernel leaves rows without entries alone
        indptr, indices = self.pattern.indptr, self.pattern.indices
        run = partial(propagate, indptr, indices, self.values, self.pattern.ones, np.ascontiguousarray(dense), out)
        over_rows(run, self.shape[0], indices.size * dense.shape[1], self.threads)
        return out

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = _Product.apply(dense, self)  # type: ignore[no-untyped-call]
        return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: torch.Tensor, matrix: SparseMatrix) -> torch.Tensor:
        ctx.matrix = matrix
        return torch.from_numpy(matrix.multiply(dense.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return torch.from_numpy(ctx.matrix.transposed.multiply(grads[0].numpy())), None


# ---------------------------------------------------------------------- what networks multiply

Inputs = SparseMatrix | torch.Tensor


def symmetric_adjacency(graph: Graph) -> sp.csr_matrix:
    """``D^-1/2 A D^-1/2``, loops included."""
    matrix, scale = graph.to_scipy(), 1 / np.sqrt(graph.degrees)
    values = matrix.data * np.repeat(scale, np.diff(graph.indptr)) * scale[graph.indices]
    return sp.csr_matrix((values.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def feature_rows(features: Any, norm: str, threads: int | None = None, nodes: IntArray | None = None) -> Inputs:
    """Features, brought to ``norm``, as a network takes them: of all nodes, or of ``nodes`` without reading the others.

    Sparse ones stay sparse; if they are those of all nodes, only where few entries are set.
    """
    rows = features if nodes is None else features[nodes]
    scales = row_scales(rows, norm)
    if sp.issparse(rows):
        matrix = rows if scales is None else (sp.diags(scales) @ rows).tocsr()
        if nodes is None and matrix.nnz > WELL_FILLED * matrix.shape[0] * matrix.shape[1]:
            return torch.from_numpy(matrix.toarray().astype(np.float32, copy=False))
        return SparseMatrix.of(matrix, threads)
    dense = np.array(rows[:], np.float32)
    check_finite(dense, features)
    return torch.from_numpy(dense if scales is None else dense * scales[:, None])


def some_rows(inputs: Inputs, nodes: AnyArray) -> Inputs:
    """The rows of some nodes."""
    return inputs.rows(nodes) if isinstance(inputs, SparseMatrix) else inputs[torch.from_numpy(nodes)]


class InputLinear(nn.Module):
    """Dropout and a linear map that take dense or sparse rows: the first layer of a network."""

    def __init__(self, inputs: int, outputs: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        limit = math.sqrt(6 / (inputs + outputs))
        self.weight = nn.Parameter(torch.empty(inputs, outputs).uniform_(-limit, limit))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        self.dropout = dropout

    def forward(self, rows: Inputs) -> torch.Tensor:
        if self.training and self.dropout:
            rows = rows.dropped(self.dropout) if isinstance(rows, SparseMatrix) else dropout(rows, self.dropout)
        out = rows @ self.weight
        return out if self.bias is None else out + self.bias


class MLP(nn.Module):
    """Linear layers without bias, ReLU between them, dropout before each; takes sparse rows too."""

    def __init__(self, widths: list[int], dropout: float) -> None:
        super().__init__()
        self.first = InputLinear(widths[0], widths[1], dropout, bias=False)
        self.rest = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths[1:]))
        self.dropout = dropout

    def forward(self, inputs: Inputs) -> torch.Tensor:
        rows: torch.Tensor = self.first(inputs)
        for linear in self.rest:
            rows = linear(nn.functional.dropout(torch.relu(rows), self.dropout, self.training))
        return rows
