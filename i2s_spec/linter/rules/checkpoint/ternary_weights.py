"""Rules about the weights of a checkpoint: packing, the meaning of weight_scale, weights that are quantized twice."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import Span, TrustedText, counted, quote
from i2s_spec.linter.analysis.checkpoint_facts import WORDS, CheckpointFacts
from i2s_spec.linter.analysis.conditions import checkpoints
from i2s_spec.linter.rule import WARNING, Finding, Weights, rule

if TYPE_CHECKING:
    from i2s_spec.convert.hugging_face.safetensors import Stored

_CONFIG: Final = Span(0, 0, "config.json")
#: Classes of linear modules that transformers knows, and whether `weight_scale` multiplies.
MULTIPLIES: Final = {"bitlinear": False, "autobitlinear": True}
_MODES: Final = ("online", "offline")
#: Scales of trained models are below these; a larger one whose reciprocal is between them was inverted.
LARGE: Final = 8.0
LIKELY: Final = (1e-3, 0.125)


@rule("H207", "checkpoint-packing", "tensor {name} of the checkpoint {reason}", clause="12.1",
      when=checkpoints)  # fmt: skip
def packing(facts: CheckpointFacts) -> Iterator[Finding]:
    """A packed matrix and its scale are not a pair.

    Why: packed weights are trits, and `weight_scale` gives the value of +1. Without it the size of every output is
    unknown. With a `weight_scale` beside float weights, it is unclear whether they must still be multiplied by it.

    Example: `q_proj.weight` in uint8, and no `q_proj.weight_scale`.

    Fix: write the checkpoint again with the library that made it.
    """
    for name in facts.packed:
        for reason in _pair(facts, name):
            yield packing.at(Span(0, 0, facts.shard_of[name]), name=name, reason=TrustedText(reason))
    for name, stored in facts.tensors.items():
        if name.endswith(".weight_scale"):
            weight = facts.tensors.get(name.removesuffix("_scale"))
            if weight is None or weight.dtype != "U8":
                there = "there is no such matrix" if weight is None else f"that is {quote(weight.dtype)}"
                reason = f"belongs to a packed matrix, and {there}"
                yield packing.at(Span(0, 0, facts.shard_of[stored.name]), name=name, reason=TrustedText(reason))


def _pair(facts: CheckpointFacts, name: str) -> Iterator[str]:
    stored = facts.tensors.get(f"{name}_scale")
    if stored is None:
        yield f"is packed, and there is no {quote(name + '_scale')}"
        return
    scale = facts.scale(name)
    if scale is None:
        yield f"is packed, and its scale is {quote(stored.dtype)} of shape {list(stored.shape)}, not one float"
    elif not 0 < scale < float("inf"):
        yield f"is packed, and its scale is {scale}, not a positive number"


@rule("H208", "checkpoint-code-3", "packed tensor {name} has {got:weight} of code 3, which stands for no trit",
      clause="12.1", when=checkpoints, weights=Weights.PART)  # fmt: skip
def code_3(facts: CheckpointFacts) -> Iterator[Finding]:
    """A packed matrix has a code that stands for no trit.

    Why: two bits hold four codes, and only three are used. A program that does not check this unpacks the fourth as a
    weight of +2.

    Example: bytes of another layout under the name of a packed matrix.

    Fix: write the checkpoint again with the library that made it.
    """
    import numpy as np

    for name in facts.packed:
        found = 0
        for piece in facts.pieces(facts.tensors[name]):
            data = np.frombuffer(piece, np.uint8)
            both = data & (data >> np.uint8(1)) & np.uint8(0x55)
            if both.any():
                found += int(np.unpackbits(both).sum())
        if found:
            yield code_3.at(Span(0, 0, facts.shard_of[name]), got=found, name=name)


@rule("H209", "checkpoint-quantization", "quantization_config of config.json does not fit the weights: {reason}",
      clause="12.1", when=checkpoints, provenance=("microsoft/BitNet#588",))  # fmt: skip
def quantization(facts: CheckpointFacts) -> Iterator[Finding]:
    """config.json does not say how to read the packed weights.

    Why: `linear_class` states whether `weight_scale` multiplies or divides, and `quantization_mode` whether it is read
    at all: the mode online quantizes float weights in every pass, and ignores the scale of packed weights.

    Example: packed matrices, and `quantization_mode: online`.

    Fix: write `quant_method`, the `linear_class` that the weights were packed with, and `quantization_mode: offline`.
    """
    about = facts.config.get("quantization_config")
    if about is None:
        if facts.packed:
            reason = "it is missing, and nothing else says whether weight_scale multiplies or divides"
            yield quantization.at(_CONFIG, reason=TrustedText(reason))
        return
    if not isinstance(about, dict):
        yield quantization.at(_CONFIG, reason=TrustedText("it is not an object"))
        return
    if about.get("quant_method") != "bitnet":
        if facts.family is not None:
            reason = f"quant_method is {quote(str(about.get('quant_method')))}; bitnet is meant"
            yield quantization.at(_CONFIG, reason=TrustedText(reason))
        return
    for key, known in (("linear_class", tuple(MULTIPLIES)), ("quantization_mode", _MODES)):
        if about.get(key) is not None and about[key] not in known:
            reason = f"{key} is {quote(str(about[key]))}; known are {', '.join(known)}"
            yield quantization.at(_CONFIG, reason=TrustedText(reason))
    if facts.packed and about.get("quantization_mode") == "online":
        reason = (
            f"quantization_mode is online, which reads no weight_scale, and "
            f"{counted(len(facts.packed), 'matrix is', 'matrices are')} packed"
        )
        yield quantization.at(_CONFIG, reason=TrustedText(reason))


@rule("H210", "checkpoint-scale-convention", "according to config.json weight_scale {word}, but scales are about "
      "{got}; their reciprocals are about {want}, like the scales of trained models", severity=WARNING, clause="12.1",
      when=checkpoints, provenance=("microsoft/BitNet#616",))  # fmt: skip
def scale_convention(facts: CheckpointFacts) -> Iterator[Finding]:
    """Scales look like the reciprocals of what config.json says.

    Why: transformers' AutoBitLinear multiplies by `weight_scale`, its BitLinear divides. With the wrong choice the
    trits are right, but every output is wrong by the square of the scale. Scales near 1 fit both, so the absence of
    this finding proves nothing.

    Example: a model that was packed by BitLinear, with scales of 60, under `linear_class: autobitlinear`.

    Fix: correct `linear_class` in config.json, or pass --weight-scale to `i2s import`.
    """
    word = facts.quantization.get("linear_class") or "bitlinear"
    if not facts.quantization or not isinstance(word, str) or word not in MULTIPLIES:
        return
    stored = [scale for name in facts.packed if (scale := facts.scale(name)) is not None and 0 < scale < float("inf")]
    if not stored:
        return
    usual = median(stored)
    scale = usual if MULTIPLIES[word] else 1 / usual
    if scale > LARGE and LIKELY[0] < 1 / scale < LIKELY[1]:
        yield scale_convention.at(
            _CONFIG,
            got=TrustedText(f"{scale:.3g}"),
            want=TrustedText(f"{1 / scale:.3g}"),
            word=TrustedText("multiplies" if MULTIPLIES[word] else "divides"),
        )


@rule("H211", "checkpoint-quantized-twice", "{got:matrix is|matrices are} already ternary, the first is {name}, "
      "and quantization_mode online would quantize them again", clause="12.1",
      when=checkpoints, weights=Weights.PART)  # fmt: skip
def quantized_twice(facts: CheckpointFacts) -> Iterator[Finding]:
    """Weights that are already ternary would be quantized again.

    Why: the mode online takes the mean of the absolute weights as the scale. For floats that are -s, 0 and +s, this
    mean is s times the share of nonzero weights: the trits stay the same, but every scale shrinks by a third to a half.

    Example: weights of a ternary model in bf16, under `quantization_mode: online`.

    Fix: pack the weights and write `offline`, as `i2s export` does; or leave quantization_config out.
    """
    family = facts.family
    if family is None or not family.absmean or facts.quantization.get("quantization_mode") != "online":
        return
    found = [name for name in family.expected if name in family.matrices and _is_ternary(facts.tensors.get(name))]
    if found:
        yield quantized_twice.at(Span(0, 0, facts.shard_of[found[0]]), got=len(found), name=found[0])


def _is_ternary(stored: Stored | None) -> bool:
    """Whether the first rows of floats have only 0 and one magnitude, the same in each row."""
    import numpy as np

    from i2s_spec.linter.analysis.checkpoint_facts import as_floats

    if stored is None or stored.dtype not in WORDS:
        return False
    width = WORDS[stored.dtype]
    size = np.abs(as_floats(stored.read(0, min(stored.nbytes, 4096 * width)), stored.dtype))
    present = size[size != 0]
    return bool(present.size > 1 and (present == present[0]).all())


@rule("H213", "checkpoint-not-finite", "tensor {name} of the checkpoint has "
      "{got:value that is|values that are} infinite or NaN",
      clause="12.1", when=checkpoints, weights=Weights.PART)  # fmt: skip
def not_finite(facts: CheckpointFacts) -> Iterator[Finding]:
    """Weights are infinite or NaN.

    Why: one such weight in a matrix makes its mean and therefore its scale infinite or NaN, and with it every output.

    Example: the training diverged, or float16 overflowed when the weights were cast.

    Fix: go back to an earlier checkpoint, or cast to bfloat16 instead.
    """
    import numpy as np

    for name, stored in facts.tensors.items():
        if stored.dtype in WORDS:
            found = sum(int(np.count_nonzero(~np.isfinite(part))) for part in facts.floats(stored))
            if found:
                yield not_finite.at(Span(0, 0, facts.shard_of[name]), got=found, name=name)
