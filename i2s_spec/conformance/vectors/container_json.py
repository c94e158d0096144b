"""This module writes the contents of a container as JSON, with which every reader can be compared (`INTERPRETING.md`,
container).

    {"alignment":32,"byte_order":"little","kv":[...],"tensors":[...],"version":3}

Numeric values are text, so that no reader loses digits of 64-bit numbers: integers in decimal, floats as their bits in
hexadecimal. An array is its element type, its length, and the SHA-256 of its elements as a little-endian file has them.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from i2s_spec.gguf.reader import File, KeyValue
from i2s_spec.inspect.compare.canonical import canonical_value
from i2s_spec.schema.types import VALUE_LABELS, ValueType

#: Bytes of an array before its elements: element type and length, after the type of the value.
_ARRAY_HEAD = 16


def container_json(file: File) -> dict[str, Any]:
    """Header, key-values and tensor infos of an open file.

    :raises FormatError: for a tensor whose size is not known
    """
    return {
        "version": file.version,
        "byte_order": file.byte_order,
        "alignment": file.alignment,
        "kv": [_key_value(file, entry) for entry in file.metadata.rows],
        "tensors": [
            {
                "name": tensor.name,
                "type": tensor.number,
                "ne": list(tensor.ne),
                "offset": tensor.span.start,
                "nbytes": tensor.nbytes,
            }
            for tensor in file.tensors.rows
        ],
    }


def _key_value(file: File, entry: KeyValue) -> dict[str, Any]:
    raw = b"".join(canonical_value(file, entry))
    found: dict[str, Any] = {"key": entry.name.decode("utf-8"), "type": VALUE_LABELS[ValueType(entry.type)]}
    if entry.type == ValueType.ARRAY:
        return {
            **found,
            "of": VALUE_LABELS[ValueType(entry.element)],
            "count": entry.count,
            "sha256": sha256(raw[_ARRAY_HEAD:]).hexdigest(),
        }
    data = raw[4:]
    if entry.type == ValueType.STRING:
        text = data[8:]
        try:
            return {**found, "value": text.decode("utf-8")}
        except UnicodeDecodeError:
            return {**found, "hex": text.hex()}
    if entry.type == ValueType.BOOL:
        return {**found, "value": data != b"\0"}
    if entry.type in (ValueType.FLOAT32, ValueType.FLOAT64):
        return {**found, "bits": data[::-1].hex()}
    signed = entry.type in (ValueType.INT8, ValueType.INT16, ValueType.INT32, ValueType.INT64)
    return {**found, "value": str(int.from_bytes(data, "little", signed=signed))}
