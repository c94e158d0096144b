"""llama.cpp's library of npm's @node-llama-cpp/linux-x64 by ctypes: the functions and structures of its version 0.5.0 that
the scripts of this folder call."""

import ctypes
from pathlib import Path

#: Larger than the real structures: the bytes after the declared fields are copied, but not read.
ROOM = 512


class ModelParameters(ctypes.Structure):
    """`struct llama_model_params`."""

    _fields_ = (
        ("devices", ctypes.c_void_p), ("overrides", ctypes.c_void_p), ("n_gpu_layers", ctypes.c_int32),
        ("modes", ctypes.c_int32 * 3), ("main_gpu", ctypes.c_int32), ("pointers", ctypes.c_void_p * 4),
        ("vocab_only", ctypes.c_bool), ("check_tensors", ctypes.c_bool), ("rest", ctypes.c_uint8 * ROOM),
    )  # fmt: skip


class ContextParameters(ctypes.Structure):
    """`struct llama_context_params`, as far as it is set here."""

    _fields_ = (
        ("n_ctx", ctypes.c_uint32), ("n_batch", ctypes.c_uint32), ("n_ubatch", ctypes.c_uint32),
        ("sequences", ctypes.c_uint32 * 2), ("outputs", ctypes.c_uint32 * 2), ("threads", ctypes.c_int32 * 2),
        ("kinds", ctypes.c_int32 * 4), ("flash_attn_type", ctypes.c_int32), ("rope", ctypes.c_float * 8),
        ("cb_eval", ctypes.c_void_p), ("cb_eval_user_data", ctypes.c_void_p), ("rest", ctypes.c_uint8 * ROOM),
    )  # fmt: skip


class Batch(ctypes.Structure):
    """`struct llama_batch`."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p), ("embd", ctypes.c_void_p), ("pos", ctypes.c_void_p),
        ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p), ("logits", ctypes.c_void_p),
    )  # fmt: skip


def load_ggml(folder: Path) -> ctypes.CDLL:
    """The library of tensors, with the backends for this processor loaded.

    :param folder: of the libraries
    """
    (ggml,) = folder.glob("libggml.v*.so")
    base = ctypes.CDLL(str(folder / "libggml-base.so"), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(ggml), ctypes.RTLD_GLOBAL).ggml_backend_load_all_from_path(str(folder).encode())
    return base


def load_llama(folder: Path) -> ctypes.CDLL:
    """The library of models; `load_ggml` comes first.

    :param folder: of the libraries
    """
    (path,) = folder.glob("libllama.v*.so")
    llama = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    for name, result, takes in (
        ("llama_model_default_params", ModelParameters, []),
        ("llama_context_default_params", ContextParameters, []),
        ("llama_model_load_from_file", ctypes.c_void_p, [ctypes.c_char_p, ModelParameters]),
        ("llama_init_from_model", ctypes.c_void_p, [ctypes.c_void_p, ContextParameters]),
        ("llama_encode", ctypes.c_int32, [ctypes.c_void_p, Batch]),
        ("llama_decode", ctypes.c_int32, [ctypes.c_void_p, Batch]),
        ("llama_free", None, [ctypes.c_void_p]),
        ("llama_model_has_encoder", ctypes.c_bool, [ctypes.c_void_p]),
        ("llama_model_has_decoder", ctypes.c_bool, [ctypes.c_void_p]),
        ("llama_model_n_embd", ctypes.c_int32, [ctypes.c_void_p]),
        ("llama_model_get_vocab", ctypes.c_void_p, [ctypes.c_void_p]),
        ("llama_vocab_n_tokens", ctypes.c_int32, [ctypes.c_void_p]),
        ("llama_get_logits_ith", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int32]),
        ("llama_get_embeddings_ith", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int32]),
    ):
        function = getattr(llama, name)
        function.restype, function.argtypes = result, takes
    return llama
