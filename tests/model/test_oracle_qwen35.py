"""Hugging Face transformers' Qwen3.5 on tiny random models in float32: each layer, whole texts, and texts in parts.

The models are made by `new`; their weights are copied into transformers' own classes, with what the converter to GGUF did
undone. transformers computes texts in chunks, and single tokens by the recurrence of clause 9.12; the two differ by more
than the recurrence and ours.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

if find_spec("transformers") is None:  # before torch, whose import takes seconds
    pytest.skip("transformers is not installed: pip install -e '.[oracle]'", allow_module_level=True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[oracle]'")
    modeling = pytest.importorskip("transformers.models.qwen3_5.modeling_qwen3_5", reason="transformers is too old")

from builders import model_bytes

from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.thorough]

TOKENS = np.random.default_rng(7).integers(0, 256, 48).tolist()

#: Sizes of small models: with as many value heads as key heads, two, and four to each.
SIZES: tuple[dict[str, Any], ...] = (
    {"heads": 4, "heads_kv": 4}, {"heads": 4, "heads_kv": 2, "head": "untied"}, {"heads": 8, "heads_kv": 2, "layers": 5},
)  # fmt: skip


def grouped(x: Any, model: Model, width: int, axis: int = 0) -> Any:
    """Value heads in the order of checkpoints."""
    net = model.hyperparameters.net
    moved = x.movedim(axis, 0)
    heads = moved.reshape(-1, net.key_heads, width, *moved.shape[1:])
    return heads.transpose(0, 1).reshape(moved.shape).movedim(0, axis)


def checkpoint(model: Model) -> dict[str, Any]:
    """The tensors as checkpoints have them."""
    h, tensors = model.hyperparameters, model.file.tensors

    def own(name: str) -> Any:
        return torch.from_numpy(np.array(tensors[name].array(), dtype=np.float32))

    def with_values(x: Any) -> Any:
        start = 2 * h.net.keys
        return torch.cat([x[:start], grouped(x[start:], model, h.net.width)])

    found = {"model.embed_tokens.weight": own("token_embd.weight"), "model.norm.weight": own("output_norm.weight") - 1}
    found["lm_head.weight"] = own("output.weight" if "output.weight" in tensors else "token_embd.weight")
    for i in range(h.computed):
        layer, there = f"blk.{i}", f"model.layers.{i}"
        found[f"{there}.input_layernorm.weight"] = own(f"{layer}.attn_norm.weight") - 1
        found[f"{there}.post_attention_layernorm.weight"] = own(f"{layer}.post_attention_norm.weight") - 1
        for word in ("gate", "up", "down"):
            found[f"{there}.mlp.{word}_proj.weight"] = own(f"{layer}.ffn_{word}.weight")
        if not h.has("delta", i):
            for ours, theirs in (("q", "q"), ("k", "k"), ("v", "v"), ("output", "o")):
                found[f"{there}.self_attn.{theirs}_proj.weight"] = own(f"{layer}.attn_{ours}.weight")
            for word in "qk":
                found[f"{there}.self_attn.{word}_norm.weight"] = own(f"{layer}.attn_{word}_norm.weight") - 1
            continue
        net = f"{there}.linear_attn"
        found[f"{net}.in_proj_qkv.weight"] = with_values(own(f"{layer}.attn_qkv.weight"))
        found[f"{net}.conv1d.weight"] = with_values(own(f"{layer}.ssm_conv1d.weight"))[:, None]
        found[f"{net}.in_proj_z.weight"] = grouped(own(f"{layer}.attn_gate.weight"), model, h.net.width)
        found[f"{net}.in_proj_a.weight"] = grouped(own(f"{layer}.ssm_alpha.weight"), model, 1)
        found[f"{net}.in_proj_b.weight"] = grouped(own(f"{layer}.ssm_beta.weight"), model, 1)
        found[f"{net}.dt_bias"] = grouped(own(f"{layer}.ssm_dt.bias"), model, 1)
        found[f"{net}.A_log"] = torch.log(-grouped(own(f"{layer}.ssm_a"), model, 1))
        found[f"{net}.norm.weight"] = own(f"{layer}.ssm_norm.weight")
        found[f"{net}.out_proj.weight"] = grouped(own(f"{layer}.ssm_out.weight"), model, h.net.width, 1)
    return found


def theirs_of(model: Model) -> Any:
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    h = model.hyperparameters
    sections = np.asarray(model.file.metadata["qwen35.rope.dimension_sections"]).tolist()
    config = Qwen3_5TextConfig(
        vocab_size=h.vocab, hidden_size=h.embd, intermediate_size=h.ff, num_hidden_layers=h.computed,
        num_attention_heads=h.heads, num_key_value_heads=h.heads_kv, head_dim=h.head_dim, rms_norm_eps=h.eps,
        max_position_embeddings=h.context, attn_implementation="eager", linear_conv_kernel_dim=h.net.kernel,
        linear_key_head_dim=h.net.width, linear_value_head_dim=h.net.width, linear_num_key_heads=h.net.key_heads,
        linear_num_value_heads=h.net.value_heads, tie_word_embeddings="output.weight" not in model.weights,
        layer_types=["linear_attention" if h.has("delta", i) else "full_attention" for i in range(h.computed)],
        rope_parameters={
            "rope_type": "default", "rope_theta": h.rope_base, "partial_rotary_factor": h.rope_dims / h.head_dim,
            "mrope_section": sections[:3], "mrope_interleaved": True,
        },
    )  # fmt: skip
    whole = Qwen3_5ForCausalLM(config).float().eval()
    whole.load_state_dict(checkpoint(model), strict=True)
    return whole


@cache
def pair(number: int) -> tuple[Model, Any]:
    data = model_bytes("qwen35", **{"layers": 4, "type": "F32", "seed": number, **SIZES[number]})
    model = load_model(data, threads=1)
    return model, theirs_of(model)


@contextmanager
def by_recurrence() -> Iterator[None]:
    """transformers' rule for single tokens in place of that for chunks."""
    chunked = modeling.torch_chunk_gated_delta_rule

    def recurrent(query: Any, key: Any, value: Any, *, chunk_size: int = 64, **rest: Any) -> Any:
        return modeling.torch_recurrent_gated_delta_rule(query, key, value, **rest)

    modeling.torch_chunk_gated_delta_rule = recurrent
    try:
        yield
    finally:
        modeling.torch_chunk_gated_delta_rule = chunked


