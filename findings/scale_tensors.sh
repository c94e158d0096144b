#!/bin/sh
# llama.cpp takes `blk.N.NAME.scale` and `blk.N.NAME.input_scale` (F32, one element) beside the matrices of a layer,
# in one pass that all architectures share. Whether it uses them depends on the architecture and on the matrix:
#
#   - llama: `.scale` multiplies the product with the matrix, for all seven matrices of a layer
#   - gemma3: so it does for attention, but the `.scale` of ffn_gate, ffn_up and ffn_down changes nothing
#   - both: `.input_scale` changes nothing
#
# So a producer that divides weights by a scale and stores the scale beside them has a gemma3 model that loads
# without a warning and computes something else. A tensor of a name that llama.cpp does not know is an error, so that
# "it loads" looks like "it is used".
#
# How it is shown: a model of one layer, in F32, as it is; with a scale of -2 beside one matrix; and with that matrix
# itself multiplied by -2. (The scale is negative because gemma3 normalizes the outputs of attention and feed-forward,
# which hides the size of a scale but not its sign; it is a power of two so that products are exact.)
# "used": the scale has the effect of the multiplied matrix; "ignored": it has no effect at all, though the
# multiplied matrix has one. The numbers are the largest change of a log-probability.
#
# Seen with xllamacpp 2026.10.11549 (llama.cpp on a CPU, from PyPI), files written by gguf 0.19.0, Linux x86-64:
#
#     llama  attn_q      .scale: used    ( 5.96)  .input_scale: ignored ( 0.00)  matrix multiplied:  5.96
#     llama  attn_k      .scale: used    ( 5.96)  .input_scale: ignored ( 0.00)  matrix multiplied:  5.96
#     llama  attn_v      .scale: used    (11.12)  .input_scale: ignored ( 0.00)  matrix multiplied: 11.12
#     llama  attn_output .scale: used    (11.12)  .input_scale: ignored ( 0.00)  matrix multiplied: 11.12
#     llama  ffn_gate    .scale: used    ( 7.42)  .input_scale: ignored ( 0.00)  matrix multiplied:  7.42
#     llama  ffn_up      .scale: used    ( 9.42)  .input_scale: ignored ( 0.00)  matrix multiplied:  9.42
#     llama  ffn_down    .scale: used    ( 9.42)  .input_scale: ignored ( 0.00)  matrix multiplied:  9.42
#     llama  with a tensor blk.0.ffn_up.factor: does not load (RuntimeError)
#     gemma3 attn_q      .scale: used    ( 3.30)  .input_scale: ignored ( 0.00)  matrix multiplied:  3.30
#     gemma3 attn_k      .scale: used    ( 3.30)  .input_scale: ignored ( 0.00)  matrix multiplied:  3.30
#     gemma3 attn_v      .scale: used    ( 7.56)  .input_scale: ignored ( 0.00)  matrix multiplied:  7.56
#     gemma3 attn_output .scale: used    ( 7.56)  .input_scale: ignored ( 0.00)  matrix multiplied:  7.56
#     gemma3 ffn_gate    .scale: ignored ( 0.00)  .input_scale: ignored ( 0.00)  matrix multiplied:  3.38
#     gemma3 ffn_up      .scale: ignored ( 0.00)  .input_scale: ignored ( 0.00)  matrix multiplied:  6.56
#     gemma3 ffn_down    .scale: ignored ( 0.00)  .input_scale: ignored ( 0.00)  matrix multiplied:  6.56
#     gemma3 with a tensor blk.0.ffn_up.factor: does not load (RuntimeError)
#     error loading model: done_getting_tensors: wrong number of tensors; expected 12, got 11
#     error loading model: done_getting_tensors: wrong number of tensors; expected 16, got 15
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
import os
import sys

import gguf
import numpy as np
import xllamacpp

