"""An adapter for ggml's own library through ctypes: its type traits and its GGUF reader. Argument: the library.

npm has it in @node-llama-cpp/linux-x64, as bins/linux-x64/libggml-base.so.
"""

import ctypes
import json
import sys
from pathlib import Path

from speak import speak


class Traits(ctypes.Structure):
    """`struct ggml_type_traits` of ggml.h."""

    _fields_ = (("name", ctypes.c_char_p), ("block", ctypes.c_int64), ("interleave", ctypes.c_int64),
                ("size", ctypes.c_size_t), ("quantized", ctypes.c_bool),
                ("to_float", ctypes.c_void_p), ("from_float", ctypes.c_void_p))  # fmt: skip


class Parameters(ctypes.Structure):
    """`struct gguf_init_params` of gguf.h."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


library = ctypes.CDLL(sys.argv[1])
library.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
library.gguf_init_from_file.restype = ctypes.c_void_p
library.gguf_init_from_file.argtypes = [ctypes.c_char_p, Parameters]
library.gguf_free.argtypes = [ctypes.c_void_p]
Convert = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64)
NUMBERS = {"tq1_0": 34, "tq2_0": 35, "q2_0": 42}


def answer(op, path, args):
    """Weights, bytes of blocks, or whether the reader accepts a file."""
    if op == "container":
        context = library.gguf_init_from_file(path.encode(), Parameters(True, None))
        if not context:
            raise ValueError("gguf_init_from_file returns no context")
        library.gguf_free(context)
        return {"verdict": "valid"}
    traits = library.ggml_get_type_traits(NUMBERS[args["type"]]).contents
    data = Path(path).read_bytes()
    count = args["shape"][0] * args["shape"][1]
    size = count * 4 if op == "dequant" else count // traits.block * traits.size
    room = ctypes.create_string_buffer(size)
    Convert(traits.to_float if op == "dequant" else traits.from_float)(data, room, count)
    return room.raw


def version():
    """The version of the npm package that contains the library, if any."""
    for folder in Path(sys.argv[1]).resolve().parents:
        if (folder / "package.json").is_file():
            found = json.loads((folder / "package.json").read_text())
            return found["version"], f"npm {found['name']} {found['version']}"
    return "", ""


known = [
    name for name, number in NUMBERS.items() if library.ggml_get_type_traits(number).contents.name == name.encode()
]
ABOUT = {"name": "libggml", "version": version()[0], "language": "c", "source": version()[1]}
speak(
    ABOUT,
    ["container", "dequant", "quantize"],
    answer,
    [*(f"type.{name}" for name in known), "quantize.ggml", "subnormals", "codes.plus-two"],
)
