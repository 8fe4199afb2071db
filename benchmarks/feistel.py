"""Keyed permutations of the numbers below any size: each value forwards or backwards, nothing stored.

A number is written as two digits, and each round adds to one digit a scramble of the other, which can be undone: a
Feistel network. The low digit has ``bits`` bits; the high one takes as many values as the size needs, so that the grid
is at most one row larger than the size. A number that lands beyond the size goes round again until it does not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MAX_SIZE = 1 << 31  # digits of up to 16 bits, so that all arithmetic stays in 32


def digit_bits(size: int) -> int:
    """Bits of the low digit of the numbers below ``size``: half of what they take."""
    return int(size - 1).bit_length() // 2


@njit(cache=True, nogil=True, inline="always")
def scramble(value, key):
    """32 mixed bits, the upper ones best."""
    mixed = np.uint32(np.uint32(value + key) * np.uint32(0x9E3779B1))
    mixed = np.uint32(mixed ^ (mixed >> np.uint32(15)))
    return np.uint32(mixed * np.uint32(0x85EBCA77))


@njit(cache=True, nogil=True, inline="always")
def _round_key(key, number):
    return np.uint32(key + np.uint32(np.uint32(number) * np.uint32(0x61C88647)))


@njit(cache=True, nogil=True, inline="always")
def _below(mixed, high):
    """A number below ``high``, which has at most 16 bits."""
    return np.uint32(np.uint32((mixed >> np.uint32(16)) * high) >> np.uint32(16))


@njit(cache=True, nogil=True, inline="always")
def forth(value, size, bits, key):
    """One pass; the result may lie beyond ``size``. All arguments are uint32."""
    mask = np.uint32((np.uint32(1) << bits) - np.uint32(1))
    high = np.uint32(np.uint32(size + mask) >> bits)
    left, right = np.uint32(value >> bits), np.uint32(value & mask)
    for turn in range(2):
        left = np.uint32(left + _below(scramble(right, _round_key(key, 2 * turn)), high))
        left = np.uint32(left - high if left >= high else left)
        right = np.uint32((right + (scramble(left, _round_key(key, 2 * turn + 1)) >> np.uint32(16))) & mask)
    return np.uint32(np.uint32(left << bits) | right)


@njit(cache=True, nogil=True, inline="always")
def back(value, size, bits, key):
    """What :func:`forth` makes ``value`` of."""
    mask = np.uint32((np.uint32(1) << bits) - np.uint32(1))
    high = np.uint32(np.uint32(size + mask) >> bits)
    left, right = np.uint32(value >> bits), np.uint32(value & mask)
    for turn in range(1, -1, -1):
        right = np.uint32((right - (scramble(left, _round_key(key, 2 * turn + 1)) >> np.uint32(16))) & mask)
        left = np.uint32(left + high - _below(scramble(right, _round_key(key, 2 * turn)), high))
        left = np.uint32(left - high if left >= high else left)
    return np.uint32(np.uint32(left << bits) | right)


@njit(cache=True, nogil=True)
def permuted(value, size, bits, key):
    """Where the permutation takes ``value``."""
    value = forth(value, size, bits, key)
    while value >= size:
        value = forth(value, size, bits, key)
    return value


@njit(cache=True, nogil=True)
def origin(value, size, bits, key):
    """What the permutation takes to ``value``."""
    value = back(value, size, bits, key)
    while value >= size:
        value = back(value, size, bits, key)
    return value


@njit(cache=True, nogil=True)
def permute(values, size, bits, key):
    """Each of ``values`` to where the permutation takes it; the first pass has no branch and is vectorised."""
    for i in range(values.size):
        values[i] = forth(values[i], size, bits, key)
    for i in range(values.size):
        if values[i] >= size:
            values[i] = permuted(values[i], size, bits, key)


@njit(cache=True, nogil=True)
def unpermute(values, size, bits, key):
    """Undo :func:`permute`."""
    for i in range(values.size):
        values[i] = back(values[i], size, bits, key)
    for i in range(values.size):
        if values[i] >= size:
            values[i] = origin(values[i], size, bits, key)
