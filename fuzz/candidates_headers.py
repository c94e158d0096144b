"""This module makes candidates whose headers are odd for one reader or another."""

# Tables: a row is easier to compare with the next than its cells one below the other.
# ruff: noqa: E501

from __future__ import annotations

from random import Random
from typing import Any

from candidates_build import Candidates

from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.sample import Draft, array, key_value, tensor_info


def headers() -> Candidates:
    """Small files whose headers are odd for one reader or another."""
    sound = Draft()
    for order in ("little", "big"):
        draft = Draft(order)  # type: ignore[arg-type]
        for version in (0, 1, 2, 4, 1 << 24, 0x03000000, 65_539):
            yield f"version-{version}-{order}", draft.number("header.version", version)
        for count in (0, 1, 4, 9, 1 << 17, 1 << 33, (1 << 64) - 1):
            yield f"tensors-{count}-{order}", draft.number("header.tensor_count", count)
            yield f"keys-{count}-{order}", draft.number("header.key_count", count)
    for i in range(8):
        for kind in (*range(14), 255):
            yield f"kind-{i}-{kind}", sound.number(f"key_values[{i}].type", kind)
        for length in (0, 1, 65_536, 1 << 20, 1 << 31, (1 << 64) - 1):
            yield f"key-length-{i}-{length}", sound.number(f"key_values[{i}].key.length", length)
    for i in (5, 6, 7):
        for count in (0, 1, 2, 1 << 16, 1 << 27, 1 << 40, (1 << 64) - 1):
            yield f"count-{i}-{count}", sound.number(f"key_values[{i}].value.count", count)
        for kind in range(14):
            yield f"element-{i}-{kind}", sound.number(f"key_values[{i}].value.type", kind)
    for i in range(3):
        for dims in (0, 1, 3, 4, 5, 9, 1 << 31):
            yield f"dims-{i}-{dims}", sound.number(f"tensor_infos[{i}].n_dims", dims)
        for kind in (*range(42), 50, 99, -1, 1 << 31):
            yield f"type-{i}-{kind}", sound.number(f"tensor_infos[{i}].type", kind)
        for ne in (0, 1, 3, 127, 129, 1 << 31, 1 << 62, (1 << 64) - 1):
            yield f"ne-{i}-{ne}", sound.number(f"tensor_infos[{i}].ne[0]", ne)
        for offset in (1, 8, 32, 64, 96, 1 << 20, (1 << 64) - 64):
            yield f"offset-{i}-{offset}", sound.number(f"tensor_infos[{i}].offset", offset)
    for alignment in (0, 1, 3, 8, 16, 64, 128, 1 << 20, 1 << 31):
        for kind in (ValueType.UINT32, ValueType.INT32, ValueType.UINT64, ValueType.STRING):
            records = sound.records()
            value: Any = str(alignment).encode() if kind == ValueType.STRING else alignment % (1 << 31)
            records.key_values.append(key_value(b"general.alignment", kind, value))
            yield (
                f"alignment-{alignment}-{kind.label}",
                sound.built(records, alignment if alignment and alignment <= 1024 else 32),
            )
    nested = array(
        ValueType.ARRAY,
        [
            array(ValueType.STRING, [b"a"]),
            array(ValueType.UINT8, [1]),
            array(ValueType.ARRAY, [array(ValueType.FLOAT32, [1.0])]),
        ],
    )
    every = [
        key_value(f"a.{kind.label}".encode(), ValueType.ARRAY, array(kind, [1, 0]))
        for kind in ValueType
        if kind not in (ValueType.STRING, ValueType.ARRAY)
    ]
    records = sound.records()
    records.key_values += [key_value(b"nested", ValueType.ARRAY, nested), *every, key_value(b"\xff", ValueType.STRING, b"\xff\xfe"), key_value(b"", ValueType.BOOL, 2),
                           key_value(b"long", ValueType.ARRAY, array(ValueType.STRING, [b"<0x41>", b"<0xZ>", b"a b", b"[PAD1]", b"x" * 400, b"a b", b""])),
                           key_value(b"big", ValueType.ARRAY, array(ValueType.INT32, [5, -1, 1 << 30]))]  # fmt: skip
    yield "every-kind", sound.built(records)
    names = sound.records()
    for i, name in enumerate((b"\xffname", b"n" * 64, b"second.weight")):
        names.tensor_infos[i].name = name
    yield "names", sound.built(names)
    kinds = sound.records()
    kinds.data, kinds.tensor_infos = b"", []
    for name, kind in BY_NAME.items():
        if kind.block <= 256:
            kinds.tensor_infos.append(tensor_info(name.encode(), (256, 1), kind.number, len(kinds.data)))
            kinds.data += bytes(32)
    yield "every-type", sound.built(kinds)
    plain = sound.records()
    plain.data, plain.tensor_infos = b"", []
    for name in ("F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"):
        plain.tensor_infos.append(tensor_info(name.encode(), (4, 2), BY_NAME[name].number, len(plain.data)))
        plain.data += (Random(name).randbytes(BY_NAME[name].nbytes((4, 2)))).ljust(64, b"\0")
    yield "plain-types", sound.built(plain)
    for gap in (b"GGUF", b"PK\x03\x04", b"\x7fELF", b"#!/bin/sh\n", b"\x89PNG", b"secret text here", bytes(64)):
        yield f"behind-{gap[:2].hex()}", sound.data + gap * 20
    for magic in (b"GGML", b"GGJT", b"FUGG", b"PK\x03\x04", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", b"<!DOCTYPE html>", b"{\"a\": 1}",
                  b"\x80\x02", b"\x93NUMPY", b"\x1f\x8b\x08", b"#!/bin/sh\n", b"MZ", bytes(8), b"", b"G", b"GGUF\x03\0\0\0"):  # fmt: skip
        yield f"magic-{magic[:4].hex()}-{len(magic)}", magic
        yield f"magic-{magic[:4].hex()}-long", magic + bytes(200)
    for cut in range(0, len(sound.data), 17):
        yield f"cut-{cut}", sound.data[:cut]
