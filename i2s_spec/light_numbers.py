"""This module has the parts of `math`, `struct` and `array` that most files need.

Those libraries are machine code in files of their own: loading the three takes longer than a small file's numbers.

    >>> prod((2, 3, 4)), isfinite(1e300), isfinite(float("nan"))
    (24, True, False)
    >>> list(numbers("f", bytes.fromhex("0000403f"), "little"))
    [0.75]
    >>> series("q", 2, [5, 6])
    [5, 6]
"""

from __future__ import annotations

import sys

from i2s_spec.light_typing import Any, Final, Iterable, Literal, MutableSequence, Sequence

#: Up to so many numbers are kept in a list: what an array saves is less than the library that makes it.
FEW: Final = 1024


def prod(numbers: Iterable[int]) -> int:
    """The product of some numbers, as `math.prod` gives it."""
    product = 1
    for number in numbers:
        product *= number
    return product


def isfinite(number: float) -> bool:
    """Whether a number is neither infinite nor NaN, as `math.isfinite` says."""
    return number - number == 0


def numbers(kind: str, data: bytes, order: Literal["little", "big"]) -> Sequence[Any]:
    """Bytes as numbers of a kind of `struct` that has one to eight bytes, except `e`.

    :param data: whole numbers
    :param order: the byte order of the data
    """
    if order == sys.byteorder:
        view: Any = memoryview(data)  # `cast` is typed for kinds that are literals
        found: Sequence[Any] = view.cast(kind)
        return found
    import struct

    return struct.unpack(f"{'<' if order == 'little' else '>'}{len(data) // struct.calcsize('=' + kind)}{kind}", data)


def series(kind: str, most: int, values: Iterable[Any] = ()) -> MutableSequence[Any]:
    """A series of numbers that can grow: an array, or a list where there are few.

    :param kind: of the array's numbers
    :param most: how many there will be at most
    :param values: the first ones
    """
    if most <= FEW:
        return list(values)
    from array import array

    return array(kind, values)
