"""This module compares all I2_S tensors of a file with a reference, once for all rules that report it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.errors import FormatError
from i2s_spec.linter.analysis.against_reference.alike import alike
from i2s_spec.linter.analysis.against_reference.incomparable import noted
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.linter.analysis.tensor_extents import extent_anomalies
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from i2s_spec.gguf.reader import Tensor
    from i2s_spec.inspect.compare.tensor_rows import Rows
    from i2s_spec.linter.reference.comparison import ReferenceOutcome
    from i2s_spec.linter.reference.weights import ReferenceWeights
    from i2s_spec.schema.dialect import Dialect


#: Most tensors that may differ; the comparison ends after them.
MOST: Final = 1 << 11


class Compared(NamedTuple):
    """The result: the tensors that differ, by row, with what was found; those that could not be compared, with the
    reason; and the number of tensors."""

    outcomes: tuple[tuple[int, ReferenceOutcome], ...]
    left: tuple[tuple[int, str], ...]
    tensors: int


@analysis
def compared(subject: Subject) -> Compared:
    """The result for a file that has a reference and whose payloads are read."""
    weights, survey, reading = subject.weights, subject.payloads, subject.reading
    assert weights is not None
    from i2s_spec.inspect.compare.small_tensors import parts
    from i2s_spec.linter.reference import comparison
    from i2s_spec.schema.dialect import parse

    expected, odd = parse(weights.expected), extent_anomalies(subject).rows
    outcomes: list[tuple[int, ReferenceOutcome]] = []
    left: list[tuple[int, str]] = []
    budget = comparison.Budget()
    for part in parts(range(len(survey))):
        rows = [survey.row(place) for place in part]
        equal = _equal(subject, weights, [row for row in rows if row not in odd], expected)
        for row in rows:
            if row in equal:
                continue
            if row in odd:
                left.append((row, "its extent is wrong"))
                continue
            if len(outcomes) >= MOST:
                left.append((row, f"{MOST:,} others differ already"))
                continue
            tensor = subject.file.tensors.by_index(row)
            with noted(subject, row, left):
                known = weights.known(subject.file, tensor)
                twin = weights.twin(tensor)
                pair = None if twin is None or weights.file is None else (weights.file, twin)
                others = partial(_alike, subject, weights, tensor)
                outcome = comparison.compared(
                    subject.file, tensor, known, expected, pair, others, reading.threads, reading.mode == "full", budget
                )
                if not outcome.good:
                    outcomes.append((row, outcome))
    return Compared(tuple(outcomes), tuple(left), len(survey))


def _alike(subject: Subject, weights: ReferenceWeights, tensor: Tensor) -> Iterator[tuple[str, Rows]]:
    """The reference's tensors for the other I2_S tensors of this shape."""
    from i2s_spec.inspect.compare.tensor_rows import flat_rows

    for other in alike(subject, tensor):
        try:
            known = weights.known(subject.file, other)
        except (FormatError, ValueError):
            continue
        yield other.name, flat_rows(known.shape, known.unit, known.trits, 0.0)


def _equal(subject: Subject, weights: ReferenceWeights, rows: list[int], expected: Dialect) -> set[int]:
    """The rows of small tensors that equal the reference's bit for bit, if that is a GGUF file; all are read at once."""
    from i2s_spec.inspect.compare.small_tensors import small_tensors
    from i2s_spec.schema.dialect import parse

    reference, file = weights.file, subject.file
    theirs = parse(weights.reference.dialect)
    if reference is None or reference.fault is not None or max(expected.tail.copies, theirs.tail.copies) > 1:
        return set()
    pairs: list[tuple[int, Tensor, Tensor]] = []
    for row in rows:
        tensor = file.tensors.by_index(row)
        twin = reference.tensors.get(tensor.name)
        if twin is not None and twin.type is I2_S and twin.ne == tensor.ne and twin.span.stop <= reference.size:
            pairs.append((row, tensor, twin))
    ours = small_tensors(file, [tensor for _, tensor, _ in pairs], expected)
    known = small_tensors(reference, [twin for _, _, twin in pairs], theirs)
    return {
        row
        for (row, _, _), one, other in zip(pairs, ours, known, strict=True)
        if one is not None and other is not None and (one.codes, one.scale) == (other.codes, other.scale)
    }


def owners_of(subject: Subject, scale: float) -> list[str]:
    """The I2_S tensors that have this scale in the reference, where that is a GGUF file, bit for bit."""
    return _owners(subject).get(scale, [])


@analysis
def _owners(subject: Subject) -> dict[float, list[str]]:
    """The names of the I2_S tensors of the reference, where that is a GGUF file, by their scales."""
    weights = subject.weights
    found: dict[float, list[str]] = {}
    if weights is None or weights.file is None:
        return found
    for name, tensor in weights.file.tensors.items():
        if tensor.number == I2_S.number:
            try:
                found.setdefault(float(tensor.scale()), []).append(name)
            except (FormatError, ValueError):
                continue
    return found
