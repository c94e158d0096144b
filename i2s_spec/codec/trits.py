"""This module reads the trits and the scale of a tensor of any type that can hold them, a window at a time.

Where all weights are 0, types other than I2_S have the scale 0.

    >>> data = bytes.fromhex("003f 00bf 0000 0080")
    >>> Trits(Form("BF16", (2, 2)), lambda start, stop: data[start:stop]).whole()
    (array([[ 1, -1],
           [ 0,  0]], dtype=int8), np.float32(0.5))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import numpy as np

from i2s_spec.codec.form import Decoded, Form
from i2s_spec.codec.payload import UnusedCodeError
from i2s_spec.codec.quantization.in_order import in_order
from i2s_spec.codec.tail import read_tail
from i2s_spec.codec.ternary_types import BLOCK_TYPES, NotTernaryError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Result = TypeVar("_Result")

#: Elements that are worked on at a time, unless a layout has larger units.
WINDOW: Final = 1 << 20

#: Different magnitudes that are counted before a tensor is given up.
MOST_MAGNITUDES: Final = 1000


class Trits:
    """The trits and the scale of a tensor; nothing is read before it is asked for.

    :param form: how the bytes hold them
    :param fetch: gives the bytes from one place in the tensor to another
    :param unused: whether the unused code is an error or 0
    """

    def __init__(
        self, form: Form, fetch: Callable[[int, int], bytes], unused: Literal["reject", "zero"] = "reject"
    ) -> None:
        self.form = form
        self.fetch = fetch
        self.unused = unused

    @cached_property
    def tail(self) -> bytes:
        """The 32 bytes after an I2_S payload."""
        start = self.form.byte(self.form.elements)
        return self.fetch(start, start + self.form.tail_bytes)

    @cached_property
    def scale(self) -> np.float32:
        """What +1 stands for, float32; of types other than I2_S all bytes are read to find it.

        :raises NotTernaryError: where there is more than one
        """
        if self.form.type == "I2_S":
            return read_tail(self.tail, self.form.dialect.tail, self.form.byte_order)
        found: set[float] = set()
        for window in self._fetched():
            found.update(self._decoded(*window).scales.tolist())
            if len(found) > MOST_MAGNITUDES:
                break
        if len(found) > 1:
            raise _too_many(self.form, found)
        return np.float32(found.pop() if found else 0)

    def has_one_scale(self) -> bool:
        """Whether there is a scale; looks no further than the second one.

        :raises NotTernaryError: for infinities and NaN
        """
        if self.form.type == "I2_S":
            return True
        found: set[float] = set()
        for window in self._fetched():
            found.update(self._decoded(*window).scales.tolist())
            if len(found) > 1:
                return False
        return True

    def windows(self, unit: int = 1) -> Iterator[tuple[int, int]]:
        """Ranges of elements that cover the tensor: about a million, in whole units of the form and of somebody else."""
        unit = lcm(self.form.unit, unit)
        step = max(WINDOW // unit, 1) * unit
        return ((at, min(at + step, self.form.elements)) for at in range(0, self.form.elements, step))

    def mapped(
        self, function: Callable[[NDArray[np.int8]], _Result], threads: int = 1, unit: int = 1
    ) -> Iterator[_Result]:
        """What a function makes of the trits of each window, flat, in order.

        :param threads: how many threads decode, and call the function
        :param unit: elements that every window but the last is a multiple of
        :raises NotTernaryError: where the scale is not the same throughout
        :raises UnusedCodeError: where the unused code occurs, unless it is 0
        """
        scale = self.scale

        def work(part: tuple[int, int, bytes]) -> _Result:
            decoded = self._decoded(*part)
            require_scale(decoded.scales, scale)
            return function(decoded.trits)

        try:
            yield from in_order(work, self._fetched(unit), threads)
        except UnusedCodeError as error:
            raise self._counted(error) from None

    def parts(self, threads: int = 1) -> Iterator[NDArray[np.int8]]:
        """The trits of each window, flat; see `mapped`."""
        return self.mapped(lambda trits: trits, threads)

    def whole(self, threads: int = 1) -> tuple[NDArray[np.int8], np.float32]:
        """All trits, int8 of the tensor's shape, and the scale."""
        trits = np.empty(self.form.elements, dtype=np.int8)
        at = 0
        for part in self.parts(threads):
            trits[at : at + part.size] = part
            at += part.size
        return trits.reshape(self.form.shape), self.scale

    def payload(self, unit: int = 1) -> Iterator[bytes]:
        """The bytes of each window, as they are; of I2_S without the tail."""
        return (data for _, _, data in self._fetched(unit))

    def _fetched(self, unit: int = 1) -> Iterator[tuple[int, int, bytes]]:
        """Where each window begins and ends, and its bytes, of I2_S without the tail."""
        for start, stop in self.windows(unit):
            yield start, stop, self.fetch(self.form.byte(start), self.form.byte(stop))

    def _decoded(self, start: int, stop: int, data: bytes) -> Decoded:
        try:
            return self.form.decode(data, stop - start, self.unused)
        except UnusedCodeError as error:
            first = start + error.first
            raise UnusedCodeError(error.code, error.code_map, error.count, first, self.form.cols) from None

    def _counted(self, error: UnusedCodeError) -> UnusedCodeError:
        """The same error, with what comes in all windows."""
        count = 0
        for window in self._fetched():
            try:
                self._decoded(*window)
            except UnusedCodeError as one:
                count += one.count
        return UnusedCodeError(error.code, error.code_map, count, error.first, error.cols)


def require_scale(scales: NDArray[np.float32], scale: np.float32) -> None:
    """Refuse a window with another scale than that of its tensor."""
    if scales.size and (scales != scale).any():
        raise NotTernaryError(f"the scale was {scale:.9g} at first, and now there is {scales[scales != scale][0]:.9g}")


def _too_many(form: Form, found: set[float]) -> NotTernaryError:
    count = f"{len(found):,}" if len(found) <= MOST_MAGNITUDES else f"more than {MOST_MAGNITUDES:,}"
    if form.type in BLOCK_TYPES:
        per = BLOCK_TYPES[form.type].scale.per
        return NotTernaryError(
            f"there are {count} {per} scales, from {min(found):.6g} to {max(found):.6g}, "
            f"where one for all weights is wanted"
        )
    return NotTernaryError(
        f"the weights are not ternary: there are {count} magnitudes other than 0, from {min(found):.6g} to "
        f"{max(found):.6g}, where one would be -s, 0 and +s"
    )
