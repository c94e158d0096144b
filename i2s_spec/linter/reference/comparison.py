"""This module compares an I2_S tensor with its known weights, and finds the cause of a difference.

It tries the possible causes in turn: another layout or code map, all signs inverted, the rows of heads in the order of
checkpoints. A cause is accepted only if nine of ten weights then agree.
"""

from __future__ import annotations

from math import isfinite, lcm
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from i2s_spec.codec.quantization.in_order import in_order
from i2s_spec.codec.trits import WINDOW
from i2s_spec.convert.hugging_face.names import to_checkpoint_rows, to_gguf_rows
from i2s_spec.inspect.compare.explanation import explanation
from i2s_spec.inspect.compare.tensor_rows import flat_rows, rows_of
from i2s_spec.inspect.identify.reference import AGREES, COMPARED, ENOUGH, MARGIN, Match, matched, rows_compared
from i2s_spec.linter.reference.known import Known, of_tensor
from i2s_spec.schema.dialect import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.inspect.compare.tensor_rows import Rows

#: The relative difference up to which two scales count as the same: bfloat16 has 8 bits of precision.
SCALE: Final = 1 / 128


#: About how many weights are used to explain a difference; ten thousand would be enough.
DECIDING: Final = 1 << 18


#: How many tensors of a file are read in every dialect, how many of them are explained in words, and how many
#: comparisons with other tensors of the same shape are made for all of these together: small files hold thousands.
DIALECTS: Final = 1 << 10
EXPLAINED: Final = 64
OTHERS: Final = 1 << 13


class Budget:
    """How much work may still be done to explain the differences in a file."""

    def __init__(self) -> None:
        self._dialects, self._explained, self._others = DIALECTS, EXPLAINED, OTHERS

    def dialects(self) -> bool:
        """Whether one more tensor may be read in every dialect."""
        self._dialects -= 1
        return self._dialects >= 0

    def explained(self) -> bool:
        """Whether one more tensor may be explained."""
        self._explained -= 1
        return self._explained >= 0

    def some(self, others: Iterable[tuple[str, Rows]]) -> Iterator[tuple[str, Rows]]:
        """As many of the other tensors as may still be compared."""
        if self._others <= 0:
            return
        for other in others:
            self._others -= 1
            yield other
            if self._others <= 0:
                return


class WeightDifference(NamedTuple):
    """Where two tensors differ: how many weights of how many, the first of them, the bytes that hold them all."""

    weights: int
    compared: int
    first: int
    start: int
    stop: int


class ReferenceOutcome(NamedTuple):
    """How a tensor compares with its known weights; each part is None where there is nothing to report.

    `difference` says where the weights differ, `match` is the dialect that explains it, `how` another explanation in
    words, `scale` the two scales if they differ.
    """

    difference: WeightDifference | None
    match: Match | None
    how: str
    scale: tuple[float, float] | None

    @property
    def good(self) -> bool:
        return self.difference is None and self.scale is None


class _Part(NamedTuple):
    weights: int
    first: int
    start: int
    stop: int


def compared(
    file: File,
    tensor: Tensor,
    known: Known,
    expected: Dialect,
    twin: tuple[File, Tensor] | None = None,
    others: Callable[[], Iterable[tuple[str, Rows]]] = lambda: (),
    threads: int = 1,
    whole: bool = True,
    budget: Budget | None = None,
) -> ReferenceOutcome:
    """Compare a tensor with its known weights.

    :param expected: the dialect in which the tensor should be packed
    :param twin: the tensor of the reference, where that is a GGUF file
    :param others: the reference's other tensors of this shape, with their names
    :param whole: look at all weights, not at the first `COMPARED` of them
    :param budget: the file's budget for explaining differences
    :raises ValueError: for shapes that the dialect cannot hold
    :raises FormatError: where a file does not hold its tensor
    """
    ours = of_tensor(file, tensor, expected)
    difference = _difference(ours, known, threads, whole)
    scale = _scales(ours.scale, known)
    if difference is None or (not known.exact and difference.weights <= (1 - AGREES) * difference.compared):
        return ReferenceOutcome(None, None, "", scale)
    budget = budget or Budget()
    rows = rows_compared(tensor, DECIDING)
    how = ""
    if rows * tensor.shape[-1] >= ENOUGH and budget.dialects():  # fewer weights are no evidence
        trits = known.first_rows(rows)
        best = _decided(matched(file, tensor, trits, known.scale).matches, expected)
        if best is not None:
            return ReferenceOutcome(difference, best, "", scale)
        how = _how(file, tensor, ours.first_rows(rows), trits)
        if not how and twin is not None and known.dialect is not None:
            other = _decided(matched(*twin, ours.first_rows(rows), None).matches, known.dialect)
            if other is not None:
                packed = other.dialect
                how = f"they agree if it is the reference that is packed as {packed}: --reference-dialect {packed}"
    if not how and difference.weights > (1 - AGREES) * difference.compared and budget.explained():
        right = flat_rows(known.shape, known.unit, known.trits, 0.0)
        how = explanation(rows_of(file, tensor, expected), right, lambda: budget.some(others()))
        if how:
            return ReferenceOutcome(difference, None, how, None)  # the scale belongs to that other tensor
    alien = not how and difference.weights > (1 - AGREES) * difference.compared
    return ReferenceOutcome(difference, None, how, None if alien else scale)


