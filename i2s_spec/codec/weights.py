"""This module sees the float weights of a tensor as float32, a window at a time, as producers convert them first.

NumPy has no bfloat16: its words are uint16 here, and `from_bfloat16` and `to_bfloat16` say what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def from_bfloat16(words: NDArray[Any]) -> NDArray[np.float32]:
    """Words of bfloat16, in whatever byte order, as float32: exactly, since a word is the upper half of one."""
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """float32 as words of bfloat16: rounded to nearest, ties to even. A NaN may become another number."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)).astype(np.uint16)


class Weights:
    """Weights of a tensor, or of a slice: floats of any width, bfloat16 (also its bits as uint16), or signed integers.

    :raises TypeError: for anything else
    """

    def __init__(self, weights: ArrayLike) -> None:
        array = np.asarray(weights)
        kind = array.dtype
        if kind.kind not in "fi" and (kind.kind, kind.itemsize) != ("u", 2) and kind.name != "bfloat16":
            raise TypeError(f"weights are floats, or bfloat16 as uint16, not {array.dtype}")
        self.shape = array.shape
        self.flat: NDArray[Any] = array.reshape(-1)

    def __len__(self) -> int:
        return self.flat.size

    def values(self, start: int, stop: int) -> NDArray[np.float32]:
        """Elements `start` to `stop` as float32."""
        part = self.flat[start:stop]
        if part.dtype.kind == "u":
            return from_bfloat16(part)
        with np.errstate(all="ignore"):  # what is beyond float32 becomes an infinity
            return part.astype(np.float32, copy=False)

    def magnitudes(self, start: int, stop: int) -> NDArray[np.float32]:
        """Absolute values of elements `start` to `stop` as float32."""
        return np.abs(self.values(start, stop))
