"""Rules about the extent of I2_S tensors: how many elements and bytes, and sizes that show a mistake of the writer."""

from array import array
from collections.abc import Iterator, Set
from itertools import repeat
from math import isfinite, prod

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import TrustedText
from i2s_spec.gguf.placement import Placement, sound_shape
from i2s_spec.gguf.source import affordable
from i2s_spec.linter.analysis.conditions import with_i2s
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.analysis.extents import BLOCK, chunks, mis_sized, row_scales
from i2s_spec.linter.rule import WARNING, Finding, Fix, Rule, Stops, WeightUse, rule
from i2s_spec.schema import limits
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import I2_S, LEGACY_I2_S, READINGS, TAIL_BYTES, TAKEN_OVER, TAKEN_OVER_BLOCK, padded

#: How much is read at once where scales lie close together.
WINDOW = 4096


def tail_cut(subject: LintContext) -> Placement | None:
    """Return the last tensor, if the file ends inside its I2_S tail: the payload is there, the scale is not or not
    whole.
    """
    if subject.placements.end <= subject.data_size or not subject.has_i2s:
        return None
    last = max(subject.placements, key=lambda p: p.end)
    if last.number != I2_S.number or not last.size:
        return None
    payload_end = last.end - TAIL_BYTES
    return last if payload_end <= subject.data_size < last.end else None


@rule("I101", "elements-not-in-fours", "I2_S tensor {name} of shape {shape} has {got:element}, not a multiple of 4",
      clause="5.2", ambiguous=True)  # fmt: skip
def elements_not_in_fours(subject: LintContext) -> Iterator[Finding]:
    """An I2_S tensor's number of elements is not a multiple of four.

    Why: a byte holds four codes. With a remainder, readers disagree about where the payload ends and the scale begins:
    released code rounds down, other code rounds up.

    Example: ne = (129, 3).

    Fix: store the tensor in another type.
    """
    for i, ne in subject.odd_i2s:
        if prod(ne) % 4:
            yield elements_not_in_fours.at(
                subject.info_span(i, "ne"), got=prod(ne), want=4, name=subject.name(i), shape=ne
            )


@rule("I102", "partial-block", "I2_S tensor {name} of shape {shape} has {got:element}, not a multiple of 128: "
      "the last {lost} are lost", clause="5.3", ambiguous=True)  # fmt: skip
def partial_block(subject: LintContext) -> Iterator[Finding]:
    """An I2_S tensor ends inside a block of 128.

    Why: the released quantizer writes whole blocks only, so the last elements keep code 0, which means -1. The released
    dequantizer reads these elements from the scale and the rest of the tail.

    Example: ne = (132, 1): the last four elements are lost.

    Fix: keep the tensor in another type, or pad its rows.
    """
    for i, ne in subject.odd_i2s:
        n = prod(ne)
        if n % BLOCK and n % 4 == 0 and len(ne) > 1:
            span = subject.info_span(i, "ne")
            yield partial_block.at(span, got=n, want=BLOCK, name=subject.name(i), shape=ne, lost=n % BLOCK)


@rule("I103", "row-not-whole-blocks-of-128", "I2_S tensor {name} has rows of {got:element}, not a multiple of 128",
      clause="5.3",
      provenance=("ikawrakow/ik_llama.cpp discussion 95", "microsoft/BitNet README"))  # fmt: skip
def row_not_whole_blocks_of_128(subject: LintContext) -> Iterator[Finding]:
    """An I2_S tensor's rows do not end at block boundaries.

    Why: blocks divide the flattened tensor, so some blocks span two rows. Decoding the whole tensor gives the right
    weights. A reader that starts at a row, such as a matrix multiplication kernel, reads most weights of the odd rows
    wrongly.

    Example: bitnet_b1_58-3B, whose ffn_down has rows of 8,640 elements, 67.5 blocks.

    Fix: keep the tensor in another type, or pad its rows.
    """
    for i, ne in subject.odd_i2s:
        if prod(ne) % BLOCK == 0 and ne[0] % BLOCK and len(ne) > 1:
            span = subject.info_span(i, "ne")
            yield row_not_whole_blocks_of_128.at(span, got=ne[0], want=BLOCK, name=subject.name(i))


