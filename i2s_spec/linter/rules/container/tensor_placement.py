"""Rules about positions of tensors: overlaps, gaps, order, and tensors beyond the end of the file."""

from collections.abc import Iterator

from i2s_spec.errors import Span, TrustedText, counted
from i2s_spec.inspect.placement import Placement
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.analysis.tensor_extents import oversized, size_mistake
from i2s_spec.linter.rule import DATA_MISSING, NOTE, WARNING, Finding, Fix, rule
from i2s_spec.linter.rules.ternary.i2s_extent import tail_cut
from i2s_spec.schema import faults, limits
from i2s_spec.schema.limits import INT64_END
from i2s_spec.schema.types import padded


@rule(faults.TENSOR_PAST_END._replace(message="the file ends at byte {got}, but its tensors need {want:byte}: {count} "
                                      "of {tensors} are incomplete, the first is {name}"),
      clause="2.7", cwe=125,
      provenance=("microsoft/BitNet#122", "llama.cpp tests/test-gguf.cpp DATA_NOT_ENOUGH_DATA"),
      ambiguous=True, stops=DATA_MISSING._replace(case="known size"))  # fmt: skip
def data_truncated(subject: Subject) -> Iterator[Finding]:
    """The file ends before its tensors do.

    Why: a download or a conversion stopped early. Readers that map the file into memory crash when they touch the
    missing part, or read whatever follows it.

    Example: a file 200 bytes shorter than its tensor table says.

    Fix: fetch or write the file again.
    """
    data_size = subject.data_size
    cut = [p for p in subject.placements if p.size and p.offset + p.size > data_size and not _astray(subject, p)]
    if not cut or subject.total >= INT64_END or tail_cut(subject) is not None:
        return
    first = cut[0]
    base = subject.file.data_start or 0
    span = subject.absolute(first.offset, first.end, f"data[{first.row}]")
    yield data_truncated.at(
        span, got=subject.file.size, want=base + max(p.end for p in cut), count=len(cut),
        tensors=len(subject.placements), name=subject.name(first.row),
    )  # fmt: skip


@rule(faults.OFFSET_PAST_END._replace(message="tensor {name} has offset {got}; the data section has {want:byte}"),
      clause="2.7", cwe=125,
      provenance=("CVE-2026-7482", "ml-explore/mlx#4179"), ambiguous=True,
      stops=DATA_MISSING._replace(case="known size"))  # fmt: skip
def offset_past_end(subject: Subject) -> Iterator[Finding]:
    """A tensor's offset lies after the end of the file.

    Why: the sum of the offset and the start of the data section can wrap around and point into the header. A reader
    that checks only the sum reads memory that is not the tensor's.

    Example: offset 2^64 - 32.

    Fix: write the tensor's offset from the start of the data section.
    """
    data_size = subject.data_size
    for placement in subject.placements:
        if placement.offset > data_size and _astray(subject, placement):
            span = subject.info_span(placement.row, "offset")
            name = subject.name(placement.row)
            yield offset_past_end.at(span, got=placement.offset, want=subject.data_size, name=name)


def _astray(subject: Subject, placement: Placement) -> bool:
    """Whether the offset is wrong, rather than the file too short: it is after the end and does not follow the previous
    tensor."""
    return placement.offset > subject.data_size and not subject.contiguous


@rule("G403", "offset-misaligned", "tensor {name} has offset {got}, which is not a multiple of {want}", clause="2.7",
      fix=Fix.UNSAFE,
      provenance=("ollama/ollama#8456", "llama.cpp tests/test-gguf.cpp DATA_BAD_ALIGN"))  # fmt: skip
def offset_misaligned(subject: Subject) -> Iterator[Finding]:
    """A tensor's offset is not a multiple of the alignment.

    Why: the GGUF document requires aligned offsets, and upstream refuses others. Kernels that load aligned vectors
    crash.

    Example: offset 100 with an alignment of 32.

    Fix: lay the tensors out again.
    """
    if subject.ignores_alignment or subject.shift is not None:
        return
    before: Placement | None = None
    step = subject.effective_alignment
    for placement in subject.placements:
        if placement.offset % step and not (
            before is not None and size_mistake(subject, before, placement.offset - before.offset) == "no-tail"
        ):
            span = subject.info_span(placement.row, "offset")
            name = subject.name(placement.row)
            yield offset_misaligned.at(span, got=placement.offset, want=subject.effective_alignment, name=name)
        before = placement


