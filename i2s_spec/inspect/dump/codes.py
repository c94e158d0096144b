"""This module reads single bytes of an I2_S payload: four codes, their bits, their trits, and the elements they belong to.

It shows the canonical layout (interleave-128, clause 5.3), whatever wrote the file: the layout is not marked in it, and
only all the weights together tell it.

    >>> decoded((2, 128), 33, 0x9a)[0]
    Code(bits='7:6', code=2, trit=1, element=129, at=(1, 1))
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from i2s_spec.schema import i2s
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE

#: What the columns say, in one line.
LEGEND: Final = f"canonical layout ({CANONICAL.layout}): code, trit, @element"


class Code(NamedTuple):
    """One code: its bits in the byte, the code, its trit (None for code 3), its element (None after the last), and the
    row and column of that.
    """

    bits: str
    code: int
    trit: int | None
    element: int | None
    at: tuple[int, ...] | None

    @property
    def weight(self) -> int | None:
        """The weight without the scale, under the name that it has in every type: the trit."""
        return self.trit


def decoded(shape: Sequence[int], byte: int, value: int) -> tuple[Code, ...]:
    """The four codes of byte `byte` of a payload, bits 7:6 first.

    :param shape: of the tensor, in NumPy's order
    """
    count = prod(shape)
    codes = []
    for bits, code, element in zip(i2s.BITS, i2s.codes_of(value), i2s.elements_of(byte), strict=True):
        inside = element < count
        at = unraveled(element, shape) if inside else None
        codes.append(Code(bits, code, CANONICAL.code_map.trits[code], element if inside else None, at))
    return tuple(codes)


def unraveled(element: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of a flat, row-major element: (row, column) of a matrix."""
    index: list[int] = []
    for length in reversed(shape):
        element, at = divmod(element, length)
        index.insert(0, at)
    return tuple(index)


class Columns:
    """Four codes to a line, in columns as wide as the largest element of the tensor needs."""

    #: Columns of a terminal that a line takes with the indent before it.
    room: Final = 76

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = shape
        count = prod(shape)
        self._label = max(len("bits"), len(f"[{max(count // CODES_PER_BYTE - 1, 0)}]"))
        self._element = len(str(max(count - 1, 0)))

    def heading(self) -> str:
        """The line above: which bits are in which column."""
        width = len("00 +1 @") + self._element
        return f"{'bits':{self._label}} " + "  ".join(f"{bits:<{width}}" for bits in i2s.BITS).rstrip()

    def label(self, label: str) -> str:
        return label.ljust(self._label)

    def codes(self, byte: int, value: int) -> tuple[Code, ...]:
        """The codes of one byte, as data."""
        return decoded(self.shape, byte, value)

    def line(self, byte: int, value: int) -> str:
        """The codes of one byte; `?` stands for a code without a trit, and for a place after the last element."""
        return "  ".join(
            f"{code.code:02b} {'?' if code.trit is None else format(code.trit, '+d') if code.trit else '0':>2} "
            f"@{'?' if code.element is None else code.element:<{self._element}}"
            for code in self.codes(byte, value)
        ).rstrip()
