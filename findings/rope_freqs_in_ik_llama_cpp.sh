#!/bin/sh
# ik_llama.cpp loads the tensor rope_freqs.weight of a llama model, which scales the angles of the rotation (Llama 3.1 and
# later have it), and computes as if it were not there: logits with and without it are equal to the bit. llama.cpp uses it.
#
# How it is shown: one llama model (two layers, F32, random weights), with factors from 1 to 8 and without, in both programs.
#
# Seen with ik-llama-cpp-python 0.1.5 and xllamacpp 2026.10.11549 (both of PyPI, on a CPU), files written by gguf 0.19.0,
# Linux x86-64:
#
#     ik_llama.cpp: the logits of 8 tokens with and without the factors are equal
#     llama.cpp: the probabilities after 8 tokens with and without the factors differ
#
# Ends with 0 if all of this is still so, otherwise with 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check --only-binary :all: \
    gguf==0.19.0 numpy==2.2.6 xllamacpp==2026.10.11549 ik-llama-cpp-python==0.1.5

cat > write.py <<'PYTHON'
import gguf
import numpy as np

WIDTH, HEADS, LAYERS = 128, 2, 2


def write(path, factors):
    """A llama model of two layers; `factors` are those of the rotation, or None."""
    chance = np.random.default_rng(0)
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + ["a"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name in ("token_embd", "output"):
        writer.add_tensor(f"{name}.weight", chance.standard_normal((len(tokens), WIDTH), np.float32))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors.astype(np.float32))
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(WIDTH, np.float32))
        for matrix in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            weights = chance.standard_normal((WIDTH, WIDTH), np.float32) / np.float32(WIDTH**0.5)
            writer.add_tensor(f"blk.{layer}.{matrix}.weight", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


write("without.gguf", None)
write("with.gguf", np.linspace(1, 8, WIDTH // HEADS // 2))
PYTHON

cat > ik.py <<'PYTHON'
import os
import sys

import numpy as np
from ik_llama_cpp import _ctypes_api as api
from ik_llama_cpp._internals import IkModel, make_batch_range

tokens = [5, 6, 7, 8, 100, 200, 31, 44]
model, parameters = IkModel(sys.argv[1]), api.llama_context_default_params()
parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 256
parameters.n_threads = parameters.n_threads_batch = 1
parameters.flash_attn = False
context = api.llama_init_from_model(model.model, parameters)
batch = make_batch_range(tokens, pos_start=0, logits_last=True)
for i in range(len(tokens)):
    batch.logits[i] = 1
assert not api.llama_decode(context, batch)
rows = [api.llama_get_logits_ith(context, i)[: model.n_vocab] for i in range(len(tokens))]
np.save(sys.argv[2], np.array(rows, np.float32))
os._exit(0)
PYTHON

cat > llama.py <<'PYTHON'
import os
import sys

import numpy as np
import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.warmup = 256, 1, 0, False
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)
prompt = {"prompt": [5, 6, 7, 8, 100, 200, 31, 44], "n_predict": 1, "n_probs": 260, "logit_bias": [[259, 1000]]}
reply = server.handle_completions(prompt)
found = {each["id"]: each["logprob"] for each in reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}
np.save(sys.argv[2], np.array([found[i] for i in sorted(found)], np.float32))
sys.stdout.flush()
os._exit(0)
PYTHON

cat > compare.py <<'PYTHON'
import sys

import numpy as np

as_expected = True
for name, what, same in (
    ("ik", "ik_llama.cpp: the logits of 8 tokens", True), ("llama", "llama.cpp: the probabilities after 8 tokens", False)
):
    one, other = np.load(f"{name}.with.npy"), np.load(f"{name}.without.npy")
    assert one.shape == other.shape
    equal = np.array_equal(one, other)
    as_expected &= equal == same
    print(f"{what} with and without the factors {'are equal' if equal else 'differ'}")
sys.exit(not as_expected)
PYTHON

python/bin/python write.py
for file in with without; do
    python/bin/python ik.py $file.gguf ik.$file.npy > log 2>&1 || { tail -n 20 log >&2; exit 1; }
    python/bin/python llama.py $file.gguf llama.$file.npy > log 2>&1 || { tail -n 20 log >&2; exit 1; }
done
python/bin/python compare.py
