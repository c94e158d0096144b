"""This module asks the weights of a file how they are laid out, once for all rules.

A linter looks at every layer of a small model and at a few of a large one, so that its time stays that of reading. Of a
large one this is done while other threads read the payloads, before it is known which code map their codes speak for: it is
taken to be the canonical one, and done again where it is another.
"""

from __future__ import annotations

from itertools import islice

from i2s_spec.errors import FormatError
from i2s_spec.light_typing import TYPE_CHECKING, Final, Iterator, NamedTuple
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.pattern import pattern

if TYPE_CHECKING:
    from i2s_spec.inspect.evidence.layout_evidence import LayoutEvidence
    from i2s_spec.schema.dialect import CodeMap

#: Bytes of payloads up to which every layer is looked at, and how many layers of what is larger.
SMALL: Final = 1 << 24
LAYERS: Final = 2
#: Tensors that are looked at for a matrix of a layer.
LOOKED_AT: Final = 1000

_IN_LAYER: Final = pattern(rb"blk\.[0-9]+\.(?:attn|ffn)_")


class Ahead(NamedTuple):
    """The evidence that was found while the payloads were read."""

    evidence: LayoutEvidence | None


@analysis
def layout_ahead(subject: Subject) -> Ahead | None:
    """The evidence by the canonical code map, if others are reading the payloads of a large file; None where nobody is.

    None as well where the file cannot be read: why, the survey says, and the rules where they ask.
    """
    reader = subject.surveying
    if reader is None or reader.i2s_bytes_in_work <= SMALL:
        return None
    if subject.reading.mode != "full" or subject.weights is not None:
        return None
    if subject.file.fault is not None or not _has_layers(subject):
        return None
    from i2s_spec.inspect.evidence.layout_evidence import layout_evidence
    from i2s_spec.schema.dialect import CANONICAL

    try:
        return Ahead(layout_evidence(subject.file, CANONICAL.code_map, layers=LAYERS))
    except FormatError:
        return None


def _has_layers(subject: Subject) -> bool:
    """Whether a tensor is named as one of a layer with a role."""
    rows = (row for row, _ in islice(subject.i2s(), LOOKED_AT))
    names = (name for row in rows if (name := subject.name(row)).startswith(b"blk."))
    return any(_IN_LAYER.match(name) for name in names)


@analysis
def weight_layout(subject: Subject) -> LayoutEvidence | None:
    """The evidence; None where payloads are not read, a reference tells more, or no tensor has a role in a layer."""
    if subject.reading.mode == "none" or subject.weights is not None or subject.file.fault is not None:
        return None
    if subject.reading.mode == "sample" and subject.on_server:
        return None
    if not _has_layers(subject):
        return None
    survey = subject.survey
    if survey is None or not len(survey):
        return None
    from i2s_spec.schema.dialect import CANONICAL

    code_map = weight_code_map(subject)
    ahead = layout_ahead(subject) if code_map == CANONICAL.code_map else None
    if ahead is not None:
        return ahead.evidence
    from i2s_spec.inspect.evidence.layout_evidence import layout_evidence

    size = sum(survey.size(place) for place in range(len(survey)))
    layers = None if size <= SMALL and subject.reading.mode == "full" else LAYERS
    return layout_evidence(subject.file, code_map, threads=subject.reading.threads, layers=layers)


@analysis
def weight_code_map(subject: Subject) -> CodeMap:
    """The code map that the codes of all payloads together speak for."""
    from i2s_spec.inspect.evidence.balance import likely_code_map

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
