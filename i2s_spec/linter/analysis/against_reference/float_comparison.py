"""This module compares a tensor that is not I2_S with a reference: floats as floats, other types as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from i2s_spec.codec.form import FLOAT_WORDS
from i2s_spec.errors import FormatError
from i2s_spec.inspect.compare.byte_streams import first_difference
from i2s_spec.inspect.compare.canonical import canonical_data, words_known
from i2s_spec.inspect.compare.explanation import explanation
from i2s_spec.inspect.compare.tensor_rows import Rows, rows_of
from i2s_spec.inspect.identify.reference import COMPARED
from i2s_spec.linter.analysis.against_reference.alike import alike

if TYPE_CHECKING:
    from collections.abc import Iterator

    from i2s_spec.gguf.reader import Tensor
    from i2s_spec.linter.analysis.subject import Subject
    from i2s_spec.linter.reference.comparison import Budget
    from i2s_spec.linter.reference.weights import ReferenceWeights


class FloatsDiffer(NamedTuple):
    """A tensor that differs from the reference: its row, how many of its values differ, the first of them, the
    explanation."""

    row: int
    values: int
    compared: int
    first: int
    how: str


def differs(
    subject: Subject, weights: ReferenceWeights, row: int, tensor: Tensor, budget: Budget
) -> FloatsDiffer | None:
    """How a tensor differs from the reference.

    :param budget: the file's budget for explaining differences
    :raises ValueError: if the tensor cannot be compared; the text says why
    """
    if tensor.type is None or tensor.type.name not in FLOAT_WORDS:
        return _bytes_differ(subject, weights, row, tensor)
    ours, theirs = rows_of(subject.file, tensor), weights.floats(subject.file, tensor)
    if (ours.rows, ours.cols) != (theirs.rows, theirs.cols):
        raise ValueError(f"it has the shape {[theirs.rows, theirs.cols]} there")
    whole = subject.reading.mode == "full"
    tolerance = max(ours.tolerance, theirs.tolerance) if ours.tolerance != theirs.tolerance else 0.0
    values, first, seen = 0, 0, 0
    for start, part in ours.windows():
        other = theirs.read(start, start + len(part))
        with np.errstate(invalid="ignore"):
            same = np.abs(part - other) <= tolerance * np.abs(other)
        odd = np.flatnonzero(~(same | (part.view(np.uint32) == other.view(np.uint32))))
        if odd.size and not values:
            first = start * ours.cols + int(odd[0])
        values += odd.size
        seen += part.size
        if not whole and seen >= COMPARED:
            break
    if not values:
        return None
    how = ""
    if 10 * values > seen and budget.explained():
        how = explanation(ours, theirs, lambda: budget.some(_alike(subject, weights, tensor)))
    return FloatsDiffer(row, values, seen, first, how)


def _alike(subject: Subject, weights: ReferenceWeights, tensor: Tensor) -> Iterator[tuple[str, Rows]]:
    """The reference's tensors for the other tensors of this shape."""
    for other in alike(subject, tensor):
        try:
            yield other.name, weights.floats(subject.file, other)
        except (FormatError, ValueError):
            continue


def _bytes_differ(subject: Subject, weights: ReferenceWeights, row: int, tensor: Tensor) -> FloatsDiffer | None:
    twin = weights.twin(tensor)
    name = tensor.type.name if tensor.type is not None else f"type {tensor.number}"
    if twin is None or weights.file is None:
        raise ValueError(f"the reference has no tensor of this name with type {name}")
    if twin.number != tensor.number or twin.shape != tensor.shape:
        raise ValueError(f"of type {name} only tensors of the same type and shape can be compared")
    if not (words_known(subject.file, tensor) and words_known(weights.file, twin)):
        raise ValueError(f"no source documents how {name} is stored in big-endian files")
    found = first_difference(canonical_data(subject.file, tensor), canonical_data(weights.file, twin))
    return None if found is None else FloatsDiffer(row, found[0], tensor.nbytes, found[1], "")
