"""Load a file beside a model with xllamacpp: MODEL KIND FILE, where KIND is adapter or projector; prints `loaded`."""

import os
import sys

import xllamacpp

model, kind, path = sys.argv[1:4]
parameters = xllamacpp.CommonParams()
parameters.model.path = model
parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.warmup = 256, 1, 0, False
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
if kind == "projector":
    parameters.mmproj.path, parameters.mmproj_use_gpu = path, False
else:
    parameters.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(path, 1.0)]
try:
    server = xllamacpp.Server(parameters)
    print("loaded", flush=True)
finally:
    os._exit(0)  # a server that ends right after its start may deadlock