@rule("I104", "tail-missing", "the file ends inside the tail of I2_S tensor {name}, of which it holds {got} of {want:byte}",
      clause="6.1", cwe=125,
      ambiguous=True, stops=Stops("tensors", "the scale is not in the file", "known size"))  # fmt: skip
def tail_missing(subject: LintContext) -> Iterator[Finding]:
    """The file ends inside the tail of its last I2_S tensor.

    Why: the scale is the float32 after the payload, and readers take four bytes there without checking the size. A
    writer that assumes a size of n/4 or n/4 + 4 bytes leaves bytes out.

    Example: a file that ends with the payload of its last tensor.

    Fix: write the scale and 28 more bytes.
    """
    last = tail_cut(subject)
    if last is not None:
        got = subject.data_size - (last.end - TAIL_BYTES)
        span = subject.absolute(last.end - TAIL_BYTES, last.end, f"data[{last.row}]")
        yield tail_missing.at(span, got=got, want=TAIL_BYTES, name=subject.name(last.row))


@rule("I105", "tail-overlapped", "tensor {other} begins {got:byte} after the payload of I2_S tensor {name}, "
      "inside its tail of {want}", clause="6.1", cwe=119, ambiguous=True)  # fmt: skip
def tail_overlapped(subject: LintContext) -> Iterator[Finding]:
    """The next tensor begins inside an I2_S tensor's tail.

    Why: the writer assumed a size of n/4 or n/4 + 4 bytes. Readers then take the first bytes of the next tensor as the
    scale.

    Example: an I2_S tensor of 16,384 weights, and the next tensor begins 4,096 bytes later.

    Fix: lay the tensors out again, each I2_S tensor with its tail of 32 bytes.
    """
    listed, last = limits.FINDINGS_PER_RULE, None
    for placement, allotted, after in () if subject.lacks_tails else mis_sized(subject, "no-tail"):
        if after is not None:
            assert placement.size is not None
            if last is not None and listed <= 0:
                yield last  # those beyond the limit of a report are only counted
                continue
            listed -= 1
            span = subject.info_span(after.row, "offset")
            last = tail_overlapped.at(
                span, got=allotted - (placement.size - TAIL_BYTES), want=TAIL_BYTES,
                name=subject.name(placement.row), other=subject.name(after.row),
            )  # fmt: skip
            yield last


@rule("I317", "writer-form", "the I2_S tensors ({got}) have the form of {program}: {words}; readers take other weights, and "
      "i2s convert makes a file in the usual form", clause="5.5", when=with_i2s,
      command="i2s convert {path} OUT.gguf --to canonical")  # fmt: skip
def form_of_a_writer(subject: LintContext) -> Iterator[Finding]:
    """The file has a form that one program writes for itself.

    Why: NeoGPU and SKaiNET write type 36 with the codes of four neighbors in a byte, the first in the lowest bits. NeoGPU
    writes no scale behind them: a tensor NAME_scale follows, by which its program divides, and the sides of the embedding
    are exchanged. SKaiNET sorts keys by name and writes general.alignment as an i32, which llama.cpp refuses. Its marks
    are those of any file that its library writes, so that this is a warning; NeoGPU's are certain.

    Example: blk.0.attn_q.weight without a tail, before blk.0.attn_q.weight_scale.

    Fix: `i2s convert FILE OUT --to canonical` reads the form and writes the same weights in the usual one, with a proof.
    Nothing else here reads such a file.
    """
    form = subject.writer_form
    if form is None:
        return
    rows = [row for row, _ in subject.i2s()]
    span, program = subject.info_span(rows[0], "type"), TrustedText(form.program)
    finding = form_of_a_writer.at(span, got=len(rows), program=program, words=TrustedText(form.words))
    yield finding.at_most(None if subject.lacks_tails else WARNING)


@rule("I106", "unpacked-size", "I2_S tensor {name} has room for {got:byte}, one for each weight; packed it takes {want}",
      clause="5.2", ambiguous=True)  # fmt: skip
