"""The scanner accepts the same files as the schema, with the same content, and refuses the others with the same error."""

from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path
from typing import Any

import pytest
from examples import examples, share, some
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import CASES

from i2s_spec.errors import FormatError, Span
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, StreamSource
from i2s_spec.schema import container as schema
from i2s_spec.schema import faults
from i2s_spec.schema.types import SMALLEST_VALUE, ValueType, padded
from i2s_spec.testing.differential import scanner_against_schema
from i2s_spec.testing.sample import Draft, array, key_value, tensor_info

# --- whole files, built from parts --------------------------------------------------------------------------------

_texts = st.binary(max_size=12)
_fixed = {
    ValueType.UINT8: st.integers(0, 2**8 - 1),
    ValueType.INT8: st.integers(-(2**7), 2**7 - 1),
    ValueType.UINT16: st.integers(0, 2**16 - 1),
    ValueType.INT16: st.integers(-(2**15), 2**15 - 1),
    ValueType.UINT32: st.integers(0, 2**32 - 1),
    ValueType.INT32: st.integers(-(2**31), 2**31 - 1),
    ValueType.FLOAT32: st.floats(width=32),
    ValueType.BOOL: st.integers(0, 255),
    ValueType.STRING: _texts,
    ValueType.UINT64: st.integers(0, 2**64 - 1),
    ValueType.INT64: st.integers(-(2**63), 2**63 - 1),
    ValueType.FLOAT64: st.floats(),
}


def _arrays(depth: int) -> st.SearchStrategy[Any]:
    flat = st.sampled_from(sorted(_fixed)).flatmap(
        lambda kind: st.lists(_fixed[kind], max_size=4).map(lambda items: array(ValueType(kind), items))
    )
    if depth == 1:
        return flat
    inner = st.lists(_arrays(depth - 1), max_size=3).map(lambda items: array(ValueType.ARRAY, items))
    return flat | inner


_values = st.one_of(
    *[st.tuples(st.just(kind), strategy) for kind, strategy in _fixed.items()],
    st.tuples(st.just(ValueType.ARRAY), _arrays(4)),
)
_keys = st.builds(lambda key, value: key_value(key, *value), st.binary(max_size=20), _values)
_infos = st.builds(
    tensor_info,
    st.binary(max_size=20),
    st.lists(st.integers(0, 2**64 - 1), max_size=4).map(tuple),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**64 - 1),
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    draft = Draft(draw(st.sampled_from(["little", "big"])))
    file = draft.records()
    file.header.version = draw(st.sampled_from([2, 3]))
    file.key_values = draw(st.lists(_keys, max_size=5))
    file.tensor_infos = draw(st.lists(_infos, max_size=4))
    file.data = draw(st.binary(max_size=40))
    return draft.built(file)


@given(files())
@examples(150)
def test_twins_agree_on_well_formed_files(data: bytes) -> None:
    code = scanner_against_schema(data)
    assert code in (None, "G217", "G218", "G219", "S106")
    if code is None:
        assert schema.build(schema.parse(data)) == data


@given(files(), st.data())
@examples(300)
def test_twins_agree_on_damaged_files(data: bytes, draw: st.DataObject) -> None:
    broken = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(broken) - 1))
        broken[at] = draw.draw(st.sampled_from([0, 1, 8, 9, 12, 13, 127, 128, 255]))
    scanner_against_schema(
        bytes(broken[: draw.draw(st.integers(0, len(broken)))]) if draw.draw(st.booleans()) else bytes(broken)
    )


@given(st.binary(max_size=200), st.sampled_from(["little", "big"]), st.integers(0, 4), st.integers(0, 4))
@examples(200)
def test_twins_agree_on_noise_behind_a_header(noise: bytes, order: str, tensors: int, keys: int) -> None:
    mark = "<" if order == "little" else ">"
    scanner_against_schema(struct.pack(mark + "4sIQQ", b"GGUF", 3, tensors, keys) + noise)


@pytest.mark.requirement("R2.1-3")
@pytest.mark.parametrize("order", ["little", "big"])
def test_twins_agree_on_every_prefix(order: str) -> None:
    data = Draft("big" if order == "big" else "little").data
    for length in range(len(data)):
        scanner_against_schema(data[:length])


def test_twins_agree_on_every_byte() -> None:
    """Every header byte of a sound file, with each of ten other values; in a quick run with four."""
    draft = Draft()
    data = draft.data
    for at in range(draft.span("data")[0]):
        for value in some(sorted({0, 255, *(data[at] ^ (1 << bit) for bit in range(8))} - {data[at]})):
            scanner_against_schema(data[:at] + bytes([value]) + data[at + 1 :])


