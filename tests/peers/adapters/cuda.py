"""An adapter of the exported kernels in CUDA C, on a GPU or, with `--emulate`, on the processor.

i2s conform run -- python tests/peers/adapters/cuda.py
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from speak import RejectedError, speak

sys.path.insert(0, str(Path(__file__).parents[2]))
from peers.cuda_device import Emulation, Gpu, Kernels, compiled

from i2s_spec.exports import cuda, wgsl
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

NAMES = {"x86-128": "interleave-128", "arm-64": "interleave-64"} | {name: name for name in LAYOUTS}
TYPES = {name.lower().replace("_g128", ".g128"): layout for name, layout in GROUP_LAYOUTS.items() if name != "I2_SR"}
FEATURES = ["type.i2_s", "big-endian", "tail.replicated-8", "strict.codes", "strict.extent"]
FEATURES += ["activation.golden", "profile.golden-1"]
FEATURES += [f"layout.{name}" for name in ("x86-128", "arm-64", "rows-1x4", "sequential-msb", "sequential-lsb")]
FEATURES += [f"type.{name}" for name in TYPES] + [f"codes.{name}" for name in CODE_MAPS]


def settings(data, args):
    """Rows, columns and settings of the kernels; the extent is checked."""
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


def weights(call, data, args):
    shape, of = settings(data, args)
    found = call(data, shape, of).reshape(-1)
    if args["type"] == "i2_s":
        tail = found.size % LAYOUTS[NAMES[args["layout"]]].block  # elements outside of whole blocks are 0
        found = np.where(np.arange(found.size) < found.size - tail, found, found.dtype.type(0))
    return found


def products(data, args, second):
    (rows, cols), of = settings(data, args)
    if args["accumulate"] == "int32":
        codes = np.frombuffer(second, np.int8).reshape(args["tokens"], cols)
    else:
        codes, factors, _ = kernels.codes(np.frombuffer(second, "<f4").reshape(args["tokens"], cols))
    found = np.stack([kernels.product_dp4a([(data, (rows, cols), 8, token)])[0] for token in codes])
    if not np.array_equal(found, kernels.product(data, (rows, cols), of, codes)):
        raise ValueError("two forms of the product differ")
    if args["accumulate"] == "int32":
        return found.astype("<i4").tobytes()
    scale = np.frombuffer(data[rows * cols // 4 :][:4], ">f4" if of[3] else "<f4")[0]
    return kernels.epilogue(found, factors, scale).astype("<f4").tobytes()


def answer(op, path, args, second=None):
    data = Path(path).read_bytes()
    if op == "activation":
        cols, tokens = args["shape"]
        codes, factors, _ = kernels.codes(np.frombuffer(data, "<f4").reshape(tokens, cols))
        return codes.tobytes(), {"scale_bits": [f"{bits:08x}" for bits in factors.view(np.uint32)]}
    if op == "bitlinear":
        return products(data, args, Path(second).read_bytes())
    trits = weights(kernels.decode, data, args)
    if (trits == wgsl.NO_TRIT).any():
        raise RejectedError("payload", f"element {int((trits == wgsl.NO_TRIT).argmax())} has a code without a meaning")
    return trits.tobytes() if op == "decode" else weights(kernels.dequantise, data, args).tobytes()


with tempfile.TemporaryDirectory(prefix="i2s-cuda-") as folder:
    emulate = "--emulate" in sys.argv
    device = Emulation(cuda.text(), Path(folder)) if emulate else Gpu(compiled(cuda.text()))
kernels = Kernels(device)
speak(
    {"name": "CUDA C, emulated" if emulate else "CUDA C", "version": device.name, "language": "cuda"},
    ["decode", "dequant", "activation", "bitlinear"],
    answer,
    FEATURES,
)
