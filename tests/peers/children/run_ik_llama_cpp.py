"""Run ik-llama-cpp-python, which contains ik_llama.cpp, on a file: ANSWER FILE TOKENS VOCABULARY LETTER."""

import json
import os
import sys
from pathlib import Path

import numpy as np
from ik_llama_cpp import _ctypes_api as api
from ik_llama_cpp._internals import IkModel, make_batch_range

answer, path = sys.argv[1:3]
tokens = json.loads(sys.argv[3])
os.dup2(2, 1)  # the library prints to both
os.environ["GGML_NO_BACKTRACE"] = "1"
model = IkModel(path)
rows = []
if tokens:
    parameters = api.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 256
    parameters.n_threads = parameters.n_threads_batch = 1
    parameters.flash_attn = False
    context = api.llama_init_from_model(model.model, parameters)
    batch = make_batch_range(tokens, pos_start=0, logits_last=True)
    for i in range(len(tokens)):
        batch.logits[i] = 1
    if api.llama_decode(context, batch):
        raise SystemExit("llama_decode fails")
    for i in range(len(tokens)):
        logits = np.array(api.llama_get_logits_ith(context, i)[: model.n_vocab], np.float64)
        rows.append((logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())).tolist())
Path(answer).write_text(json.dumps({"loads": True, "log_probabilities": rows}), encoding="utf-8")
os._exit(0)