@pytest.mark.requirement("R1.2-1")
@pytest.mark.parametrize("name", share(CASES))
def test_twins_agree_on_malformed_files(name: str) -> None:
    case = CASES[name]
    if len(case.data) > 2_000_000:
        assert File(BufferSource(case.data)).index is not None  # the schema takes minutes for these
        return
    code = scanner_against_schema(case.data)
    # The check for files converted to text runs on the whole file after the scanner has stopped.
    assert code is None or case.code in (code, "G009")


def test_twins_agree_on_files_of_other_projects(shared: Path) -> None:
    for path in some(sorted([*(shared / "real").glob("*.gguf"), *(shared / "vectors" / "gguf").iterdir()])):
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        code = scanner_against_schema(data)
        assert (code == "G209") == (path.name == "bitnet-rs.mini.gguf")
        if code is None:
            assert schema.build(schema.parse(data)) == data


# --- the window ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [65_528, 65_536, 65_537, 1_048_576, 1_048_600, 2_200_000])
def test_strings_across_the_window(size: int) -> None:
    """Values longer than what is in memory at once, and records that begin at its edge."""
    draft = Draft()
    file = draft.records()
    file.key_values += [
        key_value(b"sample.long", ValueType.STRING, b"x" * size),
        key_value(b"sample.list", ValueType.ARRAY, array(ValueType.STRING, [b"y" * (size // 5)] * 5)),
        key_value(b"sample.last", ValueType.UINT32, 7),
    ]
    data = draft.built(file)
    file_ = File(StreamSource(io.BytesIO(data)))
    assert file_.fault is None
    assert file_.metadata["sample.last"] == 7
    assert len(file_.metadata["sample.long"]) == size
    assert [len(word) for word in file_.metadata["sample.list"]] == [size // 5] * 5


@given(st.binary(max_size=64))
@examples(400)
def test_utf8_is_judged_as_python_judges_it(text: bytes) -> None:
    try:
        text.decode("utf-8")
        expected = []
    except UnicodeDecodeError:
        expected = [0]
    assert _scanner.invalid_utf8(BufferSource(text), [(0, len(text))]) == expected


@pytest.mark.parametrize("at", [65_534, 65_535, 65_536])
@pytest.mark.parametrize("char", ["é", "€", "😀"])
def test_utf8_across_the_window(at: int, char: str) -> None:
    good = b"a" * at + char.encode() + b"b" * 10
    bad = b"a" * at + char.encode()[:-1] + b"b" * 10
    for text, expected in ((good, []), (bad, [0]), (good[: at + 1], [0])):
        source = StreamSource(io.BytesIO(text))
        assert _scanner.invalid_utf8(source, [(0, len(text))]) == expected


def test_index_refuses_rows_that_do_not_exist() -> None:
    index = _scanner.scan(BufferSource(Draft().data))
    for row in (-1, index.keys):
        with pytest.raises(IndexError):
            index.key(row)
    for row in (-1, index.tensors):
        with pytest.raises(IndexError):
            index.tensor(row)


def test_strings_that_no_longer_fit_are_refused() -> None:
    good = struct.pack("<Q", 2) + b"ab"
    assert _scanner.strings(good, 1, False) == ["ab"]
    for data, count in ((good, 2), (good[:-1], 1), (struct.pack("<Q", 2**63) + b"ab", 1), (b"", 1)):
        with pytest.raises(FormatError) as caught:
            _scanner.strings(data, count, False)
        assert caught.value.code == "S903"


# --- the limits: sizes that fill a file exactly, counts that overflow, distant offsets ---


def header(keys: int, tensors: int = 0, version: int = 3, order: str = "little") -> bytes:
    return struct.pack(("<" if order == "little" else ">") + "4sIQQ", b"GGUF", version, tensors, keys)


def both(data: bytes) -> str | None:
    """The code of the fault, which is the same whether the bytes are in memory or come through the window."""
    code = scanner_against_schema(data)
    file = File(StreamSource(io.BytesIO(data)))
    met = [*file.passed, *([file.fault] if file.fault is not None else [])]
    assert (met[0].code if met else None) == code
    return code


@pytest.mark.requirement("R2.2-3")
def test_records_that_fill_a_file_exactly() -> None:
    smallest = struct.pack("<QIB", 0, ValueType.UINT8, 7)
    empty = struct.pack("<QIiQ", 0, 0, 0, 0)
    for count in (1, 2, 9):
        assert both(header(count) + smallest * count) is None
        assert both(header(count) + (smallest * count)[:-1]) == faults.KEY_COUNT.code
        assert both(header(0, count) + (empty * count).ljust(24 * count + 8, b"\0")) is None
    assert both(header(1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 8, 3) + b"end") is None
    assert both(header(1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 8, 4) + b"end") is not None


@pytest.mark.requirement("R2.5-2", "R12.2-5")
@pytest.mark.parametrize("kind", range(13))
@pytest.mark.parametrize("bits", [60, 61, 62, 63, 64])
def test_counts_that_overflow(kind: int, bits: int) -> None:
    """A count whose size in bytes reaches 2^64 must not wrap around to a size that fits."""
    for count in {(1 << bits) - 1, (1 << bits) % (1 << 64), -(-(1 << 64) // SMALLEST_VALUE[kind])}:
        if 0 < count < 1 << 64:
            data = header(1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, kind, count) + bytes(64)
            assert both(data) == faults.ARRAY_PAST_END.code, (kind, count)


@pytest.mark.parametrize("length", [1 << 63, (1 << 63) + 8, (1 << 64) - 8, (1 << 64) - 1])
def test_lengths_that_are_negative_as_signed_numbers(length: int) -> None:
    lie = struct.pack("<Q", length)
    code = both(header(1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 8) + lie + bytes(64))
    assert code is not None
    assert both(header(1) + lie + bytes(64)) == code
    strings = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, 4) + struct.pack("<Q", 2) + b"ok"
    assert both(header(1) + strings + lie + bytes(64)) == code


@pytest.mark.requirement("R2.3-3")
@pytest.mark.parametrize("low", [1, 2, 3, 0x8000])
def test_versions_beyond_16_bits_are_little_endian(low: int) -> None:
    """The low half determines the byte order, not the size of the number."""
    assert both(header(0, version=0x10000 + low)) == faults.VERSION_UNKNOWN.code
    assert both(header(0, version=3, order="big")) is None


@pytest.mark.parametrize("order", ["little", "big"])
def test_alignments(order: Any) -> None:
    draft = Draft(order)
    for values, code, wanted in [
        ([8], None, 8), ([4096, 64], None, 4096), ([1 << 20], None, 1 << 20), ([1 << 21], "S106", None),
        ([24], "G219", None), ([96], "G219", None),
    ]:  # fmt: skip
        file = draft.records()
        file.key_values += [key_value(b"general.alignment", ValueType.UINT32, value) for value in values]
        data = draft.built(file, values[0])
        assert both(data) == code, values
        assert File(BufferSource(data)).alignment == wanted


def test_an_alignment_of_0_is_a_fault() -> None:
    """The value alone: released programs end at files that have it."""
    with pytest.raises(FormatError) as caught:
        faults.alignment(ValueType.UINT32, 0, Span(0, 4, "key_values[0].type"))
    assert caught.value.code == "G218"


@pytest.mark.requirement("R2.7-1")
@pytest.mark.parametrize("order", ["little", "big"])
def test_reading_goes_on_with_the_alignment_that_offsets_show(order: Any) -> None:
    """An impossible alignment is a fault that the reading goes past, unless the offsets contradict 32 or the value."""
    draft = Draft(order)
    for kind, value, laid, wanted in [
        (ValueType.INT32, 32, 32, 32), (ValueType.UINT64, 64, 64, 64), (ValueType.INT64, 64, 32, 32),
        (ValueType.INT32, -32, 32, 32), (ValueType.UINT32, 24, 32, 32),
        (ValueType.STRING, b"32", 32, 32), (ValueType.FLOAT32, 32.0, 32, 32), (ValueType.UINT32, 1 << 31, 32, 32),
        (ValueType.UINT32, 24, 24, None), (ValueType.UINT32, 40, 40, None),
    ]:  # fmt: skip
        file = draft.records()
        second = padded(96, laid)
        file.tensor_infos = [tensor_info(b"a", (8, 3), 0, 0), tensor_info(b"b", (8, 5), 0, second)]
        file.data = bytes(second + padded(160, laid))
        file.key_values.append(key_value(b"general.alignment", kind, value))
        data = draft.built(file, laid)
        opened = File(BufferSource(data))
        case = kind, value, laid
        assert opened.alignment == wanted, case
        assert (opened.fault is None) == (wanted is not None), case
        assert len(opened.passed) == (wanted is not None), case
        assert scanner_against_schema(data) in {"G217", "G218", "G219", "S106"}


@pytest.mark.requirement("R2.4-3")
def test_long_keys_do_not_end_the_reading() -> None:
    """Up to a mebibyte of them in all: loaders read them, so what follows is worth reading."""
    for lengths, stopped in (((65_536,), False), ((600_000, 400_000), False), ((600_000, 500_000), True)):
        keys = b"".join(
            struct.pack("<Q", length) + b"k" * (length - 1) + bytes((97 + i,)) + struct.pack("<IB", 7, 1)
            for i, length in enumerate(lengths)
        )
        data = header(len(lengths)) + keys
        assert both(data) == "G204"
        file = File(BufferSource(data))
        assert [error.got for error in file.passed] == list(lengths)[: 1 if stopped else None]
        assert (file.fault is not None) == stopped
        assert [len(entry.name) for entry in file.metadata.rows] == list(lengths)[: 1 if stopped else None]


@pytest.mark.requirement("R2.5-3")
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
    """The window ends inside the last field, and the file ends with that field."""
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
