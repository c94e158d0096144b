"""Rules about the positions of tensors, and about the bytes that belong to none.

First overlaps, gaps, order, and tensors beyond the end of the file; then padding, bytes after the last tensor, hidden
files, and data that was never written.
"""

from collections.abc import Iterator, Set
from itertools import chain

from i2s_spec.errors import Span, TrustedText
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.placement import Placement
from i2s_spec.gguf.source import Source, affordable
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.analysis.extents import extent_anomalies, holes, oversized, padding, size_mistake
from i2s_spec.linter.analysis.payload_stats import payload_anomalies
from i2s_spec.linter.rule import DATA_MISSING, NOTE, WARNING, Finding, Fix, Severity, Stops, WeightUse, rule
from i2s_spec.linter.rules.i2s_extent import tail_cut
from i2s_spec.schema import faults, limits
from i2s_spec.schema.limits import INT64_END
from i2s_spec.schema.types import I2_S, padded


@rule(faults.TENSOR_PAST_END._replace(message="the file ends at byte {got}, but its tensors need {want:byte}: {count} "
                                      "of {tensors} are incomplete, the first is {name}"),
      clause="2.7", cwe=125,
      provenance=("microsoft/BitNet#122", "llama.cpp tests/test-gguf.cpp DATA_NOT_ENOUGH_DATA"),
      ambiguous=True, stops=Stops("tensors", DATA_MISSING.reason, "known size"))  # fmt: skip
def data_truncated(subject: LintContext) -> Iterator[Finding]:
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
      stops=Stops("tensors", DATA_MISSING.reason, "known size"))  # fmt: skip
def offset_past_end(subject: LintContext) -> Iterator[Finding]:
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


def _astray(subject: LintContext, placement: Placement) -> bool:
    """Whether the offset is wrong, rather than the file too short: it is after the end and does not follow the previous
    tensor."""
    return placement.offset > subject.data_size and not subject.contiguous


@rule("G403", "offset-misaligned", "tensor {name} has offset {got}, which is not a multiple of {want}", clause="2.7",
      fix=Fix.UNSAFE,
      provenance=("ollama/ollama#8456", "llama.cpp tests/test-gguf.cpp DATA_BAD_ALIGN"))  # fmt: skip
def offset_misaligned(subject: LintContext) -> Iterator[Finding]:
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
def tensors_overlap(subject: LintContext) -> Iterator[Finding]:
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


@analysis
def _where_tensors_overlap(subject: LintContext) -> Severity | None:
    """Return the most severe that gaps and the order can be: where tensors overlap, one offset is wrong, and they
    follow.
    """
    return WARNING if next(iter(tensors_overlap.findings(subject)), None) is not None else None


@rule("G410", "sizes-overflow", "the padded sizes of the tensors add up to {got:byte}, more than 2^63 - 1",
      clause="2.7", cwe=190,
      provenance=("CVE-2025-53630", "CVE-2026-27940", "llama.cpp tests/test-gguf.cpp DATA_MEM_SIZE_OVERFLOW"),
      ambiguous=True)  # fmt: skip
def sizes_overflow(subject: LintContext) -> Iterator[Finding]:
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
def last_tensor_unpadded(subject: LintContext) -> Iterator[Finding]:
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
      clause="2.7", fix=Fix.UNSAFE,
      provenance=("llama.cpp tests/test-gguf.cpp TENSORS_BAD_OFFSET",))  # fmt: skip
def gap_between_tensors(subject: LintContext) -> Iterator[Finding]:
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
            last = last.at_most(_where_tensors_overlap(subject))
            yield last


@rule("P102", "tensors-out-of-order", "tensor {name} lies before a tensor that precedes it in the table, {other}; "
      "upstream refuses such a file", clause="2.7", fix=Fix.UNSAFE)  # fmt: skip
def tensors_out_of_order(subject: LintContext) -> Iterator[Finding]:
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
            found = tensors_out_of_order.at(span, got=placement.offset, want=before.offset, name=name, other=other)
            yield found.at_most(_where_tensors_overlap(subject))
            return  # one exchange puts every later row out of order
        before = placement


@rule("P103", "first-tensor-not-at-start", "the first tensor has offset {got}; upstream refuses anything but 0",
      clause="2.7", fix=Fix.UNSAFE)  # fmt: skip
def first_tensor_not_at_start(subject: LintContext) -> Iterator[Finding]:
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


