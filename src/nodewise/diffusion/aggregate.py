"""Weighted sums of features: ``z_u = sum over v of t_v x_v``.

The entries of a tile of targets are put in order of node ranges, and the features are read once in that order while
the tile's sums stay in cache. Against reading each target's rows one by one this trades random reads of the feature
matrix for one pass over it.

Features in memory are *gathered*: each thread takes tile after tile. Features in a file larger than memory are
*streamed*: all targets at once, so that the file is read once, front to back, in blocks of whole ranges. The ranges
depend on the graph alone, so a target's sum is the same, bit for bit, either way and whatever the other targets are.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from nodewise._util.pagecache import BLOCK_BYTES, RowBlocks
from nodewise._util.threads import map_chunks
from nodewise._util.types import AnyArray, Features, FloatArray, IntArray
from nodewise.diffusion.kernels import sums as kernels
from nodewise.diffusion.walks import Weights
from nodewise.graph.features import NORMS, Quantized
from nodewise.graph.unchecked import check_finite, csr_parts, damaged

RANGES = 1 << 12  # of nodes; more write streams than this thrash the TLB
SUMS_BYTES = 1 << 20  # a tile's sums, to stay in a core's L2
TILE_ENTRIES = 1 << 24  # a tile's ordered entries take 12 bytes each


class Ordered(NamedTuple):
    """The entries of some targets by node range: range ``r`` is ``starts[r]`` to ``starts[r + 1]``."""

    starts: IntArray
    targets: AnyArray
    nodes: AnyArray
    weights: AnyArray


def weighted_sum(
    weights: Weights, features: Features, threads: int, norm: str = "none", stream: bool = False
) -> FloatArray:
    """float32 ``(targets, num_features)``.

    ``norm`` scales each row of features first. ``stream`` reads features that lie in a file from front to back.
    """
    out = np.zeros((weights.indptr.size - 1, features.shape[1]), np.float32)
    if sp.issparse(features):
        _add_sparse(weights, features, NORMS.index(norm), out, threads)
        check_finite(out, features)
        return out
    numbers, steps = features, np.zeros((2, 0), np.float32)
    if isinstance(features, Quantized):
        numbers, steps = features.codes, np.stack([features.scale, features.offset])
    shift = max(0, int(numbers.shape[0] - 1).bit_length() - RANGES.bit_length() + 1)
    (_stream if stream else _gather)(weights, _Rows(numbers, steps, NORMS.index(norm)), shift, out, threads)
    check_finite(out, features)
    return out


class _Rows(NamedTuple):
    """Dense features as the kernel takes them."""

    numbers: AnyArray
    steps: FloatArray
    norm: int


def _gather(weights: Weights, rows: _Rows, shift: int, out: FloatArray, threads: int) -> None:
    rows = rows._replace(numbers=_readable(rows.numbers))

    def work(tile: tuple[int, int]) -> None:
        _add_block(rows, 0, (0, RANGES - 1), _ordered(weights, tile, shift), out)

    map_chunks(work, _tiles(weights, out.shape[1], threads), threads)


def _stream(weights: Weights, rows: _Rows, shift: int, out: FloatArray, threads: int) -> None:
    """Each thread has targets of its own, and adds what a block holds for them before the next block comes."""
    cuts = np.searchsorted(weights.indptr, np.linspace(0, weights.indptr[-1], threads + 1)).tolist()
    cuts[0], cuts[-1] = 0, weights.indptr.size - 1
    parts = [(a, b) for a, b in itertools.pairwise(cuts) if a < b]
    ordered = map_chunks(lambda part: _ordered(weights, part, shift), parts, threads)
    used = np.flatnonzero(sum((np.diff(mine.starts) for mine in ordered), np.zeros(RANGES, np.int64)))
    row_bytes = rows.numbers.itemsize * rows.numbers.shape[1]
    blocks = _blocks(used, max(1, (BLOCK_BYTES >> shift) // max(1, row_bytes)))
    spans = [(first << shift, min((last + 1) << shift, rows.numbers.shape[0])) for first, last in blocks]
    with ThreadPoolExecutor(threads) as pool:
        for block, span, read in zip(blocks, spans, RowBlocks(rows.numbers, spans), strict=True):
            mine = rows._replace(numbers=_readable(read))
            done = [pool.submit(_add_block, mine, span[0], block, part, out) for part in ordered]
            for part in done:
                part.result()


def _add_block(rows: _Rows, start: int, ranges: tuple[int, int], mine: Ordered, out: FloatArray) -> None:
    low, high = mine.starts[ranges[0]], mine.starts[ranges[1] + 1]
    entries = (mine.targets, mine.nodes, mine.weights)
    kernels.add_rows(rows.numbers, start, rows.steps, rows.norm, *entries, low, high, out)


def _ordered(weights: Weights, targets: tuple[int, int], shift: int) -> Ordered:
    first, last = targets
    size = int(weights.indptr[last] - weights.indptr[first])
    made = Ordered(
        np.zeros(RANGES + 1, np.int64),
        np.empty(size, np.int32),
        np.empty(size, weights.nodes.dtype),
        np.empty(size, np.float32),
    )
    kernels.deal_entries(weights.indptr, first, last, weights.nodes, weights.values, shift, *made)
    return made


def _blocks(used: IntArray, most: int) -> list[tuple[int, int]]:
    """Runs of at most ``most`` ranges, first and last, that together hold all ``used`` ones."""
    blocks: list[tuple[int, int]] = []
    for r in used.tolist():
        if blocks and r == blocks[-1][1] + 1 and r - blocks[-1][0] < most:
            blocks[-1] = (blocks[-1][0], r)
        else:
            blocks.append((r, r))
    return blocks


def _readable(features: AnyArray) -> AnyArray:
    """The features as the kernels take them: read-only, float16 by its bits."""
    rows = np.asarray(features).view()
    rows.flags.writeable = False
    return rows.view(np.uint16) if rows.dtype == np.float16 else rows


def _add_sparse(weights: Weights, features: sp.csr_matrix, norm: int, out: FloatArray, threads: int) -> None:
    matrix = (*csr_parts(features), norm)

    def work(tile: tuple[int, int]) -> None:
        if not kernels.add_sparse_rows(*matrix, weights.indptr, *tile, weights.nodes, weights.values, out):
            raise damaged(features, "features", "this, its indptr or its indices point outside the features")

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
