"""The matrices of a checkpoint as trits and scales, by a rule that the weights must confirm.

    packed    uint8 with a weight_scale, which multiplies or divides
    ternary   floats that are -s, 0 and +s: s is kept, bit for bit
    groups    floats that are ternary by groups of a row, each with its own scale
    absmean   other floats: round(w / m), cut to -1..+1, where m is the mean of |w|; the scale is m

`absmean` is what BitLinear does in every pass with its float weights. It is not applied to a matrix that is ternary
already: the scale would shrink by the share of zeros.

Floats are read in windows, by several threads. A matrix needs a byte of memory for each weight; with `absmean` it is
kept as floats, which are converted to trits when they are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.checkpoints.folder import refused
from i2s_spec.codec.encoding import WINDOW
from i2s_spec.codec.float_passes import cut_words, least_one, sum_runs, wide, width_of
from i2s_spec.codec.kernels import in_order
from i2s_spec.codec.quantize import COLUMNS, SMALLEST_SCALE, torch_mean, torch_runs
from i2s_spec.codec.shape import widened
from i2s_spec.errors import FormatError, counted, quote
from i2s_spec.safetensors.files import Stored
from i2s_spec.safetensors.packed import PackedMatrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The supported float types, as little-endian words.
FLOATS: Final = {"F32": "<u4", "F16": "<u2", "BF16": "<u2"}

#: Elements that are read and summed at a time: few enough to stay in the cache.
_PIECE: Final = 1 << 18

#: Lengths of groups that are tried, the longest first; 0 means a row.
GROUPS: Final = (0, 256, 128, 64, 32)

RULES: Final = ("packed", "ternary", "groups", "absmean")


class TernaryMatrix(NamedTuple):
    """A matrix of trits.

    :param trits: int8 [rows, cols]
    :param scales: float32: one for the whole matrix [1, 1], or one for each group [rows, groups of a row]
    :param rule: one of `RULES`
    """

    trits: NDArray[np.int8]
    scales: NDArray[np.float32]
    rule: str

    @property
    def scale(self) -> np.float32:
        """The only scale."""
        return np.float32(self.scales.item())

    @property
    def shape(self) -> tuple[int, int]:
        """[rows, cols]"""
        rows, cols = self.trits.shape
        return rows, cols

    def window(self, start: int, stop: int) -> NDArray[np.int8]:
        """Return the trits of elements `start` to `stop`, row by row."""
        return self.trits.reshape(-1)[start:stop]

    def in_rows(self, order: Callable[[NDArray[Any]], NDArray[Any]]) -> TernaryMatrix:
        """Return the matrix with its rows, and their scales, in another order."""
        scales = order(self.scales) if self.scales.shape[0] > 1 else self.scales
        return self._replace(trits=np.ascontiguousarray(order(self.trits)), scales=scales)

    def in_columns(self, places: NDArray[np.intp], width: int) -> TernaryMatrix:
        """Return the matrix with its columns in another order, which moves heads of `width` columns; groups that
        hold parts of several heads become several groups of the same scale."""
        scales = self.scales
        if scales.shape[1] > 1:
            group = self.shape[1] // scales.shape[1]
            unit = math.gcd(group, width)
            scales = np.repeat(scales, group // unit, axis=1)[:, places[::unit] // unit]
        return self._replace(trits=np.ascontiguousarray(self.trits[:, places]), scales=scales)


class FloatMatrix(NamedTuple):
    """A matrix of floats with one scale, whose trits are made on demand.

    :param words: its bytes, uint8 [rows, bytes of a row]
    :param least: the bits of the least magnitude that becomes 1
    :param scales: float32 [1, 1]
    """

    words: NDArray[np.uint8]
    type: str
    least: int
    scales: NDArray[np.float32]
    rule: str

    @property
    def trits(self) -> NDArray[np.int8]:
        """All trits, int8 [rows, cols]."""
        return cut_words(self.words.reshape(-1), self.type, self.least).reshape(self.shape)

    @property
    def scale(self) -> np.float32:
        """The only scale."""
        return np.float32(self.scales.item())

    @property
    def shape(self) -> tuple[int, int]:
        """[rows, cols]"""
        return self.words.shape[0], self.words.shape[1] // width_of(self.type)

    def window(self, start: int, stop: int) -> NDArray[np.int8]:
        """Return the trits of elements `start` to `stop`, row by row."""
        width = width_of(self.type)
        return cut_words(self.words.reshape(-1)[start * width : stop * width], self.type, self.least)

    def in_rows(self, order: Callable[[NDArray[Any]], NDArray[Any]]) -> FloatMatrix:
        """Return the matrix with its rows in another order."""
        return self._replace(words=np.ascontiguousarray(order(self.words)))

    def in_columns(self, places: NDArray[np.intp], width: int) -> FloatMatrix:
        """Return the matrix with its columns in another order."""
        words = self.words.reshape(*self.shape, -1)[:, places]
        return self._replace(words=words.reshape(self.words.shape))


class ReusedMemory:
    """Memory that is reused for one matrix after the other: new memory for each would take as long as the sums."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, dtype=np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return this number of bytes; the next call gives the same memory again."""
        if self._bytes.size < size:
            self._bytes = np.empty(size, dtype=np.uint8)
        return self._bytes[:size]


