"""This module reads the sizes of a model from config.json, with the names of transformers 4 and 5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from i2s_spec.checkpoints.source.bounded_json import refused
from i2s_spec.errors import quote
from i2s_spec.schema.architectures.keys import MAX_LAYERS
from i2s_spec.schema.architectures.sizes import Hyperparameters

_MOST: Final = 1 << 24
#: Smallest positive number; smaller ones are 0, or nearly so, in float32.
_LEAST: Final = 1e-30

#: Scalings of positions that GGUF files can describe, with their names there; `default` is no scaling.
_SCALINGS: Final = {"linear": "linear", "yarn": "yarn", "llama3": "llama3", "default": ""}


class Rope(NamedTuple):
    """How positions are rotated.

    :param scaling: `linear`, `yarn`, `llama3`, or empty
    :param settings: all settings of the scaling in config.json
    """

    base: float
    scaling: str
    factor: float
    settings: Mapping[str, Any]


class ModelSizes(NamedTuple):
    """The sizes, and the other settings of the graph in config.json."""

    h: Hyperparameters
    rope: Rope
    activation: str
    #: Whether config.json says that the head is the embedding; None if it says nothing.
    tied: bool | None


def sizes_of(config: Mapping[str, Any]) -> ModelSizes:
    """Read config.json.

    :raises FormatError: H104 for sizes that are missing or that no model can have
    """
    heads = _whole(config, "num_attention_heads")
    embd = _whole(config, "hidden_size")
    given = config.get("head_dim") is not None
    if not given and embd % heads:
        raise refused(
            f"hidden_size {embd:,} is not a multiple of num_attention_heads {heads:,}, and head_dim is missing"
        )
    head_dim = _whole(config, "head_dim") if given else embd // heads
    heads_kv = _whole(config, "num_key_value_heads", heads)
    if heads % heads_kv:
        raise refused(f"num_attention_heads {heads:,} is not a multiple of num_key_value_heads {heads_kv:,}")
    if head_dim % 2:
        raise refused(f"heads are {head_dim:,} wide; the width must be even, because pairs are rotated")
    rope = _rope(config)
    h = Hyperparameters(
        layers=_whole(config, "num_hidden_layers", most=MAX_LAYERS),
        embd=embd,
        ff=_whole(config, "intermediate_size"),
        heads=heads,
        heads_kv=heads_kv,
        head_dim=head_dim,
        value_dim=head_dim,
        vocab=_whole(config, "vocab_size"),
        context=_whole(config, "max_position_embeddings", most=1 << 31),
        rope_base=rope.base,
        rope_dims=head_dim,
        eps=_number(config, "rms_norm_eps"),
    )
    act = config.get("hidden_act", config.get("hidden_activation"))
    if act is not None and not isinstance(act, str):
        raise refused(f"hidden_act in config.json is {quote(str(act)[:40])}; it must be the name of an activation")
    tied = config.get("tie_word_embeddings")
    return ModelSizes(h, rope, act if isinstance(act, str) else "", tied if isinstance(tied, bool) else None)


def _whole(config: Mapping[str, Any], key: str, default: int | None = None, most: int = _MOST) -> int:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        shown = "is missing" if value is None else f"is {quote(str(value)[:40])}"
        raise refused(f"{key} in config.json {shown}; it must be a whole number from 1 to {most:,}")
    return value


def _number(config: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST < value < 1e12:
        shown = "is missing" if value is None else f"is {quote(str(value)[:40])}"
        raise refused(f"{key} in config.json {shown}; it must be a number above 0")
    return float(value)


def _rope(config: Mapping[str, Any]) -> Rope:
    """`rope_parameters` of transformers 5, or `rope_theta` and `rope_scaling` of older ones."""
    about = config.get("rope_parameters")
    about = config.get("rope_scaling") if about is None else about
    about = {} if about is None else about
    if isinstance(about, Mapping) and isinstance(about.get("full_attention"), Mapping):
        local = about.get("sliding_attention")
        if isinstance(local, Mapping) and _sliding(config) and local != about["full_attention"]:
            raise refused(
                "layers with sliding attention have another rotation than the others; the graph has only one for all layers"
            )
        about = about["full_attention"]
    if not isinstance(about, Mapping) or not isinstance(about.get("full_attention", {}), Mapping):
        raise refused("rope_parameters in config.json is not an object")
    base = _number(about if "rope_theta" in about else config, "rope_theta", 10000.0)
    kind = about.get("rope_type", about.get("type", "default"))
    if not isinstance(kind, str) or kind not in _SCALINGS:
        raise refused(f"positions are scaled by {quote(str(kind))}; known are {', '.join(_SCALINGS)}")
    share = about.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if share not in (None, 1):
        raise refused(
            f"partial_rotary_factor is {quote(str(share)[:40])}; only heads that rotate completely are supported"
        )
    factor = _number(about, "factor", 1.0) if _SCALINGS[kind] else 1.0
    return Rope(base, _SCALINGS[kind], factor, about)


def _sliding(config: Mapping[str, Any]) -> bool:
    """Whether any layer sees only some of the tokens."""
    layers = config.get("layer_types")
    return not isinstance(layers, list) or "sliding_attention" in layers