@rule("G414", "data-shifted", "tensors begin at byte {got}, where the header puts them at byte {want}: all lie {shift}{why}",
      clause="2.7", fix=Fix.UNSAFE, ambiguous=True)  # fmt: skip
def data_shifted(subject: LintContext) -> Iterator[Finding]:
    """All tensors are shifted by the same number of bytes from where the header places them.

    Why: the writer left out the padding before the data section, counted offsets from the start of the file, or wrote
    other bytes before the first tensor. Readers find noise in every payload, and the last tensor is truncated or
    followed by bytes that belong to no tensor. The rule looks at the bytes where tensors meet, whatever their types:
    norms, floats, scales, codes and padding must make sense at the shifted places, and much less where the header puts
    them. If an alignment explains the shift, alignment-not-honoured (G222) reports it.

    Example: a data section that begins right after the last tensor info, at byte 1,003 instead of 1,024.

    Fix: write the data section at the aligned position, with offsets from its start.
    """
    shift, end = subject.shift, subject.file.infos_end
    if shift is None or end is None or shift.alignment:
        return
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
        span, got=shift.begins, want=shift.stated, shift=TrustedText(shift.words), why=TrustedText(why)
    )


# --- bytes of no tensor, and data that was never written -------------------------------------------------------------

#: How many bytes of a range without tensors the rules examine, at its start and at its end.
LOOKED_AT = 1 << 16

#: Bytes that are read at once to check padding: there may be many tiny tensors.
NEARBY = 4096

#: Shortest range without tensors that could hold another file.
WORTH_HIDING_IN = 64

#: Shortest run of zero bytes that is reported, how many positions are probed, and how many bytes all runs are followed.
RUN = 1 << 20
PROBES = 256
FOLLOWED = 16 << 20
#: Most runs that are followed in a file on a server, where each needs requests.
MOST_FOLLOWED = 4
_ZEROS = bytes(LOOKED_AT)


def _padding(subject: LintContext, least: int = 1) -> Iterator[tuple[int, int, str]]:
    """Yield the non-empty ranges of padding of a file: before the data section and after tensors."""
    file = subject.file
    if file.infos_end is None or file.data_start is None:
        return
    end = file.infos_end if subject.uncounted is None else subject.uncounted.end
    if subject.shift is None:
        yield end, min(file.data_start, file.size), "padding"
    step, size_of_file = subject.effective_alignment, file.size
    if step <= least:
        return
    for placement, allotted, _ in padding(
        subject
    ):  # if the size of a tensor is wrong, the bytes after it are not padding
        size = placement.size or 0
        wide = -size % step if allotted >= size + -size % step else allotted - size
        if wide < least:
            continue
        start = file.data_start + placement.offset + size
        if start < size_of_file:  # not after an incomplete tensor
            yield start, min(start + wide, size_of_file), f"padding[{placement.row}]"


@rule("G406", "padding-not-zero", "padding byte {at} is 0x{got_hex}, not zero", severity=WARNING, clause="2.7",
      fix=Fix.SAFE)  # fmt: skip
def padding_not_zero(subject: LintContext) -> Iterator[Finding]:
    """Padding is not zero.

    Why: the GGUF document requires zero bytes. Loaders do not check them, so data can be hidden there, and old memory
    can leak into a published file.

    Example: a byte of 0x41 between the tensor table and the data section.

    Fix: write zeros.
    """
    source = subject.file.source
    window, at = b"", 0
    for start, stop, path in _padding(subject):
        if stop - start > NEARBY:
            place = _scanner.first_nonzero(source, start, stop)
        else:
            if not at <= start <= stop <= at + len(window):
                at, window = start, source.read(start, min(NEARBY, source.size - start))
            data = window[start - at : stop - at]
            rest = data.lstrip(b"\0")
            place = start + len(data) - len(rest) if rest else -1
        if place >= 0:
            got = source.read(place, 1)[0]
            yield padding_not_zero.at(
                Span(start, stop, path), got=got, want=0, at=place, got_hex=TrustedText(f"{got:02x}")
            )


@analysis
def _behind_the_last(subject: LintContext) -> tuple[int, int] | None:
    """Return the bytes after the padded end of the last tensor, if there are any."""
    file = subject.file
    if file.data_start is None or file.index.tensors != file.index.tensor_count:
        return None
    if any(size is None for _, size in subject.placements.sizes()):
        return None
    if subject.placements and subject.placements[-1].row in extent_anomalies(subject).rows:
        return None
    start = file.data_start + padded(subject.placements.end, subject.effective_alignment)
    return (start, file.size) if start < file.size else None


