"""Features of a byte a value, and norms of rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nodewise import Graph, InputError
from nodewise.graph.features import Quantized, column_steps, encode, normalize, row_scales

matrices = arrays(np.float32, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=st.floats(-1e6, 1e6, width=32))


@given(matrices)
def test_a_code_is_within_half_a_step_of_its_number(rows):
    matrix = Quantized.of(rows)
    # Zero gets a code of its own, which shifts the grid by up to half a step: at its ends a whole step can be missing.
    allowed = matrix.scale * 1.01 + 4e-7 * np.abs(rows).max(0)
    assert np.all(np.abs(matrix[:] - rows) <= allowed)
    assert matrix.codes.dtype == np.int8
    assert matrix.shape == rows.shape


@given(matrices)
def test_zero_stays_zero(rows):
    with_zero = np.vstack([rows, np.zeros(rows.shape[1], np.float32)])
    matrix = Quantized.of(with_zero)
    assert np.array_equal(matrix[-1], np.zeros(rows.shape[1]))


def test_columns_far_from_zero_keep_their_precision():
    rows = np.linspace(1000, 1001, 256, dtype=np.float32)[:, None]
    assert np.abs(Quantized.of(rows)[:] - rows).max() < 1 / 255


def test_the_least_numbers_of_float32_come_back():
    rows = np.array([[0.0], [1e-44], [1.4e-45]], np.float32)
    assert np.array_equal(Quantized.of(rows)[:], rows)


def test_a_constant_column_is_exact():
    rows = np.full((3, 1), 7.25, np.float32)
    assert np.array_equal(Quantized.of(rows)[:], rows)


def test_indexing_decodes():
    rows = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)
    matrix = Quantized.of(rows)
    whole = matrix[:]
    assert np.array_equal(matrix[[3, 1]], whole[[3, 1]])
    assert np.array_equal(matrix[4:9, 2:5], whole[4:9, 2:5])
    assert np.array_equal(matrix.take(np.array([5, 5]))[:], whole[[5, 5]])


def test_codes_of_values_outside_the_span_stop_at_its_ends():
    scale, offset = column_steps(np.array([0.0]), np.array([255.0]))
    assert encode(np.array([[-50.0], [1000.0]]), scale, offset).ravel().tolist() == [-128, 127]


@given(matrices, st.sampled_from(["l1", "l2"]))
def test_scaled_rows_have_norm_one(rows, norm):
    sizes = np.linalg.norm(normalize(rows, norm).astype(float), ord=1 if norm == "l1" else 2, axis=1)
    full = np.linalg.norm(rows.astype(float), axis=1) > 1e-15
    assert np.allclose(sizes[full], 1, atol=1e-3)
    assert np.allclose(row_scales(sp.csr_matrix(rows), norm), row_scales(rows, norm), rtol=1e-5)


def test_an_unknown_norm_is_named():
    with pytest.raises(InputError, match=r"norm='l3': expected one of 'none', 'l1', 'l2'"):
        row_scales(np.ones((1, 1), np.float32), "l3")


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 9_999_999, 5, 0], [0, 1, 2]),
        ([0, 1, 2, -(2**31)], [0, 1, 2]),  # its last difference is positive in 32 bits
        ([0, 1, 2, 3], [0, 1, 10**9]),
        ([0, 1, 2, 3], [0, 1, -5]),
    ],
)
def test_a_sparse_matrix_that_points_outside_itself_is_refused(indptr, indices):
    """scipy makes one without a word, and crashes as it reads it."""
    matrix = sp.identity(3, format="csr", dtype=np.float32)
    matrix.indptr, matrix.indices = np.array(indptr, np.int32), np.array(indices, np.int32)
    with pytest.raises(InputError, match="features: a sparse matrix whose parts do not fit together"):
        Graph.from_edges([[0, 1], [1, 2]], features=matrix)
    with pytest.raises(InputError, match="matrix: a sparse matrix whose parts do not fit together"):
        Graph.from_scipy(matrix)
