"""This module writes the types with a scale for each group for ImHex's pattern language, from their declarations.

A block shows its scale, and of each byte of codes the weights without it. Where the code of an element is, and which
weight it stands for, functions say.
"""

from __future__ import annotations

from typing import Final

from i2s_spec.exports.formula import by_parts, in_c
from i2s_spec.schema.block_layout import BLOCK_LAYOUTS, DIGITS_PER_BYTE, FOURTH_CODE, BlockLayout
from i2s_spec.schema.types import READINGS

#: Bits of the exponent of half precision, from the highest down, and what its fraction is divided by in the end.
_EXPONENT_BITS: Final = (16, 8, 4, 2, 1)
_HALF_UNIT: Final = 25


def types() -> str:
    """Half precision, the codes of a byte, and of each type a block, a row, and where its codes are."""
    return "\n".join([_HALF, _codes(), *(_type(layout) for layout in BLOCK_LAYOUTS.values())])


def tensors() -> str:
    """The members of a tensor: its rows, under the type that its number means."""
    lines: list[str] = []
    for layout in BLOCK_LAYOUTS.values():
        number, block = layout.type.number, layout.block
        bytes_of_row = f"{layout.type.row_bytes} + cols / {block} * {layout.nbytes}"
        conditions = [f"tensor_infos[i].type == TensorType::{READINGS[number][0]}", f"cols % {block} == 0"]
        if len(READINGS[number]) > 1:
            conditions.append(f"fits(i, rows * ({bytes_of_row}))")
        lines += [
            f"    {'else ' if lines else ''}if ({' && '.join(conditions)})",
            f"        Row_{layout}<cols> data[rows] @ start;",
        ]
    return "\n".join(lines) + "\n"


def _codes() -> str:
    """The codes in a byte: pairs of bits from the lowest up, or digits."""
    words = [f'    if (code == {code}) return "{code - 1:+d}";' for code in range(FOURTH_CODE + 1) if code != 1]
    lanes = [f'    bits_{shift + 1}_{shift} : 2 [[format("weight")]];' for shift in (0, 2, 4, 6)]
    powers = str(3 ** (DIGITS_PER_BYTE - 1))
    for n in reversed(range(DIGITS_PER_BYTE - 1)):
        powers = f"place == {n} ? {3**n} : {powers if powers.isdigit() else f'({powers})'}"
    digits = ' + " " + '.join(f"weight(digit(byte.held, {n}))" for n in range(DIGITS_PER_BYTE))
    return "\n".join([
        "// A code as the weight that it stands for, without the scale: clause 5.6.",
        "fn weight(u8 code) {", *words, '    return "0";', "};", "",
        "bitfield Pairs {", *lanes, "};", "",
        "fn digit(u128 held, u128 place) {", f"    u128 power = {powers};",
        "    return held * power % 256 * 3 / 256;", "};", "",
        "fn pair(u128 held, u128 place) {", "    return (held >> place) & 3;", "};", "",
        "// Five digits of base 3, the highest first.",
        "struct Digits {", "    u8 held;", '} [[format("digits")]];', "",
        "fn digits(ref Digits byte) {", f"    return {digits};", "};", "",
    ])  # fmt: skip


def _type(layout: BlockLayout) -> str:
    scale, name = layout.scale, layout.name
    number = "float scale;" if scale.type == "F32" else 'u16 scale [[format("half")]];'
    kind = "Pairs" if layout.coding == "bits" else "Digits"
    size = layout.nbytes - (scale.nbytes if scale.per == "block" else 0)
    members, front = [f"    {kind} codes[{size}];"], []
    if scale.per == "row":
        front = [f"    {number}"]
        if scale.nbytes != layout.type.row_bytes:
            raise ValueError(f"{layout} has more than a scale in front of a row, which this export cannot say")
    elif scale.offset in (0, size):
        members.insert(0 if scale.offset == 0 else 1, f"    {number}")
    else:
        raise ValueError(f"{layout} has a scale amid its codes, which this export cannot say")
    read = "pair" if layout.coding == "bits" else "digit"
    return "\n".join([
        f"// {name}, type {layout.type.number}: {layout.block} weights in {layout.nbytes} bytes.",
        f"struct Block_{name} {{", *members, "};", "",
        f"struct Row_{name}<auto cols> {{", *front, f"    Block_{name} blocks[cols / {layout.block}];", "};", "",
        f"// Of element k of a block: its byte, {'the shift of its code' if read == 'pair' else 'its digit'}, its code.",
        f"fn byte_of_{name}(u128 k) {{", f"    return {by_parts(layout, 'byte_of', in_c)};", "};", "",
        f"fn place_of_{name}(u128 k) {{", f"    return {by_parts(layout, 'place_of', in_c)};", "};", "",
        f"fn code_of_{name}(u128 address, u128 k) {{",
        f"    u8 held = std::mem::read_unsigned(address + byte_of_{name}(k), 1);",
        f"    return {read}(held, place_of_{name}(k));",
        "};", "",
    ])  # fmt: skip


def _half() -> str:
    steps = [
        f"    if (exponent / {bit} % 2 == 1)\n        value = value * {2.0**bit};" for bit in _EXPONENT_BITS
    ]  # fmt: skip
    return "\n".join([
        "// Half precision: what a float16 stands for.",
        "fn half(u128 bits) {",
        "    u128 exponent = bits / 1024 % 32;",
        "    double value = bits % 1024;",
        "    if (exponent == 31)",
        '        return value > 0 ? "NaN" : (bits < 32768 ? "infinity" : "-infinity");',
        "    if (exponent > 0)",
        "        value = value + 1024;",
        "    else",
        "        exponent = 1;",
        *steps,
        f"    value = value / {2.0**_HALF_UNIT};",
        "    return bits < 32768 ? value : 0.0 - value;",
        "};",
        "",
    ])  # fmt: skip


_HALF: Final = _half()

#: What decides between types that share a number; it stands after the tensor infos.
ROOM: Final = """\
// Whether a tensor has exactly so many bytes, padded or not, until the next one begins: clause 2.6.
fn fits(u128 i, u128 bytes) {
    u128 room = std::mem::size() - data_start - tensor_infos[i].offset;
    for (u128 j = 0, j < header.tensor_count, j = j + 1) {
        if (tensor_infos[j].offset > tensor_infos[i].offset && tensor_infos[j].offset - tensor_infos[i].offset < room)
            room = tensor_infos[j].offset - tensor_infos[i].offset;
    }
    return room == bytes || room == (bytes + alignment - 1) / alignment * alignment;
};
"""
