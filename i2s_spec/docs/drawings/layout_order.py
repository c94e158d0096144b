"""This module draws the dialects: which element each pair of bits holds in each layout, as a color that deepens with k."""

from __future__ import annotations

from typing import Final

from i2s_spec.draw.svg import drawing, element, text
from i2s_spec.schema.dialect import CODES_PER_BYTE, LAYOUTS, Layout
from i2s_spec.schema.i2s import BITS, SHIFTS

#: The matrix that is drawn: its rows and columns, and how many of its first bytes.
ROWS: Final = 4
COLS: Final = 64
BYTES: Final = 16

_WIDE: Final = 36
_HIGH: Final = 16
_LEFT: Final = 124
_STEP: Final = 104


def layout_order() -> str:
    """The first bytes of the same matrix in every layout."""
    marks = []
    for place, layout in enumerate(LAYOUTS.values()):
        marks.append(_layout(layout, place * _STEP))
    more = (
        f"For each layout the first {BYTES} bytes of a matrix of {ROWS} rows of {COLS} elements, a column for each byte "
        "and a line for each pair of bits. The deeper the color, the later the element in the row; a frame marks the "
        "elements of the first row."
    )
    return drawing(
        _LEFT + BYTES * _WIDE + 2, len(LAYOUTS) * _STEP - 8, "The same matrix in every layout", more, *marks,
        style="i2s-figure i2s-order",
    )  # fmt: skip


def _layout(layout: Layout, top: int) -> str:
    owner = {(layout.byte_of(k, ROWS, COLS), layout.shift_of(k, ROWS, COLS)): k for k in range(ROWS * COLS)}
    first = ", ".join(str(owner[0, shift]) for shift in SHIFTS)
    parts = [
        text(0, top + 12, layout.name, "word"),
        text(_LEFT, top + 12, f"byte 0 holds elements {first}", "side"),
    ]
    for line, (bits, shift) in enumerate(zip(BITS, SHIFTS, strict=True)):
        y = top + 20 + line * _HIGH
        parts.append(text(_LEFT - 8, y + 12, f"bits {bits}", "offset", "end"))
        for byte in range(min(BYTES, ROWS * COLS // CODES_PER_BYTE)):
            k = owner[byte, shift]
            box = {
                "class": "element first" if k < COLS else "element", "x": _LEFT + byte * _WIDE + 0.5, "y": y + 0.5,
                "width": _WIDE - 1, "height": _HIGH - 1, "fill-opacity": 0.06 + 0.8 * k / (ROWS * COLS),
            }  # fmt: skip
            parts.append(element("rect", dict(box)))
            parts.append(text(_LEFT + (byte + 0.5) * _WIDE, y + 11.5, str(k), "kind", "middle"))
    return "".join(parts)
