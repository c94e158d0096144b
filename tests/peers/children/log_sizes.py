"""Print what xllamacpp logs while it loads a model: MODEL CONTEXT TYPE, where TYPE is that of its cache (f16, q8_0).

Standard output is a file that can be read. A thread of llama.cpp writes to it, possibly after the server has started or
refused: its last line is waited for.
"""

import os
import sys
import time

import xllamacpp

path, context, cache = sys.argv[1:4]
parameters = xllamacpp.CommonParams()
parameters.model.path = path
parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.warmup = int(context), 1, 0, False
parameters.cache_type_k = parameters.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{cache.upper()}")
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
parameters.fit_params = False  # or it allocates and logs once before, to see what fits
parameters.verbosity = 5  # the sizes of buffers are in no shorter log
try:
    server = xllamacpp.Server(parameters)
finally:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        log = os.pread(1, 1 << 24, 0)
        if b"listening on" in log or b"exiting due to" in log:
            break
        time.sleep(0.01)
    os._exit(0)  # a server that ends right after its start may deadlock
