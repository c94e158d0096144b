"""This module draws a block of a type with a scale for each group: of each byte its codes, the weights and their elements.

The places of codes and scale are those of the declaration; the bytes are packed by the codec's definition.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from i2s_spec.codec.blocks import block_reference
from i2s_spec.draw.svg import drawing, rect, text
from i2s_spec.schema.block_layout import DIGITS_PER_BYTE, BlockLayout, block_layout
from i2s_spec.schema.types import TAIL_BYTES

#: Bytes side by side, and the size of a cell.
ACROSS: Final = 16
_WIDE: Final = 40
_HIGH: Final = 36
_LEFT: Final = 72
_TOP: Final = 40

#: The scale that is drawn: 0.75, which both float types hold exactly.
SCALE: Final = 0.75

_WEIGHTS: Final = {-1: "−1", 0: "0", 1: "+1"}


def example(layout: BlockLayout) -> tuple[list[int], bytes]:
    """The weights that are drawn, and the bytes of a row of one block that holds them."""
    weights = [(k * k // 7 + k) % 3 - 1 for k in range(layout.block)]
    values = np.array([weights], dtype=np.int8)
    return weights, block_reference.pack(values, SCALE, layout.name)


def places(layout: BlockLayout) -> dict[int, str]:
    """The places in a byte, from the lowest bits or the first digit on, and their names."""
    if layout.coding == "bits":
        return {shift: f"bits {shift + 1}:{shift}" for shift in (0, 2, 4, 6)}
    return {n: f"digit {n}" for n in range(DIGITS_PER_BYTE)}


def block_type(name: str) -> str:
    """One block, and the scale in it or in front of its row; or, of scales that are apart, a tensor of one row.

    :raises ValueError: for a type without blocks
    """
    layout = block_layout(name)
    weights, data = example(layout)
    front, lines = layout.type.row_bytes, places(layout)
    owner = {layout.find(k): k for k in range(layout.block)}
    at = layout.scale.offset + (front if layout.scale.per == "block" else 0)
    if layout.scale.apart:
        at += layout.nbytes
    scale = range(at, at + layout.scale.nbytes)
    band = _TOP + len(lines) * _HIGH + 14
    parts = []
    for below in range(0, -(-len(data) // ACROSS) * band, band):
        parts += [text(0, below + 14, "byte", "side"), text(0, below + 32, "hex", "side")]
        parts += [
            text(0, below + _TOP + _HIGH * i + 22, words, "side") for i, words in enumerate(lines.values())
        ]  # fmt: skip
    for byte, held in enumerate(data):
        x, below = _LEFT + _WIDE * (byte % ACROSS), byte // ACROSS * band
        number = str(byte - front) if byte >= front else ""
        parts.append(text(x + _WIDE / 2, below + 14, number, "offset", "middle"))
        parts.append(text(x + _WIDE / 2, below + 32, f"{held:02x}", "hex", "middle"))
        if byte in scale:
            parts.append(_scale_byte(layout, byte - at, x, below + _TOP, len(lines) * _HIGH))
            continue
        if byte - front >= layout.nbytes:
            parts.append(rect(x, below + _TOP, _WIDE, len(lines) * _HIGH, "trit tx", "means nothing"))
            continue
        for i, (place, words) in enumerate(lines.items()):
            k, y = owner.get((byte - front, place)), below + _TOP + _HIGH * i
            if k is None:
                parts.append(rect(x, y, _WIDE, _HIGH, "trit tx", f"byte {byte - front}, {words}: no element"))
                continue
            weight = weights[k]
            says = f"byte {byte - front}, {words}: code {weight + 1}, element {k}, {_WEIGHTS[weight]}"
            parts.append(rect(x, y, _WIDE, _HIGH, f"trit t{weight + 1}", says))
            parts.append(text(x + _WIDE / 2, y + 16, _WEIGHTS[weight], "digit", "middle"))
            parts.append(text(x + _WIDE / 2, y + 30, str(k), "number", "middle"))
    more = (
        f"{layout.nbytes} bytes, a column for each, and in it the {len(lines)} codes that it has room for, each with the "
        f"weight it stands for and the number of its element, 0 to {layout.block - 1}. The scale, {layout.scale.type}, "
        + _place_of_scale(layout)
    )
    width, height = _LEFT + _WIDE * min(len(data), ACROSS) + 2, -(-len(data) // ACROSS) * band
    return drawing(width, height, f"A block of {layout}", more, *parts, style="i2s-figure i2s-block")


def _place_of_scale(layout: BlockLayout) -> str:
    if layout.scale.apart:
        return f"is behind the blocks of all rows, then {TAIL_BYTES} bytes that mean nothing."
    return f"is at byte {layout.scale.offset}." if layout.scale.per == "block" else "is in front of the row's blocks."


def _scale_byte(layout: BlockLayout, i: int, x: float, y: float, high: float) -> str:
    """A byte of the scale; the words are under its first two."""
    says = f"byte {i} of the scale, {layout.scale.type} {SCALE}, of the {layout.scale.per}"
    box = rect(x, y, _WIDE, high, "field", says)
    if i == 0:
        words = ("scale", layout.scale.type, str(SCALE))
        box += "".join(
            text(x + _WIDE / 2, y + high / 2 - 10 + 16 * j, word, "kind", "middle") for j, word in enumerate(words)
        )
    return box
