"""The script of the interactive page, and the formulas of layouts in C and JavaScript.

`text` writes layouts, code maps, types and titles of rules, so that the page does not declare any of them itself.
`in_c` and `in_javascript` write a formula of the schema in another language:

    >>> in_c("k // cols // 4 * cols + k % cols")
    'k / cols / 4 * cols + k % cols'
    >>> in_javascript("6 - k % 128 // 32 * 2")
    '6 - Math.floor(k % 128 / 32) * 2'
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from typing import Final, Literal

from i2s_spec.linter.explain import find
from i2s_spec.schema.blocks import BlockLayout
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS
from i2s_spec.schema.types import TAIL_BYTES, TENSOR_TYPES, VALUE_LABELS

#: Rules that the page checks in a file that is dropped on it: those that need only a header, extents and tails.
PAGE_RULES: Final = ("G001", "G002", "G003", "G104", "G401", "G403", "I103", "I201", "I302", "I303", "I304", "I305")

#: First line of the script, which is never edited by hand.
MARK = "// Written by i2s_spec.exports.javascript from the schema: edit that.\n"


def text() -> str:
    """Return the script: it sets `I2S` and needs no module loader, so it works from plain files."""
    layouts = [
        f"    {{name: {json.dumps(each.name)}, block: {each.block}, rowBlock: {each.row_block}, "
        f"knownAs: {json.dumps(each.known_as)},\n"
        f"      byteOf: (k, rows, cols) => {in_javascript(each.byte_of)},\n"
        f"      shiftOf: (k, rows, cols) => {in_javascript(each.shift_of)}}},"
        for each in LAYOUTS.values()
    ]
    code_maps = [
        f"    {{name: {json.dumps(each.name)}, trits: {json.dumps(each.trits)}, knownAs: {json.dumps(each.known_as)}}},"
        for each in CODE_MAPS.values()
    ]
    return "\n".join([
        MARK + '"use strict";',
        "globalThis.I2S = {",
        f"  codesPerByte: {CODES_PER_BYTE},",
        f"  tailBytes: {TAIL_BYTES},",
        "  layouts: [",
        *layouts,
        "  ],",
        "  codeMaps: [",
        *code_maps,
        "  ],",
        "  // number: name, elements and bytes of a block; 36 has n / 4 bytes and a tail",
        "  types: {",
        *_types(),
        "  },",
        f"  values: {json.dumps({str(number): label for number, label in enumerate(VALUE_LABELS)})},",
        "  rules: {",
        *(f"    {rule.code}: {json.dumps([rule.slug, rule.severity.value, rule.title])}," for rule in map(find, PAGE_RULES)),
        "  },",
        "};",
        "",
    ])  # fmt: skip


def _types() -> Iterator[str]:
    """Yield the likeliest reading of each type number whose size is that of whole blocks, and I2_S."""
    seen = set()
    for each in TENSOR_TYPES:
        if each.number not in seen:
            seen.add(each.number)
            block, size = (each.block, each.bytes) if each.size is None and not each.row_bytes else (0, 0)
            yield f"    {each.number}: {json.dumps([each.name, block, size])},"


# --- formulas --------------------------------------------------------------------------------------------------------
# A `Formula` of the schema is Python over integers that are not negative: `+`, `-`, `*`, `//` and `%`. There, C's and
# Kaitai's `/` are Python's `//`; in JavaScript a division is floored, which is exact as far as the numbers are (2^53).
# No more brackets are written than needed.

#: Sign and precedence of each operation; the same in all of these languages.
_SIGNS: Final[dict[type[ast.operator], tuple[str, int]]] = {
    ast.Add: ("+", 1), ast.Sub: ("-", 1), ast.Mult: ("*", 2), ast.FloorDiv: ("//", 2), ast.Mod: ("%", 2),
}  # fmt: skip

_ATOM: Final = 3


def in_c(text: str) -> str:
    """Return a formula in C over unsigned integers; ImHex reads it too."""
    return _rendered(ast.parse(text, mode="eval").body, floored=False)[0]


def without_remainder(text: str) -> str:
    """Return a formula as by `in_c`, with no remainder: Kaitai's is computed in 32 bits in some languages.

    >>> without_remainder("6 - k // cols % 4 * 2")
    '6 - (k / cols - k / cols / 4 * 4) * 2'
    """
    return _rendered(_NoRemainder().visit(ast.parse(text, mode="eval")).body, floored=False)[0]


class _NoRemainder(ast.NodeTransformer):
    """a % b becomes a - a // b * b."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.BinOp:
        left, right = self.visit(node.left), self.visit(node.right)
        if not isinstance(node.op, ast.Mod):
            return ast.BinOp(left, node.op, right)
        return ast.BinOp(left, ast.Sub(), ast.BinOp(ast.BinOp(left, ast.FloorDiv(), right), ast.Mult(), right))


def in_javascript(text: str) -> str:
    """Return a formula in JavaScript over numbers."""
    return _rendered(ast.parse(text, mode="eval").body, floored=True)[0]


def by_parts(layout: BlockLayout, what: Literal["byte_of", "place_of"], words: Callable[[str], str]) -> str:
    """Byte or place of element `k` of a block in a language: the formula of the part that contains it.

    >>> from i2s_spec.schema.blocks import BLOCK_LAYOUTS
    >>> by_parts(BLOCK_LAYOUTS["PTQ1_0"], "byte_of", in_c)
    'k < 80 ? k % 16 : (k < 120 ? 16 + k % 8 : 24 + k % 2)'
    """
    *before, last = (words(getattr(part, what)) for part in layout.parts)
    for part, formula in reversed(list(zip(layout.parts, before, strict=False))):
        last = f"k < {part.stop} ? {formula} : " + (f"({last})" if "?" in last else last)
    return last


def _rendered(node: ast.expr, floored: bool) -> tuple[str, int]:
    """Return the text of an expression, and the precedence of its outermost operation."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value), _ATOM
    if isinstance(node, ast.Name):
        return node.id, _ATOM
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        sign, binds = _SIGNS[type(node.op)]
        left, right = _rendered(node.left, floored), _rendered(node.right, floored)
        # left to right, as in Python: an operand of equal precedence needs brackets only on the right
        before = f"({left[0]})" if left[1] < binds else left[0]
        after = f"({right[0]})" if right[1] <= binds else right[0]
        if sign != "//":
            return f"{before} {sign} {after}", binds
        return (f"Math.floor({before} / {after})", _ATOM) if floored else (f"{before} / {after}", binds)
    raise ValueError(f"a formula has no {type(node).__name__}")
