"""CUDA C: decode, dequantise, codes of activations, and products, for one token and for many.

Like the shaders, the text is a definition to copy from. Unlike them it divides, because CUDA rounds divisions correctly,
and it has two products in the form in which a GPU is fast: `i2s_product_dp4a` and `i2s_product_mma`. Their sums are
integers, so every form gives the same bits.

`i2s.cu.in` is the text with holes for what follows from the declarations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from i2s_spec.exports.c_header import constant, filled, listed
from i2s_spec.exports.javascript import by_parts, in_c
from i2s_spec.exports.wgsl import I2S, block_number, packed_trits, place_members
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

#: The kernels, in the order of the text.
KERNELS: Final = (
    "i2s_decode",
    "i2s_dequantise",
    "i2s_codes",
    "i2s_product",
    "i2s_product_dp4a",
    "i2s_product_mma",
    "i2s_epilogue",
)


def text() -> str:
    """Return the kernels."""
    from i2s_spec.model.reference.bitlinear import FLOOR, LARGEST

    layouts = list(enumerate(LAYOUTS.values()))
    blocks = [(block_number(layout), layout) for layout in GROUP_LAYOUTS.values()]
    kinds = (f"  I2S_KIND_{each.name} = {number}, // type {each.type.number}" for number, each in blocks)
    holes = {
        "I2S_KIND": str(I2S),
        "KINDS": "\n".join(kinds),
        "LAYOUTS": "\n".join(f"  {constant(f'LAYOUT_{name}')}," for name in LAYOUTS),
        "CODE_MAPS": "\n".join(f"  {constant(f'CODE_MAP_{name}')}," for name in CODE_MAPS),
        "BYTE_OF": _cases((i, in_c(layout.byte_of)) for i, layout in layouts),
        "SHIFT_OF": _cases((i, in_c(layout.shift_of)) for i, layout in layouts),
        "TRITS_OF": _cases((i, f"{trits}u") for i, trits in packed_trits().items()),
        "PLACES": "\n".join(f"  {{{listed(map(int, place_members(each)))}}}," for _, each in blocks),
        "BLOCK_BYTE_OF": _cases((number, by_parts(each, "byte_of", in_c)) for number, each in blocks),
        "BLOCK_PLACE_OF": _cases((number, by_parts(each, "place_of", in_c)) for number, each in blocks),
        "FLOOR": str(FLOOR),
        "LARGEST": str(LARGEST),
    }
    return filled("i2s.cu.in", holes)


def _cases(results: Iterable[tuple[int, str]]) -> str:
    return "\n".join(f"    case {number}: return {result};" for number, result in results)
