#!/bin/sh
# The name of a model, general.name, changes how llama.cpp reads its vocabulary. If it contains "phi3" or "phi-3", in
# upper or lower case, anywhere, then, for all architectures and tokenizers but those of Jina's and Nomic's
# text embeddings:
#
#   - special tokens (control, user defined, unknown), but not <unk>, <s> and <|endoftext|>, remove the white space
#     behind them: a text has other tokens
#   - the vocabulary needs </s>, <unk>, <s> and <|endoftext|>: without one of them the model does not load, and the
#     reason given is that of a C++ container
#
# "Delphi-30M" contains "phi-3". So renaming a model can change its tokens, or make it unloadable.
#
# How it is shown: one llama model (one layer, F32), under three names, with all four tokens and without each of them.
#
# Seen with xllamacpp 2026.10.11549 (llama.cpp on a CPU, from PyPI), files written by gguf 0.19.0, Linux x86-64:
#
#     Tiny       '<|user|> \n a' has the tokens [4, 261, 15, 261, 262]
#     Tiny       without a token <unk>: loads
#     Tiny       without a token <s>: loads
#     Tiny       without a token </s>: loads
#     Tiny       without a token <|endoftext|>: loads
#     Tiny-Phi3  '<|user|> \n a' has the tokens [4, 262]
#     Tiny-Phi3  without a token <unk>: does not load
#     Tiny-Phi3  without a token <s>: does not load
#     Tiny-Phi3  without a token </s>: does not load
#     Tiny-Phi3  without a token <|endoftext|>: does not load
#     Delphi-30M '<|user|> \n a' has the tokens [4, 262]
#     Delphi-30M without a token <unk>: does not load
#     Delphi-30M without a token <s>: does not load
#     Delphi-30M without a token </s>: does not load
#     Delphi-30M without a token <|endoftext|>: does not load
#     error loading model: error loading model vocabulary: _Map_base::at
#
# Ends with 0 if all of this is still so, otherwise with 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check --only-binary :all: \
    gguf==0.19.0 numpy==2.2.6 xllamacpp==2026.10.11549

cat > show.py <<'PYTHON'
import json
import os
import sys
from http.client import HTTPConnection

import gguf
import numpy as np
import xllamacpp

WIDTH = 64
NEEDED = ["<unk>", "<s>", "</s>", "<|endoftext|>"]
TEXT = "<|user|> \n a"


def write(path, name, missing):
    """A llama model of one layer; the text of the token `missing`, if it is not None, is another one."""
    tokens = [*NEEDED, "<|user|>"] + [f"<0x{i:02X}>" for i in range(256)] + ["\u2581", "a"]
    tokens = ["<|other|>" if token == missing else token for token in tokens]
    types = [2, 3, 3, 3, 3] + [6] * 256 + [1, 1]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_block_count(1)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(False)
    writer.add_tensor("token_embd.weight", np.ones((len(tokens), WIDTH), np.float32))
    for norm in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{norm}.weight", np.ones(WIDTH, np.float32))
    for matrix in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{matrix}.weight", np.ones((WIDTH, WIDTH), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


running = []  # servers live until the end: one that stops right after its start may wait for itself


def tokens_of(name, missing):
    """The tokens of TEXT in a model of this name, or None if it does not load."""
    path = f"{name}-{len(running)}.gguf"
    write(path, name, missing)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.warmup = 256, 1, 0, False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    try:
        running.append(xllamacpp.Server(parameters))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return None
    connection = HTTPConnection(running[-1].listening_address.removeprefix("http://"))
    connection.request("POST", "/tokenize", json.dumps({"content": TEXT, "parse_special": True}))
    return json.load(connection.getresponse())["tokens"]


KEPT, REMOVED = [4, 261, 15, 261, 262], [4, 262]  # of white space: a space, a line feed (a byte), a space
as_expected = True
for name, expected in ("Tiny", KEPT), ("Tiny-Phi3", REMOVED), ("Delphi-30M", REMOVED):
    found = tokens_of(name, None)
    as_expected &= found == expected
    print(f"{name:10} {TEXT!r} has the tokens {found}")
    for missing in NEEDED:
        found = tokens_of(name, missing)
        as_expected &= found == (KEPT if name == "Tiny" else None)
        print(f"{name:10} without a token {missing}: {'does not load' if found is None else 'loads'}")
sys.stdout.flush()
os._exit(0 if as_expected else 1)
PYTHON
status=0
python/bin/python show.py 2> log || status=$?
grep -o 'error loading model.*' log | sort -u || true
[ "$status" = 0 ] || tail -n 20 log >&2
exit "$status"