def unpacked_size(subject: LintContext) -> Iterator[Finding]:
    """An I2_S tensor has one byte of space for each weight.

    Why: the row size of the type in the BitNet fork is that of unpacked codes. A writer that uses it reserves four
    times the space, and its codes are probably not packed either.

    Example: 16,384 weights in 16,384 bytes.

    Fix: write n/4 + 32 bytes for each tensor.
    """
    yield from _rooms(subject, "unpacked", unpacked_size)


@rule("I107", "whole-block-size", "I2_S tensor {name} has room for {got:byte}, its payload padded to whole blocks; "
      "{want} are expected", severity=WARNING, clause="5.2", ambiguous=True)  # fmt: skip
def whole_block_size(subject: LintContext) -> Iterator[Finding]:
    """An I2_S tensor's payload seems padded to whole blocks.

    Why: one reader expects a payload of ceil(n/128) * 32 bytes and the scale after it; all others read the scale at
    n/4.

    Example: 132 weights with 64 bytes of payload.

    Fix: keep the tensor in another type, or pad its rows.
    """
    yield from _rooms(subject, "whole-blocks", whole_block_size)


def _rooms(subject: LintContext, idea: str, made: Rule) -> Iterator[Finding]:
    for placement, allotted, _ in mis_sized(subject, idea):
        span = subject.absolute(placement.offset, placement.offset + allotted, f"data[{placement.row}]")
        yield made.at(span, got=allotted, want=placement.size, name=subject.name(placement.row))


@rule("I108", "chunked-payload", "I2_S tensor {name} has {got:byte} where {want} are expected, as if {chunks:chunk} had "
      "been written with a tail each", clause="5.2",
      provenance=("microsoft/BitNet setup_env.py passes one thread",), ambiguous=True)  # fmt: skip
def chunked_payload(subject: LintContext) -> Iterator[Finding]:
    """An I2_S tensor was quantized in chunks.

    Why: with more than one thread, llama-quantize gives some rows to each thread. Each thread writes its own scale and
    tail, at positions computed for unpacked bytes. The result is not an I2_S tensor, but no loader notices it, and the
    output is NaN.

    Example: 'llama-quantize in.gguf out.gguf I2_S 8'.

    Fix: quantize again with one thread.
    """
    for placement, allotted, _ in mis_sized(subject, "chunks"):
        span = subject.absolute(placement.offset, placement.offset + allotted, f"data[{placement.row}]")
        count, name = chunks(subject, placement, allotted), subject.name(placement.row)
        yield chunked_payload.at(span, got=allotted, want=placement.size, name=name, chunks=count)


@rule("I109", "one-dimensional", "tensor {name} has type I2_S and one dimension; only matrices can be I2_S",
      clause="5.1", ambiguous=True)  # fmt: skip
def one_dimensional(subject: LintContext) -> Iterator[Finding]:
    """An I2_S tensor has one dimension.

    Why: the type is meant for projection matrices. Norms and biases are used as floats, and no kernel reads them as
    I2_S.

    Example: blk.0.attn_norm.weight with type 36.

    Fix: write the tensor as F32.
    """
    for i, ne in subject.odd_i2s:
        if len(ne) == 1:
            yield one_dimensional.at(subject.info_span(i, "n_dims"), got=1, want=2, name=subject.name(i))


@rule("I110", "three-dimensional", "I2_S tensor {name} has shape {shape}; the place of each slice's scale is not defined",
      severity=WARNING, clause="5.1", ambiguous=True)  # fmt: skip
def three_dimensional(subject: LintContext) -> Iterator[Finding]:
    """An I2_S tensor has more than two dimensions.

    Why: one family of programs counts one tail for the whole tensor, another counts one tail for each slice, and the
    quantizer of the first family writes the slices at the distances of unpacked data. No two programs agree.

    Example: expert weights of shape (2560, 6912, 8).

    Fix: store each expert as a separate matrix.
    """
    for i, ne in subject.odd_i2s:
        if prod(ne[2:]) > 1:
            yield three_dimensional.at(subject.info_span(i, "ne"), got=len(ne), want=2, name=subject.name(i), shape=ne)


