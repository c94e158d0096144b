"""This module writes the schema as JSON: all declarations, for generators of code and of documents.

`schema.schema.json` beside it describes the document.
"""

from __future__ import annotations

import json
from typing import Any, Final

from i2s_spec.exports.description import Shape, fixed_offsets, records, value_shapes
from i2s_spec.exports.formula import in_c, in_javascript
from i2s_spec.schema import limits
from i2s_spec.schema.block_layout import GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.checks import MAGIC
from i2s_spec.schema.dialect import ALIASES, CODE_MAPS, CODES_PER_BYTE, LAYOUTS, TAILS, Formula
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.types import I2_S, SCALE_BYTES, SMALLEST_VALUE, TAIL_BYTES, TENSOR_TYPES, TensorType

SCHEMA_VERSION: Final = 1


def text() -> str:
    """The document as text."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def document() -> dict[str, Any]:
    """The document: container, value types, tensor types, the I2_S tensor, dialects, block types, limits."""
    return {
        "schema_version": SCHEMA_VERSION,
        "title": "GGUF with I2_S tensors",
        "magic": MAGIC.hex(),
        "versions": list(limits.VERSIONS),
        "records": {record.title: _record(record) for record in records()},
        "value_types": [
            {"number": number, "name": label, "smallest": SMALLEST_VALUE[number], "shape": _shape(is_what)}
            for number, (label, is_what) in value_shapes().items()
        ],
        "tensor_types": [_type(each) for each in TENSOR_TYPES],
        "i2_s": {
            "type": I2_S.number,
            "codes_per_byte": CODES_PER_BYTE,
            "tail_bytes": TAIL_BYTES,
            "scale_bytes": SCALE_BYTES,
            "bytes": f"n // {CODES_PER_BYTE} + {TAIL_BYTES}",
            "layouts": [
                {
                    "name": layout.name,
                    "byte": _formula(layout.byte_of),
                    "shift": _formula(layout.shift_of),
                    "block": layout.block,
                    "row_block": layout.row_block,
                    "in_gguf": layout.in_gguf,
                    "known_as": layout.known_as,
                }
                for layout in LAYOUTS.values()
            ],
            "code_maps": [
                {"name": each.name, "trits": list(each.trits), "known_as": each.known_as} for each in CODE_MAPS.values()
            ],
            "tails": [{"name": each.name, "copies": each.copies, "known_as": each.known_as} for each in TAILS.values()],
            "aliases": {
                alias: {"layout": meant.layout.name, "code_map": meant.code_map.name, "tail": meant.tail.name}
                for alias, meant in ALIASES.items()
            },
        },
        "block_types": [_block_type(layout) for layout in GROUP_LAYOUTS.values()],
        "limits": {
            "alignment": limits.DEFAULT_ALIGNMENT,
            "dimensions": limits.MAX_DIMENSIONS,
            "array_depth": limits.MAX_ARRAY_DEPTH,
            "key_bytes": limits.MAX_KEY_LENGTH,
            "tensor_name_bytes": limits.TENSOR_NAME_BYTES,
            "smallest_key_value": limits.SMALLEST_KEY_VALUE,
            "smallest_tensor_info": limits.SMALLEST_TENSOR_INFO,
        },
    }


def _formula(formula: Formula) -> dict[str, str]:
    return {"python": formula.text, "c": in_c(formula.text), "javascript": in_javascript(formula.text)}


def _block_type(layout: BlockLayout) -> dict[str, Any]:
    return {
        "name": layout.name,
        "number": layout.type.number,
        "block": layout.block,
        "bytes": layout.nbytes,
        "row_bytes": layout.type.row_bytes,
        "coding": layout.coding,
        "parts": [
            {"stop": part.stop, "byte": _formula(part.byte_of), "place": _formula(part.place_of)}
            for part in layout.parts
        ],
        "scale": {
            "per": layout.scale.per,
            "type": layout.scale.type,
            "offset": layout.scale.offset,
            "apart": layout.scale.apart,
        },
        "code_3": layout.fourth or None,
    }


def _record(record: RecordStruct) -> dict[str, Any]:
    return {
        "clause": record.clause,
        "fields": [
            {
                "name": field.name,
                "offset": offset,
                "shape": _shape(is_what),
                "meaning": field.meaning,
                "clause": field.clause,
            }
            for field, is_what, offset in fixed_offsets(record)
        ],
    }


def _shape(shape: Shape) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": shape.kind}
    if shape.number:
        entry["number"] = shape.number
    if shape.size is not None:
        entry["bytes"] = shape.size
    if shape.value:
        entry["value"] = shape.value.hex()
    if shape.count:
        entry["by"] = shape.count
    if shape.item is not None:
        entry["item"] = _shape(shape.item)
    if shape.record is not None:
        entry["record"] = shape.record.title
    return entry


def _type(kind: TensorType) -> dict[str, Any]:
    entry: dict[str, Any] = {"number": kind.number, "name": kind.name, "family": kind.family}
    if kind.size is None:
        entry |= {"block": kind.block, "bytes": kind.bytes, "row_bytes": kind.row_bytes}
    else:
        entry["size"] = kind.size.__name__
    if kind.note:
        entry["note"] = kind.note
    return entry
