"""This module gathers what a census counts files by: architecture, types, the program that wrote the file, its layout.

The answers are those of `identify`, from what the linter has read anyway; a question that the file does not answer is
`cannot tell`, one that it does not raise (a layout without I2_S tensors) is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import quote

if TYPE_CHECKING:
    from i2s_spec.inspect.identify.evidence import Question
    from i2s_spec.linter.analysis.subject import Subject

#: Types that are named, the most frequent ones.
MOST_TYPES: Final = 16

CANNOT_TELL: Final = "cannot tell"


class WithFacts:
    """A `details` of options that gives the facts, and what the options themselves ask for."""

    def __init__(self, details: Callable[[Any], Any] | None) -> None:
        self._details = details

    def __call__(self, subject: Subject) -> dict[str, Any]:
        found: dict[str, Any] = {"facts": origin_facts(subject)}
        if self._details is not None:
            found["details"] = self._details(subject)
        return found


def origin_facts(subject: Subject) -> dict[str, Any]:
    """Facts about one file as plain data; text of the file is escaped.

    :returns: `architecture`, `version`, `tensors`, `types` (tensors by type), `producer`, `layout`
    """
    from i2s_spec.inspect.identify import origin, packer, packing
    from i2s_spec.inspect.identify.observed import Observed
    from i2s_spec.linter.analysis.weight_layout import weight_layout

    file = subject.file
    if file.version is None:
        return {"architecture": "", "version": None, "tensors": 0, "types": {}, "producer": None, "layout": None}
    seen = Observed(file, subject.survey if file.fault is None else None)
    converter = origin.converter(seen)
    layout = None
    if file.fault is None and any(seen.rooms.values()):
        quantizer = packer.quantizer(seen, converter.answer.name if converter.answer is not None else None)
        layout = _answer(packing.layout(seen, origin.release(seen), quantizer, weight_layout(subject)))
    return {
        "architecture": quote(seen.architecture, bare=True),
        "version": file.version,
        "tensors": file.index.tensors,
        "types": {quote(str(name), bare=True): count for name, count in seen.types.most_common(MOST_TYPES)},
        "producer": _answer(converter),
        "layout": layout,
    }


def _answer(question: Question) -> str:
    return CANNOT_TELL if question.answer is None else question.answer.name