@rule("I111", "legacy-number", "tensor {name} has type {got} but exactly the size of an I2_S tensor; I2_S is type 36",
      clause="2.6", fix=Fix.UNSAFE, fix_with="--unsafe --dialect SOURCE", ambiguous=True)  # fmt: skip
def legacy_number(subject: LintContext) -> Iterator[Finding]:
    """An I2_S tensor carries a type number from before its release.

    Why: development versions of mid-2024 used the numbers 30 and 31, which today mean BF16 and a retired type. Their
    code map differed as well.

    Example: type 31 where the next tensor begins n/4 + 32 bytes later.

    Fix: convert the original checkpoint again; renumbering alone gives wrong weights.
    """
    for placement in () if LEGACY_I2_S.isdisjoint(subject.type_numbers) else subject.placements:
        if subject.is_legacy(placement):
            span = subject.info_span(placement.row, "type")
            name = subject.name(placement.row)
            yield legacy_number.at(span, got=placement.number, want=I2_S.number, name=name)


@rule("I112", "scale-in-rows", "I2_S tensor {name} has room for {got:byte} where {want} are expected: {rows} rows with a "
      "{type} in front of each", clause="6.1", provenance=("ikawrakow/ik_llama.cpp IQ2_BN",),
      ambiguous=True)  # fmt: skip
def scale_in_rows(subject: LintContext) -> Iterator[Finding]:
    """Every row of a tensor begins with a scale.

    Why: related types, such as IQ2_BN of ik_llama.cpp, have a scale for each row, and some writers use this form under
    the type number of I2_S. A loader reads the scales as codes, so that every row is shifted further than the one
    before it.

    Example: 64 rows of 256 weights in 64 × 68 bytes.

    Fix: convert the checkpoint with a released writer; do not change type numbers by hand.
    """
    for placement, allotted, _ in mis_sized(subject, "row-scales"):
        found = row_scales(subject, placement, allotted)
        assert found is not None
        (rows, width), start = found, placement.offset
        yield scale_in_rows.at(
            subject.absolute(start, start + allotted, f"data[{placement.row}]"), got=allotted, want=placement.size,
            name=subject.name(placement.row), rows=rows, type=TrustedText("float32" if width == 4 else "float16"),
        )  # fmt: skip


@rule("I301", "scale-byte-order", "the scales of {got} of {of} I2_S tensors make sense only in {other} order, while the "
      "file is {order}; the first is {name}", clause="6.2", fix=Fix.UNSAFE,
      provenance=("ggml-org/llama.cpp#11349",), weights=WeightUse.IF_READ)  # fmt: skip
def scale_byte_order(subject: LintContext) -> Iterator[Finding]:
    """The scales are in the other byte order than the file.

    Why: tools that convert the byte order of a file swap arrays by their element type. They treat an I2_S tensor as an
    array of bytes, so its float32 scale keeps its old order. Read in the new order, it is wrong by many powers of ten.

    Example: a big-endian file whose scales read 4.6e-41.

    Fix: swap the four bytes after each payload. This changes the weights, so check the result.
    """
    wrong, seen = foreign_scales(subject)
    order = subject.file.byte_order
    if wrong and 2 * len(wrong) > seen:
        first = wrong[0]
        span = subject.absolute(first.end - TAIL_BYTES, first.end - TAIL_BYTES + 4, f"data[{first.row}].tail.scale")
        other = "big-endian" if order == "little" else "little-endian"
        yield scale_byte_order.at(
            span, got=len(wrong), want=0, of=seen, name=subject.name(first.row), other=TrustedText(other),
            order=TrustedText(f"{order}-endian"),
        )  # fmt: skip


