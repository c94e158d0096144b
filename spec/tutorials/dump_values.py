"""python dump_values.py MODEL.gguf 1,2,3 mine.npz: every value of ik_llama.cpp (pip install ik-llama-cpp-python numpy)."""

import ctypes
import sys
from pathlib import Path

import numpy as np
from ik_llama_cpp import _ctypes_api as api

path, tokens, answer = sys.argv[1:]
tokens = [int(token) for token in tokens.split(",")]
ggml = ctypes.CDLL(str(Path(api.__file__).parent / "lib" / "libggml.so"))
ggml.ggml_nbytes.restype = ctypes.c_size_t
ggml.ggml_op_desc.restype = ggml.ggml_get_name.restype = ctypes.c_char_p


class Tensor(ctypes.Structure):
    """The beginning of struct ggml_tensor, here and in llama.cpp."""

    _fields_ = [("type", ctypes.c_int), ("_", ctypes.c_int), ("buffer", ctypes.c_void_p),
                ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4)]  # fmt: skip


values = {}


def store(pointer, ask, _):
    """Copy the value of a node."""
    tensor, kind = Tensor.from_address(pointer), ggml.ggml_op_desc(ctypes.c_void_p(pointer))
    if not ask and tensor.type in (0, 1) and kind not in (b"VIEW", b"RESHAPE", b"PERMUTE", b"TRANSPOSE", b"NONE"):
        data = ctypes.create_string_buffer(ggml.ggml_nbytes(ctypes.c_void_p(pointer)))
        ggml.ggml_backend_tensor_get(ctypes.c_void_p(pointer), data, ctypes.c_size_t(0), ctypes.c_size_t(len(data)))
        name, shape = ggml.ggml_get_name(ctypes.c_void_p(pointer)).decode(), tensor.ne[::-1]
        value = np.ndarray(shape, ("<f4", "<f2")[tensor.type], data, strides=tensor.nb[::-1]).astype(np.float32)
        times = sum(each.partition("#")[0] == name for each in values)
        values[f"{name}#{times}" if times else name] = value
    return True


callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)(store)
api.llama_backend_init()
model = api.llama_model_load_from_file(path.encode(), api.llama_model_default_params())
parameters = api.llama_context_default_params()
parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 512  # all tokens in one batch
parameters.flash_attn = parameters.fused_up_gate = False
parameters.cb_eval = ctypes.cast(callback, api.ggml_backend_sched_eval_callback)
context = api.llama_init_from_model(model, parameters)
batch = api.llama_batch_init(len(tokens), 0, 1)
batch.n_tokens = len(tokens)
for at, token in enumerate(tokens):
    batch.token[at], batch.pos[at], batch.logits[at] = token, at, True
    batch.n_seq_id[at], batch.seq_id[at][0] = 1, 0
api.llama_decode(context, batch)
np.savez(answer, **values)