@rule("G407", "trailing-bytes", "{got:byte follows|bytes follow} the padded end of the last tensor{doubt}",
      severity=WARNING, clause="2.7", fix=Fix.UNSAFE)  # fmt: skip
def trailing_bytes(subject: LintContext) -> Iterator[Finding]:
    """Bytes follow the last tensor.

    Why: no loader reads them. Some size was wrong, or other data was appended to the file. If as many bytes would follow
    a data section that begins later, they may be the last weights: where the weights do not decide that, the finding
    says so, and no repair cuts them.

    Example: 100 bytes of text after the data section.

    Fix: cut the file at the padded end of the last tensor. This is safe if the bytes are all zero.
    """
    trailing = _behind_the_last(subject)
    if trailing is not None and subject.uncounted is None:  # else they may be those of tensors that are not counted
        possible = subject.possible_shift
        doubt = "; they may be weights: the file ends where it would if all tensors lay {}"
        doubt = doubt.format(possible.words) if possible is not None and possible.bytes > 0 else ""
        span, got = Span(*trailing, "trailing"), trailing[1] - trailing[0]
        yield trailing_bytes.at(span, got=got, want=0, doubt=TrustedText(doubt))


@rule("S107", "hidden-file", "{what} begins at byte {got}, outside all tensors", severity=WARNING, clause="12.3",
      cwe=506, provenance=("safetensors attacks/README.md",))  # fmt: skip
def hidden_file(subject: LintContext) -> Iterator[Finding]:
    """Another file hides between or behind the tensors.

    Why: the same file can be a model to one program and an archive to another. Scanners that look only at the beginning
    see only the model.

    Example: a zip archive appended to a GGUF file.

    Fix: find out where it came from. `i2s sanitize` writes a copy without it.
    """
    trailing = _behind_the_last(subject)
    behind = [] if trailing is None else [(*trailing, "trailing")]
    for start, stop, path in chain(_gaps(subject), behind):
        if stop - start < WORTH_HIDING_IN:
            continue
        from i2s_spec.schema.magic import EMBEDDABLE

        for at, data in _looked_at(subject, start, stop):
            for magic, what in EMBEDDABLE:
                place = data.find(magic)
                if place >= 0:
                    span = Span(at + place, at + place + len(magic), path)
                    yield hidden_file.at(span, got=at + place, what=TrustedText(what))
                    break
            else:
                continue
            break


def _gaps(subject: LintContext) -> Iterator[tuple[int, int, str]]:
    """Yield the ranges between the header and the last tensor that belong to no tensor and could hide a file."""
    yield from _padding(subject, WORTH_HIDING_IN)
    base = subject.file.data_start
    if base is None:
        return
    if subject.shift is None and subject.placements and 0 < subject.placements[0].offset <= subject.data_size:
        yield base, base + subject.placements[0].offset, "gap"
    size, step = subject.file.size, subject.effective_alignment
    found = oversized(subject) if extent_anomalies(subject).largest_gap >= WORTH_HIDING_IN else ()
    for placement, allotted, after in found:
        start = base + placement.offset + padded(placement.size or 0, step)
        stop = min(base + placement.offset + allotted, size)
        if after is not None and stop - start >= WORTH_HIDING_IN:
            yield start, stop, f"gap[{placement.row}]"


