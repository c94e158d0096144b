"""This module gathers the facts that a census counts by: architecture, the program that wrote the file, its layout.

They use only what the linter has read anyway. A fact that the file does not show is `cannot tell`; a fact that does not
apply (a layout without I2_S tensors) is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import quote

if TYPE_CHECKING:
    from i2s_spec.inspect.identify.observed import Observed
    from i2s_spec.linter.analysis.subject import Subject

CANNOT_TELL: Final = "cannot tell"

#: Most answers that are cached, and most keys of a file whose answer is cached.
MOST_PRODUCERS: Final = 256
MOST_KEYS: Final = 256

#: Answers of `converter`, by everything that it examines.
_PRODUCERS: Final[dict[tuple[tuple[bytes, ...], str, bool, str], str]] = {}


class WithFacts:
    """A `details` function that gives the facts, and the details that the options ask for."""

    def __init__(self, details: Callable[[Any], Any] | None) -> None:
        self._details = details

    def __call__(self, subject: Subject) -> dict[str, Any]:
        found: dict[str, Any] = {"facts": origin_facts(subject)}
        if self._details is not None:
            found["details"] = self._details(subject)
        return found


def origin_facts(subject: Subject) -> dict[str, Any]:
    """Facts about one file as plain data; text of the file is escaped.

    :returns: `architecture`, `version`, `tensors`, `producer` (the program that wrote the metadata), and `layout`: the
    layout that the weights of I2_S tensors show, None if there are none or they were not read
    """
    from i2s_spec.inspect.identify.observed import Observed

    file = subject.file
    if file.version is None:
        return {"architecture": "", "version": None, "tensors": 0, "producer": None, "layout": None}
    seen = Observed(file, None)
    return {
        "architecture": quote(seen.architecture, bare=True),
        "version": file.version,
        "tensors": file.index.tensors,
        "producer": _producer(seen),
        "layout": _layout(subject),
    }


def _producer(seen: Observed) -> str:
    """The program that wrote the metadata. Files of one program have the same keys, so the answer is computed once."""
    from i2s_spec.inspect.identify.origin import converter

    name, index = seen.value("general.name"), seen.file.index
    synthetic = isinstance(name, str) and name.startswith("synthetic-")
    short = index.keys <= MOST_KEYS
    keys = tuple([index.key(i).name for i in range(index.keys)]) if short else ()
    asked = keys, seen.architecture, synthetic, seen.layer_order
    found = _PRODUCERS.get(asked) if short else None
    if found is None:
        answer = converter(seen).answer
        found = CANNOT_TELL if answer is None else answer.name
        if short:
            if len(_PRODUCERS) >= MOST_PRODUCERS:
                _PRODUCERS.clear()
            _PRODUCERS[asked] = found
    return found


def _layout(subject: Subject) -> str | None:
    """The layout that the weights show; the linter has computed it already."""
    from i2s_spec.linter.analysis.weight_layout import weight_layout

    if subject.file.fault is not None or not subject.has_i2s or subject.reading.mode == "none":
        return None
    found = weight_layout(subject)
    if found is None or found.mixed:
        return CANNOT_TELL if found is None else "mixed"
    return CANNOT_TELL if found.decided is None else found.decided.name
