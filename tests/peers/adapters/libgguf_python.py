"""An adapter for libgguf: its rows of TQ1_0 and TQ2_0, and its validator, which looks at the structure of a file."""

from importlib.metadata import version
from pathlib import Path

import libgguf
import numpy as np
from libgguf.inspect import validate_gguf
from speak import speak

NUMBERS = {"tq1_0": 34, "tq2_0": 35}


def answer(op, path, args):
    if op in ("container", "verdict"):
        errors = [each for each in validate_gguf(path).issues if each.severity == "error"]
        if errors:
            raise ValueError("; ".join(f"{each.code}: {each.message}" for each in errors))
        return {"verdict": "valid"}
    (columns, rows), number = args["shape"], NUMBERS[args["type"]]
    if op == "quantize":
        return libgguf.quantize_rows(np.fromfile(path, "<f4").reshape(rows, columns), number).tobytes()
    data = np.frombuffer(Path(path).read_bytes(), np.uint8).reshape(rows, -1)
    return libgguf.dequantize_rows(data, number, columns).astype("<f4").tobytes()


V = version("libgguf")
ABOUT = {"name": "libgguf", "version": V, "language": "c++", "source": f"PyPI libgguf {V}"}
FEATURES = ["type.tq1_0", "type.tq2_0", "type.i2_s", "gguf.v2", "quantize.ggml", "subnormals"]
speak(ABOUT, ["container", "verdict", "dequant", "quantize"], answer, FEATURES)
