"""Repairs of the layout of a file: positions of tensors, the alignment, and bytes that no reader uses.

Gaps, offsets that are not aligned, and the order of the table come first, then the alignment that the file states, then
padding, booleans, ends of files and tails. Bytes of tensors are moved, never changed (but for scales in the wrong byte
order, on request); nothing is moved if a size is uncertain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from i2s_spec.convert.rewrite import Edit, zeros
from i2s_spec.errors import FormatError, Span, counted, quote
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.byte_order import swapped_tail
from i2s_spec.gguf.source import chunks, require_written
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.analysis.extents import size_mistake
from i2s_spec.linter.repair.plan import Action, DataPlacement, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.linter.rule import Finding, Fix
from i2s_spec.linter.rules.i2s_extent import foreign_scales
from i2s_spec.schema import limits, types
from i2s_spec.schema.types import I2_S, TAIL_BYTES, ValueType, padded

#: Dropped bytes that are shown.
_SHOWN: Final = 8

_NOTHING: Final[Mapping[int, bytes]] = MappingProxyType({})


class TensorPlace(NamedTuple):
    """A tensor by its info: offset, row, exact size."""

    offset: int
    row: int
    size: int


class Unclear(Exception):
    """The tensors cannot be laid out anew; the text says why."""


def places_of(workspace: Workspace) -> list[TensorPlace]:
    """Return every tensor in the order of the offsets, each with a size that is certain."""
    if not workspace.whole:
        raise Unclear("the tensor table could not be read to its end")
    places = []
    for tensor in workspace.file.tensors.rows:
        try:
            size = tensor.nbytes
        except FormatError as error:
            raise Unclear(f"the size of tensor {quote(tensor.raw_name)} is not known ({error.code})") from None
        places.append(TensorPlace(tensor.offset, tensor.index, size))
    return sorted(places)


def relaid(
    workspace: Workspace, places: list[TensorPlace], base: int, alignment: int, new: Mapping[int, bytes] = _NOTHING
) -> tuple[Edit, ...]:
    """Return the edits that move every tensor to where the padded one before it ends, in the order of the offsets.

    :param new: new data, by the row of the tensor
    """
    subject, size = workspace.subject, workspace.source.size
    edits: list[Edit] = []
    end = wanted = before = 0  # where the previous tensor ends now and will end; its row
    for place in places:
        if place.offset < end:
            raise Unclear(f"tensor {quote(subject.name(place.row))} shares bytes with another one (G404)")
        if base + place.offset + place.size > size:
            raise Unclear(f"the file ends before tensor {quote(subject.name(place.row))} does (G401)")
        start = padded(wanted, alignment)
        allotted, fill = place.offset - end, start - wanted
        if fill != allotted:
            path = f"gap[{before}]" if end else "gap"
            edits.append(Edit(Span(base + end, base + place.offset, path), zeros(fill)))
        if place.offset != start:
            edits.append(workspace.with_offset(place.row, start))
        end, wanted, before = place.offset + place.size, start + place.size, place.row
        if place.row in new:
            edits.append(Edit(Span(base + place.offset, base + end, f"data[{place.row}]"), new[place.row]))
            wanted = start + len(new[place.row])
    return tuple(edits)


def require_clear_sizes(workspace: Workspace) -> None:
    """Refuse to move tensors if the distance to the next one contradicts the size of their type."""
    subject = workspace.subject
    for placement, allotted, after in subject.extents:
        name = subject.name(placement.row)
        if size_mistake(subject, placement, allotted) is not None:
            raise Unclear(f"tensor {quote(name)} has another size in the file than its type says")
        readings = types.READINGS.get(placement.number, ())
        if (
            len(readings) > 1
            and after is not None
            and padded(placement.size or 0, subject.effective_alignment) != allotted
        ):
            raise Unclear(f"only its size shows which type tensor {quote(name)} has, and its size is unclear")


def relaid_with(
    workspace: Workspace, new: Mapping[int, bytes] = _NOTHING, alignment: int | None = None
) -> tuple[Edit, ...]:
    """Return the edits that lay all tensors out anew where the data section begins.

    :param new: data of another size, by the row of the tensor
    :param alignment: by default the one that the file has
    :raises Unclear: if something contradicts the sizes of the tensors
    """
    base, alignment = workspace.file.data_start, alignment or workspace.subject.effective_alignment
    if base is None:
        raise Unclear("where the data section begins is not known")
    require_clear_sizes(workspace)
    return relaid(workspace, places_of(workspace), base, alignment, new)


def _dropped(workspace: Workspace, edits: Iterable[Edit]) -> str:
    """Say what edits remove behind the header that is not zero, in words with the first bytes; empty if it is nothing."""
    infos_end, total, first = workspace.file.infos_end or 0, 0, -1
    for (start, stop, _), new in ((edit.span, edit.new) for edit in edits):
        if start >= infos_end and len(new) < stop - start:
            at = _scanner.first_nonzero(workspace.source, start, stop)
            first = at if first < 0 else first
            total += stop - start - len(new) if at >= 0 else 0
    if first < 0:
        return ""
    shown = workspace.source.read(first, min(_SHOWN, workspace.source.size - first)).hex(" ")
    bytes_are = counted(total, "byte that belongs to no tensor is", "bytes that belong to no tensor are")
    return f"; {bytes_are} dropped, at 0x{first:x}: {shown} ..."


@repair("G403", Fix.UNSAFE, "tensors are moved to aligned offsets")
@repair("P101", Fix.UNSAFE, "gaps between tensors are closed")
@repair("P103", Fix.UNSAFE, "the gap before the first tensor is closed")
def close_gaps(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The data section begins with a tensor, and each tensor begins where the padded one before it ends (clause 2.7)."""
    finding = next(iter(workspace.findings(code)), None)
    if finding is None:
        return
    try:
        edits = relaid_with(workspace)
    except Unclear as why:
        yield Declined(code, finding.span, str(why))
        return
    does = "tensors are moved to where the padded one before them ends"
    yield Action(code, finding.span, f"{does}{_dropped(workspace, edits)}", edits, safe=False)


