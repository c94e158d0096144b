"""This module repairs positions of tensors: gaps, offsets that are not aligned, and the order of the table.

Bytes of tensors are moved, never changed; nothing is moved if a size is uncertain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from i2s_spec.convert.container.edits import Edit, zeros
from i2s_spec.errors import FormatError, Span, quote
from i2s_spec.linter.analysis.tensor_extents import size_mistake
from i2s_spec.linter.repair.registry import Action, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace
from i2s_spec.linter.rule import Fix
from i2s_spec.schema import types
from i2s_spec.schema.types import padded

_NOTHING: Final[Mapping[int, bytes]] = MappingProxyType({})


class TensorPlace(NamedTuple):
    """A tensor by its info: offset, row, exact size."""

    offset: int
    row: int
    size: int


class Unclear(Exception):
    """The tensors cannot be laid out anew; the text says why."""


def places_of(workspace: Workspace) -> list[TensorPlace]:
    """Every tensor in the order of the offsets, each with a size that is certain."""
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
    """The edits that move every tensor to where the padded one before it ends, in the order of the offsets.

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


def relaid_with(workspace: Workspace, new: Mapping[int, bytes]) -> tuple[Edit, ...]:
    """The edits that give tensors, by row, data of another size, and lay all tensors out anew.

    :raises Unclear: if something contradicts the sizes of the tensors
    """
    if workspace.file.data_start is None:
        raise Unclear("where the data section begins is not known")
    require_clear_sizes(workspace)
    return relaid(
        workspace, places_of(workspace), workspace.file.data_start, workspace.subject.effective_alignment, new
    )


def _close_gaps(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Lay the tensors out anew, if the alignment is valid."""
    finding = next(iter(workspace.findings(code)), None)
    if finding is None:
        return
    subject, base = workspace.subject, workspace.file.data_start
    assert base is not None
    try:
        require_clear_sizes(workspace)
        edits = relaid(workspace, places_of(workspace), base, subject.effective_alignment)
    except Unclear as why:
        yield Declined(code, finding.span, str(why))
        return
    yield Action(code, finding.span, "tensors are moved to where the padded one before them ends", edits, safe=False)


@repair("P103", Fix.UNSAFE, "the gap before the first tensor is closed")
def from_the_start(workspace: Workspace) -> Iterator[Outcome]:
    """The data section begins with a tensor (clause 2.7)."""
    yield from _close_gaps(workspace, "P103")


@repair("P101", Fix.UNSAFE, "gaps between tensors are closed")
def without_gaps(workspace: Workspace) -> Iterator[Outcome]:
    """Each tensor begins where the padded one before it ends (clause 2.7)."""
    yield from _close_gaps(workspace, "P101")


@repair("G403", Fix.UNSAFE, "tensors are moved to aligned offsets")
def aligned_offsets(workspace: Workspace) -> Iterator[Outcome]:
    """Each tensor begins at a multiple of the alignment (clause 2.7)."""
    yield from _close_gaps(workspace, "G403")


@repair("P102", Fix.UNSAFE, "the table is sorted by offset")
def sorted_table(workspace: Workspace) -> Iterator[Outcome]:
    """Readers find tensors by name, so the order of the table is free (clause 2.7)."""
    for finding in workspace.findings("P102"):
        tensors = list(workspace.file.tensors.rows)
        order = sorted(tensors, key=lambda tensor: (tensor.offset, tensor.index))
        edits = tuple(
            Edit(now.info_span, workspace.source.read(new.info_span.start, new.info_span.stop - new.info_span.start))
            for now, new in zip(tensors, order, strict=True)
            if now.index != new.index
        )
        yield Action("P102", finding.span, "the tensor table is put into the order of the offsets", edits, safe=False)
