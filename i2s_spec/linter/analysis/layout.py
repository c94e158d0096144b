"""This module gathers the evidence for the layout of a file from its weights, once for all rules.

The linter examines every layer of a small model and a few layers of a large one, so that its time stays that of
reading. For a large model this is done while other threads read the payloads, before the code map is known: the
canonical map is assumed, and the work is repeated if the codes show another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.errors import FormatError
from i2s_spec.linter.analysis.conditions import layers_read
from i2s_spec.linter.analysis.context import Subject, analysis

if TYPE_CHECKING:
    from i2s_spec.layout_inference.evidence import LayoutEvidence
    from i2s_spec.schema.dialect import CodeMap

#: Most bytes of payloads for which every layer is examined, and the number of layers for larger files.
SMALL: Final = 1 << 24
LAYERS: Final = 2


class Ahead(NamedTuple):
    """The evidence that was found while the payloads were read."""

    evidence: LayoutEvidence | None


@analysis
def layout_ahead(subject: Subject) -> Ahead | None:
    """The evidence by the canonical code map, if other threads are reading the payloads of a large file; else None.

    Also None if the file cannot be read: the survey and the rules report the reason.
    """
    reader = subject.surveying
    if reader is None or reader.i2s_bytes_in_work <= SMALL:
        return None
    if subject.reading.mode != "full" or not layers_read(subject):
        return None
    from i2s_spec.layout_inference.evidence import layout_evidence
    from i2s_spec.schema.dialect import CANONICAL

    try:
        return Ahead(layout_evidence(subject.file, CANONICAL.code_map, layers=LAYERS))
    except FormatError:
        return None


@analysis
def weight_layout(subject: Subject) -> LayoutEvidence | None:
    """The evidence; None if payloads are not read, a reference is better evidence, or no tensor has a role in a layer."""
    if not layers_read(subject):
        return None
    survey = subject.survey
    if survey is None or not len(survey):
        return None
    from i2s_spec.schema.dialect import CANONICAL

    code_map = weight_code_map(subject)
    ahead = layout_ahead(subject) if code_map == CANONICAL.code_map else None
    if ahead is not None:
        return ahead.evidence
    from i2s_spec.layout_inference.evidence import layout_evidence

    size = sum(survey.size(place) for place in range(len(survey)))
    layers = None if size <= SMALL and subject.reading.mode == "full" else LAYERS
    return layout_evidence(subject.file, code_map, threads=subject.reading.threads, layers=layers)


@analysis
def weight_code_map(subject: Subject) -> CodeMap:
    """The code map that the codes of all payloads together show."""
    from i2s_spec.layout_inference.counts import likely_code_map

    return likely_code_map(code_totals(subject))


@analysis
def code_totals(subject: Subject) -> list[int]:
    """How often the codes 0 to 3 occur in all payloads together, as far as they were read."""
    zero = one = two = three = 0
    for counts in code_counts(subject):
        zero += counts[0]
        one += counts[1]
        two += counts[2]
        three += counts[3]
    return [zero, one, two, three]


def code_counts(subject: Subject) -> Iterator[tuple[int, int, int, int]]:
    """How often the codes 0 to 3 occur in each payload."""
    survey = subject.survey
    return map(survey.counts, range(len(survey))) if survey is not None else iter(())
