"""An adapter for ik-llama-cpp-python, which contains ik_llama.cpp: its decoder of I2_S, its quantizers, and models."""

import base64
import ctypes
from importlib.metadata import version
from pathlib import Path

import numpy as np
from ik_llama_cpp import _ctypes_api as api
from ik_llama_cpp import _lib_loader
from ik_llama_cpp._internals import IkModel, make_batch_range
from speak import speak

FOLDER = Path(_lib_loader.__file__).parent.parent / "ik_llama_cpp_python.libs"
LIBRARY = ctypes.CDLL(str(next(FOLDER.glob("libggml*"))))
LONG, POINTER = ctypes.c_int64, ctypes.c_void_p
LIBRARY.dequantize_row_ms_i2s.argtypes = [ctypes.c_char_p, POINTER, LONG]
GROUP = {"iq1_bn": 13, "iq2_bn": 16}  # bytes of 64 weights


def weights(data, count):
    found = np.empty(count, np.float32)
    LIBRARY.dequantize_row_ms_i2s(data, found.ctypes.data, count)
    return found


def quantized(data, kind, rows, columns):
    function, given = getattr(LIBRARY, f"quantize_{kind}"), np.frombuffer(data, "<f4").copy()
    function.argtypes, function.restype = [POINTER, POINTER, LONG, LONG, POINTER, POINTER], ctypes.c_size_t
    room = ctypes.create_string_buffer(rows * (columns // 64 * GROUP[kind] + 4))
    size = function(given.ctypes.data, room, rows, columns, None, None)
    return room.raw[:size]


def logits(model, tokens):
    """Logits [positions, vocabulary] as float32, of one batch."""
    setting = api.llama_context_default_params()
    setting.n_ctx = setting.n_batch = setting.n_ubatch = 256
    setting.n_threads = setting.n_threads_batch = 1
    setting.flash_attn = False
    context = api.llama_init_from_model(model.model, setting)
    batch = make_batch_range(tokens, pos_start=0, logits_last=True)
    for i in range(len(tokens)):
        batch.logits[i] = 1
    if api.llama_decode(context, batch):
        raise ValueError("llama_decode fails")
    found = [api.llama_get_logits_ith(context, i)[: model.n_vocab] for i in range(len(tokens))]
    api.llama_free(context)
    return np.array(found, "<f4")


def answer(op, path, args, _tokens=None):
    if op in ("forward", "generate"):
        model, tokens = IkModel(path), list(args["tokens"])
        if op == "forward":
            return {"base64": base64.b64encode(logits(model, tokens).tobytes()).decode()}
        for _ in range(args["count"]):
            tokens.append(int(logits(model, tokens)[-1].argmax()))
        return {"json": {"ids": tokens[len(args["tokens"]) :]}}
    (columns, rows), data = args["shape"], Path(path).read_bytes()
    if op == "quantize":
        return quantized(data, args["type"], rows, columns)
    if op == "dequant":
        return weights(data, rows * columns).tobytes()
    codes = data[: rows * columns // 4] + np.float32(1).tobytes()  # it gives weights only: the scale 1
    return weights(codes, rows * columns).astype(np.int8).tobytes()


V, GROUPS = (
    version("ik-llama-cpp-python"),
    ["type.iq1_bn", "type.iq2_bn"],
)  # its decoder of these takes scales for codes
DECODER, MODEL = ["type.i2_s", "layout.x86-128", "tail.replicated-8", "subnormals"], ["arch.llama", "type.f16", *GROUPS]
FEATURES = {
    "decode": DECODER,
    "dequant": DECODER,
    "quantize": ["quantize.ggml", *GROUPS],
    "forward": MODEL,
    "generate": MODEL,
}
ABOUT = {"name": "ik_llama.cpp", "version": V, "language": "c++", "source": f"PyPI ik-llama-cpp-python {V}"}
speak(ABOUT, list(FEATURES), answer, FEATURES)
