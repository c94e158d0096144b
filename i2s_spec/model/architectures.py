"""The graph of each architecture: the formulas of clauses 9.2 to 9.5, with llama.cpp's names, and its activation (9.6).

`resolve_activation` decides the activation and states the rule that decided. `GRAPHS` maps each architecture to the
function that builds its graph from sizes and `GraphSettings`; `graph_of` calls it. The common parts of architectures
are `_attention`, `_normed_heads`, `_normed_gate` and their like; each function states the differences. A new
architecture is one function and one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import SettingError, quote
from i2s_spec.model.graph import TOKENS, Builder, Graph

if TYPE_CHECKING:
    from i2s_spec.model.numerics import NumericProfile
    from i2s_spec.schema.architectures import Architecture, Hyperparameters
    from i2s_spec.schema.rotation import Rotation


# --- activation ------------------------------------------------------------------------------------------------------
# The name of the architecture is not enough: files of models with either activation have the same name, and some
# runtimes use the wrong one. The rules, in this order:
#
#     override      the activation that the caller asks for
#     key           `<architecture>.hidden_activation`, if the profile's runtime reads it
#     profile       the activation that the runtime of an emulation profile uses for the architecture, right or wrong
#     architecture  the table of architectures

#: The operations of each activation, with llama.cpp's names for their values; all on the gate only.
STEPS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "relu2": (("relu", "ffn_relu"), ("square", "ffn_sqr(relu)")),
    "silu": (("silu", "ffn_silu"),),
    "gelu": (("gelu", "ffn_gate_gelu"),),
}

#: A `bitnet-b1.58` file with fewer tokens is probably not the model of that name, whose activation the table assumes.
FEW_TOKENS: Final = 100_000


class LocalLayers(NamedTuple):
    """The layers in which a token sees only the last `window` ones (clause 9.5).

    :param local: of each layer, whether it is one
    :param rope_base: the base of the rotation in them, where it is one of their own; positions are not scaled then
    """

    window: int
    local: tuple[bool, ...]
    rope_base: float | None = None


class ActivationRule(NamedTuple):
    """The activation, the rule that decided, and a sentence that says so; `doubt` if it may well be wrong."""

    activation: str
    rule: str
    reason: str
    doubt: str | None = None


def resolve_activation(
    architecture: Architecture, metadata: Mapping[str, Any], profile: NumericProfile, override: str | None, vocab: int
) -> ActivationRule:
    """Return the activation of a model.

    :param override: `relu2`, `silu`, `gelu`, or None
    :param vocab: number of tokens
    :raises SettingError: for an override, or a value of the key, that is not an activation
    """
    if override is not None:
        return ActivationRule(_known(override, "the override"), "override", f"the caller asked for {override}")
    key = f"{architecture.prefix}.hidden_activation"
    if profile.reads_activation and key in metadata:
        value = _known(metadata[key], f"the key {key}")
        return ActivationRule(value, "key", f"{key} says {value}")
    if architecture.prefix in profile.activations:
        value = profile.activations[architecture.prefix]
        reason = f"the runtime of profile {profile.name} uses {value} for {architecture.name}"
        differs = value != architecture.activation
        doubt = f"{architecture.name} is {architecture.activation} by its papers" if differs else None
        return ActivationRule(value, "profile", reason, doubt)
    doubt = None
    if architecture.name == "bitnet-b1.58" and (vocab < FEW_TOKENS or metadata.get("tokenizer.ggml.model") == "llama"):
        doubt = "the vocabulary is not that of 2B-4T; converters give this architecture to models with silu too"
    value = architecture.activation
    return ActivationRule(value, "architecture", f"{architecture.name} is {value} by the table of architectures", doubt)


def _known(value: Any, what: str) -> str:
    if value not in STEPS:
        shown = quote(value) if isinstance(value, str | bytes) else value
        raise SettingError(f"{what} is {shown}; activations are {', '.join(STEPS)}")
    return str(value)


# --- graphs ----------------------------------------------------------------------------------------------------------

EMBEDDING: Final = "token_embd.weight"
OUTPUT: Final = "output.weight"
ROPE_FACTORS: Final = "rope_freqs.weight"


@dataclass(frozen=True)
class GraphSettings:
    """The settings of a graph besides the sizes; all are decided before, and recorded.

    :param activation: `relu2`, `silu` or `gelu`
    :param rope: the arrangement of rotated pairs in a head: `neox` or `norm`
    :param rope_scale: the factor of positions (1 / rope.scaling.factor)
    :param pooling: how token vectors are combined to one: `last`, `mean`, `first`
    :param causal: whether a token sees only earlier ones
    :param head: `tied`: always the embedding table; `untied`: output.weight if the file has it; `none`: a pooled vector
    :param sub_norm_eps: the epsilon of the sub-norms, if a runtime has a separate one
    :param sub_norms: `required`, or `optional`: left out where the file lacks their gains
    :param rotation: the rotation that is folded into the weights, if the file declares one
    :param local: the layers in which a token sees a window of the earlier ones, if the file declares any
    :param experts_used: how many experts compute each token; 0 if the feed-forward network has none
    """

    activation: str
    rope: str
    rope_scale: float = 1.0
    pooling: str = "last"
    causal: bool = True
    head: str = "tied"
    sub_norm_eps: float | None = None
    sub_norms: str = "required"
    rotation: Rotation | None = None
    local: LocalLayers | None = None
    experts_used: int = 0

    def of_layer(self, layer: int) -> GraphSettings:
        """Return the settings of one layer: without `local` if it is global."""
        return self if self.local is None or self.local.local[layer] else replace(self, local=None)


def bitnet(g: Builder, h: Hyperparameters, s: GraphSettings, *, gated: str) -> Graph:
    """BitNet b1.58, 2B-4T (relu2) and the 1bitLLM models (silu): sub-norms before Wo and Wdown, head always tied."""
    eps, sub_eps = h.eps, s.sub_norm_eps or h.eps
    x = _embedded(g)
    for i in range(h.layers):
        with g.in_layer(i):
            a = g.rms("attn_norm", x, eps=eps)
            q, k, v = (g.linear(f"{c}cur", a, f"attn_{c.lower()}") for c in "QKV")
            q, k = _rope(g, "Qcur", q, h.at(i).heads, h, s), _rope(g, "Kcur", k, h.at(i).heads_kv, h, s)
            o = _attention(g, q, k, v, h.at(i), s, soft_max="kq_soft_max_ext")
            o = _sub_norm(g, "attn_sub_norm", o, sub_eps, s)
            x = g.add("add", "ffn_inp", x, g.linear("attn_o_out", o, "attn_output"))
            b = g.rms("ffn_norm", x, eps=eps)
            normed = partial(_sub_norm, g, "ffn_sub_norm", eps=sub_eps, s=s)
            x = g.add("add", "l_out", x, _feed_forward(g, b, s, gated, "ffn_down", normed))
    return _logits(g, x, h, s)


def llama(g: Builder, h: Hyperparameters, s: GraphSettings) -> Graph:
    """Llama with ternary projections: no sub-norms, rows of q and k permuted for neighboring pairs, head of its own."""
    x = _embedded(g)
    for i in range(h.layers):
        with g.in_layer(i):
            a = g.rms("attn_norm", x, eps=h.eps)
            q, k, v = (g.linear(f"{c}cur", a, f"attn_{c.lower()}") for c in "QKV")
            q, k = _rope(g, "Qcur", q, h.at(i).heads, h, s), _rope(g, "Kcur", k, h.at(i).heads_kv, h, s)
            o = _attention(g, q, k, v, h.at(i), s, soft_max="kq_soft_max_ext")
            x = g.add("add", "ffn_inp", x, g.linear("attn_out", o, "attn_output"))
            b = g.rms("ffn_norm", x, eps=h.eps)
            x = g.add("add", "l_out", x, _feed_forward(g, b, s, "ffn_gate_par", "ffn_out"))
    return _logits(g, x, h, s)


def qwen3(g: Builder, h: Hyperparameters, s: GraphSettings) -> Graph:
    """Qwen3: a norm on each q and k head; in the 0.6B embedding model also one before each of the seven projections."""
    x = _embedded(g)
    for i in range(h.layers):
        with g.in_layer(i):
            a, of_layer = g.rms("attn_norm", x, eps=h.eps), s.of_layer(i)
            q, k, v = _normed_heads(g, a, h, i, of_layer)
            o = _attention(g, q, k, v, h.at(i), of_layer, soft_max="kq_soft_max")
            x = g.add("add", "ffn_inp", x, _normed_linear(g, "attn_o_out", o, "attn_output", "attn_out", h))
            b = g.rms("ffn_norm", x, eps=h.eps)
            m = _normed_gate(g, b, h, s)
            x = g.add("add", "l_out", x, _normed_linear(g, "ffn_down", m, "ffn_down", "ffn_down", h))
    return _pooled(g, x, h, s) if s.head == "none" else _logits(g, x, h, s)


def gemma3(g: Builder, h: Hyperparameters, s: GraphSettings) -> Graph:
    """Gemma 3: like qwen3, with scaled embeddings, q scaled before QK, and norms on the residual terms."""
    x = g.add("multiply_by", "inp_scaled", _embedded(g), factor=sqrt(h.embd))
    for i in range(h.layers):
        with g.in_layer(i):
            a, of_layer = g.rms("attn_norm", x, eps=h.eps), s.of_layer(i)
            q, k, v = _normed_heads(g, a, h, i, of_layer)
            q = g.add("multiply_by", "Qcur_scaled", q, factor=1 / sqrt(h.head_dim))
            o = _attention(g, q, k, v, h.at(i), of_layer, soft_max="kq_soft_max", scale=1.0)
            o = _normed_linear(g, "attn_o_out", o, "attn_output", "attn_out", h)
            x = g.add("add", "sa_out", x, g.rms("attn_post_norm", o, "post_attention_norm", eps=h.eps))
            b = g.rms("ffn_norm", x, eps=h.eps)
            m = _normed_gate(g, b, h, s)
            m = _normed_linear(g, "ffn_down", m, "ffn_down", "ffn_down", h)
            x = g.add("add", "l_out", x, g.rms("ffn_post_norm", m, "post_ffw_norm", eps=h.eps))
    return _pooled(g, x, h, s)


#: The epsilon of the norms of queries and keys in delta nets, whatever that of the model is (transformers
#: models/qwen3_5/modeling_qwen3_5.py, l2norm). llama.cpp takes that of the model, which is the same in published models.
NET_EPS: Final = 1e-6


def qwen35(g: Builder, h: Hyperparameters, s: GraphSettings) -> Graph:
    """Qwen3.5: gated delta nets in most layers, attention with an output gate in the others."""
    x = _embedded(g)
    for i in range(h.computed):
        with g.in_layer(i):
            a = g.rms("attn_norm", x, eps=h.eps)
            o = _delta_net(g, a, h, s) if h.has("delta", i) else _gated_attention(g, a, h.at(i), s)
            x = g.add("add", "attn_residual", x, o)
            b = g.rms("attn_post_norm", x, "post_attention_norm", eps=h.eps)
            x = g.add("add", "l_out", x, _feed_forward(g, b, s, "ffn_gate_par", "ffn_out"))
    return _logits(g, x, h, s)


def _gated_attention(g: Builder, a: str, h: Hyperparameters, s: GraphSettings) -> str:
    """Return attention, multiplied by the sigmoid of a gate; rows of queries and gates alternate, head by head."""
    both = g.linear("Qcur_full", a, "attn_q")
    k, v = g.linear("Kcur", a, "attn_k"), g.linear("Vcur", a, "attn_v")
    q = g.add("columns", "Qcur_reshaped", both, heads=h.heads, start=0, stop=h.head_dim)
    gate = g.add("columns", "gate_reshaped", both, heads=h.heads, start=h.head_dim, stop=2 * h.head_dim)
    q = g.rms("Qcur_normed", q, "attn_q_norm", eps=h.eps)
    k = g.rms("Kcur_normed", g.add("heads", "Kcur", k, heads=h.heads_kv), "attn_k_norm", eps=h.eps)
    q, k = _rope(g, "Qcur", q, h.heads, h, s), _rope(g, "Kcur", k, h.heads_kv, h, s)
    o = _attention(g, q, k, v, h, s, soft_max="kq_soft_max")
    gate = g.add("sigmoid", "gate_sigmoid", g.add("merge", "gate_reshaped", gate))
    return g.linear("attn_output", g.add("multiply", "attn_gated", o, gate), "attn_output")


def _delta_net(g: Builder, a: str, h: Hyperparameters, s: GraphSettings) -> str:
    """Return a gated delta net: a convolution over the last tokens, states that learn and forget, and an output
    gate.
    """
    net = h.net
    qkv, z = g.linear("linear_attn_qkv_mixed", a, "attn_qkv"), g.linear("z", a, "attn_gate")
    beta = g.add("sigmoid", "beta_sigmoid", g.linear("beta", a, "ssm_beta"))
    alpha = g.add("bias", "alpha_biased", g.linear("alpha", a, "ssm_alpha"), weights=(g.tensor("ssm_dt.bias"),))
    gate = g.add("decay", "gate", g.add("softplus", "a_softplus", alpha), weights=(g.tensor("ssm_a"),))
    mixed = g.add("convolve", "conv_output_raw", qkv, weights=(g.tensor("ssm_conv1d.weight"),))
    mixed = g.add("silu", "conv_output_silu", mixed)
    parts, start = [], 0
    for name, heads in (("q", net.key_heads), ("k", net.key_heads), ("v", net.value_heads)):
        stop = start + heads * net.width
        part = g.add("columns", f"{name}_conv", mixed, heads=1, start=start, stop=stop)
        parts.append(g.add("heads", f"{name}_conv", part, heads=heads))
        start = stop
    q, k = (g.add("unit", f"{name}_conv_predelta", x, eps=NET_EPS) for name, x in zip("qk", parts, strict=False))
    y = g.add("delta_rule", "attn_output", q, k, parts[2], gate, beta, heads="tiled")
    y = g.rms("attn_output_normed", y, "ssm_norm", eps=h.eps)
    z = g.add("silu", "z_silu", g.add("heads", "z", z, heads=net.value_heads))
    y = g.add("merge", "final_output", g.add("multiply", "attn_output_gated", y, z))
    if s.rotation is not None and s.rotation.grouped and s.rotation.rotates(g.tensor("ssm_out.weight")):
        y = g.add("regroup", "final_output", y, groups=net.key_heads, width=net.width)
    return g.linear("linear_attn_out", y, "ssm_out")


def _sub_norm(g: Builder, name: str, x: str, eps: float, s: GraphSettings) -> str:
    """Return the norm before an output projection; left out if the file lacks it and the runtime does not mind."""
    if s.sub_norms == "optional" and g.tensor(f"{name}.weight") not in g.present:
        return x
    return g.rms(name, x, eps=eps)


def _feed_forward(
    g: Builder, b: str, s: GraphSettings, product: str, result: str, normed: Callable[[str], str] = lambda m: m
) -> str:
    """Return the gated feed-forward network, or those of experts if the model has any.

    :param product: the name of the gated product, and `result`: that of the result
    :param normed: adds a norm before the last projection
    """
    if s.experts_used:
        return _experts(g, b, s, normed)
    u, t = g.linear("ffn_up", b, "ffn_up"), g.linear("ffn_gate", b, "ffn_gate")
    return g.linear(result, normed(g.add("multiply", product, _activated(g, t, s), u)), "ffn_down")


def _experts(g: Builder, b: str, s: GraphSettings, normed: Callable[[str], str]) -> str:
    """Return the feed-forward networks of the experts that a router chooses for each token, weighed by their shares.

    :param normed: adds a norm before the last projection
    """
    shares = g.add("expert_shares", "ffn_moe_probs", g.linear("ffn_moe_logits", b, "ffn_gate_inp"))
    chosen = g.add("best_experts", "ffn_moe_topk", shares, used=s.experts_used)
    weights = g.add("expert_weights", "ffn_moe_weights_norm", shares, chosen)

    def of_each(name: str, x: str, tensor: str) -> str:
        weight, scale = (g.tensor(f"{tensor}_exps.{kind}") for kind in ("weight", "scale"))
        y = g.add("expert_linear", name, g.entering(weight, x), chosen, weights=(weight,))
        return g.add("expert_scale", name, y, chosen, weights=(scale,)) if scale in g.present else y

    u, t = of_each("ffn_moe_up", b, "ffn_up"), of_each("ffn_moe_gate", b, "ffn_gate")
    m = normed(g.add("multiply", "ffn_moe_gate_par", _activated(g, t, s), u))
    each = g.add("weigh_experts", "ffn_moe_weighted", of_each("ffn_moe_down", m, "ffn_down"), weights)
    return g.add("sum_experts", "ffn_moe_out", each)


def _embedded(g: Builder) -> str:
    """Return the rows of the embedding table for the tokens."""
    return g.looked_up("inp_embd", g.given(TOKENS), EMBEDDING)


def _rope(g: Builder, name: str, x: str, heads: int, h: Hyperparameters, s: GraphSettings) -> str:
    """Rotate each head of x by its position; local layers may have a base of their own."""
    factors = (ROPE_FACTORS,) if ROPE_FACTORS in g.present else ()
    base, scale = h.rope_base, s.rope_scale
    if s.local is not None and s.local.rope_base is not None:
        base, scale = s.local.rope_base, 1.0
    rotation: dict[str, Any] = {"pairs": s.rope, "base": base, "dims": h.rope_dims or h.head_dim}
    return g.add("rope", name, x, weights=factors, heads=heads, scale=scale, **rotation)


def _attention(
    g: Builder,
    q: str,
    k: str,
    v: str,
    h: Hyperparameters,
    s: GraphSettings,
    *,
    soft_max: str,
    scale: float | None = None,
) -> str:
    """soft_max(q k^T / sqrt(d)) v, each group of query heads with its key and value head; in a local layer, of the last
    tokens only."""
    keys = g.add("store_kv", "k", k, part="keys", heads=h.heads_kv)
    values = g.add("store_kv", "v", v, part="values", heads=h.heads_kv)
    kq = g.add("scores", "kq", q, keys, heads=h.heads)
    seen: dict[str, Any] = {"causal": s.causal, "window": 0 if s.local is None else s.local.window}
    p = g.add("soft_max", soft_max, kq, scale=1 / sqrt(h.head_dim) if scale is None else scale, **seen)
    return g.add("weighted_values", "kqv_out", p, values)


def _normed_linear(g: Builder, name: str, x: str, tensor: str, norm: str, h: Hyperparameters) -> str:
    """Return a projection with its own norm before it, if the file has one."""
    if g.tensor(f"{tensor}_norm_in.weight") in g.present:
        x = g.rms(f"{norm}_norm_in", x, f"{tensor}_norm_in", eps=h.eps)
    return g.linear(name, x, tensor)


def _normed_heads(g: Builder, a: str, h: Hyperparameters, i: int, s: GraphSettings) -> tuple[str, str, str]:
    """Return q, k and v: projections with their own norms if the file has them, norms on the heads of q and k, rotation."""
    q, k, v = (_normed_linear(g, f"{c}cur", a, f"attn_{c.lower()}", f"attn_{c.lower()}", h) for c in "QKV")
    q, k = (g.add("heads", f"{n}cur", x, heads=c) for n, x, c in (("Q", q, h.at(i).heads), ("K", k, h.at(i).heads_kv)))
    q = g.rms("Qcur_normed", q, "attn_q_norm", eps=h.eps)
    k = g.rms("Kcur_normed", k, "attn_k_norm", eps=h.eps)
    return _rope(g, "Qcur", q, h.at(i).heads, h, s), _rope(g, "Kcur", k, h.at(i).heads_kv, h, s), v


def _normed_gate(g: Builder, b: str, h: Hyperparameters, s: GraphSettings) -> str:
    """Return the gated product, each projection with its own norm if the file has one."""
    u = _normed_linear(g, "ffn_up", b, "ffn_up", "ffn_up", h)
    t = _normed_linear(g, "ffn_gate", b, "ffn_gate", "ffn_gate", h)
    return g.add("multiply", "ffn_gate_up", _activated(g, t, s), u)


def _activated(g: Builder, x: str, s: GraphSettings) -> str:
    """Return the activation, on the gate only; relu2 is two operations."""
    for op, name in STEPS[s.activation]:
        x = g.add(op, name, x)
    return x


def _logits(g: Builder, x: str, h: Hyperparameters, s: GraphSettings) -> Graph:
    """rms(x) times the head, in floats."""
    y = g.rms("result_norm", g.add("select_rows", "result_rows", x), "output_norm", eps=h.eps)
    head = OUTPUT if s.head == "untied" and OUTPUT in g.present else EMBEDDING
    return g.graph(g.add("head", "result_output", g.entering(head, y), weights=(head,)))


def _pooled(g: Builder, x: str, h: Hyperparameters, s: GraphSettings) -> Graph:
    """rms(x), pooled, of length 1."""
    y = g.rms("result_norm", x, "output_norm", eps=h.eps)
    return g.graph(g.add("pool", "embedding", y, kind=s.pooling))


Make = Callable[[Builder, "Hyperparameters", GraphSettings], Graph]

#: The graph of each architecture.
GRAPHS: Final[Mapping[str, Make]] = {
    "bitnet-b1.58": partial(bitnet, gated="ffn_out"),
    "bitnet-25": partial(bitnet, gated="ffn_out"),
    "bitnet": partial(bitnet, gated="ffn_sub_out"),
    "llama": llama,
    "qwen3": qwen3,
    "qwen3-lm": qwen3,
    "gemma3": gemma3,
    "qwen35": qwen35,
}


def graph_of(architecture: str, h: Hyperparameters, settings: GraphSettings, present: Iterable[str]) -> Graph:
    """Return the graph of a model.

    :param present: names of the tensors that its file has
    """
    return GRAPHS[architecture](Builder(present, settings.rotation), h, settings)
