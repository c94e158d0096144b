"""An adapter of the exported shaders, which wgpu runs on any Vulkan device.

i2s conform run -- python tests/peers/adapters/wgsl.py
"""

import sys
from pathlib import Path

import numpy as np
import wgpu
from speak import RejectedError, speak

sys.path.insert(0, str(Path(__file__).parents[2]))
from peers.wgsl_device import device, run

from i2s_spec.exports import wgsl
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

TEXT = wgsl.text()
NAMES = {"x86-128": "interleave-128", "arm-64": "interleave-64"} | {name: name for name in LAYOUTS}
TYPES = {name.lower().replace("_g128", ".g128"): layout for name, layout in GROUP_LAYOUTS.items() if name != "I2_SR"}
FEATURES = ["type.i2_s", "big-endian", "tail.replicated-8", "strict.codes", "strict.extent"]
FEATURES += [f"layout.{name}" for name in ("x86-128", "arm-64", "rows-1x4", "sequential-msb", "sequential-lsb")]
FEATURES += [f"type.{name}" for name in TYPES] + [f"codes.{name}" for name in CODE_MAPS]


def settings(data, args):
    """Rows, columns and settings of the shaders; the extent is checked."""
    cols, *more = args["shape"]
    rows = int(np.prod(more))
    big, kind, order = args.get("byte_order") == "big", 0, 0
    if args["type"] == "i2_s":
        order = list(LAYOUTS).index(NAMES[args["layout"]])
        size = rows * cols // 4 + 32
    else:
        layout = TYPES[args["type"]]
        kind, size = wgsl.block_number(layout), layout.type.nbytes(args["shape"])
    if len(data) != size:
        raise RejectedError("extent", f"{len(data)} bytes; expected {size}")
    code_map = list(CODE_MAPS).index(args.get("codes", "offset-1"))
    return rows, cols, kind, order, code_map, int(big)


def weights(entry, data, args):
    rows, cols, *rest = settings(data, args)
    found = run(TEXT, entry, (rows, cols, 0, *rest), data, b"", rows * cols)
    if args["type"] == "i2_s":
        tail = rows * cols % LAYOUTS[NAMES[args["layout"]]].block  # elements outside of whole blocks are 0
        found = np.where(np.arange(rows * cols) < rows * cols - tail, found, 0)
    return found


def answer(op, path, args):
    data = Path(path).read_bytes()
    trits = weights("decode", data, args)
    if (trits == wgsl.NO_TRIT).any():
        raise RejectedError("payload", f"element {int((trits == wgsl.NO_TRIT).argmax())} has a code without a meaning")
    return trits.astype(np.int8).tobytes() if op == "decode" else weights("dequantise", data, args).tobytes()


speak(
    {
        "name": "WGSL, by wgpu",
        "version": f"{wgpu.__version__}, {device().adapter.info['description']}",
        "language": "wgsl",
    },
    ["decode", "dequant"],
    answer,
    FEATURES,
)
