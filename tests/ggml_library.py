"""ggml itself as an oracle: the library that npm's @node-llama-cpp/linux-x64 carries, called through ctypes.

It is looked for in the folder that I2S_GGML names, or in `i2s-spec/ggml` in the user's cache:

    npm install --prefix ~/.cache/i2s-spec/ggml @node-llama-cpp/linux-x64@3.22.1
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

VARIABLE = "I2S_GGML"
PACKAGE = "@node-llama-cpp/linux-x64"
LIBRARY = Path("node_modules") / PACKAGE / "bins" / "linux-x64" / "libggml-base.so"

_ToFloat = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class TypeTraits(ctypes.Structure):
    """`struct ggml_type_traits` of ggml.h, as of July 2026."""

    _fields_ = (
        ("type_name", ctypes.c_char_p),
        ("blck_size", ctypes.c_int64),
        ("blck_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", _ToFloat),
        ("from_float_ref", _ToFloat),
    )


def folder() -> Path:
    cache_folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(cache_folder) / "i2s-spec" / "ggml")


def missing() -> str | None:
    """Why there is no library, or None if there is one."""
    if not (folder() / LIBRARY).is_file():
        return f"ggml is not installed: npm install --prefix {folder()} {PACKAGE}@3.22.1, or say where with {VARIABLE}"
    try:
        _library()
    except OSError as error:
        return f"ggml cannot be loaded: {error}"
    return None


@cache
def _library() -> Any:
    library = ctypes.CDLL(str(folder() / LIBRARY))
    library.ggml_get_type_traits.restype = ctypes.POINTER(TypeTraits)
    library.ggml_get_type_traits.argtypes = [ctypes.c_int]
    library.ggml_validate_row_data.restype = ctypes.c_bool
    library.ggml_validate_row_data.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    return library


@cache
def cpu_library() -> Any:
    """ggml's kernels for processors with AVX2, FMA and F16C."""
    _library()
    base = (folder() / LIBRARY).parent
    ctypes.CDLL(str(base / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(base / "libggml-cpu-haswell.so"))
    library.ggml_cpu_init()
    return library


def activations(x: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The blocks that ggml's kernel makes of one token: `q8_0` or `q8_K`."""
    out = np.zeros(x.size // 32 * 34 if kind == "q8_0" else x.size // 256 * 292, dtype=np.uint8)
    flat = np.ascontiguousarray(x, dtype=np.float32)
    getattr(cpu_library(), f"quantize_row_{kind}")(
        ctypes.c_void_p(flat.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(flat.size)
    )
    return out


def dot(weights: bytes, blocks: np.ndarray[Any, Any], columns: int, kernel: str) -> np.float32:
    """The product of a row of weights with the blocks of a token, by a kernel such as `q2_0_q8_0`."""
    row = np.frombuffer(weights, dtype=np.uint8).copy()
    out = np.zeros(1, dtype=np.float32)
    none = ctypes.c_size_t(0)
    getattr(cpu_library(), f"ggml_vec_dot_{kernel}")(
        ctypes.c_int(columns), ctypes.c_void_p(out.ctypes.data), none, ctypes.c_void_p(row.ctypes.data), none,
        ctypes.c_void_p(blocks.ctypes.data), none, ctypes.c_int(1),
    )  # fmt: skip
    found: np.float32 = out[0]
    return found


def traits(number: int) -> TypeTraits:
    """What ggml says of a type's number."""
    found: TypeTraits = _library().ggml_get_type_traits(number).contents
    return found


def dequantize(data: bytes, number: int, elements: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The weights that ggml makes of bytes."""
    out = np.empty(elements, dtype=np.float32)
    source = np.frombuffer(data, dtype=np.uint8).copy()
    traits(number).to_float(source.ctypes.data, out.ctypes.data, elements)
    return out


def quantize(weights: np.ndarray[Any, Any], number: int) -> bytes:
    """The bytes that ggml makes of weights."""
    kind = traits(number)
    flat = np.ascontiguousarray(weights, dtype=np.float32).reshape(-1)
    out = np.zeros(flat.size // kind.blck_size * kind.type_size, dtype=np.uint8)
    kind.from_float_ref(flat.ctypes.data, out.ctypes.data, flat.size)
    return out.tobytes()


def is_valid(data: bytes, number: int) -> bool:
    """What ggml says of the bytes of a tensor when llama.cpp is asked to check tensors; a reason goes to its log."""
    return bool(_library().ggml_validate_row_data(number, data, len(data)))
