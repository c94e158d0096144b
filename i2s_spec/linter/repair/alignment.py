"""This module repairs the alignment that a file states.

Nothing is believed that the offsets contradict: an alignment counts as found only if the tensors, one behind the other,
then end where the file does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from i2s_spec.linter.repair.bench import Bench
from i2s_spec.linter.repair.declaration import Action, Declined, Layout, Outcome, repair
from i2s_spec.linter.repair.layout import Unclear, places_of, relaid, require_clear_sizes
from i2s_spec.linter.rule import Finding, Fix
from i2s_spec.schema import limits
from i2s_spec.schema.types import ValueType, padded

#: Alignments that writers use, the likeliest first.
USUAL: Final = (32, 64, 16, 8, 128, 256, 512, 1024, 2048, 4096)


def _alignment_value(bench: Bench, finding: Finding) -> int | None:
    """What `general.alignment` says, if it is a number."""
    value = bench.file.metadata.decode(bench.entry(finding))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _base(bench: Bench, step: int) -> int | None:
    """Where the data section begins if offsets were counted in steps of `step`; None where the file contradicts that."""
    infos_end, size = bench.file.infos_end, bench.source.size
    assert infos_end is not None
    places = sorted(places_of(bench), key=lambda place: place.row)
    if not places:
        return min(padded(infos_end, limits.DEFAULT_ALIGNMENT), size)
    start, end, last = padded(infos_end, step), 0, 0
    for place in places:
        if place.offset != end:
            return None
        end, last = place.offset + padded(place.size, step), place.offset + place.size
    return start if start + end == size or start + last == size else None


def _realigned(bench: Bench, code: str, steps: tuple[int, ...], wanted: int = 32) -> Iterator[Outcome]:
    """State the alignment `wanted`, and move the tensors to it from the first of `steps` that the offsets confirm."""
    for finding in bench.findings(code):
        try:
            found = {base: step for step in reversed(steps) if (base := _base(bench, step)) is not None}
            if len(found) != 1:
                how = "no usual alignment explains" if not found else "more than one alignment explains"
                raise Unclear(f"{how} where the tensors lie")
            ((base, step),) = found.items()
            edits = relaid(bench, places_of(bench), base, wanted) if step != wanted else ()
        except Unclear as why:
            yield Declined(code, finding.span, str(why))
            continue
        entry = bench.entry(finding)
        edits = (bench.with_value(entry, wanted, ValueType.UINT32), *edits)
        moved = "" if step == wanted else ", and tensors are moved to it"
        safe = step == wanted == _alignment_value(bench, finding)
        yield Action(
            code, finding.span, f"general.alignment becomes {wanted}{moved}", edits, safe, Layout(base, wanted)
        )


@repair("G217", Fix.SAFE, "the alignment gets the type u32")
def typed_alignment(bench: Bench) -> Iterator[Outcome]:
    """The number stays, and the offsets confirm it (clause 2.7)."""
    for finding in bench.findings("G217"):
        value = _alignment_value(bench, finding)
        if value is None or value < 8 or value & (value - 1) or value > limits.MAX_ALIGNMENT:
            yield Declined("G217", finding.span, "the value is no alignment")
        else:
            yield from _realigned(bench, "G217", (value,), value)


@repair("G218", Fix.UNSAFE, "the alignment that the offsets show is stated")
def stated_alignment(bench: Bench) -> Iterator[Outcome]:
    """Nothing can be aligned to 0 (clause 2.7)."""
    yield from _realigned(bench, "G218", USUAL)


@repair("G219", Fix.UNSAFE, "tensors are laid out with an alignment of 32")
def power_of_two(bench: Bench) -> Iterator[Outcome]:
    """Loaders round with bit masks (clause 2.7)."""
    for finding in bench.findings("G219"):
        value = _alignment_value(bench, finding)
        steps = USUAL if value is None or value > limits.MAX_ALIGNMENT else (value, *USUAL)
        yield from _realigned(bench, "G219", steps)


@repair("G220", Fix.UNSAFE, "tensors are laid out with an alignment of 32")
def multiple_of_eight(bench: Bench) -> Iterator[Outcome]:
    """The GGUF document asks for a multiple of 8 (clause 2.7)."""
    yield from _from_stated(bench, "G220")


@repair("G222", Fix.UNSAFE, "the alignment that the offsets show is stated")
def honoured_alignment(bench: Bench) -> Iterator[Outcome]:
    """The data begin where the file's end says (clause 2.7)."""
    yield from _realigned(bench, "G222", (32,))


@repair("S105", Fix.UNSAFE, "tensors are laid out with an alignment of 32")
def usual_alignment(bench: Bench) -> Iterator[Outcome]:
    """A large alignment adds only padding (clause 12.2)."""
    yield from _from_stated(bench, "S105")


def _from_stated(bench: Bench, code: str) -> Iterator[Outcome]:
    """Lay tensors out with an alignment of 32 that lie where the file's own says."""
    for finding in bench.findings(code):
        base = bench.file.data_start
        assert base is not None
        try:
            require_clear_sizes(bench)
            edits = relaid(bench, places_of(bench), base, limits.DEFAULT_ALIGNMENT)
        except Unclear as why:
            yield Declined(code, finding.span, str(why))
            continue
        value = bench.with_value(bench.entry(finding), limits.DEFAULT_ALIGNMENT, ValueType.UINT32)
        does = "general.alignment becomes 32, and tensors are moved to it"
        layout = Layout(base, limits.DEFAULT_ALIGNMENT)
        yield Action(code, finding.span, does, (value, *edits), False, layout)
