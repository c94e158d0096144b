"""python dump_logits.py MODEL.gguf 1,2,3 logits.npy: the log-probabilities that llama.cpp's server gives, by xllamacpp."""

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

# The server says nothing of a token that is not a whole character: a bias lets "g", token 70 here, follow each time. The
# probabilities are those before the bias.
fixed = {"n_predict": 1, "n_probs": 1 << 20, "logit_bias": [[70, 1000]], "cache_prompt": False}
ids = [int(each) for each in tokens.split(",")]
rows = []
for end in range(1, len(ids) + 1):
    reply = server.handle_completions({"prompt": ids[:end], **fixed})
    found = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    rows.append([each["logprob"] for each in sorted(found, key=lambda each: each["id"])])
np.save(answer, np.array(rows, np.float32))
os._exit(0)  # a server that ends at once may wait for itself
