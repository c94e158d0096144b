"""Headers at the edges of what is allowed: sizes that fill a file exactly, counts that overflow, places far behind."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest

from i2s_spec.gguf import _scanner
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, StreamSource
from i2s_spec.schema import faults
from i2s_spec.schema.types import SMALLEST_VALUE, ValueType
from i2s_spec.testing.sample import Draft, array, key_value, tensor_info
from i2s_spec.testing.twins import scanner_against_schema


def header(keys: int, tensors: int = 0, version: int = 3, order: str = "little") -> bytes:
    return struct.pack(("<" if order == "little" else ">") + "4sIQQ", b"GGUF", version, tensors, keys)


def both(data: bytes) -> str | None:
    """The code of the fault, which is the same whether the bytes are in memory or come through the window."""
    code = scanner_against_schema(data)
    fault = File(StreamSource(io.BytesIO(data))).fault
    assert (fault.code if fault is not None else None) == code
    return code


def test_records_that_fill_a_file_exactly() -> None:
    smallest = struct.pack("<QIB", 0, ValueType.UINT8, 7)
    empty = struct.pack("<QIiQ", 0, 0, 0, 0)
    for count in (1, 2, 9):
        assert both(header(count) + smallest * count) is None
        assert both(header(count) + (smallest * count)[:-1]) == faults.KEY_COUNT.code
        assert both(header(0, count) + (empty * count).ljust(24 * count + 8, b"\0")) is None
    assert both(header(1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 8, 3) + b"end") is None
    assert both(header(1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 8, 4) + b"end") is not None


@pytest.mark.parametrize("kind", range(13))
@pytest.mark.parametrize("bits", [60, 61, 62, 63, 64])
def test_counts_that_overflow(kind: int, bits: int) -> None:
    """A count whose bytes are a multiple of 2^64 are not as many bytes as that leaves."""
    for count in {(1 << bits) - 1, (1 << bits) % (1 << 64), -(-(1 << 64) // SMALLEST_VALUE[kind])}:
        if 0 < count < 1 << 64:
            data = header(1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, kind, count) + bytes(64)
            assert both(data) == faults.ARRAY_PAST_END.code, (kind, count)


@pytest.mark.parametrize("length", [1 << 63, (1 << 63) + 8, (1 << 64) - 8, (1 << 64) - 1])
def test_lengths_that_are_negative_to_others(length: int) -> None:
    lie = struct.pack("<Q", length)
    code = both(header(1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 8) + lie + bytes(64))
    assert code is not None
    assert both(header(1) + lie + bytes(64)) == code
    strings = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, 4) + struct.pack("<Q", 2) + b"ok"
    assert both(header(1) + strings + lie + bytes(64)) == code


@pytest.mark.parametrize("low", [1, 2, 3, 0x8000])
def test_versions_beyond_16_bits_are_little_endian(low: int) -> None:
    """The low half tells the byte order, not the size of the number."""
    assert both(header(0, version=0x10000 + low)) == faults.VERSION_UNKNOWN.code
    assert both(header(0, version=3, order="big")) is None


@pytest.mark.parametrize("order", ["little", "big"])
def test_alignments(order: Any) -> None:
    draft = Draft(order)
    for values, code, wanted in [
        ([8], None, 8), ([4096, 64], None, 4096), ([1 << 20], None, 1 << 20), ([1 << 21], "S106", None),
        ([24], "G219", None), ([96], "G219", None), ([0], "G218", None),
    ]:  # fmt: skip
        file = draft.records()
        file.key_values += [key_value(b"general.alignment", ValueType.UINT32, value) for value in values]
        data = draft.built(file, values[0] or 32)
        assert both(data) == code, values
        assert File(BufferSource(data)).alignment == wanted


def test_nested_numbers_of_every_width() -> None:
    """Where an array inside an array ends depends on its own elements."""
    draft = Draft()
    file = draft.records()
    numbers = [kind for kind in ValueType if kind not in (ValueType.STRING, ValueType.ARRAY)]
    nest = array(ValueType.ARRAY, [array(kind, [1, 0, 1]) for kind in numbers])
    file.key_values += [key_value(b"a.nest", ValueType.ARRAY, nest), key_value(b"a.last", ValueType.UINT32, 7)]
    file.tensor_infos += [tensor_info(b"four", (2, 3, 4, 5), 0, 0)]
    data = draft.built(file)
    assert both(data) is None
    assert File(BufferSource(data)).metadata["a.last"] == 7
    deep: Any = array(ValueType.UINT8, [1])
    for depth in range(1, 7):
        file.key_values[-1] = key_value(b"a.last", ValueType.ARRAY, deep)
        assert (both(draft.built(file)) is None) == (depth <= 4), depth
        deep = array(ValueType.ARRAY, [deep, deep])


def test_places_behind_the_first_window() -> None:
    for data in (BufferSource, lambda raw: StreamSource(io.BytesIO(raw))):
        flags = bytearray(b"\0\1" * 700_000)
        assert _scanner.first_odd_bool(data(bytes(flags)), 5, 1_300_000) == -1
        flags[1_200_003] = 2
        assert _scanner.first_odd_bool(data(bytes(flags)), 5, 1_300_000) == 1_200_003
        assert _scanner.first_odd_bool(data(bytes(flags)), 5, 1_199_998) == -1
        zeros = bytearray(1_400_000)
        zeros[4] = zeros[1_300_000] = 1
        assert _scanner.first_nonzero(data(bytes(zeros)), 5, 1_400_000) == 1_300_000
        assert _scanner.first_nonzero(data(bytes(zeros)), 5, 1_300_000) == -1


@pytest.mark.parametrize("big", [False, True])
def test_the_first_string_that_is_not_utf8(big: bool) -> None:
    items = [
        b"one",
        "grün".encode(),
        b"x" * 70_000,
        b"",
        b"\xc0\xaf",
        b"good",
        b"too",
        b"\xed\xa0\x80",
        "€".encode()[:-1],
    ]
    data = b"??" + b"".join(struct.pack(">Q" if big else "<Q", len(item)) + item for item in items) + b"!"
    before = 2 + sum(8 + len(item) for item in items[:4]) + 8
    for source in (BufferSource(data), StreamSource(io.BytesIO(data))):
        found = _scanner.invalid_utf8_in_array(source, 2, len(data) - 1, len(items), big)
        assert found == (3, (4, before, before + 2))
        assert _scanner.invalid_utf8_in_array(source, 2, len(data) - 1, 4, big) == (0, None)


@pytest.mark.parametrize("kind", ["number", "string", "array", "tensor"])
def test_the_last_field_across_the_end_of_the_window(kind: str) -> None:
    """What is in memory ends inside the last field, and the file ends with it."""
    last = {
        "number": struct.pack("<Q", 1) + b"z" + struct.pack("<IQ", ValueType.UINT64, 7),
        "string": struct.pack("<Q", 1) + b"z" + struct.pack("<IQ", ValueType.STRING, 6) + b"string",
        "array": struct.pack("<Q", 1) + b"z" + struct.pack("<IIQQ", ValueType.ARRAY, ValueType.STRING, 1, 3) + b"abc",
        "tensor": struct.pack("<Q", 1) + b"z" + struct.pack("<IQiQ", 1, 8, 24, 0),
    }[kind]
    head = header(1 + (kind != "tensor"), int(kind == "tensor"))
    for size in range(65_536 - 2, 65_536 + len(last) + 2):
        fill = size - len(last) - len(head) - 8 - 4 - 4 - 8
        data = head + struct.pack("<Q", 4) + b"fill" + struct.pack("<IQ", ValueType.STRING, fill) + bytes(fill) + last
        assert len(data) == size
        file = File(StreamSource(io.BytesIO(data)))
        assert file.fault is None
        assert file.infos_end == size
        short = File(StreamSource(io.BytesIO(data[:-1])))
        assert short.fault is not None


@pytest.mark.parametrize("kind", [12, 13, 14, 255, 1 << 31, (1 << 32) - 1])
def test_the_first_type_that_does_not_exist(kind: int) -> None:
    value = struct.pack("<Q", 1) + b"z" + struct.pack("<I", kind) + bytes(64)
    element = struct.pack("<Q", 1) + b"z" + struct.pack("<IIQ", ValueType.ARRAY, kind, 1) + bytes(64)
    nested = struct.pack("<Q", 1) + b"z" + struct.pack("<IIQIQ", 9, 9, 1, kind, 1) + bytes(64)
    assert both(header(1) + value) == (None if kind == 12 else faults.VALUE_TYPE_UNKNOWN.code)
    for array_of in (element, nested):
        assert both(header(1) + array_of) == (None if kind == 12 else faults.ARRAY_TYPE_UNKNOWN.code)


@pytest.mark.parametrize("length", [65_534, 65_535, 65_536])
def test_the_longest_names(length: int) -> None:
    name = struct.pack("<Q", length) + b"n" * length
    key = name + struct.pack("<IQ", ValueType.UINT64, 7)
    info = name + struct.pack("<IQiQ", 1, 8, 24, 0)
    assert both(header(1) + key) == (faults.KEY_TOO_LONG.code if length > 65_535 else None)
    assert both(header(0, 1) + info) == (faults.NAME_TOO_LONG.code if length > 65_535 else None)
