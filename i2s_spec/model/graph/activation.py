"""This module determines the activation of the feed-forward network, and the rule that decided it (clause 9.6).

The name of the architecture is not enough: files of models with either activation have the same name, and some runtimes
use the wrong one. The rules, in this order:

    override      the activation that the caller asks for
    key           `<architecture>.hidden_activation`, if the profile's runtime reads it
    profile       the activation that the runtime of an emulation profile uses for the architecture, right or wrong
    architecture  the table of architectures
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import SettingError, quote

if TYPE_CHECKING:
    from i2s_spec.model.numeric_profile import NumericProfile
    from i2s_spec.schema.architectures.architecture import Architecture

#: The operations of each activation, with llama.cpp's names for their values; all on the gate only.
STEPS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "relu2": (("relu", "ffn_relu"), ("square", "ffn_sqr(relu)")),
    "silu": (("silu", "ffn_silu"),),
    "gelu": (("gelu", "ffn_gate_gelu"),),
}

#: A `bitnet-b1.58` file with fewer tokens is probably not the model of that name, whose activation the table assumes.
FEW_TOKENS: Final = 100_000


class ActivationRule(NamedTuple):
    """The activation, the rule that decided, and a sentence that says so; `doubt` if it may well be wrong."""

    activation: str
    rule: str
    reason: str
    doubt: str | None = None


def resolve_activation(
    architecture: Architecture, metadata: Mapping[str, Any], profile: NumericProfile, override: str | None, vocab: int
) -> ActivationRule:
    """The activation of a model.

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
