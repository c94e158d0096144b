"""Time prompts and single tokens of a runtime that stays loaded: RUNTIME LIBRARY FILE THREADS CONTEXT.

RUNTIME is i2s-spec, ik_llama.cpp (of the package ik-llama-cpp-python) or llama.cpp (LIBRARY is a shared object with its C
API, whose structures are those of `llama_library`). Each line of standard input, `prompt N` (N tokens at once, in an empty
context) or `decode N` (N tokens one after the other, after those before), is answered by a line of JSON: seconds, and
processor seconds of all threads.
"""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Sequence

#: Most tokens until the rows of a head are copied.
COPYING = 400
#: Takes tokens and their position; a position of 0 begins anew.
Step = Callable[[Sequence[int], int], object]


def ours(file: str, threads: int, context: int) -> Step:
    """Load this package, profile `fast`, and read the head as greedy generation does: its rows are copied before."""
    from i2s_spec.model.load import load_model
    from i2s_spec.model.screened_head import ScreenedLogits

    model = load_model(file, "fast", threads=threads)
    cache = model.new_cache(context)

    def step(tokens: Sequence[int], at: int) -> bool:
        cache.cut(at)
        logits = model.forward(tokens, cache=cache, logits="screened").logits
        if not isinstance(logits, ScreenedLogits):
            return True
        logits.largest(1)
        return logits.head.complete

    for _ in range(COPYING):
        if step([1], 0):
            break
    return step


def ik(file: str, threads: int, context: int) -> Step:
    """The library of ik-llama-cpp-python."""
    from ik_llama_cpp import _ctypes_api as api
    from ik_llama_cpp._internals import IkModel, make_batch_range

    model = IkModel(file)
    parameters = api.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = context
    parameters.n_threads = parameters.n_threads_batch = threads
    held = api.llama_init_from_model(model.model, parameters)

    def step(tokens: Sequence[int], at: int) -> object:
        if at == 0:
            api.llama_kv_cache_clear(held)
        if api.llama_decode(held, make_batch_range(list(tokens), pos_start=at, logits_last=True)):
            raise SystemExit("llama_decode fails")
        return model, api.llama_get_logits_ith(held, len(tokens) - 1)[0]

    return step


def llama(library: str, file: str, threads: int, context: int) -> Step:
    """A library with llama.cpp's C API."""
    from llama_library import Batch, ContextParameters, ModelParameters

    api = ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    api.llama_model_default_params.restype, api.llama_context_default_params.restype = (
        ModelParameters,
        ContextParameters,
    )
    api.llama_model_load_from_file.restype = api.llama_init_from_model.restype = ctypes.c_void_p
    api.llama_model_load_from_file.argtypes = [ctypes.c_char_p, ModelParameters]
    api.llama_init_from_model.argtypes = [ctypes.c_void_p, ContextParameters]
    api.llama_decode.argtypes = [ctypes.c_void_p, Batch]
    api.llama_get_memory.restype, api.llama_get_memory.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    api.llama_memory_clear.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    api.llama_synchronize.argtypes = [ctypes.c_void_p]
    api.llama_backend_init()
    parameters = api.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = api.llama_model_load_from_file(file.encode(), parameters)
    if not model:
        raise SystemExit("llama_model_load_from_file returns no model")
    how = api.llama_context_default_params()
    how.n_ctx = how.n_batch = context
    how.threads[:] = [threads, threads]
    held = api.llama_init_from_model(model, how)
    if not held:
        raise SystemExit("llama_init_from_model returns no context")

    def step(tokens: Sequence[int], at: int) -> object:
        if at == 0:
            api.llama_memory_clear(api.llama_get_memory(held), True)
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        if api.llama_decode(held, Batch(n_tokens=len(tokens), token=ctypes.addressof(ids))):
            raise SystemExit("llama_decode fails")
        return api.llama_synchronize(held)

    return step


def main() -> None:
    """Run the command line."""
    runtime, library, file, threads, context = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print to both
    make = {"i2s-spec": ours, "ik_llama.cpp": ik}
    sizes = int(threads), int(context)
    step = llama(library, file, *sizes) if runtime == "llama.cpp" else make[runtime](file, *sizes)
    used = 0
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        what, count = line.split()
        used = 0 if what == "prompt" else used
        before, start = time.process_time(), time.perf_counter()
        for at in (used,) if what == "prompt" else range(used, used + int(count)):
            step([7 + i % 100 for i in range(int(count))] if what == "prompt" else [at % 100], at)
        seconds, processor = time.perf_counter() - start, time.process_time() - before
        used += int(count)
        print(json.dumps({"seconds": seconds, "processor": processor}), file=answers, flush=True)
    os._exit(0)  # skips the end of the libraries' threads


main()
