"""An adapter for the decoders of mlx-kquant for processors. Arguments: the library of `mlx_kquant.cpp`, and the version."""

import ctypes
import sys
from pathlib import Path

import numpy as np
from speak import speak

LIBRARY, VERSION = ctypes.CDLL(sys.argv[1]), sys.argv[2]
TYPES = ("q2_0", "pq2_0", "ptq1_0")


def answer(op, path, args):
    columns, rows = args["shape"]
    found = np.empty(columns * rows, np.float32)
    function = getattr(LIBRARY, f"decode_{args['type']}")
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_long]
    function(Path(path).read_bytes(), found.ctypes.data, found.size)
    return found.tobytes()


ABOUT = {"name": "mlx-kquant", "version": VERSION, "language": "c++", "source": f"PyPI mlx-kquant {VERSION}, sources"}
speak(ABOUT, ["dequant"], answer, ["subnormals", "codes.plus-two", *(f"type.{name}" for name in TYPES)])
