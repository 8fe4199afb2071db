"""Weights x features: ``z_u = sum over v of t_v x_v``.

The entries of a tile of targets are put in order of node ranges, and the features are read once in that order while
the tile's sums stay in cache. Against reading each target's rows one by one this trades random reads of the feature
matrix for one pass over it. The ranges depend on the graph alone, so a target's sum is the same, bit for bit, in any
company.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from nodewise._typing import AnyArray, Features, FloatArray
from nodewise.diffusion.kernels import sums as kernels
from nodewise.diffusion.walks import Weights
from nodewise.parallel import map_chunks

RANGES = 1 << 12  # of nodes; more write streams than this thrash the TLB
SUMS_BYTES = 1 << 20  # a tile's sums, to stay in a core's L2
TILE_ENTRIES = 1 << 24  # a tile's ordered entries take 12 bytes each


def weighted_sum(weights: Weights, features: Features, threads: int) -> FloatArray:
    """float32 ``(targets, num_features)``."""
    out = np.zeros((weights.indptr.size - 1, features.shape[1]), np.float32)
    if sp.issparse(features):
        _add_sparse(weights, features, out, threads)
    else:
        _add_dense(weights, features, out, threads)
    return out


def _add_dense(weights: Weights, features: AnyArray, out: FloatArray, threads: int) -> None:
    num_nodes, width = features.shape
    shift = max(0, int(num_nodes - 1).bit_length() - RANGES.bit_length() + 1)
    rows, add = _readable(features)

    def work(tile: tuple[int, int]) -> None:
        first, last = tile
        size = int(weights.indptr[last] - weights.indptr[first])
        by_target, by_node = np.empty(size, np.int32), np.empty(size, weights.nodes.dtype)
        by_weight, places = np.empty(size, np.float32), np.zeros(RANGES, np.int64)
        kernels.deal_entries(
            weights.indptr, first, last, weights.nodes, weights.values, shift, places, by_target, by_node, by_weight
        )
        add(rows, by_target, by_node, by_weight, size, out)

    map_chunks(work, _tiles(weights, width, threads), threads)


def _readable(features: AnyArray) -> tuple[AnyArray, Callable[..., None]]:
    """The features as the kernels take them, and the kernel that does."""
    rows = np.asarray(features).view()
    rows.flags.writeable = False
    return (rows.view(np.uint16), kernels.add_half_rows) if rows.dtype == np.float16 else (rows, kernels.add_rows)


def _add_sparse(weights: Weights, features: sp.csr_matrix, out: FloatArray, threads: int) -> None:
    def work(tile: tuple[int, int]) -> None:
        kernels.add_sparse_rows(
            features.indptr, features.indices, features.data, weights.indptr, *tile, weights.nodes, weights.values, out
        )

    map_chunks(work, _tiles(weights, features.shape[1], threads), threads)


def _tiles(weights: Weights, width: int, threads: int) -> list[tuple[int, int]]:
    """Ranges of targets: small enough for the cache, enough of them for all threads."""
    targets = weights.indptr.size - 1
    each = max(1, min(SUMS_BYTES // (4 * max(1, width)), -(-targets // threads)))
    tiles, first = [], 0
    while first < targets:
        full = int(np.searchsorted(weights.indptr, weights.indptr[first] + TILE_ENTRIES)) - 1
        last = min(targets, first + each, max(first + 1, full))
        tiles.append((first, last))
        first = last
    return tiles
