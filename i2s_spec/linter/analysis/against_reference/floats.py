"""This module compares the tensors that are not I2_S with a reference: norms, embeddings, heads, biases.

Floats of the same type must be equal; floats of two types must agree to the precision of the shorter one. Other types
are compared as bytes if both files use the same one. Tensors that cannot be compared are listed with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.linter.analysis.against_reference.incomparable import Readable, noted
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.linter.analysis.tensor_extents import extent_anomalies
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.against_reference.float_comparison import FloatsDiffer

#: Most tensors of a file that are compared.
TENSORS: Final = 10_000


class FloatsCompared(NamedTuple):
    """The tensors that differ, those that could not be compared (with the reason), and the number of tensors."""

    differ: tuple[FloatsDiffer, ...]
    left: tuple[tuple[int, str], ...]
    tensors: int


@analysis
def compared_floats(subject: Subject) -> FloatsCompared:
    """The result for tensors that are not I2_S, in a file that has a reference."""
    weights = subject.weights
    assert weights is not None
    from i2s_spec.linter.analysis.against_reference.float_comparison import differs
    from i2s_spec.linter.reference.comparison import Budget

    odd = extent_anomalies(subject).rows
    differ: list[FloatsDiffer] = []
    left: list[tuple[int, str]] = []
    count, budget, readable = 0, Budget(), Readable(subject)
    for row in range(min(subject.file.index.tensors, TENSORS)):
        tensor = subject.file.tensors.by_index(row)
        if tensor.number == I2_S.number:
            continue
        count += 1
        if row in odd:
            left.append((row, "its extent is wrong"))
            continue
        with noted(subject, row, left):
            readable.take(tensor)
            found = differs(subject, weights, row, tensor, budget)
            differ += [] if found is None else [found]
    if subject.file.index.tensors > TENSORS:
        left.append((TENSORS, f"only the first {TENSORS:,} tensors of a file are compared"))
    return FloatsCompared(tuple(differ), tuple(left), count)
