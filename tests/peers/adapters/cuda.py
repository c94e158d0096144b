"""An adapter of the exported kernels in CUDA C, on a GPU or, with `--emulate`, on the processor.

i2s conform run -- python tests/peers/adapters/cuda.py
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from generated import FEATURES, decoded, settings
from peers.cuda_device import Emulation, Gpu, Kernels, compiled
from speak import speak

from i2s_spec.exports import cuda


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
    return decoded(op, data, args, kernels.decode, kernels.dequantise)


with tempfile.TemporaryDirectory(prefix="i2s-cuda-") as folder:
    emulate = "--emulate" in sys.argv
    device = Emulation(cuda.text(), Path(folder)) if emulate else Gpu(compiled(cuda.text()))
kernels = Kernels(device)
speak(
    {"name": "CUDA C, emulated" if emulate else "CUDA C", "version": device.name, "language": "cuda"},
    ["decode", "dequant", "activation", "bitlinear"],
    answer,
    [*FEATURES, "activation.golden", "profile.golden-1"],
)
