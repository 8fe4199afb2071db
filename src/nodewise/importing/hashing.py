"""Kernels for node ids: hashes of names, a table from hashes to numbers in order of appearance, and a set of numbers.

The table holds hashes instead of names. The probability that any two of a billion names share a hash is below 10^-20.
"""

from __future__ import annotations

import numpy as np

from nodewise._util.intrinsics import prefetch
from nodewise._util.kernels import njit
from nodewise._util.types import AnyArray

EMPTY = np.uint32(0xFFFFFFFF)
AHEAD = 12  # names whose slots are prefetched
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_FIVE, _ADD1, _ADD2 = np.uint64(5), np.uint64(0x52DCE729), np.uint64(0x38495AB5)


@njit(nogil=True)
def hash_strings(offsets, data, first, last, out):
    """MurmurHash3 (x64, 128 bits) of strings ``first`` to ``last`` into the rows of ``out``."""
    for i in range(first, last):
        start, end = offsets[i], offsets[i + 1]
        h1 = h2 = np.uint64(0)
        place = start
        while place + 16 <= end:
            h1 ^= _mix1(_word(data, place, place + 8))
            h1 = (_rotated(h1, 27) + h2) * _FIVE + _ADD1
            h2 ^= _mix2(_word(data, place + 8, place + 16))
            h2 = (_rotated(h2, 31) + h1) * _FIVE + _ADD2
            place += 16
        h2 ^= _mix2(_word(data, min(place + 8, end), end))
        h1 ^= _mix1(_word(data, place, min(place + 8, end)))
        length = np.uint64(end - start)
        h1, h2 = h1 ^ length, h2 ^ length
        h1 += h2
        h2 += h1
        h1, h2 = _final(h1), _final(h2)
        h1 += h2
        out[i, 0], out[i, 1] = h1, h2 + h1


@njit(nogil=True)
def number(hashes, begin, slots, known, count, limit, numbers):
    """Number ``hashes`` from ``begin`` on: those in the table as there, others with ``count`` and on, and added.

    ``slots`` holds numbers or EMPTY, ``known`` the hash of each number. Returns how many hashes are done, and the new
    count; it stops early once ``count`` reaches ``limit`` and a hash is not in the table.
    """
    mask = np.uint64(slots.size - 1)
    for i in range(begin, hashes.shape[0]):
        if i + AHEAD < hashes.shape[0]:
            prefetch(slots, np.int64(hashes[i + AHEAD, 0] & mask))
        slot = hashes[i, 0] & mask
        while True:
            found = slots[slot]
            if found == EMPTY:
                if count == limit:
                    return i, count
                slots[slot] = count
                known[count, 0], known[count, 1] = hashes[i, 0], hashes[i, 1]
                numbers[i] = count
                count += 1
                break
            if known[found, 0] == hashes[i, 0] and known[found, 1] == hashes[i, 1]:
                numbers[i] = found
                break
            slot = (slot + np.uint64(1)) & mask
    return hashes.shape[0], count


@njit(nogil=True)
def fill_slots(known, count, slots):
    """Put ``count`` distinct hashes into empty ``slots``."""
    mask = np.uint64(slots.size - 1)
    for i in range(count):
        slot = known[i, 0] & mask
        while slots[slot] != EMPTY:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = i


@njit(nogil=True)
def copy_strings(offsets, data, chosen, places, out):
    """Put the bytes of each string ``chosen`` where ``places`` says."""
    for i in range(chosen.size):
        start, end = offsets[chosen[i]], offsets[chosen[i] + 1]
        for j in range(end - start):
            out[places[i] + j] = data[start + j]


@njit(nogil=True)
def sketch(hashes, registers):
    """Add hashes to a HyperLogLog sketch: each register keeps the longest run of zeros seen there, plus one."""
    mask = np.uint64(registers.size - 1)
    for i in range(hashes.shape[0]):
        zeros, rest = np.uint8(1), hashes[i, 1]
        while zeros < 64 and not rest & np.uint64(1):
            zeros += np.uint8(1)
            rest >>= np.uint64(1)
        place = hashes[i, 0] & mask
        registers[place] = max(registers[place], zeros)


def sketched_count(registers: AnyArray) -> float:
    """About how many distinct hashes a sketch has seen; with 2^14 registers, the error is nearly always below 2%."""
    size = registers.size
    estimate = 0.7213 / (1 + 1.079 / size) * size * size / float(np.sum(0.5 ** registers.astype(np.float64)))
    empty = int(np.count_nonzero(registers == 0))
    return size * float(np.log(size / empty)) if estimate < 2.5 * size and empty else estimate


@njit(nogil=True)
def _word(data, start, end):
    """Up to eight bytes as a number, the first byte lowest."""
    word = np.uint64(0)
    for i in range(start, end):
        word |= np.uint64(data[i]) << np.uint64(8 * (i - start))
    return word


@njit(nogil=True)
def _rotated(x, bits):
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@njit(nogil=True)
def _mix1(word):
    return _rotated(word * _C1, 31) * _C2


@njit(nogil=True)
def _mix2(word):
    return _rotated(word * _C2, 33) * _C1


@njit(nogil=True)
def _final(x):
    x = (x ^ (x >> np.uint64(33))) * _M1
    x = (x ^ (x >> np.uint64(33))) * _M2
    return x ^ (x >> np.uint64(33))


@njit(nogil=True)
def mark(bits, nodes):
    """Set the bit of each node; returns how many were not set before."""
    new = 0
    for node in nodes:
        byte, bit = node >> 3, np.uint8(1 << (node & 7))
        if not bits[byte] & bit:
            bits[byte] |= bit
            new += 1
    return new
