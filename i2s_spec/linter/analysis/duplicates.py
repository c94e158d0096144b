"""This module finds equal payloads and equal rows: fingerprints give candidates, a comparison of every byte confirms
them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.linter.analysis.payload_stats import COMPARED, payload_anomalies
from i2s_spec.linter.analysis.subject import Subject, analysis

if TYPE_CHECKING:
    from i2s_spec.inspect.survey.tensor_survey import TensorSurvey

#: Fewest rows of a tensor whose equality means anything.
LIKE_ROWS: Final = 4
#: Most tensors that are read again to see whether equal fingerprints mean equal payloads.
CONFIRMED: Final = 1024
#: Bytes that are compared at once, and bytes of the first, quick comparison.
STEP: Final = 1 << 20
NEARBY: Final = 512


class DuplicatePayload(NamedTuple):
    """Two tensors with the same payload, by their positions in the survey; the first is the earlier one."""

    first: int
    second: int


@analysis
def duplicate_payloads(subject: Subject) -> list[DuplicatePayload]:
    """Each tensor with the payload of an earlier one, and the first tensor that has it; every byte was compared."""
    survey, anomalies = subject.survey, payload_anomalies(subject)
    assert survey is not None
    skipped = {*anomalies.constant, *anomalies.floats}
    groups: dict[tuple[int, int], list[int]] = {}
    for place in anomalies.placed:
        if survey.size(place) < COMPARED or place in skipped:
            continue
        digest, size = survey.digest(place)
        if digest is not None:
            groups.setdefault((digest, size), []).append(place)
    pairs: list[DuplicatePayload] = []
    budget = CONFIRMED
    for places in groups.values():
        left = places
        while len(left) > 1 and budget > 0:
            first, rest = left[0], left[1 : budget + 1]
            left = []
            for place in rest:
                if _equal(subject, survey[first], survey[place]):
                    pairs.append(DuplicatePayload(first, place))
                else:
                    left.append(place)
            budget -= len(rest)
    return sorted(pairs, key=lambda pair: pair.second)


def _equal(subject: Subject, one: TensorSurvey, other: TensorSurvey) -> bool:
    return _same_bytes(subject, one.start, other.start, one.payload_bytes)


def _same_bytes(subject: Subject, one: int, other: int, size: int) -> bool:
    source = subject.file.source
    for at in range(0, size, STEP):
        length = min(STEP, size - at)
        if source.read(one + at, length) != source.read(other + at, length):
            return False
    return True


def rows_repeat(subject: Subject, tensor: TensorSurvey) -> bool:
    """Whether all rows of a payload are equal; if the first two rows agree, every byte is compared."""
    row = tensor.ne[0] // 4
    if tensor.ne[0] % 4 or prod(tensor.ne[1:]) < LIKE_ROWS or tensor.payload_bytes < COMPARED:
        return False
    return _same_bytes(subject, tensor.start, tensor.start + row, min(row, NEARBY)) and _same_bytes(
        subject, tensor.start, tensor.start + row, tensor.payload_bytes - row
    )
