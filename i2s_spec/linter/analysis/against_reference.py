"""Comparison of all tensors of a file with a reference, once for all rules that report it.

`compared` gives the result for the I2_S tensors, by trits and scale; `compared_floats` that for the others: norms,
embeddings, heads, biases, and matrices of other types. They are compared by value, a trit times its scale where they are
ternary. Floats of the same type must be equal; floats of two types must agree to the precision of the shorter one, and
scales to that of bfloat16. Exactly ternary matrices are compared with weights before ternary quantization by trits. Types
that are neither are compared as bytes if both files use the same one. Tensors that cannot be compared are
listed with the reason, and differing ones with the tensors of the same shape that they may have been swapped with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from i2s_spec.codec.encoding import TERNARY_TYPES
from i2s_spec.codec.shape import FLOAT_WORDS
from i2s_spec.compare.diff import first_difference
from i2s_spec.compare.explanation import explanation
from i2s_spec.compare.hash import canonical_data, words_known
from i2s_spec.compare.tensor_rows import ROUNDING, SMALLEST, Rows, flat_rows, value_rows
from i2s_spec.errors import FormatError
from i2s_spec.inspect.match_dialect import COMPARED
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.analysis.extents import extent_anomalies
from i2s_spec.schema import faults
from i2s_spec.schema.dialect import parse
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from i2s_spec.compare.known_weights import Budget, ReferenceOutcome, ReferenceWeights
    from i2s_spec.gguf.reader import File, Tensor

#: Most tensors that may differ; the comparison ends after them.
MOST: Final = 1 << 11


class Compared(NamedTuple):
    """The result: the tensors that differ, by row, with what was found; those that could not be compared, with the
    reason; and the number of tensors."""

    outcomes: tuple[tuple[int, ReferenceOutcome], ...]
    left: tuple[tuple[int, str], ...]
    tensors: int


@analysis
def compared(subject: LintContext) -> Compared:
    """Return the result for a file that has a reference and whose payloads are read."""
    weights, survey, reading = subject.weights, subject.survey, subject.reading
    assert weights is not None
    if survey is None:  # the header does not say for certain where the tensors lie
        rows = [row for row, _ in subject.i2s()]
        return Compared((), tuple((row, "its place in the file is not certain") for row in rows), len(rows))
    from i2s_spec.compare import known_weights

    expected, odd = parse(weights.expected), extent_anomalies(subject).rows
    outcomes: list[tuple[int, ReferenceOutcome]] = []
    left: list[tuple[int, str]] = []
    budget = known_weights.Budget()
    for row in (survey.row(place) for place in range(len(survey))):
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
            others = partial(_reference_rows, subject, tensor, partial(_known_rows, weights, subject.file))
            outcome = known_weights.compared(
                subject.file, tensor, known, expected, pair, others, reading.threads, reading.mode == "full", budget
            )
            if not outcome.good:
                outcomes.append((row, outcome))
    return Compared(tuple(outcomes), tuple(left), len(survey))


def _known_rows(weights: ReferenceWeights, file: File, tensor: Tensor) -> Rows:
    known = weights.known(file, tensor)
    return flat_rows(known.shape, known.unit, known.trits, 0.0)


def _reference_rows(subject: LintContext, tensor: Tensor, rows: Callable[[Tensor], Rows]) -> Iterator[tuple[str, Rows]]:
    """Yield the reference's tensors for the other tensors of this shape, as far as they can be read."""
    for other in same_shape(subject, tensor):
        try:
            yield other.name, rows(other)
        except (FormatError, ValueError):
            continue


def owners_of(subject: LintContext, scale: float) -> list[str]:
    """Return the I2_S tensors that have this scale in the reference, where that is a GGUF file, bit for bit."""
    return _owners(subject).get(scale, [])


@analysis
def _owners(subject: LintContext) -> dict[float, list[str]]:
    """Return the names of the I2_S tensors of the reference, where that is a GGUF file, by their scales."""
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


# --- one tensor that is not I2_S -------------------------------------------------------------------------------------
# Floats are compared as floats, other types as bytes.


class FloatsDiffer(NamedTuple):
    """A tensor that differs from the reference: its row, how many of its values differ, the first of them, the
    explanation."""

    row: int
    values: int
    compared: int
    first: int
    how: str


