"""What is seen in a part of a payload, in the form that the survey and its slow twin share; and the tail.

`PayloadObservation` is for codes, `Groups` for types with a scale for each group. `read_tail` and `write_tail` are for
the 32 bytes after a payload, of which four are the scale; `classify` says what the others hold:

    >>> classify(bytes.fromhex("0000403f") * 8), classify(bytes.fromhex("0000403f") + bytes(28))
    ('replicated', 'zero')
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import SCALE_BYTES, TAIL_BYTES

if TYPE_CHECKING:
    import numpy as np

    from i2s_spec.schema.dialect import Tail

#: Bytes that are examined together, and by which a fingerprint takes the payload apart.
BLOCK: Final = 4096
#: The shortest run of one byte that counts as one.
LEAST_RUN: Final = 256


class PayloadObservation(NamedTuple):
    """What is in a stretch of a payload; positions count from the start of the payload, -1 is nowhere.

    `non_finite` counts floats, or scales of blocks, that are infinite or NaN. `run` bytes of one value from `run_at` on are
    the longest run, if it has `LEAST_RUN` bytes; `last` is where the run begins that ends the stretch. Counts are of codes,
    whatever the type.
    """

    seen: int
    counts: tuple[int, int, int, int]
    first_unused: int
    run_at: int
    run: int
    run_value: int
    last: int
    last_value: int
    digest: int
    non_finite: int
    first_non_finite: int


#: Scales are sorted by their octaves where a tensor has so many: fewer say nothing, and a file may have many such tensors.
GROUPS_FROM: Final = 64
#: Scales are sorted into so many octaves: by the exponent of a float16.
OCTAVES: Final = 32
#: What the compiled kernels call the ternary types with a scale for each group; Q2_0_G128 and PQ2_0 are one.
KINDS: Final = {
    "Q2_0": 0, "Q2_0_G128": 1, "PQ2_0": 1, "TQ2_0": 2, "IQ2_BN": 3, "TQ1_0": 4, "PTQ1_0": 5, "IQ1_BN": 6,
}  # fmt: skip
#: Blocks that they take at once.
TILE: Final = 32


class ScalePlaces(NamedTuple):
    """Where the scales of a type that is not ternary are: bytes of a block, bytes of a scale, and where the first and the
    second are in a block; -1 where there is no second."""

    block: int
    width: int
    first: int
    second: int


class Groups(NamedTuple):
    """What is in a stretch of a payload with a scale for each group; -1 is nowhere.

    `odd` counts codes 3 where two bits are a code, and bytes that no packer writes where digits are; `first_odd` is a byte
    of the payload. The other places are numbers of groups. Of scales, which only whole groups have, `infinite` counts those
    that are infinite or NaN, `negative` finite ones below 0, `lost` zeros in groups with weights that are not 0. `largest`
    has the bits of the largest magnitude that is finite, 0 where there is none. `octaves` counts finite scales that are not
    0 by the exponent of a float16, those of float32 likewise, with what is out of range at either end; it is empty where
    that was not asked for.
    """

    odd: int
    first_odd: int
    scales: int
    infinite: int
    first_infinite: int
    negative: int
    first_negative: int
    lost: int
    first_lost: int
    largest: int
    first_largest: int
    octaves: tuple[int, ...]


# --- tail ------------------------------------------------------------------------------------------------------------
# The scale is a float32 in the byte order of the file, at any address. The other 28 bytes mean nothing (clause 6.1):
# what they hold tells something about who wrote the file, and never that it is wrong.

#: What the 28 bytes after the scale hold: nothing but zeros, seven more copies of the scale, or anything else.
TailKind = Literal["zero", "replicated", "stale"]

#: The first magnitude that rounds to infinity: halfway between the largest float32 and the next that there would be.
_FLOAT32_END = (2 - 2**-24) * 2.0**127

_FLOAT32: Final = {"little": "<f4", "big": ">f4"}


def classify(tail: Any) -> TailKind:
    """Return the kind of the 28 bytes after the scale; bits are compared, so that byte order does not matter.

    A tail of zeros throughout is `zero`. No answer makes a tail invalid: `stale` is what most published files have.

    :param tail: 32 bytes, anything with the buffer protocol
    :raises ValueError: for another number of bytes
    """
    data = bytes_of_tail(tail)
    if not any(data[SCALE_BYTES:]):
        return "zero"
    return "replicated" if data == data[:SCALE_BYTES] * (TAIL_BYTES // SCALE_BYTES) else "stale"


def read_tail(data: Any, tail: Tail, byte_order: ByteOrder = "little") -> np.float32:
    """Return the scale that a tail of 32 bytes holds, whatever its value (clause 6.1).

    :raises ValueError: for another number of bytes, and where a tail that repeats the scale holds two different ones
    """
    import numpy as np

    raw = bytes_of_tail(data)
    first = raw[:SCALE_BYTES]
    for number in range(1, tail.copies):
        if (other := raw[SCALE_BYTES * number : SCALE_BYTES * (number + 1)]) != first:
            raise ValueError(f"{tail} repeats the scale, but copy {number} is {other.hex()} and copy 0 {first.hex()}")
    scale: np.float32 = np.frombuffer(first, dtype=_FLOAT32[byte_order])[0]
    return scale


def write_tail(scale: float | np.float32, tail: Tail, byte_order: ByteOrder = "little") -> bytes:
    """Return the 32 bytes after the payload; what is not the scale is zero (clause 6.1).

    :raises ValueError: for a finite scale beyond what a float32 holds
    """
    import numpy as np

    word = np.array([float32_scale(scale)]).astype(_FLOAT32[byte_order]).tobytes()
    return (word * tail.copies).ljust(TAIL_BYTES, b"\0")


def one_scale(scale: Any) -> Any:
    """Return a number, or the only element of an array.

    :raises ValueError: for an array of another number of elements
    """
    import numpy as np

    numbers = np.asarray(scale)
    if numbers.shape not in {(), (1,)}:
        raise ValueError(f"a tensor has one scale, not an array of shape {numbers.shape}")
    return numbers.reshape(())[()]


def float32_scale(scale: float | np.float32) -> np.float32:
    """Return a scale as float32, rounded; infinities and every bit of a NaN are kept.

    :raises ValueError: for a finite scale beyond what a float32 holds
    """
    import numpy as np

    value = float(scale)
    if isfinite(value) and abs(value) >= _FLOAT32_END:
        raise ValueError(f"the scale {value} is beyond what a float32 holds")
    rounded: np.float32 = np.array([scale], dtype=np.float32)[0]
    return rounded


def bytes_of_tail(data: Any) -> bytes:
    """Return a tail as bytes, once its size is known to be right."""
    view = memoryview(data)
    if view.nbytes != TAIL_BYTES:
        raise ValueError(f"a tail has {TAIL_BYTES} bytes; there are {view.nbytes:,}")
    return view.tobytes()
