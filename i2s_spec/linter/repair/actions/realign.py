"""This module repairs the alignment that a file states.

An alignment that the offsets contradict is not accepted: with the right one, the tensors, one after the other, end
where the file does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from i2s_spec.convert.container.edits import Edit, zeros
from i2s_spec.errors import Span
from i2s_spec.linter.repair.actions.tensor_layout import Unclear, places_of, relaid, require_clear_sizes
from i2s_spec.linter.repair.registry import Action, DataPlacement, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.linter.rule import Finding, Fix
from i2s_spec.schema import limits
from i2s_spec.schema.types import ValueType, padded

#: Alignments that writers use, the likeliest first.
USUAL: Final = (32, 64, 16, 8, 128, 256, 512, 1024, 2048, 4096)


def _alignment_value(workspace: Workspace, finding: Finding) -> int | None:
    """The value of `general.alignment`, if it is a number."""
    value = workspace.file.metadata.decode(workspace.entry(finding))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _base(workspace: Workspace, step: int) -> int | None:
    """Where the data section begins if the alignment is `step`; None if the file contradicts that."""
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
def typed_alignment(workspace: Workspace) -> Iterator[Outcome]:
    """The number stays, and the offsets confirm it (clause 2.7)."""
    for finding in workspace.findings("G217"):
        value = _alignment_value(workspace, finding)
        if value is None or value < 8 or value & (value - 1) or value > limits.MAX_ALIGNMENT:
            yield Declined("G217", finding.span, "the value is no alignment")
        else:
            yield from _realigned(workspace, "G217", (value,), value)


@repair("G218", Fix.UNSAFE, "the alignment that the offsets show is stated")
def stated_alignment(workspace: Workspace) -> Iterator[Outcome]:
    """An alignment of 0 is impossible (clause 2.7)."""
    yield from _realigned(workspace, "G218", USUAL)


@repair("G219", Fix.UNSAFE, "tensors are laid out with an alignment of 32")
def power_of_two(workspace: Workspace) -> Iterator[Outcome]:
    """Loaders round with bit masks (clause 2.7)."""
    for finding in workspace.findings("G219"):
        value = _alignment_value(workspace, finding)
        steps = USUAL if value is None or value > limits.MAX_ALIGNMENT else (value, *USUAL)
        yield from _realigned(workspace, "G219", steps)


@repair("G220", Fix.UNSAFE, "tensors are laid out with an alignment of 32")
def multiple_of_eight(workspace: Workspace) -> Iterator[Outcome]:
    """The GGUF document asks for a multiple of 8 (clause 2.7)."""
    yield from _from_stated(workspace, "G220")


@repair("G222", Fix.UNSAFE, "the alignment that the offsets show is stated")
def honored_alignment(workspace: Workspace) -> Iterator[Outcome]:
    """The end of the file shows where the data section begins (clause 2.7)."""
    yield from _realigned(workspace, "G222", (32,))


@repair("S105", Fix.UNSAFE, "tensors are laid out with an alignment of 32")
def usual_alignment(workspace: Workspace) -> Iterator[Outcome]:
    """A large alignment adds only padding (clause 12.2)."""
    yield from _from_stated(workspace, "S105")


@repair("G414", Fix.UNSAFE, "the data section moves to where the header puts it")
def data_in_place(workspace: Workspace) -> Iterator[Outcome]:
    """Offsets count from the first multiple of the alignment after the tensor infos (clause 2.7)."""
    for finding in workspace.findings("G414"):
        shift, end = workspace.subject.shift, workspace.file.infos_end
        assert shift is not None
        assert end is not None
        fill = zeros(-end % workspace.subject.effective_alignment)
        edits: list[Edit] = []
        if shift.begins - end != len(fill):
            edits.append(Edit(Span(end, shift.begins, "padding"), fill))
        if shift.offset:
            rows = workspace.subject.placements
            edits += (workspace.with_offset(place.row, place.offset - shift.offset) for place in rows)
        does = f"the first tensor begins at byte {end + len(fill):,}, with offset 0, and the others follow it"
        yield Action("G414", finding.span, does, tuple(edits), safe=False)


def _from_stated(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Lay out with an alignment of 32 the tensors that follow the file's own alignment."""
    for finding in workspace.findings(code):
        base = workspace.file.data_start
        assert base is not None
        try:
            require_clear_sizes(workspace)
            edits = relaid(workspace, places_of(workspace), base, limits.DEFAULT_ALIGNMENT)
        except Unclear as why:
            yield Declined(code, finding.span, str(why))
            continue
        value = workspace.with_value(workspace.entry(finding), limits.DEFAULT_ALIGNMENT, ValueType.UINT32)
        does = "general.alignment becomes 32, and tensors are moved to it"
        layout = DataPlacement(base, limits.DEFAULT_ALIGNMENT)
        yield Action(code, finding.span, does, (value, *edits), False, layout)