def floats(stored: Stored, start: int, stop: int) -> NDArray[np.float32]:
    """Return elements of a tensor as float32.

    :raises FormatError: H104 for another type, and for weights that are not finite
    """
    check_type(stored)
    width = int(FLOATS[stored.dtype][2:])
    words = np.frombuffer(stored.read(start * width, stop * width), dtype=FLOATS[stored.dtype])
    found = widened(words.astype(words.dtype.newbyteorder("="), copy=False), stored.dtype)
    if not np.isfinite(found).all():
        odd = int(np.count_nonzero(~np.isfinite(found)))
        raise refused(
            f"tensor {quote(stored.name)} has {counted(odd, 'value that is', 'values that are')} infinite or NaN"
        )
    return found


def check_type(stored: Stored) -> None:
    """Refuse a tensor that is not of a supported float type."""
    if stored.dtype not in FLOATS:
        raise refused(f"tensor {quote(stored.name)} is {quote(stored.dtype)}; {', '.join(FLOATS)} are read here")


def float_windows(stored: Stored) -> Iterator[NDArray[np.float32]]:
    """Yield all elements of a float tensor in order, a window at a time."""
    count = stored.nbytes // int(FLOATS[stored.dtype][2:]) if stored.dtype in FLOATS else 1
    for start in range(0, count, WINDOW):
        yield floats(stored, start, min(start + WINDOW, count))


def packed_matrix(matrix: PackedMatrix) -> TernaryMatrix:
    """Return a packed matrix, unchanged.

    :raises FormatError: H104 for code 3, and for a scale that is not a positive number
    """
    try:
        trits, scale = matrix.trits(), matrix.scale
    except ValueError as error:
        raise refused(f"tensor {quote(matrix.weight.name)}: {error}") from None
    if not np.isfinite(scale) or scale <= 0:
        raise refused(f"{quote(matrix.module)} has the scale {scale}, which is not a positive number")
    return TernaryMatrix(trits, np.full((1, 1), scale), "packed")


def looks_ternary(stored: Stored) -> bool:
    """Whether the first rows of a float matrix are ternary, as a whole or by groups; bounded work.

    Rows of zeros fit every rule and are no evidence: the first rows after them are examined.
    """
    some = _first_rows(stored)
    return bool(some.any()) and any(_grouped(some, group) is not None for group in GROUPS)