def distance(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_each_layer_on_the_same_input(number: int) -> None:
    model, whole = pair(number)
    taps = model.forward(TOKENS, taps=("inp_embd", "l_out", "result_output")).taps
    x = taps["inp_embd"]
    positions = torch.arange(len(TOKENS))[None].expand(3, 1, -1)
    hidden = torch.full((len(TOKENS), len(TOKENS)), float("-inf")).triu(1)[None, None]
    with torch.no_grad(), by_recurrence():
        for i, layer in enumerate(whole.model.layers):
            given = torch.from_numpy(x.copy())[None]
            angles = whole.model.rotary_emb(given, positions)
            mask = None if model.hyperparameters.has("delta", i) else hidden
            out = layer(given, position_embeddings=angles, attention_mask=mask)
            theirs = (out[0] if isinstance(out, tuple) else out).numpy().reshape(x.shape)
            x = taps[f"l_out-{i}"]
            assert distance(x, theirs) <= 2e-6, f"layer {i}"
        logits = whole.lm_head(whole.model.norm(torch.from_numpy(x.copy())[None]))[0].numpy()
    assert distance(taps["result_output"], logits) <= 2e-6


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_whole_texts_and_texts_in_parts(number: int) -> None:
    model, whole = pair(number)
    ours = model.forward(TOKENS).logits
    with torch.no_grad():
        in_chunks = whole(torch.tensor([TOKENS])).logits[0].numpy()
        past, rows = None, []
        for token in TOKENS:
            out = whole(torch.tensor([[token]]), past_key_values=past, use_cache=True)
            past = out.past_key_values
            rows.append(out.logits[0].numpy())
    one_by_one = np.concatenate(rows)
    assert distance(ours, one_by_one) <= 1e-5
    assert distance(ours, in_chunks) <= 2e-5


@pytest.mark.parametrize(
    "change",
    [
        ("delta_rule", {"heads": "grouped"}), ("rope", {"dims": 4}), ("rope", {"pairs": "norm"}), ("unit", {"eps": 0.1}),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_reading_is_far_from_transformers(change: tuple[str, dict[str, Any]]) -> None:
    model, whole = pair(2)
    op, settings = change
    graph = model.graph
    for node in graph:
        if node.op == op:
            graph = graph.replaced(node.name, **settings)
    with torch.no_grad():
        theirs = whole(torch.tensor([TOKENS])).logits[0].numpy()
    assert distance(model.replace(graph=graph).forward(TOKENS).logits, theirs) > 1e-3
