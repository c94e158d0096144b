"""Run by xllamacpp's own interpreter: FILE TOKENS VOCABULARY LETTER FLASH, log-probabilities as JSON to stdout.

Its server gives no probabilities with a token that is no whole character. So the token LETTER is made to follow by a
bias, which comes after the probabilities; they are of the model's own logits.
"""

import json
import sys

import xllamacpp

path = sys.argv[1]
tokens, vocabulary, letter, flash = map(json.loads, sys.argv[2:6])
parameters = xllamacpp.CommonParams()
parameters.model.path = path
parameters.n_ctx = 256
parameters.n_parallel = 1
parameters.n_gpu_layers = 0
parameters.warmup = False
parameters.flash_attn_type = getattr(
    xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{'ENABLED' if flash else 'DISABLED'}"
)
parameters.cpuparams.n_threads = 1
parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)
rows = []
for end in range(1, len(tokens) + 1):
    wanted = {"n_predict": 1, "n_probs": vocabulary, "logit_bias": [[letter, 1000]], "cache_prompt": False}
    reply = server.handle_completions({"prompt": tokens[:end], **wanted})
    if "choices" not in reply:
        sys.exit(json.dumps(reply))
    found = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    by_id = {each["id"]: each["logprob"] for each in found}
    rows.append([by_id[i] for i in range(vocabulary)])
print("\n" + json.dumps(rows))
