"""An adapter for xllamacpp (llama.cpp as a wheel): log-probabilities of a model, which are logits plus a constant.

Its server returns no probabilities with a token that is not a whole character. So a bias forces a letter to follow; it
is applied after the probabilities are computed.
"""

import base64
import json
import struct
import sys
from importlib.metadata import version
from pathlib import Path

import xllamacpp
from speak import speak


def letter_of(data):
    """The number of a token that is a letter: the vocabulary is an array of texts."""
    at = data.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens") + 8
    count, at = struct.unpack_from("<Q", data, at)[0], at + 8
    for number in range(count):
        (length,), at = struct.unpack_from("<Q", data, at), at + 8
        if length == 1 and data[at : at + 1].isalpha():
            return number
        at += length
    raise ValueError("no token is a letter")


def answer(op, path, args, _tokens=None):
    """Log-probabilities [positions, vocabulary] as float32; the second input has the tokens that `args` has, too."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.warmup = 256, 1, 0, False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    letter = letter_of(Path(path).read_bytes())
    width, values = args["shape"][0], []
    for end in range(1, len(args["tokens"]) + 1):
        asked = {"prompt": args["tokens"][:end], "n_predict": 1, "n_probs": width, "cache_prompt": False}
        reply = server.handle_completions({**asked, "logit_bias": [[letter, 1000]]})
        if "choices" not in reply:
            raise ValueError(json.dumps(reply))
        found = {each["id"]: each["logprob"] for each in reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}
        values += [found[i] for i in range(width)]
    data = base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
    return {"base64": data, "shift": "rows"}  # correct up to a constant for each token


VERSION = version("xllamacpp")
FEATURES = [*(f"type.{name}" for name in ("tq1_0", "tq2_0", "q2_0", "f16")), "arch.llama", "arch.qwen3", "arch.gemma3"]
ABOUT = {"name": "xllamacpp", "version": VERSION, "language": "c++", "source": f"PyPI xllamacpp {VERSION}"}
speak(ABOUT, ["forward"], answer, sys.argv[1:] or FEATURES)
