"""This module compares all I2_S tensors of a file with a reference, once for all rules that tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.errors import FormatError
from i2s_spec.linter.rooms import judged
from i2s_spec.linter.subject import Subject
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.linter.reference.comparison import Outcome

#: What is said of a file that changes while it is read.
_GONE: Final = (faults.CHANGED.code, faults.UNREADABLE.code)


class Compared(NamedTuple):
    """What came of it: rows of the table with what was found, those that could not be compared with the reason, and how
    many tensors there are."""

    outcomes: tuple[tuple[int, Outcome], ...]
    left: tuple[tuple[int, str], ...]
    tensors: int


def compared(subject: Subject) -> Compared | None:
    """The outcomes for a file; None where there is no reference, or nothing says where tensors are."""
    if subject.weights is None or subject.survey is None:
        return None
    found = subject.kept.get("compared")
    if found is None:
        found = subject.kept["compared"] = _compared(subject)
    assert isinstance(found, Compared)
    return found


def _compared(subject: Subject) -> Compared:
    from i2s_spec.linter.reference import comparison
    from i2s_spec.schema.dialect import parse

    weights, survey, reading = subject.weights, subject.survey, subject.reading
    assert weights is not None
    assert survey is not None
    expected, odd = parse(weights.expected), judged(subject).rows
    outcomes: list[tuple[int, Outcome]] = []
    left: list[tuple[int, str]] = []
    for place in range(len(survey)):
        row = survey.row(place)
        if row in odd:
            left.append((row, "its extent is wrong"))
            continue
        tensor = subject.file.tensors.row(row)
        try:
            known = weights.known(subject.file, tensor)
            twin = weights.twin(tensor)
            pair = None if twin is None or weights.file is None else (weights.file, twin)
            outcome = comparison.compared(
                subject.file, tensor, known, expected, pair, reading.threads, reading.mode == "full"
            )
        except FormatError as error:
            if error.code in _GONE and subject.file.source.changed() is not None:
                raise
            left.append((row, f"one of the two files does not hold it ({error.code})"))
        except ValueError as error:
            left.append((row, str(error)))
        else:
            if not outcome.good:
                outcomes.append((row, outcome))
    return Compared(tuple(outcomes), tuple(left), len(survey))
