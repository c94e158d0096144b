"""This module writes the types with a scale for each group as types of Kaitai Struct, from their declarations.

Kaitai has no half precision, so a half is computed from its bits; an infinity or NaN, which Kaitai has no literal for,
is left out, and its bits are still there. Which of the types that share a number a file means is told by the room of its
tensors (clause 2.6), and of a tensor so small that several fit, by the others of the file: each of the types is an
instance, and nothing is read before it is asked for.
"""

from __future__ import annotations

import json
from typing import Final

from i2s_spec.exports.formula import by_parts, in_c
from i2s_spec.schema.block_layout import DIGITS_PER_BYTE, GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.types import READINGS, TAIL_BYTES


def types() -> str:
    """The types: for each layout a tensor, a row, a block and an element, and half precision."""
    return "".join(
        part
        for layout in GROUP_LAYOUTS.values()
        for part in (_tensor(layout), _row(layout), _block(layout), _element(layout))
    ) + _HALF.format(powers=", ".join(_power(exponent) for exponent in range(_EXPONENTS)))


def instances() -> str:
    """The instances of a tensor info: the tensor under each type that its number can mean."""
    lines = []
    for layout in GROUP_LAYOUTS.values():
        kind, others = layout.type, [each.name for each in READINGS[layout.type.number] if each is not layout.type]
        doc = f"The tensor, if its type is {layout}."
        if others:
            doc += (
                f" {kind.number} may also be {' or '.join(others)}: the bytes up to the next tensor decide (R2.6-10)."
            )
            doc += " If several types fit, it is the type of most tensors of the file."
        lines += [
            f"      {layout.name.lower()}:",
            f"        doc: {json.dumps(doc)}",
            "        io: _root._io",
            "        pos: _root.data_start + offset",
            f"        size: rows * ({_row_bytes(layout)}){f' + {TAIL_BYTES}' if layout.scale.apart else ''}",
            f"        type: {layout.name.lower()}_tensor(rows, cols)",
            f"        if: type == {kind.number} and n_dims > 0 and cols % {layout.block} == 0",
        ]
    return "\n".join(lines) + "\n"


def _row_bytes(layout: BlockLayout) -> str:
    front = f"{layout.front_bytes} + " if layout.front_bytes else ""
    return f"{front}cols / {layout.block} * {layout.nbytes}"


def _tensor(layout: BlockLayout) -> str:
    name, apart = layout.name.lower(), layout.scale.apart
    what = "rows of blocks, then a scale for each row, then bytes that mean nothing" if apart else "rows of blocks"
    return f"""\
  {name}_tensor:
    doc: "{layout}, type {layout.type.number}: {what}. Clause 5.6."
    params:
      - id: rows
        type: u8
      - id: cols
        type: u8
    seq:
      - id: each_row
        type: {name}_row(cols)
        repeat: expr
        repeat-expr: rows
""" + (_BEHIND.format(type=_number(layout)) if apart else "")


def _number(layout: BlockLayout) -> str:
    return "half" if layout.scale.type == "F16" else "f4"


_BEHIND: Final = f"""\
      - id: scales
        type: {{type}}
        repeat: expr
        repeat-expr: rows
      - id: unused
        size: {TAIL_BYTES}
"""


def _row(layout: BlockLayout) -> str:
    name, scale = layout.name.lower(), layout.scale
    in_front = scale.per == "row" and not scale.apart
    front = _around_scale(layout, "front", layout.front_bytes) if in_front else ""
    return f"""\
  {name}_row:
    params:
      - id: cols
        type: u8
    seq:
{front}      - id: blocks
        type: {name}_block
        repeat: expr
        repeat-expr: cols / {layout.block}
"""


def _block(layout: BlockLayout) -> str:
    name = layout.name.lower()
    if layout.scale.per == "block":
        seq = _around_scale(layout, "codes", layout.nbytes)
    else:
        seq = f"      - id: codes\n        size: {layout.nbytes}\n"
    return f"""\
  {name}_block:
    seq:
{seq}    instances:
      weights:
        doc: "Each element in order: its code, and its weight without the scale."
        type: {name}_element(_index)
        repeat: expr
        repeat-expr: {layout.block}
"""


def _around_scale(layout: BlockLayout, name: str, size: int) -> str:
    """The scale in `size` bytes, and in a field called `name` the other bytes, which are all on one side of it."""
    scale = layout.scale
    lines = ["      - id: scale", f"        type: {_number(layout)}"]
    rest = [f"      - id: {name}", f"        size: {size - scale.nbytes}"] if size > scale.nbytes else []
    if rest and scale.offset not in (0, size - scale.nbytes):
        raise ValueError(f"{layout} has a scale amid its codes, which this export cannot say")
    return "\n".join([*lines, *rest] if scale.offset == 0 else [*rest, *lines]) + "\n"


def _element(layout: BlockLayout) -> str:
    """The code of an element, taken from the codes of its block."""
    first = layout.scale.nbytes if layout.scale.per == "block" and layout.scale.offset == 0 else 0
    held = f"_parent.as<{layout.name.lower()}_block>.codes[byte{f' - {first}' if first else ''}]"
    code = f"({held} >> place) & 3"
    power = ""
    if layout.coding == "digits":
        powers = str(3 ** (DIGITS_PER_BYTE - 1))
        for n in reversed(range(DIGITS_PER_BYTE - 1)):
            powers = f"place == {n} ? {3**n} : {powers if powers.isdigit() else f'({powers})'}"
        power = f"      power:\n        value: {json.dumps(powers)}\n"
        code = f"({held} * power % 256 * 3) >> 8"
    return f"""\
  {layout.name.lower()}_element:
    params:
      - id: k
        type: u4
    instances:
      byte:
        doc: "From the start of the block."
        value: {json.dumps(by_parts(layout, "byte_of", in_c))}
      place:
        value: {json.dumps(by_parts(layout, "place_of", in_c))}
{power}      code:
        value: {json.dumps(code)}
      weight:
        value: code - 1
"""


#: Exponents of half precision that numbers have; the last exponent is for infinities and NaN.
_EXPONENTS: Final = 31


def _power(exponent: int) -> str:
    """The exact value of a fraction at an exponent."""
    return repr(2.0 ** (max(exponent, 1) - 25))


_HALF: Final = """\
  half:
    doc: IEEE 754 half precision
    seq:
      - id: bits
        type: u2
    instances:
      exponent:
        value: (bits >> 10) & 31
      fraction:
        value: "exponent == 0 ? bits & 1023 : (bits & 1023) + 1024"
      value:
        doc: "Not present for infinities and NaN."
        value: "(bits < 32768 ? 1.0 : -1.0) * fraction * [{powers}][exponent]"
        if: exponent != 31
"""
