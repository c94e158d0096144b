"""Shared by the adapters of generated texts that decode one element at a time: WGSL and CUDA C."""

import sys
from pathlib import Path

import numpy as np
from speak import RejectedError

sys.path.insert(0, str(Path(__file__).parents[2]))

from i2s_spec.exports import wgsl
from i2s_spec.exports.c_header import NO_TRIT
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

NAMES = {"x86-128": "interleave-128", "arm-64": "interleave-64"} | {name: name for name in LAYOUTS}
TYPES = {name.lower().replace("_g128", ".g128"): layout for name, layout in GROUP_LAYOUTS.items() if name != "I2_SR"}
FEATURES = ["type.i2_s", "subnormals", "codes.plus-two", "big-endian", "tail.replicated-8"]
FEATURES += ["strict.codes", "strict.extent"]
FEATURES += [f"layout.{name}" for name in ("x86-128", "arm-64", "rows-1x4", "sequential-msb", "sequential-lsb")]
FEATURES += [f"type.{name}" for name in TYPES] + [f"codes.{name}" for name in CODE_MAPS]


def settings(data, args):
    """Rows and columns; kind, layout, code map, and whether big-endian. The extent is checked."""
    cols, *more = args["shape"]
    rows = int(np.prod(more))
    kind, order = wgsl.I2S, 0
    if args["type"] == "i2_s":
        order = list(LAYOUTS).index(NAMES[args["layout"]])
        size = rows * cols // 4 + 32
    else:
        layout = TYPES[args["type"]]
        kind, size = wgsl.block_number(layout), layout.type.nbytes(args["shape"])
    if len(data) != size:
        raise RejectedError("extent", f"{len(data)} bytes; expected {size}")
    code_map = list(CODE_MAPS).index(args.get("codes", "offset-1"))
    return (rows, cols), (kind, order, code_map, int(args.get("byte_order") == "big"))


def decoded(op, data, args, decode, dequantise):
    """The answer to decode or dequant, by functions of the data, the shape and the settings."""
    shape, of = settings(data, args)
    trits = whole_blocks(args, decode(data, shape, of).reshape(-1))
    if (trits == NO_TRIT).any():
        raise RejectedError("payload", f"element {int((trits == NO_TRIT).argmax())} has a code without a meaning")
    if op == "decode":
        return trits.astype(np.int8).tobytes()
    return whole_blocks(args, dequantise(data, shape, of).reshape(-1)).tobytes()


def whole_blocks(args, values):
    """Elements of I2_S outside of whole blocks are 0."""
    if args["type"] != "i2_s":
        return values
    inside = values.size - values.size % LAYOUTS[NAMES[args["layout"]]].block
    return np.where(np.arange(values.size) < inside, values, values.dtype.type(0))
