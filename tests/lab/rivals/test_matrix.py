"""Sparse products for torch: values and gradients against dense ones."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense_oracles import propagation
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.graph import synthetic
from nodewise.lab.rivals.matrix import InputLinear, SparseMatrix, feature_rows, some_rows, symmetric_adjacency


@given(rows=st.integers(1, 8), columns=st.integers(1, 8), width=st.integers(1, 5), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_product_and_gradient_are_those_of_the_dense_matrix(rows, columns, width, seed):
    rng = np.random.default_rng(seed)
    matrix = sp.random(rows, columns, 0.4, "csr", np.float32, rng)
    dense = torch.tensor(rng.standard_normal((columns, width)), dtype=torch.float32, requires_grad=True)
    out = SparseMatrix.of(matrix, 2) @ dense
    assert np.allclose(out.detach(), matrix.toarray() @ dense.detach().numpy(), atol=1e-5)
    pull = rng.standard_normal((rows, width)).astype(np.float32)
    out.backward(torch.from_numpy(pull))
    assert np.allclose(dense.grad, matrix.toarray().T @ pull, atol=1e-5)


def test_threads_do_not_change_a_product():
    matrix = sp.random(3000, 500, 0.02, "csr", np.float32, np.random.default_rng(0))
    dense = np.random.default_rng(1).standard_normal((500, 64)).astype(np.float32)
    one, four = (SparseMatrix.of(matrix, t).multiply(dense) for t in (1, 4))
    assert np.array_equal(one, four)
    assert np.allclose(one, matrix @ dense, atol=1e-4)


def test_the_symmetric_adjacency_is_the_dense_one():
    graph = synthetic.dcsbm(80, avg_degree=6, classes=2, seed=0)
    assert np.allclose(symmetric_adjacency(graph).toarray(), propagation(graph), atol=1e-6)


def test_dropping_keeps_the_mean_and_the_pattern():
    matrix = SparseMatrix.of(sp.csr_matrix(np.ones((200, 200), np.float32)))
    torch.manual_seed(0)
    dropped = matrix.dropped(0.25)
    assert dropped.pattern is matrix.pattern
    assert set(np.unique(dropped.values)) == {np.float32(0), np.float32(4 / 3)}
    assert dropped.values.mean() == pytest.approx(1, abs=5 * (1 / 3 / 40_000) ** 0.5)  # five standard errors


@pytest.mark.parametrize(("least", "kind"), [(1.7, SparseMatrix), (0.0, torch.Tensor)])
def test_the_first_layer_takes_sparse_and_dense_rows_alike(least, kind):
    graph = synthetic.dcsbm(50, classes=2, features=7, seed=0)
    graph = graph.replace(features=graph.features * (np.abs(graph.features) > least))
    layer = InputLinear(7, 3)
    dense = layer(some_rows(feature_rows(graph.features, "l2"), np.array([4, 9])))
    sparse = graph.replace(features=sp.csr_matrix(graph.features))
    assert isinstance(feature_rows(sparse.features, "l2"), kind)
    assert torch.allclose(layer(some_rows(feature_rows(sparse.features, "l2"), np.array([4, 9]))), dense, atol=1e-6)
