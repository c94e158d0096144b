"""This module writes layouts, code maps, types and titles of rules as a script for the interactive page, which does not
declare any of them itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from i2s_spec.exports.formula import in_javascript
from i2s_spec.linter.explain import find
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS
from i2s_spec.schema.types import TAIL_BYTES, TENSOR_TYPES, VALUE_LABELS

#: Rules that the page checks in a file that is dropped on it: those that need only a header, extents and tails.
PAGE_RULES: Final = ("G001", "G002", "G003", "G104", "G401", "G403", "I103", "I201", "I302", "I303", "I304", "I305")

#: First line of the script, which is never edited by hand.
MARK = "// Written by i2s_spec.exports.javascript from the schema: edit that.\n"


def text() -> str:
    """The script: it sets `I2S` and needs no module loader, so it works from plain files."""
    layouts = [
        f"    {{name: {json.dumps(each.name)}, block: {each.block}, rowBlock: {each.row_block}, "
        f"knownAs: {json.dumps(each.known_as)},\n"
        f"      byteOf: (k, rows, cols) => {in_javascript(each.byte_of.text)},\n"
        f"      shiftOf: (k, rows, cols) => {in_javascript(each.shift_of.text)}}},"
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
    """The likeliest reading of each type number whose size is that of whole blocks, and I2_S."""
    seen = set()
    for each in TENSOR_TYPES:
        if each.number not in seen:
            seen.add(each.number)
            block, size = (each.block, each.bytes) if each.size is None and not each.row_bytes else (0, 0)
            yield f"    {each.number}: {json.dumps([each.name, block, size])},"