@rule("G404", "tensors-overlap", "tensor {name} begins at offset {got}, inside tensor {other}, which ends at {want}",
      clause="2.7", cwe=119,
      provenance=("safetensors attacks/README.md",), ambiguous=True)  # fmt: skip
def tensors_overlap(subject: Subject) -> Iterator[Finding]:
    """Two tensors share bytes.

    Why: upstream refuses the file; the BitNet fork reads the same bytes twice. Either one of the two tensors is wrong,
    or the file was made to look different to different readers.

    Example: two tensors at offset 0.

    Fix: lay the tensors out again from the original weights.
    """
    reach: Placement | None = None
    end, data_size = 0, subject.data_size  # where `reach` ends
    for placement in subject.placements:
        if not placement.size or (placement.offset > data_size and _astray(subject, placement)):
            continue
        if reach is not None and placement.offset < end:
            allotted = placement.offset - reach.offset
            if size_mistake(subject, reach, allotted) is not None:
                reach, end = placement, placement.end
                continue
            span = subject.info_span(placement.row, "offset")
            yield tensors_overlap.at(
                span, got=placement.offset, want=reach.end, name=subject.name(placement.row),
                other=subject.name(reach.row),
            )  # fmt: skip
        if reach is None or placement.offset + placement.size > end:
            reach, end = placement, placement.end


@rule("G410", "sizes-overflow", "the padded sizes of the tensors add up to {got:byte}, more than 2^63 - 1",
      clause="2.7", cwe=190,
      provenance=("CVE-2025-53630", "CVE-2026-27940", "llama.cpp tests/test-gguf.cpp DATA_MEM_SIZE_OVERFLOW"),
      ambiguous=True)  # fmt: skip
def sizes_overflow(subject: Subject) -> Iterator[Finding]:
    """The sum of the tensors' padded sizes does not fit 63 bits.

    Why: in 64-bit integers the sum wraps around, and a reader allocates a small buffer for a large amount of data.

    Example: two tensors of 0x7FFFFFFFFFFFFFC0 bytes.

    Fix: write the intended shapes.
    """
    if subject.total >= INT64_END:
        largest = max(subject.placements, key=lambda p: p.size or 0)
        span = subject.info_span(largest.row, "ne")
        yield sizes_overflow.at(span, got=subject.total, want=INT64_END - 1)


@rule("G408", "last-tensor-unpadded", "the file ends {got:byte} before the padded end of its last tensor",
      severity=NOTE, clause="2.7", fix=Fix.SAFE)  # fmt: skip
def last_tensor_unpadded(subject: Subject) -> Iterator[Finding]:
    """The last tensor is not padded to the alignment.

    Why: most loaders accept it. Upstream requires the padding where it loads the whole data section at once.

    Example: a last tensor of 100 bytes, and nothing after it.

    Fix: append zero bytes.
    """
    if not subject.placements or not subject.contiguous or subject.shift is not None:
        return
    last = subject.in_table_order[-1]
    missing = padded(last.end, subject.effective_alignment) - subject.data_size
    if 0 < missing <= padded(last.end, subject.effective_alignment) - last.end:
        span = subject.absolute(last.offset, last.end, f"data[{last.row}]")
        yield last_tensor_unpadded.at(span, got=missing, want=0)


@rule("P101", "gap-between-tensors", "{got:byte that belongs to no tensor follows|bytes that belong "
      "to no tensor follow} tensor {name}; upstream refuses such a file",
      severity=WARNING, clause="2.7", fix=Fix.UNSAFE,
      provenance=("llama.cpp tests/test-gguf.cpp TENSORS_BAD_OFFSET",))  # fmt: skip
