"""The schema as JSON, for generators of code and of documents; the shapes of its records; and the registry as tables.

`text` writes all declarations; `schema.schema.json` beside it describes the document. `records` and `value_shapes`
describe what the constructs of the schema read, for all exports. `json_text` and `tsv_text` write the registry of type
numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from construct import Bytes, Const, Construct, Switch

from i2s_spec.exports.javascript import in_c, in_javascript
from i2s_spec.schema import container, i2s, limits
from i2s_spec.schema.blocks import GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.dialect import ALIASES, CODE_MAPS, CODES_PER_BYTE, LAYOUTS, TAILS, Formula
from i2s_spec.schema.faults import MAGIC
from i2s_spec.schema.field import Field, GgufString, Many, RecordStruct, Word
from i2s_spec.schema.type_registry import (
    OWN_KEYS,
    Assignment,
    BlockSize,
    all_file_assignments,
    all_tensor_assignments,
    telling,
)
from i2s_spec.schema.types import I2_S, SCALE_BYTES, SMALLEST_VALUE, TAIL_BYTES, TENSOR_TYPES, VALUE_LABELS, TensorType

SCHEMA_VERSION: Final = 1


def text() -> str:
    """Return the document as text."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def document() -> dict[str, Any]:
    """Return the document: container, value types, tensor types, the I2_S tensor, dialects, block types, limits."""
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
    return {"python": formula, "c": in_c(formula), "javascript": in_javascript(formula)}


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


# --- shapes of records -----------------------------------------------------------------------------------------------
# A construct is a program; what an export needs of it is its shape: plain data from which code in any language can be
# made. `shape` tells the few kinds apart that the schema uses: a number, a constant, bytes, a string, a repetition, a
# value chosen by a field before it, and the rest of the file. A repetition's count is a function of what was read
# before: it is called with a stand-in that notes which field it asks for. Nothing here knows a field by its name.

Kind = Literal["number", "constant", "bytes", "string", "repeat", "choice", "record", "array", "rest"]

