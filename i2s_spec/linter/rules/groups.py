"""Rules about types with a scale for each group: the codes, digits and scales of ternary types, the scales of all.

The thresholds are in `analysis.payload_stats`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from i2s_spec.codec.observation import Groups
from i2s_spec.errors import TrustedText
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.analysis.payload_stats import (
    FAR,
    SCALES_CHECKED,
    ScalesNotFinite,
    block_span,
    far_apart,
    odd_groups,
    scale_span,
    scales_not_finite,
)
from i2s_spec.linter.rule import WARNING, Finding, WeightUse, When, rule
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.types import BY_NAME

if TYPE_CHECKING:
    from i2s_spec.inspect.survey import OtherSurvey
    from i2s_spec.schema.blocks import BlockLayout


def _with_numbers_of(names: Iterable[str], words: str) -> When:
    numbers = frozenset(BY_NAME[name].number for name in names)

    def condition(subject: LintContext) -> bool:
        return subject.survey is not None and not numbers.isdisjoint(subject.type_numbers)

    condition.__doc__ = f"files with {words} whose payloads are read"
    return condition


def types_read(*names: str) -> When:
    """Return the condition of rules on some types with a scale for each group."""
    return _with_numbers_of(names, f"{', '.join(names[:-1])} or {names[-1]} tensors")


groups_read = _with_numbers_of(GROUP_LAYOUTS, "ternary types other than I2_S")
scales_read = _with_numbers_of(SCALES_CHECKED, "quantized tensors other than I2_S")


def _share(part: int, whole: int) -> TrustedText:
    return TrustedText(f"{100 * part / max(1, whole):.3g} %")


def _of_codes(other: OtherSurvey, groups: Groups, layout: BlockLayout) -> dict[str, Any]:
    """Return the values of a finding on codes."""
    blocks = prod(other.ne) // layout.block if layout.scale.apart else other.read // layout.nbytes
    return {
        "got": groups.odd, "want": 0, "name": other.name, "type": TrustedText(other.type),
        "share": _share(groups.odd, blocks * layout.block), "first": groups.first_odd,
    }  # fmt: skip


@rule("B101", "reserved-code", "{type} tensor {name} has {got:weight} of code 3, {share} of all; the first is in byte "
      "{first} of its payload", clause="5.6",
      when=types_read("TQ2_0", "IQ2_BN", "I2_SR"), weights=WeightUse.PART)  # fmt: skip
def reserved_code(subject: LintContext) -> Iterator[Finding]:
    """A payload contains a code that the type does not use.

    Why: three codes stand for -1, 0 and +1, and no quantizer of TQ2_0, IQ2_BN or I2_SR writes the fourth. Readers
    decode it as +2 times the scale, a weight that no ternary model has. The bytes are damaged, or are not a payload of
    this type.

    Example: a byte of 0xff inside a TQ2_0 tensor.

    Fix: fetch or convert the file again.
    """
    for other, groups, layout in odd_groups(subject, "reserved"):
        yield reserved_code.at(block_span(other, layout, groups.first_odd), **_of_codes(other, groups, layout))


@rule("B102", "plus-two-code", "{type} tensor {name} has {got:weight} of +2 times the scale, {share} of all; the first "
      "is in byte {first} of its payload", severity=WARNING, clause="5.6",
      when=types_read("Q2_0", "PQ2_0"), weights=WeightUse.PART)  # fmt: skip
def plus_two_code(subject: LintContext) -> Iterator[Finding]:
    """Some weights are +2 times their scale.

    Why: Q2_0 has a fourth code, for +2, and programs compute with it. ggml's quantizer never writes it, since the scale
    is the largest magnitude of the group, and a ternary model has no such weights. No other ternary type can store
    them, so the tensor cannot be converted.

    Example: a byte of 0xff in a Q2_0 tensor of a ternary model.

    Fix: compare with the checkpoint. If the weights are intended, nothing has to be done.
    """
    for other, groups, layout in odd_groups(subject, "beyond"):
        yield plus_two_code.at(block_span(other, layout, groups.first_odd), **_of_codes(other, groups, layout))


@rule("B103", "foreign-digits", "{type} tensor {name} has {got:byte that|bytes that} no packer "
      "writes, {share} of its bytes of digits; the first is byte {first} of its payload", severity=WARNING, clause="5.6",
      when=types_read("TQ1_0", "PTQ1_0", "IQ1_BN"), weights=WeightUse.PART)  # fmt: skip
def foreign_digits(subject: LintContext) -> Iterator[Finding]:
    """Bytes that store base-3 digits have values that no packer writes.

    Why: five base-3 digits form a number N below 243, and packers write the byte ceil(256 N / 243), so 13 of the 256
    byte values never occur. An unused digit of a byte is 0, which excludes most values of such a byte. Readers decode
    all values without a warning. One in twenty arbitrary bytes has an excluded value, so these values show a payload
    that is truncated, shifted, encrypted or damaged.

    Example: 5 % of the bytes of a PTQ1_0 tensor whose payload was read from the wrong offset.

    Fix: fetch or convert the file again.
    """
    for other, groups, layout in odd_groups(subject, "digits"):
        values = _of_codes(other, groups, layout)
        scales = groups.scales * layout.scale.nbytes
        values["share"] = _share(groups.odd, other.read - scales)
        yield foreign_digits.at(block_span(other, layout, groups.first_odd), **values)


def _of_scales(other: OtherSurvey, scales: int, count: int, group: int) -> dict[str, Any]:
    """Return the values of a finding on some of the scales of a tensor."""
    return {
        "got": count, "want": 0, "name": other.name, "type": TrustedText(other.type), "share": _share(count, scales),
        "group": group,
    }  # fmt: skip


@rule("B201", "group-scale-not-finite", "{type} tensor {name} has "
      "{got:scale that is|scales that are} infinite or NaN, {share} of all; the "
      "first is {first}", clause="5.7", when=scales_read, weights=WeightUse.PART,
      provenance=("llama.cpp --check-tensors", "intel/auto-round#1908", "ikawrakow/ik_llama.cpp#649"))  # fmt: skip
def group_scale_not_finite(subject: LintContext) -> Iterator[Finding]:
    """The scale of a block, or of a row, is infinite or NaN.

    Why: all weights of the block become infinite or NaN, and then every output of the model that depends on it: the
    block of an embedding only if its token occurs, that of an expert only if it is chosen. llama.cpp checks this only on
    request (--check-tensors). The largest magnitude of the block exceeded 65,504, the largest float16, or the
    quantizer divided by 0, or the bytes are not a scale.

    Example: the bytes 00 7c in place of a scale, or ff in a block of MXFP4.

    Fix: fetch the file again, or look for the infinity in the checkpoint, and convert it again.
    """
    for found in scales_not_finite(subject):
        values = _of_scales(found.other, found.scales, found.infinite, found.group)
        yield group_scale_not_finite.at(found.span, first=_position(found), **values)


def _position(found: ScalesNotFinite) -> TrustedText:
    """Return which scale it is, in words: `d of block 3, in row 1 of expert 2`."""
    ne = found.other.ne
    matrix, row = divmod(found.row, ne[1] if len(ne) > 1 else 1)
    words = f"row {row:,}"
    if prod(ne[2:]) > 1:
        words += f" of {'expert' if b'_exps.' in found.other.name else 'matrix'} {matrix:,}"
    if found.scale.per == "row":
        return TrustedText(f"that of {words}")
    return TrustedText(f"{found.scale.field} of block {found.group:,}, in {words}")


@rule("B202", "group-scale-negative", "{type} tensor {name} has {got:negative scale}, {share} of all; the first is that "
      "of group {group}", severity=WARNING, clause="5.6", when=groups_read, weights=WeightUse.PART)  # fmt: skip
def group_scale_negative(subject: LintContext) -> Iterator[Finding]:
    """The scale of a group is negative.

    Why: a scale is the largest magnitude of its group, and no quantizer writes a negative one. It negates all weights
    of the group. About half of all arbitrary bytes read as negative scales, so payloads that are shifted or
    byte-swapped have many.

    Example: the bytes 00 bc, -1 as a float16, in place of a scale.

    Fix: fetch or convert the file again.
    """
    for other, groups, layout in odd_groups(subject, "negative"):
        span = scale_span(other, layout, groups.first_negative)
        yield group_scale_negative.at(span, **_of_scales(other, groups.scales, groups.negative, groups.first_negative))


@rule("B203", "group-scale-zero", "{type} tensor {name} has "
      "{got:scale of 0 whose group has|scales of 0 whose groups have} weights, {share} "
      "of all; the first is that of group {group}", severity=WARNING, clause="5.6",
      when=types_read("TQ1_0", "TQ2_0", "Q2_0", "PQ2_0", "PTQ1_0"), weights=WeightUse.PART)  # fmt: skip
def group_scale_zero(subject: LintContext) -> Iterator[Finding]:
    """The scale of a group is 0, but its codes are not.

    Why: every weight of the group is then 0, whatever its code. There are two harmless cases: a group of zeros has the
    scale 0 and codes of 0, and the scale of weights below 3e-8 is rounded to 0 in float16 while their codes remain. In
    all other cases scales were overwritten, or never written. Types with a scale for each row are not checked, since
    their quantizers write codes of +1 for a row of zeros.

    Example: a block of 28 bytes in the middle of a PTQ1_0 tensor whose last two bytes are 0.

    Fix: compare with the checkpoint, and convert it again if its weights are not that small.
    """
    for other, groups, layout in odd_groups(subject, "lost"):
        span = scale_span(other, layout, groups.first_lost)
        yield group_scale_zero.at(span, **_of_scales(other, groups.scales, groups.lost, groups.first_lost))


@rule("B204", "group-scales-far-apart", "{type} tensor {name} has "
      "{got:scale that is|scales that are} more than {times} times as large as most "
      "others, {share} of all; the largest is {largest}, that of group {group}", severity=WARNING, clause="5.6",
      when=groups_read, weights=WeightUse.PART)  # fmt: skip
def group_scales_far_apart(subject: LintContext) -> Iterator[Finding]:
    """Some scales of a tensor are far larger than the others.

    Why: scales are the largest magnitudes of the groups of one matrix, and usually differ by a small factor; outliers
    and rows near 0 increase it. No useful matrix has a scale of more than 4,096 times the tensor's upper quartile. A
    flipped bit in the exponent can multiply a scale by 65,536. If the upper quartile is that far above the lower one,
    the bytes are not scales. Tensors with fewer than 64 groups are not checked.

    Example: one scale of 1,310.7 among thousands near 0.02.

    Fix: fetch or convert the file again.
    """
    for other, groups, layout in odd_groups(subject, "apart"):
        values = _of_scales(other, groups.scales, far_apart(groups.octaves), groups.first_largest)
        form, width = ("<f", 4) if layout.scale.type == "F32" else ("<e", 2)
        (largest,) = struct.unpack(form, groups.largest.to_bytes(width, "little"))
        span = scale_span(other, layout, groups.first_largest)
        yield group_scales_far_apart.at(span, times=1 << FAR, largest=largest, **values)
