"""Processor instructions that numba does not offer: prefetch, the high half of a product, half-precision loads."""

from __future__ import annotations

import logging
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.extending import intrinsic


class _SayOnce(event.Listener):
    """Say once in a run why it takes longer: numba compiles for this machine."""

    said = False

    def on_start(self, event: Any) -> None:
        if not _SayOnce.said:
            _SayOnce.said = True
            logging.getLogger("nodewise").info("compiling kernels for this machine; they are kept for later runs")

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _SayOnce())  # fires only where nothing is found in the cache


def _prefetch_codegen(context, builder, sig, args):
    arrayty = sig.args[0]
    ary = context.make_array(arrayty)(context, builder, args[0])
    pointer = cgutils.get_item_pointer(context, builder, arrayty, ary, args[1:])
    i32, i8p = ir.IntType(32), ir.IntType(8).as_pointer()
    function = builder.module.declare_intrinsic(
        "llvm.prefetch", [i8p], fnty=ir.FunctionType(ir.VoidType(), [i8p, i32, i32, i32])
    )
    read, keep, data = ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)
    builder.call(function, [builder.bitcast(pointer, i8p), read, keep, data])
    return context.get_dummy_value()


@intrinsic
def prefetch(typingctx, array, index):
    """Ask the memory for ``array[index]`` without waiting for it."""
    return types.void(array, types.intp), _prefetch_codegen


@intrinsic
def prefetch_row(typingctx, array, row, column):
    """Ask the memory for ``array[row, column]`` without waiting for it."""
    return types.void(array, types.intp, types.intp), _prefetch_codegen


@intrinsic
def product_high(typingctx, left, right):
    """The upper 64 bits of the 128-bit product of two unsigned numbers."""
    signature = types.uint64(types.uint64, types.uint64)

    def codegen(context, builder, sig, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return signature, codegen


@intrinsic
def half_to_float(typingctx, bits):
    """The float32 value of a float16 given by its 16 bits."""
    signature = types.float32(types.uint16)

    def codegen(context, builder, sig, args):
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return signature, codegen
