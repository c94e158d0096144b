"""This module writes the layouts and code maps as a script for the interactive page, which has no arithmetic of its own."""

from __future__ import annotations

import json

from i2s_spec.exports.formula import in_javascript
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS
from i2s_spec.schema.types import TAIL_BYTES

#: First line of the script; it is never edited.
MARK = "// Written by i2s_spec.exports.javascript from the schema: edit that.\n"


def text() -> str:
    """The script: it sets `I2S`, and needs no module loader, so that it works from plain files."""
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
        "};",
        "",
    ])  # fmt: skip