def _looked_at(subject: LintContext, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Yield the beginning and the end of a range, where a hidden file would have its signatures."""
    source = subject.file.source
    yield start, source.read(start, min(stop - start, LOOKED_AT))
    if stop - start > LOOKED_AT:
        again = max(start + LOOKED_AT, stop - LOOKED_AT)
        yield again, source.read(again, stop - again)


@rule("G411", "zero-run", "tensor {name} has at least {got:zero byte} in a row{what}",
      severity=WARNING, clause="5.4", provenance=("microsoft/BitNet#608",), weights=WeightUse.IF_READ)  # fmt: skip
def zero_run(subject: LintContext) -> Iterator[Finding]:
    """A long stretch of a tensor is zero bytes.

    Why: an interrupted download that reserved its space leaves zeros, and loaders take them for weights. With payload
    checks, the rule finds 4,096 zero bytes in a row inside an I2_S tensor; without them, it finds stretches of a
    megabyte by probing.

    Example: 1 MiB of zeros inside blk.0.ffn_up.weight.

    Fix: fetch the file again and compare its checksum.
    """
    # The survey leaves out holes of the file, which have their own rule.
    seen = ((region.row, region.start, region.stop) for region in payload_anomalies(subject).zero_regions)
    for row, start, stop in _zero_runs(subject) if subject.survey is None else seen:
        span = Span(start, stop, f"data[{row}]")
        ternary = subject.file.index.tensor(row).type == I2_S.number
        what = TrustedText("; in I2_S a zero byte is four weights of -1" if ternary else "")
        yield zero_run.at(span, got=stop - start, name=subject.name(row), what=what)


def _zero_runs(subject: LintContext) -> Iterator[tuple[int, int, int]]:
    """Yield runs of zero bytes inside tensors, found by probing: (tensor, start, stop), one for each tensor at most.

    Probes are half a run apart, so that no run of `RUN` bytes or more is missed; in files larger than `PROBES` such
    steps they are further apart, so that the time does not grow with the data. On a server that gives one range per
    request, the number of probes is that of a sample, evenly spread; and on any server only a few runs are followed.
    """
    base = subject.file.data_start
    if base is None:
        return
    source, end = subject.file.source, subject.data_size
    empty = holes(subject)
    inside = [p for p in subject.placements if p.size and p.size >= RUN and p.offset < end]
    step = max(RUN // 2, sum(p.size or 0 for p in inside) // PROBES)
    budget, found = FOLLOWED, 0
    asked = _asked_for(
        subject, [at for p in inside for at in range(base + p.offset, base + min(p.end, end) - 64, step)]
    )
    for placement in inside:
        start, stop = base + placement.offset, base + min(placement.end, end)
        if found == MOST_FOLLOWED and subject.on_server:
            return
        for at in range(start, stop - 64, step):
            if at not in asked:
                continue
            if (empty and any(a <= at < b for a, b in empty)) or any(source.read(at, 64)):
                continue
            least, most = max(start, at - budget), min(stop, at + budget)
            first, last = _zeros_before(source, least, at), _zeros_behind(source, at, most)
            budget = max(RUN, budget - (last - first))
            if last - first >= RUN:
                found += 1
                yield placement.row, first, last
                break


def _asked_for(subject: LintContext, places: list[int]) -> Set[int]:
    """Return the positions to probe: all; on a server that gives one range per request, some, evenly spread."""
    if not subject.on_server:
        return frozenset(places)
    ranges = [(at, at + 64) for at in places]
    chosen = affordable(subject.file.source, ranges)
    subject.prefetch(ranges[number] for number in chosen)
    return frozenset(places[number] for number in chosen)


def _zeros_before(source: Source, start: int, at: int) -> int:
    """Return the start of the run of zero bytes that ends at `at`, not before `start`."""
    while at > start:
        data = source.read(max(start, at - LOOKED_AT), min(LOOKED_AT, at - start))
        remaining = 0 if data == _ZEROS else len(data.rstrip(b"\0"))
        at -= len(data) - remaining
        if remaining:
            break
    return at


def _zeros_behind(source: Source, at: int, stop: int) -> int:
    """Return the end of the run of zero bytes that begins at `at`, not after `stop`."""
    while at < stop:
        data = source.read(at, min(LOOKED_AT, stop - at))
        remaining = 0 if data == _ZEROS else len(data.lstrip(b"\0"))
        at += len(data) - remaining
        if remaining:
            break
    return at


@rule("G412", "sparse-hole", "bytes {start} to {stop} of the file were never written: tensor {name} has a hole there",
      severity=WARNING, clause="5.4", provenance=("microsoft/BitNet#608",))  # fmt: skip
def sparse_hole(subject: LintContext) -> Iterator[Finding]:
    """A tensor lies in a hole of a sparse file.

    Why: the file system has no data there: a download or a copy reserved the space and never filled it. Loaders read
    zeros instead.

    Example: a download tool that fetches parts in parallel and was interrupted.

    Fix: fetch the file again and compare its checksum.
    """
    base = subject.file.data_start or 0
    for start, stop in holes(subject):
        for placement in subject.placements:
            if placement.size and placement.offset < stop - base and start - base < placement.end:
                name = subject.name(placement.row)
                span = Span(start, stop, f"data[{placement.row}]")
                yield sparse_hole.at(span, got=stop - start, start=start, stop=stop, name=name)
                break
