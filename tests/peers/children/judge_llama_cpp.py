"""Judge files with llama.cpp's library of npm's @node-llama-cpp/linux-x64: PACKAGE [TOKENS] < PATHS > VERDICTS.

A line of the input is a path, a line of the output an object: `verdict`, `message`. Each file is loaded with
check_tensors in a process of its own, forked after the libraries were loaded, and TOKENS tokens are decoded (4 by
default; 0 loads only, -1 the vocabulary). The verdict is `load`, `refuse`, `nan` (values that are not finite) or `died`
(a signal, an assertion, or a bound of time or memory).
"""

import ctypes
import json
import math
import os
import re
import resource
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # which Python leaves out where PYTHONSAFEPATH is set

from llama_library import Batch, load_ggml, load_llama

#: Bounds for one file: seconds, and bytes of address space.
SECONDS, MEMORY = 20, 8 << 30

CONTEXT = 64

#: What the library writes about a refusal, in the order in which a reader would quote it.
REASONS = (
    re.compile(r"error loading model: (?P<why>.*)"),
    re.compile(r"(?P<why>GGML_ASSERT\(.*)"),
    re.compile(r"(?P<why>.*\b(?:error|failed|fatal)\b.*)"),
)


def judged(llama: ctypes.CDLL, path: str, count: int) -> str:
    """The verdict on a file: `load`, `refuse` or `nan`; the library may also end the process."""
    parameters = llama.llama_model_default_params()
    parameters.n_gpu_layers, parameters.check_tensors, parameters.vocab_only = 0, True, count < 0
    model = llama.llama_model_load_from_file(path.encode(), parameters)
    if not model:
        return "refuse"
    return computed(llama, model, count) if count > 0 else "load"


def computed(llama: ctypes.CDLL, model: int, count: int) -> str:
    """The verdict on a loaded model, by the values for its tokens 0, 1, 2 ..."""
    settings = llama.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = CONTEXT
    settings.threads[:] = [1, 1]
    context = llama.llama_init_from_model(model, settings)
    if not context:
        return "refuse"
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    ids = (ctypes.c_int32 * count)(*(i % max(vocabulary, 1) for i in range(count)))
    wanted = (ctypes.c_int8 * count)(*[1] * count)
    batch = Batch(n_tokens=count, token=ctypes.addressof(ids), logits=ctypes.addressof(wanted))
    steps = [llama.llama_encode] if llama.llama_model_has_encoder(model) else []
    steps += [llama.llama_decode] if llama.llama_model_has_decoder(model) else []
    for step in steps:
        if step(context, batch):
            return "refuse"
    for read, width in (
        (llama.llama_get_logits_ith, vocabulary),
        (llama.llama_get_embeddings_ith, llama.llama_model_n_embd(model)),
    ):
        for i in range(count):
            place = read(context, i)
            row = (ctypes.c_float * width).from_address(place) if place else ()
            if not all(map(math.isfinite, row)):
                return "nan"
    return "load"


def reason(text: str, path: str) -> str:
    """What the library printed about a refusal: one line, without the file's folder."""
    for pattern in REASONS:
        if found := pattern.search(text):
            return found["why"].replace(path, Path(path).name)[:300]
    return ""


def verdict(llama: ctypes.CDLL, path: str, count: int) -> dict[str, str]:
    """The verdict on a file, from a process of its own."""
    with tempfile.TemporaryFile() as printed:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            signal.alarm(SECONDS)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.write(writing, judged(llama, path, count).encode())
            os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as answer:
            found = answer.read().decode() or "died"
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    return {"verdict": found, "message": reason(text, path) if found in ("refuse", "died") else ""}


def main() -> None:
    """Run the command line."""
    folder = Path(sys.argv[1]) / "bins" / "linux-x64"
    count = int(sys.argv[2]) if sys.argv[2:] else 4
    os.environ["GGML_NO_BACKTRACE"] = "1"  # an assertion would start a debugger
    load_ggml(folder)
    llama = load_llama(folder)
    llama.llama_backend_init()
    for line in sys.stdin:
        print(json.dumps(verdict(llama, line.rstrip("\n"), count)), flush=True)


main()
