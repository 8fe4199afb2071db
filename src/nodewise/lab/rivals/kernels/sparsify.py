"""Which entries of rows to keep."""

from __future__ import annotations

import numpy as np
from numba import njit

from nodewise.diffusion.kernels.walking import _nth_smallest


@njit(cache=True, nogil=True)
def mark_heaviest(indptr, values, most):
    """Mark the ``most`` largest values of each row; among equals those that come first."""
    marked = np.ones(values.size, np.bool_)
    for i in range(indptr.size - 1):
        row = values[indptr[i] : indptr[i + 1]]
        if row.size <= most:
            continue
        least = _nth_smallest(row.copy(), row.size, row.size - most)
        equals = most
        for value in row:
            equals -= value > least
        for j in range(row.size):
            if row[j] == least:
                marked[indptr[i] + j] = equals > 0
                equals -= 1
            else:
                marked[indptr[i] + j] = row[j] > least
    return marked
