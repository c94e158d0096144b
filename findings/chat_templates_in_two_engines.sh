#!/bin/sh
# The chat template of a file is rendered by two engines that people take for one: Jinja, as transformers sets it up
# (apply_chat_template), and llama.cpp's own in its server. The same template gives other prompts:
#
#   - llama.cpp's server sets enable_thinking to true, though nobody asked for it; transformers leaves it undefined. A
#     template that says "if enable_thinking" thinks in one of them only
#   - a list's append is refused by transformers' sandbox, and works in llama.cpp
#   - a filter of Jinja that llama.cpp lacks, such as center, is no error of a request: the server does not start
#   - an empty template is nothing to transformers, and ChatML to llama.cpp
#   - a template that writes bos_token: llama.cpp takes it away if its tokenizer adds one. A template that does not: a
#     conversation begins with BOS in llama.cpp, and without it in transformers, whose apply_chat_template adds none
#
# How it is shown: one llama model (one layer, F32) with each template, rendered by jinja2 in the environment of transformers
# 5.24 (utils/chat_template_utils.py) and by the route /apply-template, tokens by /tokenize.
#
# Seen with xllamacpp 2026.10.11549 (llama.cpp on a CPU) and jinja2 3.1.6, both from PyPI, files written by gguf 0.19.0,
# Linux x86-64 (token 1 is BOS):
#
#     thinking  transformers ''                   llama.cpp 'think', first token 1
#     append    transformers 'SecurityError'      llama.cpp 'a', first token 1
#     center    transformers ' a '                llama.cpp does not start
#     empty     transformers ''                   llama.cpp '<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n', first token 1
#     bos       transformers '<s>a'               llama.cpp 'a', first token 1
#     no bos    transformers 'a'                  llama.cpp 'a', first token 1
#
# Ends with 0 if all of this is still so, otherwise with 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check --only-binary :all: \
    gguf==0.19.0 numpy==2.2.6 jinja2==3.1.6 xllamacpp==2026.10.11549

cat > show.py <<'PYTHON'
import json
import os
import sys
from http.client import HTTPConnection

import gguf
import numpy as np
import xllamacpp
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

WIDTH = 64
MESSAGES = [{"role": "user", "content": "a"}]
TEMPLATES = {
    "thinking": "{% if enable_thinking %}think{% endif %}",
    "append": "{% set found = [] %}{% set _ = found.append(messages[0].content) %}{{ found[0] }}",
    "center": "{{ messages[0].content | center(3) }}",
    "empty": "",
    "bos": "{{ bos_token }}{{ messages[0].content }}",
    "no bos": "{{ messages[0].content }}",
}
CHATML = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
EXPECTED = {
    "thinking": ("", ("think", 1)), "append": ("SecurityError", ("a", 1)), "center": (" a ", None), "empty": ("", (CHATML, 1)),
    "bos": ("<s>a", ("a", 1)), "no bos": ("a", ("a", 1)),
}


def write(path, template):
    """A llama model of one layer with a template."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + ["a", "think"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_block_count(1)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1, 1])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(template)
    writer.add_tensor("token_embd.weight", np.ones((len(tokens), WIDTH), np.float32))
    for norm in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{norm}.weight", np.ones(WIDTH, np.float32))
    for matrix in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{matrix}.weight", np.ones((WIDTH, WIDTH), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def by_transformers(template):
    """The text, or the name of the error."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    try:
        return environment.from_string(template).render(
            messages=MESSAGES, tools=None, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>"
        )
    except Exception as error:
        return type(error).__name__


running = []  # servers live until the end: one that stops right after its start may wait for itself


def by_llama_cpp(template):
    """The text and its first token; None if the server does not start."""
    path = f"{len(running)}-{len(template)}.gguf"
    write(path, template)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.warmup = 256, 1, 0, False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.use_jinja = True
    try:
        running.append(xllamacpp.Server(parameters))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return None

    def post(route, body):
        connection = HTTPConnection(running[-1].listening_address.removeprefix("http://"))
        connection.request("POST", route, json.dumps(body))
        return json.load(connection.getresponse())

    text = post("/apply-template", {"messages": MESSAGES})["prompt"]
    tokens = post("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]
    return text, tokens[0]


as_expected = True
for name, template in TEMPLATES.items():
    found = by_transformers(template), by_llama_cpp(template)
    as_expected &= found == EXPECTED[name]
    other = "does not start" if found[1] is None else f"{found[1][0]!r}, first token {found[1][1]}"
    print(f"{name:9} transformers {found[0]!r:20} llama.cpp {other}")
sys.stdout.flush()
os._exit(0 if as_expected else 1)
PYTHON
python/bin/python show.py 2> log || { status=$?; cat log >&2; exit "$status"; }
