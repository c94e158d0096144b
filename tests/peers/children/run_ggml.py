"""Run ggml's own reader of GGUF, from the library in npm's @node-llama-cpp/linux-x64: PACKAGE ANSWER FILE."""

import ctypes
import json
import sys
from pathlib import Path


class Parameters(ctypes.Structure):
    """`struct gguf_init_params` of gguf.h."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


library = ctypes.CDLL(str(Path(sys.argv[1]) / "bins" / "linux-x64" / "libggml-base.so"))
library.gguf_init_from_file.restype = ctypes.c_void_p
library.gguf_init_from_file.argtypes = [ctypes.c_char_p, Parameters]
library.gguf_get_n_tensors.restype = ctypes.c_int64
library.gguf_get_n_tensors.argtypes = [ctypes.c_void_p]
library.gguf_get_tensor_type.restype = ctypes.c_int
library.gguf_get_tensor_type.argtypes = [ctypes.c_void_p, ctypes.c_int64]
library.ggml_type_name.restype = ctypes.c_char_p
library.ggml_type_name.argtypes = [ctypes.c_int]
context = library.gguf_init_from_file(sys.argv[3].encode(), Parameters(True, None))
if not context:
    raise SystemExit("gguf_init_from_file returns no context")
numbers = {library.gguf_get_tensor_type(context, i) for i in range(library.gguf_get_n_tensors(context))}
shown = "types " + ", ".join(library.ggml_type_name(number).decode() for number in sorted(numbers))
Path(sys.argv[2]).write_text(json.dumps({"loads": True, "shown": shown}), encoding="utf-8")
