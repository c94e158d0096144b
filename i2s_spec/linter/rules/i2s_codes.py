"""Rules about the codes of I2_S tensors, and about values that are not finite.

The thresholds are in `analysis.payload_stats`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import Span, TrustedText
from i2s_spec.linter.analysis.conditions import i2s_read
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.analysis.payload_stats import (
    COMPARED,
    Region,
    duplicate_payloads,
    payload_anomalies,
    rows_are_equal,
)
from i2s_spec.linter.analysis.scales import odd
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Rule, WeightUse, rule
from i2s_spec.schema.types import BY_NAME

if TYPE_CHECKING:
    from i2s_spec.inspect.survey import TensorSurvey

#: The meaning of a byte that fills a payload.
_MEANINGS = {0x00: "-1", 0x55: "0", 0xAA: "+1", 0xFF: "code 3"}


def _tensors(subject: LintContext, topic: str) -> Iterator[TensorSurvey]:
    """Yield the surveyed tensors that `PayloadAnomalies` lists under a topic."""
    places: Sequence[int] = getattr(payload_anomalies(subject), topic)
    for place in places:
        yield subject.payloads[place]


def _payload(tensor: TensorSurvey) -> Span:
    return tensor.span(0, tensor.payload_bytes)


@rule("I201", "unused-code", "I2_S tensor {name} has {got:weight} of code 3{partly}, which has no meaning; the "
      "first is in byte {first} of its payload", clause="5.4", when=i2s_read, weights=WeightUse.PART)  # fmt: skip
def unused_code(subject: LintContext) -> Iterator[Finding]:
    """A payload contains code 3.

    Why: codes 0, 1 and 2 stand for -1, 0 and +1; code 3 has no meaning. Released programs disagree about it: the
    dequantizer reads it as 0, the kernels as +2. No quantizer writes it, so the bytes are damaged or not codes.

    Example: a byte of 0xff inside blk.0.ffn_up.weight.

    Fix: fetch or convert the file again.
    """
    in_front = {tensor.row for _, tensor in odd(subject, "header")}  # a payload after a header has its own finding
    for tensor in _tensors(subject, "unused"):
        if tensor.row in in_front:
            continue
        assert tensor.first_unused is not None
        first, partly = tensor.first_unused, TrustedText("" if tensor.complete else " in the part that was read")
        span = tensor.span(first, first + 1)
        yield unused_code.at(span, got=tensor.counts[3], want=0, name=tensor.name, first=first, partly=partly)


@rule("I202", "foreign-code-map", "in I2_S tensor {name} code 3 occurs {got:time} and code {absent} "
      "never: its code map is {map}",
      clause="5.5", when=i2s_read, weights=WeightUse.PART,
      provenance=("Eddie-Wang1120/llama.cpp, June to August 2024", "microsoft/BitNet utils/convert.py"))  # fmt: skip
def foreign_code_map(subject: LintContext) -> Iterator[Finding]:
    """A payload uses another code map.

    Why: pre-release files use the codes 0, 1 and 3 for 0, +1 and -1, and tensors for T-MAC use the codes 1, 2 and 3.
    Released readers know neither code map. They decode wrong weights, and not all the same ones.

    Example: a tensor of June 2024, with code 3 in a quarter of its weights and no code 2.

    Fix: convert the file from the code map that the finding names, or make it again with a released quantizer.
    """
    for tensor in _tensors(subject, "foreign"):
        absent, name = (2, "twos-complement") if tensor.counts[2] == 0 else (0, "offset-2")
        yield foreign_code_map.at(
            _payload(tensor), got=tensor.counts[3], want=0, name=tensor.name, absent=absent, map=TrustedText(name)
        )


@rule("I203", "float-payload", "the payload of I2_S tensor {name} looks like {got} numbers, not like codes", clause="5.1",
      when=i2s_read, weights=WeightUse.PART)  # fmt: skip
def float_payload(subject: LintContext) -> Iterator[Finding]:
    """A payload looks like floats.

    Why: somebody changed the type number to 36 and left the data as it was. Such a tensor also has the wrong size,
    unless it was cut to fit. Readers take each byte of a float for four weights.

    Example: a quarter of an F16 matrix under the type I2_S.

    Fix: convert the checkpoint again; do not change type numbers by hand.
    """
    verdict = payload_anomalies(subject)
    for place, tensor in zip(verdict.floats, _tensors(subject, "floats"), strict=True):
        yield float_payload.at(
            _payload(tensor), got=TrustedText(verdict.kinds[place]), want=TrustedText("codes"), name=tensor.name
        )


@rule("I204", "unfilled-end", "the payload of I2_S tensor {name} ends in {got:zero byte}: {weights:weight} of -1",
      clause="5.4", when=i2s_read, weights=WeightUse.PART,
      provenance=("microsoft/BitNet setup_env.py passes one thread", "microsoft/BitNet#608"))  # fmt: skip
def unfilled_end(subject: LintContext) -> Iterator[Finding]:
    """A payload ends in zero bytes.

    Why: the zeros remain where a buffer was cleared and not filled to its end, by a quantizer that stopped early or
    worked in chunks, or by an interrupted download. Loaders read a zero byte as four weights of -1.

    Example: the last third of blk.0.ffn_down.weight is zero.

    Fix: convert or fetch the file again.
    """
    for region in payload_anomalies(subject).ends:
        length = region.stop - region.start
        yield unfilled_end.at(_span(region), got=length, want=0, name=subject.name(region.row), weights=4 * length)


def _span(region: Region) -> Span:
    return Span(region.start, region.stop, f"data[{region.row}]")


@rule("I205", "constant-payload", "every byte of the payload of I2_S tensor {name} is 0x{hex}: all its weights are {got}",
      severity=WARNING, clause="5.4", when=i2s_read, weights=WeightUse.EVERY_BYTE,
      provenance=("microsoft/BitNet#608",))  # fmt: skip
def constant_payload(subject: LintContext) -> Iterator[Finding]:
    """All bytes of a payload are the same.

    Why: no trained matrix is like that. Zero bytes are weights of -1 and show that nothing was written; bytes of 0x55
    are a matrix of zeros, which has no effect.

    Example: an all-zero blk.3.ffn_up.weight in a file whose download was interrupted.

    Fix: fetch or convert the file again. Leave out a tensor that is intended to have no effect.
    """
    for tensor in _tensors(subject, "constant"):
        value = tensor.constant
        assert value is not None
        meaning = _MEANINGS.get(value, "the same four")
        yield constant_payload.at(
            _payload(tensor), got=TrustedText(meaning), name=tensor.name, hex=TrustedText(f"{value:02x}")
        )


@rule("I206", "constant-region", "I2_S tensor {name} has {got:byte} of 0x{hex} in a row: {weights:weight} without a "
      "change", severity=WARNING, clause="5.4", when=i2s_read, weights=WeightUse.PART)  # fmt: skip
def constant_region(subject: LintContext) -> Iterator[Finding]:
    """A long stretch of a payload repeats one byte.

    Why: trained weights vary. Such a stretch was overwritten, masked out or never written. Bytes of 0x55 are weights of
    0, as pruning leaves them.

    Example: 64 KiB of 0x55 inside blk.0.attn_q.weight.

    Fix: compare with the checkpoint. If the stretch is not intended, convert or fetch the file again.
    """
    for region in payload_anomalies(subject).regions:
        length = region.stop - region.start
        yield constant_region.at(
            _span(region), got=length, name=subject.name(region.row), weights=4 * length,
            hex=TrustedText(f"{region.value:02x}"),
        )  # fmt: skip


@rule("I207", "rows-repeat", "all {rows} rows of I2_S tensor {name} are equal to the first", severity=WARNING,
      clause="5.4", when=i2s_read, weights=WeightUse.EVERY_BYTE)  # fmt: skip
def rows_repeat(subject: LintContext) -> Iterator[Finding]:
    """All rows of a tensor are the same.

    Why: all outputs of such a matrix are the same number. A writer repeated one row, through a stride of zero or a
    broadcast.

    Example: 2,560 times the same 640 bytes.

    Fix: convert the checkpoint again.
    """
    survey = subject.payloads
    for place in payload_anomalies(subject).placed:
        if survey.size(place) < COMPARED or survey.digest(place)[0] is None:
            continue
        rows = prod(subject.file.index.tensor(survey.row(place)).ne[1:])
        if any(count % rows for count in survey.counts(place)):  # equal rows have equal shares of each code
            continue
        tensor = survey[place]
        if tensor.constant is None and rows_are_equal(subject, tensor):
            yield rows_repeat.at(_payload(tensor), name=tensor.name, rows=4 * tensor.payload_bytes // tensor.ne[0])


@rule("I208", "repeated-tensor", "I2_S tensors {other} and {name} have the same payload, byte for byte, and the same scale",
      severity=WARNING, clause="5.4", when=i2s_read, weights=WeightUse.EVERY_BYTE)  # fmt: skip
def repeated_tensor(subject: LintContext) -> Iterator[Finding]:
    """Two tensors are equal.

    Why: training does not produce the same matrix twice. A converter wrote one tensor under two names, or a program
    built layers from copies of others.

    Example: blk.1.ffn_up.weight has all the bytes of blk.0.ffn_up.weight.

    Fix: convert the checkpoint again, unless the copies are intended.
    """
    survey = subject.payloads
    for pair in duplicate_payloads(subject):
        one, tensor = survey[pair.first], survey[pair.second]
        if one.tail[:4] == tensor.tail[:4]:
            yield repeated_tensor.at(_payload(tensor), other=one.name, name=tensor.name)


def _one_for_all(subject: LintContext, made: Rule, topic: str, **codes: int) -> Iterator[Finding]:
    """Yield one finding for all tensors of a topic, on the first, with the shares of these codes."""
    tensors = list(_tensors(subject, topic))
    if tensors:
        first = tensors[0]
        shares = {name: TrustedText(f"{100 * first.shares[code]:.3g} %") for name, code in codes.items()}
        yield made.at(_payload(first), name=first.name, tensors=len(tensors), **shares)


@rule("I209", "no-zeros", "{got} of the weights of I2_S tensor {name} are 0 (such tensors: {tensors}): latent "
      "weights were quantized", severity=WARNING, clause="6.2", when=i2s_read, weights=WeightUse.PART)  # fmt: skip
def no_zeros(subject: LintContext) -> Iterator[Finding]:
    """Almost no weight is zero.

    Why: about half of the weights of a ternary model are zero. The released quantizer does not round: of weights that
    are not ternary yet, it keeps only the sign, so that there are no zeros. The file is well-formed, but it is not the
    model that was trained.

    Example: 'llama-quantize model-f32.gguf out.gguf I2_S' on the latent weights of a checkpoint.

    Fix: make the weights ternary as the model's training did, then quantize.
    """
    yield from _one_for_all(subject, no_zeros, "few_zeros", got=1)


@rule("I210", "nearly-all-zeros", "{got} of the weights of I2_S tensor {name} are 0 (such tensors: {tensors})",
      severity=WARNING, clause="5.4", when=i2s_read, weights=WeightUse.PART)  # fmt: skip
def nearly_all_zeros(subject: LintContext) -> Iterator[Finding]:
    """Nearly all weights of a tensor are zero.

    Why: such a matrix has almost no effect. The weights were rounded with a scale that was too large, for example the
    reciprocal of the right one, and only the largest of them remained.

    Example: 99.8 % zeros in blk.0.attn_k.weight.

    Fix: compare with the checkpoint, and convert it again.
    """
    yield from _one_for_all(subject, nearly_all_zeros, "mostly_zeros", got=1)


@rule("I211", "lopsided-signs", "I2_S tensor {name} has {got:weight} of -1 and {plus} of +1 (tensors as far from "
      "balance: {tensors})", severity=WARNING, clause="5.4", when=i2s_read, weights=WeightUse.PART)  # fmt: skip
def lopsided_signs(subject: LintContext) -> Iterator[Finding]:
    """There are far more weights of one sign than of the other.

    Why: trained matrices have as many weights of +1 as of -1, within a few percent. Zero bytes are weights of -1, so an
    unwritten part shifts the balance. Another code map does so too.

    Example: 70 % of -1 and 10 % of +1.

    Fix: look for the mistake in the converter.
    """
    yield from _one_for_all(subject, lopsided_signs, "lopsided", got=0, plus=2)


@rule("I212", "uncommon-zeros", "{got} of the weights of I2_S tensor {name} are 0; 25 to 75 % are common (tensors "
      "outside this range: {tensors})", severity=NOTE, clause="5.4", when=i2s_read, weights=WeightUse.PART)  # fmt: skip
def uncommon_zeros(subject: LintContext) -> Iterator[Finding]:
    """The share of zeros is uncommon.

    Why: trained BitNet models have about 50 % zeros. Rounding normally distributed weights with their mean as the scale
    gives 31 %. Another share is not a fault, but shows that the model was made in another way.

    Example: 15 % zeros.

    Fix: nothing has to be done.
    """
    yield from _one_for_all(subject, uncommon_zeros, "uncommon", got=1)


#: The numbers of the float types whose values the survey examines.
_FLOATS: Final = frozenset(BY_NAME[name].number for name in ("F16", "BF16", "F32", "F64"))


def floats_read(subject: LintContext) -> bool:
    """files with F16, BF16, F32 or F64 tensors that are read"""
    return subject.survey is not None and not _FLOATS.isdisjoint(subject.type_numbers)


@rule("G413", "not-finite", "{type} tensor {name} has {got:value that is|values that are} infinite "
      "or NaN; the first is value "
      "{first}", clause="2.7", when=floats_read, weights=WeightUse.PART,
      provenance=("llama.cpp --check-tensors",))  # fmt: skip
def not_finite(subject: LintContext) -> Iterator[Finding]:
    """A float tensor contains an infinity or a NaN.

    Why: one such value in a norm or an embedding makes all later outputs NaN. llama.cpp and the BitNet fork check this
    only on request.

    Example: a norm weight of NaN after a training run that diverged.

    Fix: check whether the checkpoint contains the value too, and convert it again.
    """
    for place in payload_anomalies(subject).not_finite:
        other = subject.payloads.others[place]
        first = other.first_non_finite
        assert first is not None
        yield not_finite.at(
            other.span(first, first + other.width), got=other.non_finite, want=0, name=other.name,
            type=TrustedText(other.type), first=first // other.width,
        )  # fmt: skip