def _first_rows(stored: Stored) -> NDArray[np.float32]:
    """Return the first rows of a float matrix that are not all zeros, or its last rows; about a page of them."""
    rows, cols = stored.shape
    step = max(1, 4096 // cols)
    some = np.zeros((0, cols), dtype=np.float32)
    for start in range(0, rows, step):
        some = floats(stored, start * cols, min(rows, start + step) * cols).reshape(-1, cols)
        if some.any():
            break
    return some


def not_ternary(stored: Stored) -> FormatError:
    """Return H104 for a matrix of floats that are not -s, 0 and +s, with the form that they have instead."""
    some = _first_rows(stored)
    if not some.any():
        return refused(f"tensor {quote(stored.name)} has nothing but zeros")
    if form := _asymmetric(some):
        return refused(
            f"tensor {quote(stored.name)} has asymmetric ternary weights: {form}, not -s, 0 and +s; no type of these "
            "files stores them"
        )
    sizes = np.unique(np.abs(some[some.any(axis=1)][0]))
    return refused(
        f"tensor {quote(stored.name)} is not ternary: its first row has {counted(sizes.size, 'magnitude')}, from "
        f"{sizes[0]:.4g} to {sizes[-1]:.4g}. If the model was trained with BitLinear, --rule absmean makes trits as that "
        "does"
    )


def _listed(values: NDArray[np.float32]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def _asymmetric(rows: NDArray[np.float32]) -> str:
    """Return the three values of a group of rows whose groups have three values at most; empty if some have more."""
    for group in (each or rows.shape[1] for each in GROUPS):
        if rows.shape[1] % group or group < 16:
            continue
        found = [np.unique(each) for each in rows.reshape(-1, group)]
        if max(each.size for each in found) == 3:
            shown = next(each for each in found if each.size == 3)
            return f"the first {counted(group, 'weight has', 'weights have')} the values {_listed(shown)}"
    return ""


def float_matrix(
    stored: Stored, rule: str, threads: int = 1, room: ReusedMemory | None = None
) -> TernaryMatrix | FloatMatrix:
    """Return a matrix of floats by a rule.

    :param rule: `ternary`, which refuses floats that are not ternary, with one scale or by groups; or `absmean`
    :param room: the memory for the matrix; the next matrix overwrites it
    :raises FormatError: H104 as `floats` does, and for weights that are not ternary
    """
    if len(stored.shape) != 2 or not all(stored.shape):
        raise refused(f"tensor {quote(stored.name)} has the shape {list(stored.shape)}; a matrix is needed")
    if rule == "absmean":
        return _absmean(stored, threads, room or ReusedMemory())
    whole = _whole(stored)
    return _by_groups(stored) if whole is None else whole


def _absmean(stored: Stored, threads: int, room: ReusedMemory) -> FloatMatrix:
    """Return a matrix by the rule `absmean`; each thread sums a window while it is in the cache."""
    check_type(stored)
    rows, cols = stored.shape
    type, width, n = stored.dtype, width_of(stored.dtype), rows * cols
    words = room.take(n * width)
    run, runs = torch_runs(n)
    unit = run * COLUMNS
    piece = max(_PIECE // unit, 1) * unit
    step = max(WINDOW // piece, 1) * piece
    sums = np.empty((runs, COLUMNS), dtype=np.float32)

    def read(start: int) -> bool:
        odd = False
        for at in range(start, min(start + step, n), piece):
            part = words[at * width : min(at + piece, start + step) * width]
            stored.readinto(at * width, part.data)
            first, last = at // unit, min((at + piece) // unit, runs)
            used = (last - first) * unit * width
            odd |= sum_runs(part[:used], type, run, sums[first:last])
            odd |= not np.isfinite(wide(part[used:], type)).all()
        return odd

    if any(list(in_order(read, range(0, n, step), threads))):
        for _ in float_windows(stored):
            pass  # this reports how many
        raise refused(f"tensor {quote(stored.name)} was changed while it was read")
    mean = torch_mean(lambda start, stop: np.abs(wide(words[start * width : stop * width], type)), n, sums)
    gain = np.float32(1) / np.maximum(mean, np.float32(SMALLEST_SCALE))
    scales = np.full((1, 1), np.float32(1) / gain)
    return FloatMatrix(words.reshape(rows, -1), type, least_one(gain, type), scales, "absmean")


def _whole(stored: Stored) -> TernaryMatrix | None:
    """Return the trits of a matrix with one magnitude; None if there are several."""
    trits = np.empty(stored.shape[0] * stored.shape[1], dtype=np.int8)
    scale, at = np.float32(0), 0
    for part in float_windows(stored):
        size = np.abs(part)
        if scale == 0 and size.any():
            scale = size[size != 0][0]
        if ((size != 0) & (size != scale)).any():
            return None
        trits[at : at + part.size] = np.sign(part)
        at += part.size
    if scale == 0:
        raise refused(f"tensor {quote(stored.name)} has nothing but zeros")
    return TernaryMatrix(trits.reshape(stored.shape), np.full((1, 1), scale), "ternary")


def _by_groups(stored: Stored) -> TernaryMatrix:
    rows, cols = stored.shape
    step = max(WINDOW // cols, 1)
    for group in GROUPS:
        trits = np.empty((rows, cols), dtype=np.int8)
        scales: list[NDArray[np.float32]] = []
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            part = floats(stored, start * cols, stop * cols).reshape(stop - start, cols)
            found = _grouped(part, group)
            if found is None:
                break
            trits[start:stop] = np.sign(part)
            scales.append(found)
        else:
            return TernaryMatrix(trits, np.concatenate(scales), "groups")
    if looks_ternary(stored):
        raise refused(f"tensor {quote(stored.name)} is not ternary: its first rows are, and others are not")
    raise not_ternary(stored)


def _grouped(rows: NDArray[np.float32], group: int) -> NDArray[np.float32] | None:
    """Return the scale of each group of some rows; None if a group has several magnitudes."""
    count, cols = rows.shape
    if group and cols % group:
        return None
    size = np.abs(rows).reshape(count, -1, group or cols)
    scales: NDArray[np.float32] = size.max(axis=2)
    return None if ((size != 0) & (size != scales[:, :, None])).any() else scales
