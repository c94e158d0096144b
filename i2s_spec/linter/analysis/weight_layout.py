"""This module asks the weights of a file how they are laid out, once for all rules.

A linter looks at every layer of a small model and at a few of a large one, so that its time stays that of reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from i2s_spec.light_typing import TYPE_CHECKING, Final
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


@analysis
def weight_layout(subject: Subject) -> LayoutEvidence | None:
    """The evidence; None where payloads are not read, a reference tells more, or no tensor has a role in a layer."""
    if subject.reading.mode == "none" or subject.weights is not None or subject.file.fault is not None:
        return None
    if subject.reading.mode == "sample" and subject.on_server:
        return None
    rows = (row for row, _ in islice(subject.i2s(), LOOKED_AT))
    names = (name for row in rows if (name := subject.name(row)).startswith(b"blk."))
    if not any(_IN_LAYER.match(name) for name in names):
        return None
    survey = subject.survey
    if survey is None or not len(survey):
        return None
    from i2s_spec.inspect.evidence.layout_evidence import layout_evidence

    size = sum(survey.size(place) for place in range(len(survey)))
    layers = None if size <= SMALL and subject.reading.mode == "full" else LAYERS
    return layout_evidence(subject.file, weight_code_map(subject), threads=subject.reading.threads, layers=layers)


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
