"""This module says which names the same value has in different programs (clause 10.4).

Ours are those of llama.cpp's fork of 2025. A name is tried as it is; then the words of `ALIASES` for the word in it; then
what Hugging Face calls the module whose output the value is. A new name is one entry here.

>>> list(other_names("attn_o_out-3"))[:3]
['attn_out-3', 'kqv_out-3#1', 'model.layers.3.self_attn.o_proj']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from i2s_spec.model.graph.taps import base

#: By the word of our graphs, what others call the value; `#1` is the second value of a name.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "inp_embd": ("embd",),
    "Qcur": ("Qcur_raw", "q_cur"),
    "Kcur": ("Kcur_raw", "k_cur"),
    "Vcur": ("Vcur_raw", "v_cur"),
    "Qcur#1": ("Qcur_rope", "q_rope"),
    "Kcur#1": ("Kcur_rope", "k_rope"),
    "attn_o_out": ("attn_out", "kqv_out#1"),
    "attn_out": ("attn_o_out", "kqv_out#1"),
    "kq_soft_max_ext": ("kq_soft_max",),
    "kq_soft_max": ("kq_soft_max_ext",),
    "kqv_out": ("kqv_merged_cont", "attn_out_raw"),
    "attn_sub_norm": ("attn_out_norm",),
    "ffn_inp": ("sa_out",),
    "sa_out": ("ffn_inp",),
    "ffn_out": ("ffn_gate_par", "ffn_sub_out", "ffn_gate_up", "ffn_mul"),
    "ffn_sub_out": ("ffn_gate_par", "ffn_out", "ffn_gate_up", "ffn_mul"),
    "ffn_gate_par": ("ffn_gate_up", "ffn_sub_out", "ffn_mul"),
    "ffn_gate_up": ("ffn_gate_par", "ffn_sub_out", "ffn_out", "ffn_mul"),
    "ffn_down": ("ffn_out",),
    "ffn_sqr(relu)": ("ffn_sqr", "ffn_relu_sqr", "ffn_relu2"),
    "ffn_gate_gelu": ("ffn_gelu",),
    "ffn_silu": ("ffn_gate_silu",),
    "result_norm": ("norm",),
    "result_output": ("logits", "output"),
    "embedding": ("pooled", "sentence_embedding"),
}

#: Modules of Hugging Face's models whose output a value is, `{i}` being the layer.
MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "inp_embd": ("model.embed_tokens",),
    "attn_norm": ("model.layers.{i}.input_layernorm",),
    "Qcur": ("model.layers.{i}.self_attn.q_proj",),
    "Kcur": ("model.layers.{i}.self_attn.k_proj",),
    "Vcur": ("model.layers.{i}.self_attn.v_proj",),
    "Qcur_normed": ("model.layers.{i}.self_attn.q_norm",),
    "Kcur_normed": ("model.layers.{i}.self_attn.k_norm",),
    "attn_sub_norm": ("model.layers.{i}.self_attn.attn_sub_norm", "model.layers.{i}.self_attn.inner_attn_ln"),
    "attn_o_out": ("model.layers.{i}.self_attn.o_proj",),
    "attn_out": ("model.layers.{i}.self_attn.o_proj",),
    "ffn_norm": ("model.layers.{i}.post_attention_layernorm",),
    "ffn_up": ("model.layers.{i}.mlp.up_proj",),
    "ffn_gate": ("model.layers.{i}.mlp.gate_proj",),
    "ffn_sub_norm": ("model.layers.{i}.mlp.ffn_sub_norm", "model.layers.{i}.mlp.ffn_layernorm"),
    "ffn_down": ("model.layers.{i}.mlp.down_proj",),
    "l_out": ("model.layers.{i}",),
    "result_norm": ("model.norm",),
    "result_output": ("lm_head",),
}


def other_names(name: str) -> Iterator[str]:
    """What else a value may be called, likelier names first."""
    word, layer, number = parts(name)
    for alias in ALIASES.get(word + number, ()):
        head, mark, times = alias.partition("#")
        yield f"{head}{layer}{mark}{times}"
    if number:
        return
    for pattern in MODULES.get(word, ()):
        full = pattern.replace("{i}", layer.removeprefix("-"))
        yield full
        yield full.removeprefix("model.")
    if "/" in name:
        yield name.replace("/", "_")


def parts(name: str) -> tuple[str, str, str]:
    """The word of a name, its layer with the `-` before it, and its number with the `#` before it.

    >>> parts("Qcur-12#1")
    ('Qcur', '-12', '#1')
    """
    head, mark, number = name.partition("#")
    word = base(name)
    return word, head[len(word) :] if head.startswith(word) else "", mark + number


def matched(names: list[str], present: Iterable[str], fits: Callable[[str, str], bool]) -> dict[str, str]:
    """For each name of ours that a dump has, the dump's name; names that stand for themselves are taken by nobody else.

    :param fits: takes a name of ours and one of the dump: whether the one can be the other by its shape
    """
    present = frozenset(present)
    found = {name: name for name in names if name in present}
    taken = set(found)
    for name in names:
        if name in found:
            continue
        other = next(
            (each for each in other_names(name) if each in present and each not in taken and fits(name, each)), None
        )
        if other is not None:
            found[name] = other
            taken.add(other)
    return {name: found[name] for name in names if name in found}
