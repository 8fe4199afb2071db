"""Features that carry a little of a node's class: its centre, and much noise, as float16; a row from the id alone."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from feistel import scramble
from nodewise._util.types import AnyArray, FloatArray, IntArray

BYTES = 4  # uniform bytes that are summed to a nearly normal number
SPREAD = float(np.sqrt(BYTES * (256**2 - 1) / 12))


FIELDS = 22  # of several classes each
FIELD_SPREAD, CLASS_SPREAD = 0.3, 0.03  # where the noise has 1: one node hints at its field, thousands at their class


def centres(classes: int, width: int, seed: int) -> FloatArray:
    """A point for each class, near to those of the other classes of its field."""
    rng = np.random.default_rng([seed, 1])
    fields = FIELD_SPREAD * rng.standard_normal((FIELDS, width))
    points = fields[np.arange(classes) % FIELDS] + CLASS_SPREAD * rng.standard_normal((classes, width))
    return points.astype(np.float32)


def features(points: FloatArray, labels: IntArray, first: int, seed: int) -> AnyArray:
    """Rows of the nodes from ``first`` on, whose classes are ``labels``: their centres plus noise of variance 1."""
    out = np.empty((labels.size, points.shape[1]), np.float16)
    _fill(points, labels, first, np.uint32(seed), out.view(np.uint16))
    return out


@intrinsic
def to_half(typingctx, value):
    """The 16 bits of the float16 nearest to a float32, ties to even."""
    signature = types.uint16(types.float32)

    def codegen(context, builder, sig, args):
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return signature, codegen


@njit(cache=True, nogil=True)
def _fill(points, labels, first, seed, out):
    for i in range(labels.size):
        row = points[labels[i]]
        key = scramble(np.uint32(first + i), seed)
        key ^= key >> np.uint32(16)
        other = scramble(key, np.uint32(0x5BF03635))
        for j in range(out.shape[1]):
            out[i, j] = to_half(row[j] + _noise(key, other, np.uint32(j)))


@njit(cache=True, nogil=True, inline="always")
def _noise(key, other, number):
    """Nearly normal, mean 0, variance 1: the sum of the bytes of 32 mixed bits."""
    bits = scramble(number * np.uint32(0x61C88647), key)
    bits = scramble(np.uint32(bits ^ (bits >> np.uint32(16))), other)
    bits = np.uint32(bits ^ (bits >> np.uint32(16)))
    pairs = np.uint32((bits & np.uint32(0xFF00FF)) + ((bits >> np.uint32(8)) & np.uint32(0xFF00FF)))
    total = np.int32((pairs & np.uint32(0xFFFF)) + (pairs >> np.uint32(16)))
    return np.float32(total - np.int32(510)) * np.float32(1 / SPREAD)
