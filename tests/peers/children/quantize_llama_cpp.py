"""Quantise files with llama.cpp's library of npm's @node-llama-cpp/linux-x64: PACKAGE < JOBS > ANSWERS.

A line of the input is a job: `source`, `target`, `file_type` (the number of llama_ftype). A line of the output is the status
of the library, 0 if it wrote the file. Each job runs in a process of its own.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # which Python leaves out where PYTHONSAFEPATH is set

from llama_library import ROOM, load_ggml, load_llama


class Parameters(ctypes.Structure):
    """`struct llama_model_quantize_params`, as far as it is set here."""

    _fields_ = (("nthread", ctypes.c_int32), ("ftype", ctypes.c_int32), ("rest", ctypes.c_uint8 * ROOM))


def main() -> None:
    """Run the command line."""
    folder = Path(sys.argv[1]) / "bins" / "linux-x64"
    load_ggml(folder)
    llama = load_llama(folder)
    llama.llama_model_quantize_default_params.restype = Parameters
    llama.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Parameters)]
    llama.llama_backend_init()
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            parameters = llama.llama_model_quantize_default_params()
            parameters.nthread, parameters.ftype = 1, job["file_type"]
            names = job["source"].encode(), job["target"].encode()
            os._exit(min(255, llama.llama_model_quantize(*names, ctypes.byref(parameters))))
        _, status = os.waitpid(child, 0)
        print(status, flush=True)


main()
