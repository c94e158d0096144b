"""python dump_logits.py MODEL.gguf 1,2,3 logits.npy: log-probabilities of llama.cpp."""

import os
import sys

import numpy as np
import xllamacpp

path, tokens, answer = sys.argv[1:]
parameters = xllamacpp.CommonParams()
parameters.model.path = path
parameters.n_ctx = 512
parameters.n_gpu_layers = 0
parameters.warmup = False
server = xllamacpp.Server(parameters)

# The server reports only tokens that are whole characters, so a bias makes it choose
# "g", token 70 of this model. The probabilities are those without the bias.
fixed = {"n_predict": 1, "n_probs": 1 << 20, "cache_prompt": False}
fixed["logit_bias"] = [[70, 1000]]
ids = [int(each) for each in tokens.split(",")]
rows = []
for end in range(1, len(ids) + 1):
    reply = server.handle_completions({"prompt": ids[:end], **fixed})
    found = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    by_id = {each["id"]: each["logprob"] for each in found}
    rows.append([by_id[i] for i in range(len(by_id))])
np.save(answer, np.array(rows, np.float32))
os._exit(0)  # a server that ends at once may wait for itself
