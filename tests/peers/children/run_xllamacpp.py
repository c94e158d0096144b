"""Run xllamacpp on a file: ANSWER FILE TOKENS VOCABULARY LETTER [FLASH].

Its server returns no probabilities with a token that is not a whole character. So a bias forces the token LETTER to
follow; it is applied after the probabilities, which are those of the model's own logits. FLASH says whether attention is
computed in one operation (`on`, `off`); without it, the program decides.
"""

import json
import os
import sys
from pathlib import Path

import xllamacpp

answer, path = sys.argv[1:3]
tokens, vocabulary, letter = map(json.loads, sys.argv[3:6])
parameters = xllamacpp.CommonParams()
parameters.model.path = path
parameters.n_ctx = 256
parameters.n_parallel = 1
parameters.n_gpu_layers = 0
parameters.warmup = False
if sys.argv[6:]:
    kind = {"on": "ENABLED", "off": "DISABLED"}[sys.argv[6]]
    parameters.flash_attn_type = getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{kind}")
parameters.cpuparams.n_threads = 1
parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)

fixed = {"n_predict": 1, "n_probs": vocabulary, "logit_bias": [[letter, 1000]], "cache_prompt": False}
rows = []
for end in range(1, len(tokens) + 1):
    reply = server.handle_completions({"prompt": tokens[:end], **fixed})
    if "choices" not in reply:
        raise SystemExit(json.dumps(reply))
    found = {each["id"]: each["logprob"] for each in reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}
    rows.append([found[i] for i in range(vocabulary)])
Path(answer).write_text(json.dumps({"loads": True, "log_probabilities": rows}), encoding="utf-8")
os._exit(0)  # a server that ends right after its start may deadlock
