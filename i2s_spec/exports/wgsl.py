"""Compute shaders in WGSL: decode, dequantise, the product with codes of activations, and these codes.

The text is a definition to copy from: one element or one sum for each invocation, and integers wherever the specification
has them, so that every device gives the same bits. The only operations on floats are products of a scale and a weight,
and of an activation and its factor, which WGSL rounds correctly; a device may flush subnormal numbers. Divisions are not
correctly rounded in WGSL, so the factor 127 / amax comes from the host.

`i2s.wgsl.in` is the text with holes for what follows from the declarations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from i2s_spec.exports.c_header import constant, filled
from i2s_spec.exports.javascript import in_c
from i2s_spec.schema.blocks import GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

#: The number that stands for I2_S among the types of the shaders; those with a scale for each group follow.
I2S: Final = 0


def text() -> str:
    """Return the shaders."""
    blocks = [(block_number(layout), layout) for layout in GROUP_LAYOUTS.values()]
    constants = [f"const I2S_KIND_{each.name} = {number}u; // type {each.type.number}" for number, each in blocks]
    for what, names in (("LAYOUT", LAYOUTS), ("CODE_MAP", CODE_MAPS)):
        constants += [f"const {constant(f'{what}_{name}')} = {i}u;" for i, name in enumerate(names)]
    holes = {
        "I2S_KIND": str(I2S),
        "CONSTANTS": "\n".join(constants),
        "BYTE_OF": _cases((i, f"return {in_c(each.byte_of)};") for i, each in enumerate(LAYOUTS.values())),
        "SHIFT_OF": _cases((i, f"return {in_c(each.shift_of)};") for i, each in enumerate(LAYOUTS.values())),
        "TRITS_OF": _cases((i, f"return {trits}u;") for i, trits in packed_trits().items()),
        "PLACE_OF": _cases((number, f"return I2sPlace({_members_of(each)});") for number, each in blocks),
        "BLOCK_BYTE_OF": _cases((number, _parts(each, "byte_of")) for number, each in blocks),
        "BLOCK_PLACE_OF": _cases((number, _parts(each, "place_of")) for number, each in blocks),
    }
    return filled("i2s.wgsl.in", holes)


def block_number(layout: BlockLayout) -> int:
    """Return the number of a type with a scale for each group in `shape.kind`."""
    return list(GROUP_LAYOUTS).index(layout.name) + 1


def packed_trits() -> dict[int, int]:
    """Return the trits of each code map, by its place: two bits for each code, the trit + 1, or 3 for none."""
    return {
        i: sum((3 if trit is None else trit + 1) << 2 * code for code, trit in enumerate(each.trits))
        for i, each in enumerate(CODE_MAPS.values())
    }


def place_members(layout: BlockLayout) -> tuple[int | bool, ...]:
    """Return the members of `I2sPlace`: how a type with a scale for each group is packed."""
    scale = layout.scale
    front = 0 if scale.apart else layout.front_bytes
    numbers = (layout.block, layout.nbytes, front, scale.offset, scale.nbytes)
    return *numbers, scale.per == "row", scale.apart, layout.coding == "digits", layout.fourth == "reserved"


def _members_of(layout: BlockLayout) -> str:
    return ", ".join(str(each).lower() if isinstance(each, bool) else f"{each}u" for each in place_members(layout))


def _cases(bodies: Iterable[tuple[int, str]]) -> str:
    return "\n".join(f"    case {number}u: {{ {body} }}" for number, body in bodies)


def _parts(layout: BlockLayout, what: str) -> str:
    """Return the statements that give byte or place of element `k`: the formula of the part that contains it."""
    *before, last = ((part.stop, in_c(getattr(part, what))) for part in layout.parts)
    return " ".join([*(f"if k < {stop}u {{ return {formula}; }}" for stop, formula in before), f"return {last[1]};"])