#: Names of number types by their `struct` letter, as the text calls them.
NUMBERS: Final = {
    "B": "u8", "b": "i8", "H": "u16", "h": "i16", "I": "u32", "i": "i32", "L": "u32", "l": "i32", "f": "f32",
    "Q": "u64", "q": "i64", "d": "f64",
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """The content of a field's bytes.

    :param number: of a number, its name (`u32`); of a string, that of its length
    :param size: bytes, where they are always the same
    :param value: of a constant, the bytes
    :param count: of a repetition, the dotted path of the field that counts it; of a choice, of the field that chooses
    :param item: of a repetition, the shape of one item
    :param record: of a record, its declaration
    """

    kind: Kind
    number: str = ""
    size: int | None = None
    value: bytes = b""
    count: str = ""
    item: Shape | None = None
    record: RecordStruct | None = None


class _Asked:
    """Takes the place of the values read so far, and records which of them a count uses."""

    def __init__(self, path: tuple[str, ...] = ()) -> None:
        self._path = path

    def __getattr__(self, name: str) -> _Asked:
        return _Asked((*self._path, name))


def shape(construct: Construct) -> Shape:
    """Return the shape of a construct of the schema.

    :raises TypeError: for a construct that the exports do not know, so that no new one is left out in silence
    """
    if isinstance(construct, RecordStruct):
        return Shape("record", record=construct)
    if isinstance(construct, Word):
        return Shape("number", NUMBERS[construct.code], construct.length)
    if isinstance(construct, Const):
        return Shape("constant", size=len(construct.value), value=construct.value)
    if isinstance(construct, Bytes):
        return Shape("bytes", size=construct.length or None)  # a payload has the size that its tensor gives it
    if isinstance(construct, GgufString):
        return Shape("string", NUMBERS[construct.length.code])
    if isinstance(construct, Many):
        counted: Any = construct.count(_Asked())
        return Shape("repeat", count=".".join(counted._path), item=shape(construct.subcon))  # noqa: SLF001
    if isinstance(construct, Switch):
        chosen: Any = construct.keyfunc(_Asked())
        return Shape("choice", count=".".join(chosen._path))  # noqa: SLF001
    if isinstance(construct, container.ArrayValue):
        return Shape("array", "u64")
    if isinstance(construct, container.RestOfFile):
        return Shape("rest")
    raise TypeError(f"no export knows what a {type(construct).__name__} is")


@cache
def records() -> tuple[RecordStruct, ...]:
    """Every record of the schema, parts before wholes: the container's, then a tensor's."""
    found: dict[str, RecordStruct] = {}
    for whole in (container.container("little"), i2s.extent("little")):
        for record in _parts(whole):
            found.setdefault(record.title, record)
    return tuple(found.values())


def _parts(record: RecordStruct) -> Iterator[RecordStruct]:
    for field in record.fields:
        inner = shape(field.subcon)
        inner = inner.item if inner.item is not None else inner
        if inner.record is not None:
            yield from _parts(inner.record)
    yield record


@cache
def value_shapes() -> dict[int, tuple[str, Shape]]:
    """For each value type number its label (`u32`, `str`, `arr`) and its shape."""
    return {number: (VALUE_LABELS[number], shape(construct)) for number, construct in _values()}


def _values() -> list[tuple[int, Construct]]:
    return sorted(container.values("little").items())


def fixed_offsets(record: RecordStruct) -> Iterator[tuple[Field, Shape, int | None]]:
    """Each field of a record with its shape and its offset from the record's start; None after a field of variable size."""
    at: int | None = 0
    for field in record.fields:
        is_what = shape(field.subcon)
        yield field, is_what, at
        at = at + is_what.size if at is not None and is_what.size is not None else None


# --- registry --------------------------------------------------------------------------------------------------------
# JSON and tab-separated values hold the same rows in the same order, one row for each meaning: tensor types by number,
# then values of `general.file_type`; of one number the likeliest meaning in a file first. `registry.schema.json` beside
# it describes the JSON.

#: Columns of the table, in this order; each is a key of an entry of the JSON.
COLUMNS: Final = (
    "kind", "number", "name", "program", "since", "since_at", "until", "until_at", "in_files", "block", "bytes",
    "row_bytes", "tensors", "tell", "source",
)  # fmt: skip


def json_text() -> str:
    """Return the document as text."""
    return json.dumps(registry_document(), indent=1, ensure_ascii=False) + "\n"


def tsv_text() -> str:
    """Return the table: a line of names, then a line for each meaning. `null` is an empty field; tensors are joined
    by commas.
    """
    lines = ["\t".join(COLUMNS)]
    for entry in entries():
        lines.append("\t".join(_field(entry[column]) for column in COLUMNS))
    return "\n".join(lines) + "\n"


def registry_document() -> dict[str, Any]:
    """Return the registry: the owners of keys, and every meaning."""
    return {
        "schema_version": SCHEMA_VERSION,
        "title": "Meanings of tensor type numbers and of general.file_type from 29 on",
        "own_keys": [{"program": program, "start": start} for program, start in OWN_KEYS.items()],
        "meanings": entries(),
    }


def entries() -> list[dict[str, Any]]:
    """Every meaning, each with the same keys."""
    tensors = [_entry("tensor_type", each, telling(each)) for each in all_tensor_assignments()]
    return tensors + [_entry("file_type", each, each.tell) for each in all_file_assignments()]


def _entry(kind: str, each: Assignment, tell: str) -> dict[str, Any]:
    size = _size(each) if kind == "tensor_type" else None
    since, until = each.since.partition(" "), each.until.partition(" ")
    return {
        "kind": kind, "number": each.number, "name": each.name, "program": each.program,
        "since": since[0], "since_at": since[2] or None, "until": until[0] or None, "until_at": until[2] or None,
        "in_files": each.files,
        "block": size.block if size else None, "bytes": size.bytes if size else None,
        "row_bytes": size.row_bytes if size else None,
        "tensors": list(each.tensors), "tell": tell, "source": each.source,
    }  # fmt: skip


def _size(each: Assignment) -> BlockSize | None:
    """Elements and bytes of a block; None where a tensor's size is not a multiple of rows, or not known."""
    kind = each.type
    if kind is None:
        return each.size
    return BlockSize(kind.block, kind.bytes, kind.row_bytes) if kind.size is None else None


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)
