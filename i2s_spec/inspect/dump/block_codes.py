"""This module reads single bytes of a block of a type with a scale for each group: codes, weights, elements.

>>> from i2s_spec.schema.block_layout import BLOCK_LAYOUTS
>>> decoded_block(BLOCK_LAYOUTS["Q2_0"], (2, 128), 20, 0x9a)[1]
BlockCode(place='3:2', code=2, weight=1, element=65, at=(0, 65))
>>> [code.code for code in decoded_block(BLOCK_LAYOUTS["PTQ1_0"], (2, 128), 0, 255)]
[2, 2, 2, 2, 2]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Final, NamedTuple

from i2s_spec.inspect.dump.codes import unraveled
from i2s_spec.schema.block_layout import DIGITS_PER_BYTE, FOURTH_CODE, BlockLayout

_BITS: Final = {0: "1:0", 2: "3:2", 4: "5:4", 6: "7:6"}
_DIGITS: Final = {n: f"digit {n}" for n in range(DIGITS_PER_BYTE)}

#: Columns in front of a line of codes: depth in the tree, and the label of the widest record.
_INDENT: Final = 16


class BlockCode(NamedTuple):
    """One code: its bits in the byte or its digit, the code, its weight without the scale (None for a reserved code), its
    element (None for a digit that no element has), and the index of that in the tensor.
    """

    place: str
    code: int
    weight: int | None
    element: int | None
    at: tuple[int, ...] | None


def legend(layout: BlockLayout) -> str:
    """What the columns say, in a few words."""
    return f"{'code' if layout.coding == 'bits' else 'digit'}, weight without scale, @element"


def decoded_block(layout: BlockLayout, shape: Sequence[int], offset: int, value: int) -> tuple[BlockCode, ...]:
    """The codes of a byte, lowest bits or first digit first.

    :param shape: of the tensor, in NumPy's order
    :param offset: of the byte from the start of the tensor; one that holds codes
    """
    row, within = divmod(offset, layout.type.row_bytes + shape[-1] // layout.block * layout.nbytes)
    block, byte = divmod(within - layout.type.row_bytes, layout.nbytes)
    first, count = row * shape[-1] + block * layout.block, prod(shape)
    found = []
    for place, words in (_BITS if layout.coding == "bits" else _DIGITS).items():
        code = value >> place & 3 if layout.coding == "bits" else (value * 3**place % 256) * 3 >> 8
        k = _elements(layout)[byte].get(place)
        element = first + k if k is not None and first + k < count else None
        weight = None if code == FOURTH_CODE and layout.fourth != "weight" else code - 1
        found.append(BlockCode(words, code, weight, element, None if element is None else unraveled(element, shape)))
    return tuple(found)


@cache
def _elements(layout: BlockLayout) -> tuple[dict[int, int], ...]:
    """Of each byte of a block its elements by their places."""
    held: tuple[dict[int, int], ...] = tuple({} for _ in range(layout.nbytes))
    for k in range(layout.block):
        byte, place = layout.find(k)
        held[byte][place] = k
    return held


class BlockColumns:
    """The codes of a byte in a line, in columns as wide as the largest element of the tensor needs."""

    def __init__(self, layout: BlockLayout, shape: Sequence[int]) -> None:
        self.layout, self.shape = layout, shape
        self._label = max(len("bits"), len(f"[{layout.nbytes - 1}]"))
        self._element = len(str(max(prod(shape) - 1, 0)))

    @property
    def room(self) -> int:
        """Columns of a terminal that a line takes with what is in front of it."""
        return _INDENT + len(self.heading()) + self._element

    def heading(self) -> str:
        """The line above: which bits or digit are in which column."""
        places = _BITS if self.layout.coding == "bits" else _DIGITS
        width = self._code + len(" +1 @") + self._element
        label = "bits" if self.layout.coding == "bits" else ""
        return f"{label:{self._label}} " + "  ".join(f"{words:<{width}}" for words in places.values()).rstrip()

    @property
    def _code(self) -> int:
        return 2 if self.layout.coding == "bits" else 1

    def label(self, label: str) -> str:
        return label.ljust(self._label)

    def codes(self, offset: int, value: int) -> tuple[BlockCode, ...]:
        """The codes of one byte, as data."""
        return decoded_block(self.layout, self.shape, offset, value)

    def line(self, offset: int, value: int) -> str:
        """The codes of one byte; `?` stands for a reserved code, and for a digit that no element has."""
        form = f"0{self._code}b" if self.layout.coding == "bits" else "d"
        return "  ".join(
            f"{code.code:{form}} {'?' if code.weight is None else format(code.weight, '+d') if code.weight else '0':>2} "
            f"@{'?' if code.element is None else code.element:<{self._element}}"
            for code in self.codes(offset, value)
        ).rstrip()