@repair("P102", Fix.UNSAFE, "the table is sorted by offset")
def sorted_table(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Readers find tensors by name, so the order of the table is free (clause 2.7)."""
    for finding in workspace.findings(code):
        tensors = list(workspace.file.tensors.rows)
        order = sorted(tensors, key=lambda tensor: (tensor.offset, tensor.index))
        edits = tuple(
            Edit(now.info_span, workspace.source.read(new.info_span.start, new.info_span.stop - new.info_span.start))
            for now, new in zip(tensors, order, strict=True)
            if now.index != new.index
        )
        yield Action(code, finding.span, "the tensor table is put into the order of the offsets", edits, safe=False)


# --- the alignment ---------------------------------------------------------------------------------------------------
# An alignment that the offsets contradict is not accepted: with the right one, the tensors, one after the other, end
# where the file does.


def _alignment_value(workspace: Workspace, finding: Finding) -> int | None:
    """Return the value of `general.alignment`, if it is a number."""
    value = workspace.file.metadata.decode(workspace.entry(finding))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _base(workspace: Workspace, step: int) -> int | None:
    """Return where the data section begins if the alignment is `step`; None if the file contradicts that."""
    infos_end, size = workspace.file.infos_end, workspace.source.size
    assert infos_end is not None
    places = sorted(places_of(workspace), key=lambda place: place.row)
    if not places:
        return min(padded(infos_end, limits.DEFAULT_ALIGNMENT), size)
    start, end, last = padded(infos_end, step), 0, 0
    for place in places:
        if place.offset != end:
            return None
        end, last = place.offset + padded(place.size, step), place.offset + place.size
    return start if start + end == size or start + last == size else None


def _realigned(workspace: Workspace, code: str, steps: tuple[int, ...], wanted: int = 32) -> Iterator[Outcome]:
    """State the alignment `wanted`; move the tensors to it from the first alignment in `steps` that the offsets confirm."""
    for finding in workspace.findings(code):
        try:
            found = {base: step for step in reversed(steps) if (base := _base(workspace, step)) is not None}
            if len(found) != 1:
                how = "no usual alignment explains" if not found else "more than one alignment explains"
                raise Unclear(f"{how} where the tensors lie")
            ((base, step),) = found.items()
            edits = relaid(workspace, places_of(workspace), base, wanted) if step != wanted else ()
        except Unclear as why:
            yield Declined(code, finding.span, str(why))
            continue
        entry = workspace.entry(finding)
        edits = (workspace.with_value(entry, wanted, ValueType.UINT32), *edits)
        moved = "" if step == wanted else ", and tensors are moved to it"
        safe = step == wanted == _alignment_value(workspace, finding)
        yield Action(
            code, finding.span, f"general.alignment becomes {wanted}{moved}", edits, safe, DataPlacement(base, wanted)
        )


@repair("G217", Fix.SAFE, "the alignment gets the type u32")
def typed_alignment(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The number stays, and the offsets confirm it (clause 2.7)."""
    for finding in workspace.findings(code):
        value = _alignment_value(workspace, finding)
        if value is None or value < 8 or value & (value - 1) or value > limits.MAX_ALIGNMENT:
            yield Declined(code, finding.span, "the value is no alignment")
        else:
            yield from _realigned(workspace, code, (value,), value)


@repair("G218", Fix.UNSAFE, "the alignment that the offsets show is stated")
def stated_alignment(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """An alignment of 0 is impossible (clause 2.7)."""
    yield from _realigned(workspace, code, limits.ALIGNMENTS)


@repair("G219", Fix.UNSAFE, "tensors are laid out with an alignment of 32")
def power_of_two(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Loaders round with bit masks (clause 2.7)."""
    for finding in workspace.findings(code):
        value = _alignment_value(workspace, finding)
        steps = limits.ALIGNMENTS if value is None or value > limits.MAX_ALIGNMENT else (value, *limits.ALIGNMENTS)
        yield from _realigned(workspace, code, steps)


@repair("G220", Fix.UNSAFE, "tensors are laid out with an alignment of 32")
def multiple_of_eight(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The GGUF document asks for a multiple of 8 (clause 2.7). The tensors follow the file's own alignment."""
    for finding in workspace.findings(code):
        base = workspace.file.data_start
        assert base is not None
        try:
            edits = relaid_with(workspace, alignment=limits.DEFAULT_ALIGNMENT)
        except Unclear as why:
            yield Declined(code, finding.span, str(why))
            continue
        value = workspace.with_value(workspace.entry(finding), limits.DEFAULT_ALIGNMENT, ValueType.UINT32)
        does = "general.alignment becomes 32, and tensors are moved to it"
        layout = DataPlacement(base, limits.DEFAULT_ALIGNMENT)
        yield Action(code, finding.span, does, (value, *edits), False, layout)


@repair(
    "G222", Fix.UNSAFE, "the alignment that the tensors show is stated, or they are moved to where the header puts them"
)
def honored_alignment(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The linter found where the data section begins (clause 2.7). No byte of a tensor changes."""
    for finding in workspace.findings(code):
        if workspace.file.index.alignment_key is None:
            yield _in_place(workspace, finding)
            continue
        used, base = workspace.subject.effective_alignment, workspace.file.data_start
        assert base is not None
        edit = workspace.with_value(workspace.entry(finding), used, ValueType.UINT32)
        yield Action(
            code, finding.span, f"general.alignment becomes {used:,}", (edit,), False, DataPlacement(base, used)
        )


@repair("S105", Fix.UNSAFE, "tensors are laid out with an alignment of 32")
def usual_alignment(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """A large alignment adds only padding (clause 12.2)."""
    yield from multiple_of_eight(workspace, code)


@repair("G414", Fix.UNSAFE, "the data section moves to where the header puts it")
def data_in_place(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Offsets count from the first multiple of the alignment after the tensor infos (clause 2.7)."""
    for finding in workspace.findings(code):
        yield _in_place(workspace, finding)


def _in_place(workspace: Workspace, finding: Finding) -> Outcome:
    """Move the tensors from where they are to where the header puts them; the first has offset 0 then."""
    subject, file = workspace.subject, workspace.file
    base, end, alignment = file.data_start, file.infos_end, file.alignment or limits.DEFAULT_ALIGNMENT
    assert base is not None
    assert end is not None
    begins, fill = base + subject.placements[0].offset, zeros(-end % alignment)
    edits: list[Edit] = []
    if begins - end != len(fill):
        edits.append(Edit(Span(end, begins, "padding"), fill))
    try:
        if subject.file.data_section.is_contiguous(alignment):
            first = subject.placements[0].offset
            moved = (place for place in subject.placements if first)
            edits += (workspace.with_offset(place.row, place.offset - first) for place in moved)
        else:
            edits += relaid_with(workspace, alignment=alignment)
    except Unclear as why:
        return Declined(finding.code, finding.span, str(why))
    does = f"the first tensor begins at byte {end + len(fill):,}, with offset 0, and the others follow it"
    return Action(finding.code, finding.span, does + _dropped(workspace, edits), tuple(edits), safe=False)


# --- padding, booleans, ends of files, tails -------------------------------------------------------------------------
# No reader uses these bytes, or all read them alike.

#: An array with more bytes that are neither 0 nor 1 is left alone.
MOST_BOOLEANS = 1 << 16


@repair("G406", Fix.SAFE, "padding becomes zeros")
def zero_padding(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """No reader uses padding, and the GGUF document says that it is zero (clause 2.7).

    If the alignment is disputed, the padding may be weights; it is checked again after the alignment is repaired.
    """
    disputed = next((code for code in ("G217", "G218", "G219", "G222", "G414") if any(workspace.findings(code))), None)
    for finding in workspace.findings(code):
        start, stop, _ = finding.span
        if disputed is not None:
            yield Declined(code, finding.span, f"where tensors begin is disputed ({disputed}): padding may be weights")
            continue
        edit = Edit(finding.span, zeros(stop - start))
        yield Action(
            code,
            finding.span,
            counted(stop - start, "byte of padding becomes zero", "bytes of padding become zeros"),
            (edit,),
            safe=True,
        )


@repair("G215", Fix.SAFE, "booleans become 1")
def plain_booleans(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Loaders of I2_S take any byte but 0 for true, and others refuse 2 (clause 2.5)."""
    for finding in workspace.findings(code):
        entry = workspace.entry(finding)
        start, stop, path = entry.value_span
        edits: list[Edit] = []
        odd = 0
        for part in chunks(workspace.source, start, stop):
            odd += len(part) - part.count(0) - part.count(1)
            if odd > MOST_BOOLEANS:
                yield Declined(
                    code,
                    finding.span,
                    f"more than {MOST_BOOLEANS:,} bytes are neither 0 nor 1: it is not an array of booleans",
                )
                break
            if part.strip(b"\0\1"):
                edits += (Edit(Span(start + i, start + i + 1, path), b"\1") for i, byte in enumerate(part) if byte > 1)
            start += len(part)
        else:
            what = "a boolean becomes" if len(edits) == 1 else counted(len(edits), "boolean becomes", "booleans become")
            yield Action(code, finding.span, f"{what} 1 in key {quote(entry.name)}", tuple(edits), safe=True)


@repair("G408", Fix.SAFE, "the last tensor is padded")
def padded_end(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The added bytes belong to no tensor; a loader that reads the whole data section expects them (clause 2.7)."""
    for finding in workspace.findings(code):
        size = workspace.source.size
        edit = Edit(Span(size, size, "padding"), zeros(finding.got))
        yield Action(
            code,
            finding.span,
            f"{counted(finding.got, 'zero byte is', 'zero bytes are')} appended",
            (edit,),
            safe=True,
        )


@repair("G407", Fix.UNSAFE, "the file is cut after the last tensor; safe if only zeros are removed")
def cut_end(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Bytes after the last tensor belong to no tensor (clause 2.7). Bytes other than zeros may have been attached on
    purpose."""
    subject = workspace.subject
    for finding in workspace.findings(code):
        start, stop, _ = finding.span
        if subject.possible_shift is not None or subject.shift is not None:
            yield Declined(code, finding.span, "where tensors begin is disputed: these bytes may be weights")
            continue
        require_written(workspace.source)
        zeros = _scanner.first_nonzero(workspace.source, start, stop) < 0
        edits = (Edit(finding.span, b""),)
        does = f"{stop - start:,} {'zero ' if zeros else ''}bytes after the last tensor are cut off"
        yield Action(code, finding.span, does + _dropped(workspace, edits), edits, safe=zeros)


@repair("I301", Fix.UNSAFE, "scales are swapped into the byte order of the file", weights=True)
def swapped_scales(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Changes the weights, so it is done only on request (clause 6.1)."""
    for finding in workspace.findings(code):
        edits = []
        base = workspace.file.data_start or 0
        for placement in foreign_scales(workspace.subject)[0]:
            start = base + placement.end - TAIL_BYTES
            tail = workspace.source.read(start, TAIL_BYTES)
            turned = swapped_tail(tail)
            stop = TAIL_BYTES if turned[4:] != tail[4:] else 4
            edits.append(Edit(Span(start, start + stop, f"data[{placement.row}].tail.scale"), turned[:stop]))
        does = f"the scales of {counted(len(edits), 'tensor')} are swapped: the weights change"
        yield Action(code, finding.span, does, tuple(edits), safe=False)


@repair("I311", Fix.SAFE, "bytes of other tensors after scales become zeros, with --scrub-tail", option="--scrub-tail")
@repair("I310", Fix.SAFE, "stale bytes after scales become zeros, with --scrub-tail", option="--scrub-tail")
def scrubbed_tails(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """No reader looks at them (clause 6.1). Only on request: they also say which program wrote the file."""
    edits = _stale(workspace.subject) if workspace.extra.scrub_tail else []
    partial = next(iter(workspace.findings("I102")), None) if edits else None
    for finding in (
        workspace.findings(code) if edits else ()
    ):  # the rule reads all payloads, so it is asked only if needed
        if partial is not None:
            why = (
                f"tensor {quote(partial.details['name'])} ends inside a block: its last weights are read from its tail"
            )
            yield Declined(code, finding.span, why)
            continue
        does = f"the 28 bytes after the scales of {counted(len(edits), 'tensor')} become zeros"
        yield Action(code, finding.span, does, tuple(edits), safe=True)


@analysis
def _stale(subject: LintContext) -> list[Edit]:
    """Return the edits that zero the bytes after scales, for each I2_S tensor that has other bytes there."""
    file, edits = subject.file, []
    for tensor in file.tensors.rows if file.data_start is not None else ():
        if tensor.type is not I2_S or (stop := tensor.span.stop) > file.size:
            continue
        tail = file.source.read(stop - TAIL_BYTES, TAIL_BYTES)
        if any(tail[4:]) and tail[4:] != 7 * tail[:4]:  # the scale, eight times, is intended
            span = Span(stop - TAIL_BYTES + 4, stop, f"{tensor.tail_span.path}.unused")
            edits.append(Edit(span, zeros(TAIL_BYTES - 4)))
    return edits