def _difference(ours: Known, known: Known, threads: int, whole: bool) -> WeightDifference | None:
    """Where the trits differ, window by window; bytes that are equal are not decoded."""
    assert ours.payload is not None
    assert ours.dialect is not None
    payload, layout = ours.payload, ours.dialect.layout
    same = known.dialect is not None and (known.dialect.layout, known.dialect.code_map) == (
        layout,
        ours.dialect.code_map,
    )
    rows, cols = ours.shape[0], ours.shape[-1]
    total = rows * cols if whole else min(rows * cols, COMPARED)
    unit = lcm(ours.unit, known.unit)
    step = max(WINDOW // unit, 1) * unit
    total = rows * cols if total + unit > rows * cols else -(-total // unit) * unit

    def look(start: int) -> _Part | None:
        stop = min(start + step, total)
        if same and known.payload is not None and payload(start, stop) == known.payload(start, stop):
            return None
        odd = np.flatnonzero(ours.trits(start, stop) != known.trits(start, stop))
        if not odd.size:
            return None
        odd += start
        where = layout.byte_of(odd, rows, cols)
        return _Part(odd.size, int(odd[0]), int(where.min()), int(where.max()) + 1)

    parts = [part for part in in_order(look, range(0, total, step), threads) if part is not None]
    if not parts:
        return None
    return WeightDifference(
        sum(part.weights for part in parts), total, parts[0].first,
        min(part.start for part in parts), max(part.stop for part in parts),
    )  # fmt: skip


def _scales(stored: float | None, known: Known) -> tuple[float, float] | None:
    """Both scales, if they differ by more than rounding; scales of rounded weights depend on the quantization rule."""
    if stored is None or known.scale is None or not known.exact or not isfinite(stored) or not isfinite(known.scale):
        return None
    if known.scale == 0 or abs(stored - known.scale) <= SCALE * abs(known.scale):
        return None
    return stored, known.scale


def _decided(matches: tuple[Match, ...], expected: Dialect) -> Match | None:
    """The other dialect that explains the tensor, if one does; the expected one is never given, however well it agrees."""
    if not matches or matches[0].share < AGREES or matches[0].compared < ENOUGH:
        return None
    best = matches[0]
    meant = next((match for match in matches if _alike(match.dialect, expected)), None)
    rival = max((match.share for match in matches[1:]), default=0.0)
    if meant is not None and (meant is best or best.share - meant.share < MARGIN):
        return None
    return best if best.share - rival >= MARGIN else None


def _alike(one: Dialect, other: Dialect) -> bool:
    return (one.layout, one.code_map) == (other.layout, other.code_map)


def _how(file: File, tensor: Tensor, ours: NDArray[np.int8], known: NDArray[np.int8]) -> str:
    """Another explanation with which most weights agree, in words; empty if there is none."""

    def agrees(one: NDArray[np.int8], other: NDArray[np.int8]) -> bool:
        return one.size >= ENOUGH and bool(np.mean(one == other) >= AGREES)

    if agrees(-ours, known):
        return "all signs are inverted"
    orders: tuple[tuple[str, Callable[[NDArray[np.int8], int], NDArray[np.int8]]], ...] = (
        ("its rows are in the order of checkpoints, which rotate halves of heads", to_gguf_rows),
        ("its rows are in the order of architectures that rotate neighbors", to_checkpoint_rows),
    )
    for heads in _heads(file, tensor):
        size = tensor.shape[0] // heads
        count = ours.shape[0] // size
        if count and size % 2 == 0 and tensor.shape[0] % heads == 0:
            for words, order in orders:
                if agrees(order(ours[: count * size], count), known[: count * size]):
                    return words
    return ""


def _heads(file: File, tensor: Tensor) -> list[int]:
    """How many heads the rows of a tensor may belong to."""
    part = tensor.name.rpartition(".")[0].rpartition(".")[2]
    if part not in ("attn_q", "attn_k"):
        return []
    found = []
    for name in ("head_count", "head_count_kv"):
        value = file.metadata.get(f"{file.metadata.get('general.architecture')}.attention.{name}")
        if isinstance(value, int) and 0 < value <= tensor.shape[0]:
            found.append(value)
    return found
