"""Rules about bytes that belong to no tensor, and about data that was never written."""

from collections.abc import Iterator, Set
from itertools import chain

from i2s_spec.errors import Span, TrustedText
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.source import Source
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.linter.analysis.tensor_extents import extent_anomalies, holes, oversized, padding
from i2s_spec.linter.rule import WARNING, Finding, Fix, Weights, rule
from i2s_spec.schema.types import I2_S, padded

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


def _padding(subject: Subject, least: int = 1) -> Iterator[tuple[int, int, str]]:
    """The non-empty ranges of padding of a file: before the data section and after tensors."""
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
def padding_not_zero(subject: Subject) -> Iterator[Finding]:
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
def _behind_the_last(subject: Subject) -> tuple[int, int] | None:
    """The bytes after the padded end of the last tensor, if there are any."""
    file = subject.file
    if file.data_start is None or file.index.tensors != file.index.tensor_count:
        return None
    if any(size is None for _, size in subject.placements.sizes()):
        return None
    if subject.placements and subject.placements[-1].row in extent_anomalies(subject).rows:
        return None
    start = file.data_start + padded(subject.placements.end, subject.effective_alignment)
    return (start, file.size) if start < file.size else None


@rule("G407", "trailing-bytes", "{got:byte follows|bytes follow} the padded end of the last "
      "tensor", severity=WARNING, clause="2.7",
      fix=Fix.UNSAFE)  # fmt: skip
def trailing_bytes(subject: Subject) -> Iterator[Finding]:
    """Bytes follow the last tensor.

    Why: no loader reads them. Some size was wrong, or other data was appended to the file.

    Example: 100 bytes of text after the data section.

    Fix: cut the file at the padded end of the last tensor. This is safe if the bytes are all zero.
    """
    trailing = _behind_the_last(subject)
    if trailing is not None and subject.uncounted is None:  # else they may be those of tensors that are not counted
        yield trailing_bytes.at(Span(*trailing, "trailing"), got=trailing[1] - trailing[0], want=0)


@rule("S107", "hidden-file", "{what} begins at byte {got}, outside all tensors", severity=WARNING, clause="12.3",
      cwe=506, provenance=("safetensors attacks/README.md",))  # fmt: skip
def hidden_file(subject: Subject) -> Iterator[Finding]:
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


def _gaps(subject: Subject) -> Iterator[tuple[int, int, str]]:
    """All ranges between the header and the last tensor that belong to no tensor and are long enough to hide a file."""
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


def _looked_at(subject: Subject, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """The beginning and the end of a range, where a hidden file would have its signatures."""
    source = subject.file.source
    yield start, source.read(start, min(stop - start, LOOKED_AT))
    if stop - start > LOOKED_AT:
        again = max(start + LOOKED_AT, stop - LOOKED_AT)
        yield again, source.read(again, stop - again)


@rule("G411", "zero-run", "tensor {name} has at least {got:zero byte} in a row{what}",
      severity=WARNING, clause="5.4", provenance=("microsoft/BitNet#608",), weights=Weights.IF_READ)  # fmt: skip
def zero_run(subject: Subject) -> Iterator[Finding]:
    """A long stretch of a tensor is zero bytes.

    Why: an interrupted download that reserved its space leaves zeros, and loaders take them for weights. With payload
    checks, the rule finds 4,096 zero bytes in a row inside an I2_S tensor; without them, it finds stretches of a
    megabyte by probing.

    Example: 1 MiB of zeros inside blk.0.ffn_up.weight.

    Fix: fetch the file again and compare its checksum.
    """
    for row, start, stop in _zero_runs(subject) if subject.survey is None else _seen_zero_runs(subject):
        span = Span(start, stop, f"data[{row}]")
        ternary = subject.file.index.tensor(row).type == I2_S.number
        what = TrustedText("; in I2_S a zero byte is four weights of -1" if ternary else "")
        yield zero_run.at(span, got=stop - start, name=subject.name(row), what=what)


def _seen_zero_runs(subject: Subject) -> Iterator[tuple[int, int, int]]:
    """Runs of zero bytes that the survey found; not those in holes of the file, which have their own rule."""
    from i2s_spec.linter.analysis.payload_stats import payload_anomalies

    for region in payload_anomalies(subject).zero_regions:
        yield region.row, region.start, region.stop


def _zero_runs(subject: Subject) -> Iterator[tuple[int, int, int]]:
    """Runs of zero bytes inside tensors, found by probing: (tensor, start, stop), one for each tensor at most.

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


def _asked_for(subject: Subject, places: list[int]) -> Set[int]:
    """The positions to probe: all; on a server that gives one range per request, some, evenly spread."""
    if not subject.on_server:
        return frozenset(places)
    from i2s_spec.gguf.ranges import affordable

    ranges = [(at, at + 64) for at in places]
    chosen = affordable(subject.file.source, ranges)
    subject.prefetch(ranges[number] for number in chosen)
    return frozenset(places[number] for number in chosen)


def _zeros_before(source: Source, start: int, at: int) -> int:
    """Where the run of zero bytes that ends at `at` begins, not before `start`."""
    while at > start:
        data = source.read(max(start, at - LOOKED_AT), min(LOOKED_AT, at - start))
        remaining = 0 if data == _ZEROS else len(data.rstrip(b"\0"))
        at -= len(data) - remaining
        if remaining:
            break
    return at


def _zeros_behind(source: Source, at: int, stop: int) -> int:
    """Where the run of zero bytes that begins at `at` ends, not after `stop`."""
    while at < stop:
        data = source.read(at, min(LOOKED_AT, stop - at))
        remaining = 0 if data == _ZEROS else len(data.lstrip(b"\0"))
        at += len(data) - remaining
        if remaining:
            break
    return at


@rule("G412", "sparse-hole", "bytes {start} to {stop} of the file were never written: tensor {name} has a hole there",
      severity=WARNING, clause="5.4", provenance=("microsoft/BitNet#608",))  # fmt: skip
def sparse_hole(subject: Subject) -> Iterator[Finding]:
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