def gap_between_tensors(subject: Subject) -> Iterator[Finding]:
    """Bytes between two tensors belong to neither.

    Why: upstream requires each tensor to begin at the padded end of the one before it, and refuses anything else; the
    BitNet fork accepts gaps. Other data can be hidden in the gap.

    Example: a second tensor that begins 4,096 bytes late.

    Fix: lay the tensors out again.
    """
    if subject.ignores_alignment:
        return
    step, size, listed, last = subject.effective_alignment, subject.data_size, limits.FINDINGS_PER_RULE, None
    for placement, allotted, after in oversized(subject):
        if after is None or after.offset % step or (after.offset > size and _astray(subject, after)):
            continue
        whole = padded(placement.size or 0, step)
        if last is not None and listed <= 0 and placement.offset + whole < size:
            yield last  # beyond the number that a report lists, they are only counted
            continue
        span = subject.absolute(placement.offset + whole, placement.offset + allotted, f"gap[{placement.row}]")
        if span.start < span.stop:
            listed -= 1
            last = gap_between_tensors.at(span, got=allotted - whole, want=0, name=subject.name(placement.row))
            yield last


@rule("P102", "tensors-out-of-order", "tensor {name} lies before a tensor that precedes it in the table, {other}; "
      "upstream refuses such a file", severity=WARNING, clause="2.7", fix=Fix.UNSAFE)  # fmt: skip
def tensors_out_of_order(subject: Subject) -> Iterator[Finding]:
    """The tensor table is not in the order of the offsets.

    Why: upstream compares each offset with the running sum of sizes in table order, and refuses the file; the BitNet
    fork accepts it.

    Example: two tensor infos that were exchanged.

    Fix: write the table in the order of the offsets.
    """
    before: Placement | None = None
    for placement in subject.in_table_order:
        if before is not None and placement.offset < before.offset:
            span = subject.info_span(placement.row, "offset")
            name, other = subject.name(placement.row), subject.name(before.row)
            yield tensors_out_of_order.at(span, got=placement.offset, want=before.offset, name=name, other=other)
            return  # one exchange puts every later row out of order
        before = placement


@rule("P103", "first-tensor-not-at-start", "the first tensor has offset {got}; upstream refuses anything but 0",
      severity=WARNING, clause="2.7", fix=Fix.UNSAFE)  # fmt: skip
def first_tensor_not_at_start(subject: Subject) -> Iterator[Finding]:
    """The data section does not begin with a tensor.

    Why: upstream requires the first tensor at offset 0 and refuses anything else; the BitNet fork accepts it. Other
    data can be hidden before the first tensor.

    Example: a first tensor at offset 64.

    Fix: lay the tensors out again.
    """
    if not subject.placements or subject.placements[0].offset in (0, subject.data_size) or subject.shift is not None:
        return
    first = subject.placements[0]
    if not _astray(subject, first) and first.offset % subject.effective_alignment == 0:
        span = subject.info_span(first.row, "offset")
        yield first_tensor_not_at_start.at(span, got=first.offset, want=0)


@rule("G414", "data-shifted", "tensors begin at byte {got}, where the header puts them at byte {want}: all lie {shift} "
      "{where}{why}", clause="2.7", fix=Fix.UNSAFE, ambiguous=True)  # fmt: skip
def data_shifted(subject: Subject) -> Iterator[Finding]:
    """All tensors are shifted by the same number of bytes from where the header places them.

    Why: the writer left out the padding before the data section, counted offsets from the start of the file, or wrote
    other bytes before the first tensor. Readers find noise in every payload, and the last tensor is truncated or
    followed by bytes that belong to no tensor. The rule requires three things: the offsets are in running order, the
    end of the file fits them once they are shifted, and scales or other floats make sense at the shifted places but not
    where the header places them.

    Example: a data section that begins right after the last tensor info, at byte 1,003 instead of 1,024.

    Fix: write the data section at the aligned position, with offsets from its start.
    """
    shift, end = subject.shift, subject.file.infos_end
    if shift is None or end is None:
        return
    moved = abs(shift.bytes)
    why = ""
    if shift.base == 0:
        why = "; the offsets count from the start of the file"
    elif shift.begins == end:
        why = "; the padding after the tensor infos is missing"
    elif shift.offset:
        why = f"; the offsets begin with {shift.offset:,} instead of 0"
    span = Span(end, min(shift.stated, subject.file.size), "padding")
    if shift.offset:
        span = subject.info_span(subject.placements[0].row, "offset")
    yield data_shifted.at(
        span, got=shift.begins, want=shift.stated, shift=TrustedText(counted(moved, "byte")),
        where=TrustedText("earlier" if shift.bytes < 0 else "later"), why=TrustedText(why),
    )  # fmt: skip
