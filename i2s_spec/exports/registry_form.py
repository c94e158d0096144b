"""This module writes the registry of type numbers as JSON and as tab-separated values, one row for each meaning.

`registry.schema.json` beside it describes the JSON. Both hold the same rows in the same order: tensor types by number,
then values of `general.file_type`; of one number the likeliest meaning in a file first.
"""

from __future__ import annotations

import json
from typing import Any, Final

from i2s_spec.schema.registry.meaning import OWN_KEYS, BlockSize, Meaning
from i2s_spec.schema.registry.meanings import all_file_meanings, all_tensor_meanings, telling

SCHEMA_VERSION: Final = 1

#: Columns of the table, in this order; each is a key of an entry of the JSON.
COLUMNS: Final = (
    "kind", "number", "name", "program", "since", "since_at", "until", "until_at", "in_files", "block", "bytes",
    "row_bytes", "tensors", "tell", "source",
)  # fmt: skip


def json_text() -> str:
    """The document as text."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def tsv_text() -> str:
    """The table: a line of names, then a line for each meaning. `null` is an empty field; tensors are joined by commas."""
    lines = ["\t".join(COLUMNS)]
    for entry in entries():
        lines.append("\t".join(_field(entry[column]) for column in COLUMNS))
    return "\n".join(lines) + "\n"


def document() -> dict[str, Any]:
    """The registry: the owners of keys, and every meaning."""
    return {
        "schema_version": SCHEMA_VERSION,
        "title": "Meanings of tensor type numbers and of general.file_type from 30 on",
        "own_keys": [{"program": program, "start": start} for program, start in OWN_KEYS.items()],
        "meanings": entries(),
    }


def entries() -> list[dict[str, Any]]:
    """Every meaning, each with the same keys."""
    tensors = [_entry("tensor_type", each, telling(each)) for each in all_tensor_meanings()]
    return tensors + [_entry("file_type", each, each.tell) for each in all_file_meanings()]


def _entry(kind: str, each: Meaning, tell: str) -> dict[str, Any]:
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


def _size(each: Meaning) -> BlockSize | None:
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
