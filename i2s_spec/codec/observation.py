"""This module reads, writes and classifies the tail: the 32 bytes after a payload, of which four are the scale.

The scale is a float32 in the byte order of the file, at any address. The other 28 bytes mean nothing (clause 6.1): what
they hold tells something about who wrote the file, and never that it is wrong.

    >>> classify(bytes.fromhex("0000403f") * 8), classify(bytes.fromhex("0000403f") + bytes(28))
    ('replicated', 'zero')
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal

from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.types import SCALE_BYTES, TAIL_BYTES

if TYPE_CHECKING:
    import numpy as np

    from i2s_spec.schema.dialect import Tail

#: What the 28 bytes after the scale hold: nothing but zeros, seven more copies of the scale, or anything else.
TailKind = Literal["zero", "replicated", "stale"]

#: The first magnitude that rounds to infinity: halfway between the largest float32 and the next that there would be.
_FLOAT32_END = (2 - 2**-24) * 2.0**127

_FLOAT32: Final = {"little": "<f4", "big": ">f4"}


def classify(tail: Any) -> TailKind:
    """What the 28 bytes after the scale are; bits are compared, so that byte order does not matter.

    A tail of zeros throughout is `zero`. No answer makes a tail invalid: `stale` is what most published files have.

    :param tail: 32 bytes, anything with the buffer protocol
    :raises ValueError: for another number of bytes
    """
    data = bytes_of_tail(tail)
    if not any(data[SCALE_BYTES:]):
        return "zero"
    return "replicated" if data == data[:SCALE_BYTES] * (TAIL_BYTES // SCALE_BYTES) else "stale"


def read_tail(data: Any, tail: Tail, byte_order: ByteOrder = "little") -> np.float32:
    """The scale that a tail of 32 bytes holds, whatever its value (clause 6.1).

    :raises ValueError: for another number of bytes, and where a tail that repeats the scale holds two different ones
    """
    import numpy as np

    raw = bytes_of_tail(data)
    first = raw[:SCALE_BYTES]
    for number in range(1, tail.copies):
        if (other := raw[SCALE_BYTES * number : SCALE_BYTES * (number + 1)]) != first:
            raise ValueError(f"{tail} repeats the scale, but copy {number} is {other.hex()} and copy 0 {first.hex()}")
    scale: np.float32 = np.frombuffer(first, dtype=_FLOAT32[byte_order]).astype(np.float32)[0]
    return scale


def write_tail(scale: float | np.float32, tail: Tail, byte_order: ByteOrder = "little") -> bytes:
    """The 32 bytes after the payload; what is not the scale is zero (clause 6.1).

    :raises ValueError: for a finite scale beyond what a float32 holds
    """
    import numpy as np

    word = np.array([float32_scale(scale)]).astype(_FLOAT32[byte_order]).tobytes()
    return (word * tail.copies).ljust(TAIL_BYTES, b"\0")


def one_scale(scale: Any) -> Any:
    """A number, or the only element of an array.

    :raises ValueError: for an array of another number of elements
    """
    import numpy as np

    numbers = np.asarray(scale)
    if numbers.shape not in {(), (1,)}:
        raise ValueError(f"a tensor has one scale, not an array of shape {numbers.shape}")
    return numbers.reshape(())[()]


def float32_scale(scale: float | np.float32) -> np.float32:
    """A scale as float32, rounded; infinities and every bit of a NaN are kept.

    :raises ValueError: for a finite scale beyond what a float32 holds
    """
    import numpy as np

    value = float(scale)
    if isfinite(value) and abs(value) >= _FLOAT32_END:
        raise ValueError(f"the scale {value} is beyond what a float32 holds")
    rounded: np.float32 = np.array([scale], dtype=np.float32)[0]
    return rounded


def bytes_of_tail(data: Any) -> bytes:
    """A tail as bytes, once its size is known to be right."""
    view = memoryview(data)
    if view.nbytes != TAIL_BYTES:
        raise ValueError(f"a tail has {TAIL_BYTES} bytes; there are {view.nbytes:,}")
    return view.tobytes()
