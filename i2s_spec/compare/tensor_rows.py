"""Tensors as rows of numbers, a window at a time: trits of ternary tensors, float32 of tensors of floats.

>>> import numpy as np
>>> rows = flat_rows((2, 3), 4, lambda start, stop: np.arange(6, dtype=np.float32)[start:stop], 0.0)
>>> rows.read(1, 2).tolist()
[[3.0, 4.0, 5.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec.shape import FLOAT_WORDS, widened
from i2s_spec.schema.faults import order_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.schema.dialect import Dialect

#: Numbers of a window.
WINDOW: Final = 1 << 20

#: How far, relatively, numbers of a type of floats lie apart that are the same before they are rounded to it.
ROUNDING: Final = {"F32": 2.0**-20, "F16": 2.0**-10, "BF16": 2.0**-7}

#: The same for two scales of trits: bfloat16 has 8 bits of precision.
SCALE: Final = 1 / 128

#: How far apart equal numbers may lie because the smallest ones of F16 have fewer bits.
SMALLEST: Final = 2.0**-24


class Rows(NamedTuple):
    """A tensor as rows and columns; one of one dimension has a column.

    `read` gives rows from one to another, [rows, cols]: int8 trits, or float32. `tolerance` is how far, relatively, equal
    numbers may lie apart. `swapped` gives so many of the first rows with the bytes of each 32-bit word turned round.
    `scaled` are trits times a scale.
    """

    rows: int
    cols: int
    read: Callable[[int, int], NDArray[Any]]
    tolerance: float
    swapped: Callable[[int], NDArray[Any]] | None = None
    scaled: bool = False

    def windows(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield all rows: the first of each window, and its numbers."""
        step = max(1, WINDOW // max(1, self.cols))
        for start in range(0, self.rows, step):
            yield start, self.read(start, min(start + step, self.rows))


def flat_rows(
    shape: tuple[int, ...],
    unit: int,
    fetch: Callable[[int, int], NDArray[Any]],
    tolerance: float,
    swapped: Callable[[int], NDArray[Any]] | None = None,
) -> Rows:
    """Return a tensor whose numbers come in ranges of whole units.

    :param fetch: gives the flat numbers of a range whose ends are multiples of `unit`, or the end
    :param swapped: the same for so many of the first numbers, a multiple of `unit`, with words turned round
    """
    rows, cols = (prod(shape), 1) if len(shape) < 2 else (prod(shape[:-1]), shape[-1])
    total = rows * cols

    def read(start: int, stop: int) -> NDArray[Any]:
        first, last = start * cols, stop * cols
        low, high = first // unit * unit, min(-(-last // unit) * unit, total)
        return fetch(low, high)[first - low : last - low].reshape(stop - start, cols)

    def first(count: int) -> NDArray[Any]:
        assert swapped is not None
        return swapped(min(-(-count * cols // unit) * unit, total))[: count * cols].reshape(count, cols)

    return Rows(rows, cols, read, tolerance, None if swapped is None else first)


def rows_of(file: File, tensor: Tensor, dialect: str | Dialect = "canonical") -> Rows:
    """Return a tensor of a GGUF file as rows.

    :param dialect: of I2_S; the unused code is taken for 0
    :raises ValueError: for types that hold neither trits nor floats, and shapes that have no place in them
    :raises FormatError: where the file does not hold the tensor
    """
    name = tensor.type.name if tensor.type is not None else ""
    span = tensor.span
    tensor.require(span)
    if name in FLOAT_WORDS:

        def turned(count: int) -> NDArray[np.float32]:
            return _float_range(file, span.start, name, 0, count, swap=True)

        return flat_rows(tensor.shape, 4, partial(_float_range, file, span.start, name), ROUNDING[name], turned)
    held = tensor.ternary(dialect, "zero")
    form = held.encoding

    def trits(start: int, stop: int) -> NDArray[np.int8]:
        return form.decode(held.fetch(form.byte(start), form.byte(stop)), stop - start, "zero").trits

    def swapped(count: int) -> NDArray[np.int8]:
        return form.decode(_turned(held.fetch(0, form.byte(count))), count, "zero").trits

    return flat_rows(tensor.shape, form.unit, trits, 0.0, swapped if name == "I2_S" else None)


def value_rows(file: File, tensor: Tensor, dialect: str | Dialect = "canonical") -> Rows:
    """Return a tensor of a GGUF file as rows of float32: floats, or trits times their scales.

    :raises ValueError: as `rows_of` does
    :raises FormatError: where the file does not hold the tensor
    """
    if tensor.kind in FLOAT_WORDS:
        return rows_of(file, tensor)
    from i2s_spec.codec.quantized import dequantize_ternary

    held = tensor.ternary(dialect, "zero")
    form = held.encoding
    if tensor.kind == "I2_S":
        return scaled_rows(rows_of(file, tensor, dialect), np.float32(held.scale))

    def values(start: int, stop: int) -> NDArray[np.float32]:
        data, shape = held.fetch(form.byte(start), form.byte(stop)), form.matrix(stop - start)
        return dequantize_ternary(data, shape, form.type, form.dialect, form.byte_order, "zero").reshape(-1)

    return flat_rows(tensor.shape, form.unit, values, SCALE)._replace(scaled=True)


def scaled_rows(trits: Rows, scale: np.float32) -> Rows:
    """Return rows of trits as float32, with their scale."""
    return Rows(trits.rows, trits.cols, lambda start, stop: trits.read(start, stop) * scale, SCALE, scaled=True)


def _turned(data: bytes) -> bytes:
    whole = len(data) // 4 * 4
    return np.frombuffer(data[:whole], dtype="<u4").byteswap().tobytes() + data[whole:]


def float_reader(file: File, tensor: Tensor) -> Callable[[int, int], NDArray[np.float32]] | None:
    """Return a reader of ranges of a tensor's flat elements as float32; None for other types than F32, F16 and BF16.

    :raises FormatError: where the file does not hold the tensor
    """
    name = tensor.type.name if tensor.type is not None else ""
    span = tensor.span
    tensor.require(span)
    return partial(_float_range, file, span.start, name) if name in FLOAT_WORDS else None


def _float_range(file: File, at: int, kind: str, start: int, stop: int, swap: bool = False) -> NDArray[np.float32]:
    """Return elements `start` to `stop` of a float tensor whose bytes begin at `at`; `swap` turns each 32-bit word round."""
    stored, native = _words(file.byte_order, kind)
    data = file.source.read(at + stored.itemsize * start, stored.itemsize * (stop - start))
    return widened(np.frombuffer(_turned(data) if swap else data, stored).astype(native, copy=False), kind)


@lru_cache
def _words(byte_order: str, kind: str) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the words of a float type as unsigned integers: as a file holds them, and in native order."""
    stored = np.dtype(order_prefix(byte_order) + FLOAT_WORDS[kind])
    return stored, stored.newbyteorder("=")
