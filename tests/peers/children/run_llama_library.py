"""Run llama.cpp's library of npm's @node-llama-cpp/linux-x64 and dump its values: PACKAGE ANSWER FILE TOKENS FOLDER
[CALLBACK].

The library calls back for each node of its graph. In a first run the callback is the library's own printer
(`common_debug_cb_eval`, which llama-eval-callback uses), whose text goes to FOLDER/eval-callback.txt; in a second run it
is `Values` below, which writes the float32 nodes whole to FOLDER/values.npz: `#1` after the second use of a name,
nothing for views. If CALLBACK is given, a third run calls `dump_npy` of that compiled library, with FOLDER as its data.
Flash attention is off, logits of all tokens are computed, with one thread. The structures are those
of llama.h and ggml.h of its version 0.5.0 (`llama_library`).
"""

import ctypes
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # which Python leaves out where PYTHONSAFEPATH is set

from llama_library import Batch, ContextParameters, ModelParameters

CONTEXT = 256

#: What the library prints last.
LAST_LINE = b"no more values\n"

#: Operations that do not change values.
VIEWS = ("VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE", "NONE")
F32 = 0


class Tensor(ctypes.Structure):
    """`struct ggml_tensor`."""

    _fields_ = (
        ("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4),
        ("op", ctypes.c_int), ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32), ("src", ctypes.c_void_p * 10),
        ("view_src", ctypes.c_void_p), ("view_offs", ctypes.c_size_t), ("data", ctypes.c_void_p),
        ("name", ctypes.c_char * 64),
    )  # fmt: skip


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.POINTER(Tensor), ctypes.c_bool, ctypes.c_void_p)


class Library:
    """The library's functions used here."""

    def __init__(self, folder: Path) -> None:
        (llama,), (ggml,) = folder.glob("libllama.v*.so"), folder.glob("libggml.v*.so")
        self.base = ctypes.CDLL(str(folder / "libggml-base.so"), ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(ggml), ctypes.RTLD_GLOBAL).ggml_backend_load_all_from_path(str(folder).encode())
        self.llama = ctypes.CDLL(str(llama), ctypes.RTLD_GLOBAL)
        self.common = ctypes.CDLL(str(folder / "libllama-common.so"))
        for name, result, takes in (
            ("llama_model_default_params", ModelParameters, []),
            ("llama_context_default_params", ContextParameters, []),
            ("llama_model_load_from_file", ctypes.c_void_p, [ctypes.c_char_p, ModelParameters]),
            ("llama_init_from_model", ctypes.c_void_p, [ctypes.c_void_p, ContextParameters]),
            ("llama_decode", ctypes.c_int32, [ctypes.c_void_p, Batch]),
            ("llama_free", None, [ctypes.c_void_p]),
        ):
            function = getattr(self.llama, name)
            function.restype, function.argtypes = result, takes
        self.base.ggml_op_desc.restype = ctypes.c_char_p
        self.base.ggml_op_desc.argtypes = [ctypes.POINTER(Tensor)]
        self.common._Z15common_log_mainv.restype = ctypes.c_void_p

    def load(self, path: str) -> int:
        parameters = self.llama.llama_model_default_params()
        parameters.n_gpu_layers = 0
        model: int | None = self.llama.llama_model_load_from_file(path.encode(), parameters)
        if not model:
            raise SystemExit("llama_model_load_from_file returns no model")
        return model

    def run(self, model: int, tokens: list[int], callback: int | None, data: int | None) -> None:
        parameters = self.llama.llama_context_default_params()
        parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = CONTEXT
        parameters.threads[:] = [1, 1]
        parameters.flash_attn_type = 0
        parameters.cb_eval, parameters.cb_eval_user_data = callback, data
        context = self.llama.llama_init_from_model(model, parameters)
        if not context:
            raise SystemExit("llama_init_from_model returns no context")
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        wanted = (ctypes.c_int8 * len(tokens))(*[1] * len(tokens))
        batch = Batch(n_tokens=len(tokens), token=ctypes.addressof(ids), logits=ctypes.addressof(wanted))
        status = self.llama.llama_decode(context, batch)
        self.llama.llama_free(context)
        if status:
            raise SystemExit(f"llama_decode returns {status}")

    def print_values(self, model: int, tokens: list[int], text: Path) -> None:
        """Write the output of the library's own printer to standard output, which is the file `text`.

        The library prints in a thread of its own. Its `common_log_flush` waits forever if the thread is behind by as many
        lines as the queue holds, so the thread is given time to print a last line first, which is then removed.
        """
        data = ctypes.create_string_buffer(64)  # one pointer, which the constructor sets
        self.common._ZN25common_debug_cb_user_dataC1Ev(data)
        printer = ctypes.cast(self.common._Z20common_debug_cb_evalP11ggml_tensorbPv, ctypes.c_void_p).value
        self.run(model, tokens, printer, ctypes.addressof(data))
        log = ctypes.c_void_p(self.common._Z15common_log_mainv())
        self.common._Z14common_log_addP10common_log14ggml_log_levelPKcz(log, 0, LAST_LINE)
        while LAST_LINE not in text.read_bytes():
            time.sleep(0.01)
        self.common._Z16common_log_flushP10common_log(log)
        ctypes.CDLL(None).fflush(None)
        os.truncate(text, text.read_bytes().index(LAST_LINE))


class Values:
    """A callback that stores the float32 nodes, each with its name and operation."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.found: dict[str, Any] = {}
        self.times: Counter[str] = Counter()
        self.function = CALLBACK(self)

    def __call__(self, node: Any, ask: bool, _: int | None) -> bool:
        tensor = node.contents
        if not ask and tensor.type == F32 and self.library.base.ggml_op_desc(node).decode() not in VIEWS:
            name = tensor.name.decode()
            count, self.times[name] = self.times[name], self.times[name] + 1
            shape, strides = list(tensor.ne[::-1]), list(tensor.nb[::-1])
            extent = 4 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
            raw = ctypes.string_at(tensor.data, extent)
            value = np.ndarray(shape, "<f4", raw, strides=strides).copy()
            while value.ndim > 1 and value.shape[0] == 1:  # ggml's shapes end in ones
                value = value[0]
            self.found[f"{name}#{count}" if count else name] = value
        return True


def main() -> None:
    """Run the command line."""
    package, answer, path, tokens, folder, *callback = sys.argv[1:]
    ids = json.loads(tokens)
    library = Library(Path(package) / "bins" / "linux-x64")
    library.llama.llama_backend_init()
    model = library.load(path)
    values = Values(library)
    library.run(model, ids, ctypes.cast(values.function, ctypes.c_void_p).value, None)
    np.savez(Path(folder) / "values.npz", **values.found)
    if callback:
        function = ctypes.CDLL(callback[0])._Z8dump_npyP11ggml_tensorbPv
        data = ctypes.create_string_buffer(folder.encode())
        library.run(model, ids, ctypes.cast(function, ctypes.c_void_p).value, ctypes.addressof(data))
    sys.stdout.flush()
    path_of_text = Path(folder) / "eval-callback.txt"
    with path_of_text.open("wb") as text:
        os.dup2(text.fileno(), 1)
        library.print_values(model, ids, path_of_text)
    Path(answer).write_text(json.dumps({"loads": True}), encoding="utf-8")
    os._exit(0)  # skips the end of the library's threads


main()