def differs(
    subject: LintContext, weights: ReferenceWeights, row: int, tensor: Tensor, budget: Budget
) -> FloatsDiffer | None:
    """Return the difference of a tensor from the reference.

    :param budget: the file's budget for explaining differences
    :raises ValueError: if the tensor cannot be compared; the text says why
    """
    if tensor.kind not in FLOAT_WORDS and (tensor.kind not in TERNARY_TYPES or _same_type(weights, tensor)):
        return _bytes_differ(subject, weights, row, tensor)
    ours, theirs = value_rows(subject.file, tensor), weights.values(subject.file, tensor)
    if (ours.rows, ours.cols) != (theirs.rows, theirs.cols):
        raise ValueError(f"it has the shape {[theirs.rows, theirs.cols]} there")
    found = _values_differ(subject, row, ours, theirs)
    if found is None or 10 * found.values <= found.compared:
        return found
    if len(tensor.shape) == 2 and _rounded_weights(subject, weights, tensor):
        return None
    if not budget.explained():
        return found
    from i2s_spec.compare.known_weights import DECIDING, order_of_rows

    count = min(ours.rows, max(1, DECIDING // ours.cols))
    how = order_of_rows(
        subject.file, tensor, ours.read(0, count), theirs.read(0, count), max(ours.tolerance, theirs.tolerance)
    )
    others = partial(_reference_rows, subject, tensor, partial(weights.values, subject.file))
    how = how or explanation(ours, theirs, lambda: budget.some(others()))
    return found._replace(how=how)


def _values_differ(subject: LintContext, row: int, ours: Rows, theirs: Rows) -> FloatsDiffer | None:
    """Return the place where the values differ, without an explanation."""
    whole = subject.reading.mode == "full"
    rounded = (ours.tolerance, ours.scaled) != (theirs.tolerance, theirs.scaled) or ours.scaled
    tolerance = max(ours.tolerance, theirs.tolerance) if rounded else 0.0
    least = SMALLEST if rounded and ROUNDING["F16"] in (ours.tolerance, theirs.tolerance) else 0.0
    values, first, seen = 0, 0, 0
    for start, part in ours.windows():
        other = theirs.read(start, start + len(part))
        with np.errstate(invalid="ignore"):
            same = np.abs(part - other) <= np.maximum(tolerance * np.abs(other), least)
        odd = np.flatnonzero(~(same | (part.view(np.uint32) == other.view(np.uint32))))
        if odd.size and not values:
            first = start * ours.cols + int(odd[0])
        values += odd.size
        seen += part.size
        if not whole and seen >= COMPARED:
            break
    return FloatsDiffer(row, values, seen, first, "") if values else None


def _rounded_weights(subject: LintContext, weights: ReferenceWeights, tensor: Tensor) -> bool:
    """Whether an exactly ternary matrix has the trits of the reference's floats, which are not ternary: nine of ten, since
    values near the middle are rounded either way."""
    from i2s_spec.compare.known_weights import of_tensor

    try:
        ours = of_tensor(subject.file, tensor)
        known = weights.known(subject.file, tensor) if ours.exact else None
    except ValueError:
        return False
    if known is None or known.exact:
        return False
    one = flat_rows(ours.shape, ours.unit, ours.trits, 0.0)
    other = flat_rows(known.shape, known.unit, known.trits, 0.0)
    odd = seen = 0
    for start, part in one.windows():
        odd += int(np.count_nonzero(part != other.read(start, start + len(part))))
        seen += part.size
        if subject.reading.mode != "full" and seen >= COMPARED:
            break
    return 10 * odd <= seen


def _same_type(weights: ReferenceWeights, tensor: Tensor) -> bool:
    """Whether the reference is a GGUF file that has the tensor in the same type."""
    twin = weights.twin(tensor)
    return twin is not None and twin.number == tensor.number


def _bytes_differ(subject: LintContext, weights: ReferenceWeights, row: int, tensor: Tensor) -> FloatsDiffer | None:
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


# --- all tensors that are not I2_S -----------------------------------------------------------------------------------

#: Most tensors of a file that are compared.
TENSORS: Final = 10_000


class FloatsCompared(NamedTuple):
    """The tensors that differ, those that could not be compared (with the reason), and the number of tensors."""

    differ: tuple[FloatsDiffer, ...]
    left: tuple[tuple[int, str], ...]
    tensors: int


@analysis
def compared_floats(subject: LintContext) -> FloatsCompared:
    """Return the result for tensors that are not I2_S, in a file that has a reference."""
    weights = subject.weights
    assert weights is not None
    from i2s_spec.compare.known_weights import Budget

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


# --- tensors that cannot be compared ---------------------------------------------------------------------------------


class Readable:
    """How many bytes may still be compared: at most the file's size in all. Tensors that share bytes could ask for any
    number."""

    def __init__(self, subject: LintContext) -> None:
        self._size = self._left = subject.file.size

    def take(self, tensor: Tensor) -> None:
        """Count the bytes of another tensor. A tensor that the file does not hold whole is found later, by reading.

        :raises ValueError: if the tensors together have more bytes than the file
        """
        if tensor.span.stop <= self._size:
            self._left -= tensor.span.stop - tensor.span.start
        if self._left < 0:
            raise ValueError("tensors of this file share bytes, and as many bytes as it has were compared already")


@contextmanager
def noted(subject: LintContext, row: int, left: list[tuple[int, str]]) -> Iterator[None]:
    """Compare one tensor; if that is impossible, add its row and the reason to `left`.

    :raises FormatError: if the file changes meanwhile
    """
    try:
        yield
    except FormatError as error:
        if error.code in faults.GONE and subject.file.source.changed() is not None:
            raise
        left.append((row, f"one of the two files does not hold it ({error.code})"))
    except ValueError as error:
        left.append((row, str(error)))


# --- tensors of the same shape ---------------------------------------------------------------------------------------
# Two tensors of one shape may have been swapped.


@analysis
def rows_by_shape(subject: LintContext) -> dict[tuple[int, tuple[int, ...]], list[int]]:
    """Return the row numbers of tensors, by type number and dimensions; a file may hold very many of each."""
    found: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for row, tensor in enumerate(subject.file.tensors.rows):
        found.setdefault((tensor.number, tensor.ne), []).append(row)
    return found


def same_shape(subject: LintContext, tensor: Tensor) -> Iterator[Tensor]:
    """Yield the other tensors that have the same type and shape."""
    for row in rows_by_shape(subject).get((tensor.number, tensor.ne), ()):
        other = subject.file.tensors.by_index(row)
        if other.name != tensor.name and other.type == tensor.type:
            yield other
