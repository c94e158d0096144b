"""Rules about the scale of I2_S tensors: its place, its value, the scales of other tensors, the 28 bytes after it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Final

from i2s_spec.errors import TrustedText, counted
from i2s_spec.linter.analysis.conditions import i2s_read
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.analysis.payload_stats import COMPARED, compared, duplicate_payloads, payload_anomalies
from i2s_spec.linter.analysis.scales import (
    SIBLINGS,
    in_front,
    in_layer,
    kind_of,
    odd,
    odd_scales,
    scales,
    spread,
    stale_tails,
    usual,
)
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, WeightUse, rule

#: The largest ratio between scales of the projections of one attention layer.
APART: Final = 100
_ATTENTION: Final = frozenset({b"attn_q.weight", b"attn_k.weight", b"attn_v.weight"})


@rule("I302", "scale-nan", "the scale of I2_S tensor {name} is NaN", clause="6.2",
      when=i2s_read, weights=WeightUse.SCALES)  # fmt: skip
def scale_nan(subject: LintContext) -> Iterator[Finding]:
    """A scale is NaN.

    Why: every weight of the tensor is then NaN, and so is every output of the model. No loader checks this.

    Example: the bytes 00 00 c0 7f after a payload.

    Fix: convert the checkpoint again.
    """
    for _, tensor in odd(subject, "nan"):
        yield scale_nan.at(tensor.scale_span, got=tensor.scale, name=tensor.name)


@rule("I303", "scale-infinite", "the scale of I2_S tensor {name} is {got}", clause="6.2",
      when=i2s_read, weights=WeightUse.SCALES)  # fmt: skip
def scale_infinite(subject: LintContext) -> Iterator[Finding]:
    """A scale is infinite.

    Why: weights of 0 become NaN, and the others infinite. The checkpoint contained an infinity, or a maximum
    overflowed.

    Example: the bytes 00 00 80 7f after a payload.

    Fix: look for the infinity in the checkpoint, and convert it again.
    """
    for _, tensor in odd(subject, "infinite"):
        yield scale_infinite.at(tensor.scale_span, got=tensor.scale, name=tensor.name)


@rule("I304", "scale-zero", "the scale of I2_S tensor {name} is 0, but {weights} of its weights are not", clause="6.2",
      when=i2s_read, weights=WeightUse.PART)  # fmt: skip
def scale_zero(subject: LintContext) -> Iterator[Finding]:
    """A scale is zero, but trits are not.

    Why: all weights of the tensor are then 0. A tail that was never written is zero. The released quantizer writes a
    scale of 0 only for a matrix of zeros, whose codes all mean 0.

    Example: 32 zero bytes after a payload of all codes.

    Fix: convert the checkpoint again.
    """
    for _, tensor in odd(subject, "zero"):
        signed = tensor.counts[0] + tensor.counts[2] + tensor.counts[3]
        if signed:
            yield scale_zero.at(tensor.scale_span, got=tensor.scale, name=tensor.name, weights=signed)


@rule("I305", "scale-negative", "the scale of I2_S tensor {name} is {got}; a largest absolute value is not negative",
      clause="6.2", when=i2s_read, weights=WeightUse.SCALES,
      provenance=("Eddie-Wang1120/llama.cpp, June 2024",))  # fmt: skip
def scale_negative(subject: LintContext) -> Iterator[Finding]:
    """A scale is negative.

    Why: it inverts the sign of every weight of the tensor. No released program writes one. A quantizer of June 2024
    did, with codes relative to that scale and another code map.

    Example: a scale of -0.75.

    Fix: convert the checkpoint again with a released writer.
    """
    for _, tensor in odd(subject, "negative"):
        yield scale_negative.at(tensor.scale_span, got=tensor.scale, name=tensor.name)


@rule("I306", "scale-vanishing", "the scale of I2_S tensor {name} is {got}, which acts as 0", clause="6.2",
      when=i2s_read, weights=WeightUse.SCALES)  # fmt: skip
def scale_vanishing(subject: LintContext) -> Iterator[Finding]:
    """A scale is so small that it acts as 0.

    Why: the outputs of the tensor become 0. Bytes that read as so small a number are usually not a scale: they are an
    integer, codes, or a float in the wrong byte order.

    Example: a scale of 1e-41, which is the integer 7,136.

    Fix: find out what was written there, and convert the checkpoint again.
    """
    for _, tensor in odd(subject, "vanishing"):
        yield scale_vanishing.at(tensor.scale_span, got=tensor.scale, name=tensor.name)


@rule("I307", "scale-unusual", "the scale of I2_S tensor {name} is {got}; those of trained models lie between 1e-4 and 100",
      severity=WARNING, clause="6.2", when=i2s_read, weights=WeightUse.SCALES)  # fmt: skip
def scale_unusual(subject: LintContext) -> Iterator[Finding]:
    """A scale is far from those of trained models.

    Why: trained scales are means of absolute weights, between a few thousandths and a few units. A scale far outside
    this range belongs to weights that were not ternary, or was applied twice.

    Example: a scale of 3,000.

    Fix: compare with the checkpoint, and convert it again if its scale differs.
    """
    for _, tensor in odd(subject, "unusual"):
        yield scale_unusual.at(tensor.scale_span, got=tensor.scale, name=tensor.name)


@rule("I308", "scale-reciprocal", "the scale of I2_S tensor {name} is {got}; its reciprocal {inverse} would be "
      "close to the scales of similar tensors, about {want}", severity=WARNING, clause="6.2",
      when=i2s_read, weights=WeightUse.SCALES,
      provenance=("microsoft/BitNet#616",))  # fmt: skip
def scale_reciprocal(subject: LintContext) -> Iterator[Finding]:
    """A scale looks like the reciprocal of what it should be.

    Why: checkpoints contain a weight_scale. Some models multiply by it, others divide by it. With the wrong choice the
    codes are right, but every output is wrong by the square of the scale.

    Example: 41.7 among scales of about 0.024.

    Fix: invert the scale, or convert the checkpoint again with the right choice.
    """
    medians = odd_scales(subject).medians
    for place, tensor in odd(subject, "reciprocal"):
        yield scale_reciprocal.at(
            tensor.scale_span, got=_digits(tensor.scale), want=_digits(medians[place]), name=tensor.name,
            inverse=_digits(1 / tensor.scale),
        )  # fmt: skip


def _digits(value: float) -> TrustedText:
    return TrustedText(f"{value:.6g}")


@rule("I309", "tail-replicated", "the tails of {got} of {of} I2_S tensors repeat the scale eight times; the first is {name}",
      severity=NOTE, clause="6.1", when=i2s_read, weights=WeightUse.SCALES)  # fmt: skip
def tail_replicated(subject: LintContext) -> Iterator[Finding]:
    """The tail repeats the scale eight times.

    Why: files of June 2024 and tensors for T-MAC have such tails, together with other code maps than today's. Some
    third-party writers follow a description that asks for them. This is not a fault, but it is evidence of the writer.

    Example: 00 00 40 3f eight times.

    Fix: nothing has to be done.
    """
    yield from _tails(subject, "replicated")


def _tails(subject: LintContext, kind: str) -> Iterator[Finding]:
    """Yield one finding for all tails of a kind, on the first."""
    survey, found = subject.payloads, stale_tails(subject)
    if found is None:
        return
    places = getattr(found, kind)
    if places:
        tensor = survey[places[0]]
        made = {"replicated": tail_replicated, "known": tail_of_another, "unknown": tail_stale}[kind]
        details = {"other": subject.name(found.known_of[0])} if kind == "known" else {}
        yield made.at(tensor.unused_span, got=len(places), of=len(survey), name=tensor.name, **details)


@rule("I310", "tail-stale", "the tails of {got} of {of} I2_S tensors hold bytes of unknown origin after the scale; the "
      "first is {name}", severity=NOTE, clause="6.1", cwe=200, fix=Fix.SAFE,
      when=i2s_read, weights=WeightUse.SCALES, fix_with="--scrub-tail",
      provenance=("microsoft/BitNet src/ggml-bitnet-mad.cpp",))  # fmt: skip
def tail_stale(subject: LintContext) -> Iterator[Finding]:
    """A tail contains old memory.

    Why: 28 of its 32 bytes have no meaning, and the released quantizer does not write them, so that old content of its
    buffer is published with the model. Readers must ignore these bytes. They are common, but leak memory of the writer.

    Example: 28 bytes that are in no tensor of the file.

    Fix: write zeros there; no reader sees a difference.
    """
    yield from _tails(subject, "unknown")


@rule("I311", "tail-of-another", "the tails of {got} of {of} I2_S tensors hold bytes of earlier tensors after the scale, "
      "as llama-quantize leaves them; that of {name} has bytes of {other}", severity=NOTE, clause="6.1",
      fix=Fix.SAFE, fix_with="--scrub-tail", when=i2s_read, weights=WeightUse.PART,
      provenance=("microsoft/BitNet src/ggml-bitnet-mad.cpp",))  # fmt: skip
def tail_of_another(subject: LintContext) -> Iterator[Finding]:
    """A tail contains bytes of another tensor of the file.

    Why: llama-quantize uses one buffer for all tensors and clears only the payload. The bytes after the scale are those
    that the last larger tensor had at the same place. They leak nothing, since they occur elsewhere in the file, and
    they are evidence of the writer.

    Example: the tail of blk.0.attn_k.weight ends in 28 bytes of blk.0.ffn_up.weight.

    Fix: nothing has to be done. Zeros may be written there.
    """
    yield from _tails(subject, "known")


def _large(subject: LintContext) -> list[int]:
    """Return the positions of the tensors that are large enough to be compared."""
    survey = subject.payloads
    return [place for place, _ in scales(subject) if survey.size(place) >= COMPARED]


def four_large_read(subject: LintContext) -> bool:
    """files with four such tensors, if payloads are read"""
    return i2s_read(subject) and len(_large(subject)) > SIBLINGS


@rule("I313", "scales-identical", "all {got} I2_S tensors of some size have the scale {scale}", severity=WARNING,
      clause="6.2", when=four_large_read, weights=WeightUse.SCALES)  # fmt: skip
def scales_identical(subject: LintContext) -> Iterator[Finding]:
    """All tensors have the same scale.

    Why: the matrices of a trained model have different scales. If all those with 16,384 weights or more have the same
    scale, a converter wrote a constant: 1 because the scales were stored elsewhere and forgotten, or the scale of the
    last tensor.

    Example: a scale of 1.0 in all 210 tensors.

    Fix: convert the checkpoint again, with its scales.
    """
    survey, places = subject.payloads, _large(subject)
    if len({survey.tail(place)[:4] for place in places}) == 1:
        first = survey[places[0]]
        if usual(first.scale):
            yield scales_identical.at(first.scale_span, got=len(places), scale=_digits(first.scale))


@rule("I314", "scales-far-apart", "the scales of attn_q, attn_k and attn_v in layer {layer} go from {low} to {high}",
      severity=WARNING, clause="6.2", when=i2s_read, weights=WeightUse.SCALES)  # fmt: skip
def scales_far_apart(subject: LintContext) -> Iterator[Finding]:
    """Scales within one attention layer are far apart.

    Why: queries, keys and values have the same input and are trained together, so their scales have the same order of
    magnitude. A factor of 100 between them is a mistake of a writer, for example another rule for one of them.

    Example: 0.02 for attn_q and 4.1 for attn_v.

    Fix: compare with the checkpoint.
    """
    survey = subject.payloads
    layers: dict[bytes, list[tuple[float, int]]] = {}
    for place, scale in scales(subject) if spread(subject) > APART else ():
        named = in_layer(subject.name(survey.row(place)))
        if named is not None and named[1] in _ATTENTION and kind_of(scale) is None:
            layers.setdefault(named[0], []).append((scale, place))
    suspected = {place for place, _ in odd(subject, "reciprocal")}
    for layer, found in layers.items():
        (low, _), (high, place) = min(found), max(found)
        if high > APART * low and not suspected & {place for _, place in found}:
            yield scales_far_apart.at(
                survey[place].scale_span, layer=TrustedText(layer.decode()), low=_digits(low), high=_digits(high)
            )


@rule("I315", "zeros-with-scale", "all weights of I2_S tensor {name} are 0, and its scale is {got}", severity=NOTE,
      clause="6.2", when=i2s_read, weights=WeightUse.EVERY_BYTE)  # fmt: skip
def zeros_with_scale(subject: LintContext) -> Iterator[Finding]:
    """A tensor of zeros has a scale.

    Why: the released quantizer rounds weights below 1e-6 to 0 but still stores their maximum. The scale has no effect;
    it shows that the original weights were tiny, not zero.

    Example: a payload of 0x55 with a scale of 5e-7.

    Fix: nothing has to be done.
    """
    for place in payload_anomalies(subject).constant:
        tensor = subject.payloads[place]
        if tensor.constant == 0x55 and isfinite(tensor.scale) and tensor.scale > 0:
            yield zeros_with_scale.at(tensor.scale_span, got=_digits(tensor.scale), name=tensor.name)


@rule("I316", "same-codes-other-scale", "I2_S tensors {other} and {name} have the same payload and the scales {want} and "
      "{got}", severity=WARNING, clause="6.2", when=i2s_read, weights=WeightUse.EVERY_BYTE)  # fmt: skip
def same_codes_other_scale(subject: LintContext) -> Iterator[Finding]:
    """Equal payloads have different scales.

    Why: the scale of a matrix follows from its weights, within rounding. If two matrices are equal and their scales are
    not, then one scale was computed by another rule (largest value, mean, first value, weight_scale), or belongs to
    another tensor.

    Example: the codes of blk.0.attn_q.weight twice, with 0.61 and 1.64.

    Fix: convert the checkpoint again, all tensors with one program.
    """
    if not compared(subject):
        return
    survey = subject.payloads
    for pair in duplicate_payloads(subject):
        one, tensor = survey[pair.first], survey[pair.second]
        if one.tail[:4] != tensor.tail[:4]:
            yield same_codes_other_scale.at(
                tensor.scale_span, got=_digits(tensor.scale), want=_digits(one.scale), name=tensor.name, other=one.name
            )


@rule("I312", "scale-in-front", "I2_S tensor {name} begins with a {type} scale of {got}{zeros}, and has none after its "
      "payload", clause="6.1", when=i2s_read, weights=WeightUse.PART,
      provenance=("Scottcjn/BitNet",))  # fmt: skip
def scale_in_front(subject: LintContext) -> Iterator[Finding]:
    """The scale is stored before the codes.

    Why: a fork for PowerPC writes a header of 32 bytes with a float16 scale, followed by blocks of its own form. Other
    writers store the float32 scale before the codes. Type and size are those of I2_S, but all weights are shifted.

    Example: 00 3c and 30 zero bytes at the start of a tensor, and no scale at its end.

    Fix: convert the checkpoint with a released writer.
    """
    for _, tensor in odd(subject, "header"):
        found = in_front(subject, tensor)
        assert found is not None
        width = 2 if found.type == "float16" else 4
        zeros = f" and {counted(found.size - width, 'zero byte')}" if found.size > width else ""
        kind, span = TrustedText(found.type), tensor.span(0, found.size)
        yield scale_in_front.at(span, got=_digits(found.scale), name=tensor.name, type=kind, zeros=TrustedText(zeros))
