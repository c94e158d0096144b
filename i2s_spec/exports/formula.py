"""This module writes the index arithmetic of the layouts in other languages, with no more brackets than needed.

A `Formula` of the schema is Python over integers that are not negative: `+`, `-`, `*`, `//` and `%`. There, C's and
Kaitai's `/` are Python's `//`; in JavaScript a division is floored, which is exact as far as the numbers are (2^53).

    >>> in_c("k // cols // 4 * cols + k % cols")
    'k / cols / 4 * cols + k % cols'
    >>> in_javascript("6 - k % 128 // 32 * 2")
    '6 - Math.floor(k % 128 / 32) * 2'
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final, Literal

from i2s_spec.schema.block_layout import BlockLayout

#: Sign and precedence of each operation; the same in all of these languages.
_SIGNS: Final[dict[type[ast.operator], tuple[str, int]]] = {
    ast.Add: ("+", 1), ast.Sub: ("-", 1), ast.Mult: ("*", 2), ast.FloorDiv: ("//", 2), ast.Mod: ("%", 2),
}  # fmt: skip

_ATOM: Final = 3


def in_c(text: str) -> str:
    """A formula in C over unsigned integers; Kaitai and ImHex read it too."""
    return _rendered(ast.parse(text, mode="eval").body, floored=False)[0]


def in_javascript(text: str) -> str:
    """A formula in JavaScript over numbers."""
    return _rendered(ast.parse(text, mode="eval").body, floored=True)[0]


def by_parts(layout: BlockLayout, what: Literal["byte_of", "place_of"], words: Callable[[str], str]) -> str:
    """Byte or place of element `k` of a block in a language: the formula of the part that contains it.

    >>> from i2s_spec.schema.block_layout import BLOCK_LAYOUTS
    >>> by_parts(BLOCK_LAYOUTS["PTQ1_0"], "byte_of", in_c)
    'k < 80 ? k % 16 : (k < 120 ? 16 + k % 8 : 24 + k % 2)'
    """
    *before, last = (words(getattr(part, what).text) for part in layout.parts)
    for part, formula in reversed(list(zip(layout.parts, before, strict=False))):
        last = f"k < {part.stop} ? {formula} : " + (f"({last})" if "?" in last else last)
    return last


def _rendered(node: ast.expr, floored: bool) -> tuple[str, int]:
    """The text of an expression, and the precedence of its outermost operation."""
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