def foreign_scales(subject: LintContext) -> tuple[list[Placement], int]:
    """Return the I2_S tensors whose scale is plausible only in the other byte order, and the number of tensors
    examined.
    """
    source, size, base = subject.file.source, subject.data_size, subject.file.data_start or 0
    order = subject.file.byte_order
    other: ByteOrder = "big" if order == "little" else "little"
    wrong: list[Placement] = []
    seen, window, at = 0, b"", 0
    survey = subject.survey
    rows = subject.file.index.tensors
    places = array("i", repeat(-1, rows))  # of each row of the table in the survey
    if survey is not None:
        for place, row in enumerate(survey.rows):
            places[row] = place
    left_out = _too_far(subject, base, size) if survey is None and subject.on_server else frozenset()
    for placement in subject.placements:
        if placement.row in left_out:
            continue
        if placement.number != I2_S.number or not placement.size:
            continue
        start = placement.offset + placement.size - TAIL_BYTES
        if start + TAIL_BYTES > size:
            continue
        if survey is not None and places[placement.row] >= 0:
            at, window = start, survey.tail(places[placement.row])
        elif subject.ranges_are_few:
            continue
        elif not at <= start <= at + len(window) - 4:  # one read serves many tensors where they are small
            at, window = start, source.read(base + start, min(WINDOW if placement.size < WINDOW else 4, size - start))
        seen += 1
        scale = window[start - at : start - at + 4]
        if not _plausible(numbers("f", scale, order)[0]) and _plausible(numbers("f", scale, other)[0]):
            wrong.append(placement)
    return wrong, seen


def _too_far(subject: LintContext, base: int, size: int) -> Set[int]:
    """Return the rows of I2_S tensors whose scales are not read because each would need a separate request."""
    ends = [
        (each.row, base + each.offset + each.size - TAIL_BYTES)
        for each in subject.placements
        if each.number == I2_S.number and each.size and each.offset + each.size <= size
    ]
    chosen = affordable(subject.file.source, [(start, start + 4) for _, start in ends])
    return frozenset(row for row, _ in ends) - {ends[number][0] for number in chosen}


def _plausible(scale: float) -> bool:
    """Whether a scale is like those of trained models, with a wide margin (clause 6.2)."""
    return isfinite(scale) and 1e-4 <= abs(scale) <= 1e2


@rule("M032", "retired-type-size", "tensor {name} of type {got} has the size of {retired}, {size} bytes, not of {kind}, "
      "{want}: {meaning}", severity=WARNING, clause="4.2",
      provenance=("ggml-org/llama.cpp#12997",))  # fmt: skip
def retired_type_size(subject: LintContext) -> Iterator[Finding]:
    """A tensor has the size that its number meant in llama.cpp before the number was retired.

    Why: for some weeks of 2024 llama.cpp used 36 to 38 for types packed for ARM, with 18 bytes for 32 weights. Files of
    that time have the type numbers of I2_S, I8_S and TL1 but other data; read as I2_S, they are noise.

    Example: a model that llama-quantize packed as Q4_0_4_4, IQ4_NL_4_4 or a similar type in November 2024.

    Fix: the file cannot be repaired. Quantize the model again.
    """
    block, size = TAKEN_OVER_BLOCK
    if TAKEN_OVER.keys().isdisjoint(subject.type_numbers):
        return
    step = subject.effective_alignment
    least = 4096 // block * size - step
    for extent in subject.extents:
        number = extent.placement.number
        if extent.allotted_bytes < least or number not in TAKEN_OVER:
            continue
        ne, there = subject.file.index.tensor(extent.placement.row).ne, padded(extent.allotted_bytes, step)
        wanted = READINGS[number][0].nbytes(ne)
        if padded(wanted, step) == there:  # a large alignment may fit both sizes
            continue
        other = prod(ne) // block * size
        whole = sound_shape(ne) and prod(ne) >= 4096 and ne[0] % block == 0
        if whole and padded(other, step) == there:
            from i2s_spec.schema import type_registry

            yield retired_type_size.at(
                subject.info_span(extent.placement.row, "type"), got=number, want=wanted, size=other,
                name=subject.name(extent.placement.row), retired=TrustedText(TAKEN_OVER[number]),
                kind=TrustedText(READINGS[number][0].name), meaning=TrustedText(type_registry.tensor_type_words(number)),
            )  # fmt: skip
