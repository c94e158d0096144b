"""An adapter for the package `gguf`: its reader, and its NumPy versions of ggml's TQ1_0 and TQ2_0.

i2s conform run -- python tests/peers/adapters/gguf_python.py
"""

from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, quants
from speak import speak

TYPES = {
    name.lower(): kind for name, kind in GGMLQuantizationType.__members__.items() if name in ("TQ1_0", "TQ2_0", "Q2_0")
}


def answer(op, path, args):
    """Weights, bytes, or whether the reader accepts a file."""
    if op == "container":
        reader = GGUFReader(path)
        for field in reader.fields.values():
            field.contents()
        for tensor in reader.tensors:
            tensor.data.tobytes()
        return {"verdict": "valid"}
    kind = TYPES[args["type"]]
    if op == "quantize":
        weights = np.fromfile(path, "<f4").reshape(args["shape"][::-1])
        return quants.quantize(weights, kind).tobytes()
    data = np.frombuffer(Path(path).read_bytes(), np.uint8).reshape(args["shape"][1], -1)
    return quants.dequantize(data, kind).astype("<f4").tobytes()


ABOUT = {"name": "gguf", "version": version("gguf"), "language": "python", "source": f"PyPI gguf {version('gguf')}"}
speak(
    ABOUT,
    ["container", "dequant", "quantize"],
    answer,
    [*(f"type.{name}" for name in TYPES), "quantize.ggml", "subnormals", "codes.plus-two"],
)
