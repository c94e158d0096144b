"""This module gives the weights of a tensor as trits, a window at a time, whatever the type that stores them.

Floats that are all -s, 0 or +s are exact. All others are weights before ternary quantization: they are rounded with
their mean magnitude as scale, as the training of these models does; values near half of it may be rounded either way.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from i2s_spec.codec.ternary_types import NotTernaryError
from i2s_spec.codec.trits import WINDOW
from i2s_spec.inspect.compare.tensor_rows import float_reader
from i2s_spec.inspect.identify.reference import NOTHING, SAME
from i2s_spec.schema.dialect import Dialect
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor


class Known(NamedTuple):
    """The weights of one tensor, in NumPy's shape.

    `trits` gives the int8 trits of a range of flat elements; its ends are multiples of `unit`, or the tensor's end.
    `scale` is the value of +1, None if it is not known; `exact` is False for weights that were rounded here. For an
    I2_S payload, `payload` gives the bytes that hold a range.
    """

    shape: tuple[int, ...]
    unit: int
    trits: Callable[[int, int], NDArray[np.int8]]
    scale: float | None
    exact: bool = True
    payload: Callable[[int, int], bytes] | None = None
    dialect: Dialect | None = None

    def whole(self) -> NDArray[np.int8]:
        """All trits, int8 of the tensor's shape."""
        found = np.empty(prod(self.shape), dtype=np.int8)
        step = max(WINDOW // self.unit, 1) * self.unit
        for start in range(0, found.size, step):
            found[start : start + step] = self.trits(start, min(start + step, found.size))
        return found.reshape(self.shape)

    def first_rows(self, rows: int) -> NDArray[np.int8]:
        """The trits of the first `rows` rows, int8 [rows, cols]."""
        cols = self.shape[-1]
        stop = min(-(-rows * cols // self.unit) * self.unit, prod(self.shape))
        return self.trits(0, stop)[: rows * cols].reshape(rows, cols)


def of_tensor(file: File, tensor: Tensor, dialect: str | Dialect = "canonical") -> Known:
    """The weights of a tensor of a GGUF file.

    :param dialect: the dialect of I2_S, which the file does not state; the unused code is read as 0
    :raises ValueError: for types that hold neither trits nor floats, and shapes that the type cannot hold
    :raises FormatError: if the file does not hold the whole tensor
    """
    floats = float_reader(file, tensor)
    if floats is not None:
        return of_floats(tensor.shape, floats)
    held = tensor.ternary(dialect, "zero")
    form = held.form

    def payload(start: int, stop: int) -> bytes:
        return held.fetch(form.byte(start), form.byte(stop))

    def trits(start: int, stop: int) -> NDArray[np.int8]:
        return form.decode(payload(start, stop), stop - start, "zero").trits

    try:
        scale: float | None = float(held.scale)
    except NotTernaryError:  # blocks with scales of their own
        scale = None
    packed = tensor.number == I2_S.number
    return Known(
        tensor.shape, form.unit, trits, scale, True, payload if packed else None, form.dialect if packed else None
    )  # fmt: skip


def of_floats(shape: tuple[int, ...], fetch: Callable[[int, int], NDArray[np.float32]]) -> Known:
    """Floats as trits. They are read twice: first to find the scale and whether they are exact.

    :param fetch: gives the float32 of a range of flat elements
    :raises ValueError: for infinities and NaN
    """
    total = prod(shape)
    windows = [(start, min(start + WINDOW, total)) for start in range(0, total, WINDOW)]
    largest, added = 0.0, 0.0
    for window in windows:
        magnitude = np.abs(fetch(*window))
        largest = max(largest, float(magnitude.max()))
        added += float(magnitude.sum(dtype=np.float64))
    if not isfinite(added):
        raise ValueError("it holds infinities or NaN")
    exact = all(_ternary(np.abs(fetch(*window)), largest) for window in windows)
    scale = largest if exact else added / total
    least = np.float32(0.5 * scale)

    def trits(start: int, stop: int) -> NDArray[np.int8]:
        values = fetch(start, stop)
        return np.where(np.abs(values) < least, np.int8(0), np.sign(values).astype(np.int8))

    return Known(shape, 1, trits, scale, exact)


def _ternary(magnitude: NDArray[np.float32], largest: float) -> bool:
    """Whether every magnitude is 0 or the largest, as far as 16-bit words can tell."""
    return bool(((magnitude <= NOTHING * largest) | (magnitude >= SAME * largest)).all())