WIDTH, HIDDEN, HEADS, SCALE = 64, 96, 2, -2.0
TOKENS = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + ["\u2581", "a"]
TYPES = [2, 3, 3] + [6] * 256 + [1, 1]
PROMPT = [5, 70, 200, 9]
SHAPES = {
    "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH), "attn_output": (WIDTH, WIDTH),
    "ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN),
}
NORMS = {"llama": ["attn_norm", "ffn_norm"]}
NORMS["gemma3"] = NORMS["llama"] + ["post_attention_norm", "post_ffw_norm", "attn_q_norm", "attn_k_norm"]


def write(path, architecture, multiplied=None, beside=None):
    """A model of one layer; `multiplied` is a matrix that SCALE multiplies, `beside` the name of a tensor of one
    element, SCALE, to add."""
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_key_length(WIDTH // HEADS)
    writer.add_value_length(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([0.0] * len(TOKENS))
    writer.add_token_types(TYPES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_tensor("token_embd.weight", random.standard_normal((len(TOKENS), WIDTH), np.float32) / np.float32(4))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for name in NORMS[architecture]:
        size = WIDTH // HEADS if name in ("attn_q_norm", "attn_k_norm") else WIDTH
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(size, np.float32))
    for name, shape in SHAPES.items():
        matrix = random.standard_normal(shape, np.float32) / np.float32(8)
        writer.add_tensor(f"blk.0.{name}.weight", matrix * np.float32(SCALE if name == multiplied else 1))
    if beside is not None:
        writer.add_tensor(beside, np.array([SCALE], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


running = []  # servers live until the end: one that stops right after its start may wait for itself


def predicted(architecture, **change):
    """Log-probabilities of the token after PROMPT."""
    path = f"{len(running)}.gguf"
    write(path, architecture, **change)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.warmup = 256, 1, 0, False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    running.append(xllamacpp.Server(parameters))
    # The server reports probabilities only with a token that is a whole character: a bias, which comes after the
    # probabilities, chooses the "a".
    letter = len(TOKENS) - 1
    asked = {"prompt": PROMPT, "n_predict": 1, "n_probs": len(TOKENS), "cache_prompt": False}
    reply = running[-1].handle_completions(asked | {"logit_bias": [[letter, 1000]]})
    rows = {row["id"]: row["logprob"] for row in reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}
    return np.array([rows[i] for i in range(len(TOKENS))])


def difference(one, other):
    return float(np.abs(one - other).max())


def verdict(plain, changed, multiplied):
    if difference(plain, multiplied) < 0.1:
        return "cannot be judged"
    if difference(plain, changed) == 0:
        return "ignored"
    return "used" if difference(changed, multiplied) < 1e-4 else "something else"


expected = {("gemma3", name) for name in ("ffn_gate", "ffn_up", "ffn_down")}
as_expected = True
for architecture in NORMS:
    plain = predicted(architecture)
    for name in SHAPES:
        multiplied = predicted(architecture, multiplied=name)
        scaled = predicted(architecture, beside=f"blk.0.{name}.scale")
        of_input = predicted(architecture, beside=f"blk.0.{name}.input_scale")
        found = verdict(plain, scaled, multiplied), verdict(plain, of_input, multiplied)
        as_expected &= found == ("ignored" if (architecture, name) in expected else "used", "ignored")
        print(
            f"{architecture:6} {name:11} .scale: {found[0]:7} ({difference(plain, scaled):5.2f})"
            f"  .input_scale: {found[1]:7} ({difference(plain, of_input):5.2f})"
            f"  matrix multiplied: {difference(plain, multiplied):5.2f}"
        )
    try:
        predicted(architecture, beside="blk.0.ffn_up.factor")
        outcome = "loads"
    except Exception as error:
        outcome = f"does not load ({type(error).__name__})"
    as_expected &= outcome != "loads"
    print(f"{architecture:6} with a tensor blk.0.ffn_up.factor: {outcome}")
sys.stdout.flush()
os._exit(0 if as_expected else 1)
PYTHON
status=0
python/bin/python show.py 2> log || status=$?
grep -o 'error loading model.*' log | sort -u || true
[ "$status" = 0 ] || tail -n 20 log >&2
exit "$status"
