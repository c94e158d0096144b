"""The law of the scanner: it accepts what the schema accepts, with the same content, and refuses the rest alike."""

from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from i2s_spec.errors import FormatError
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, StreamSource
from i2s_spec.schema import gguf as schema
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.sample import Draft, array, key_value, tensor_info
from i2s_spec.testing.twins import scanner_against_schema

# --- whole files made of parts ------------------------------------------------------------------------------------

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
@settings(max_examples=150, deadline=None)
def test_twins_agree_on_well_formed_files(data: bytes) -> None:
    code = scanner_against_schema(data)
    assert code in (None, "G217", "G218", "G219", "S106")
    if code is None:
        assert schema.build(schema.parse(data)) == data


@given(files(), st.data())
@settings(max_examples=300, deadline=None)
def test_twins_agree_on_damaged_files(data: bytes, draw: st.DataObject) -> None:
    broken = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(broken) - 1))
        broken[at] = draw.draw(st.sampled_from([0, 1, 8, 9, 12, 13, 127, 128, 255]))
    scanner_against_schema(
        bytes(broken[: draw.draw(st.integers(0, len(broken)))]) if draw.draw(st.booleans()) else bytes(broken)
    )


@given(st.binary(max_size=200), st.sampled_from(["little", "big"]), st.integers(0, 4), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_twins_agree_on_noise_behind_a_header(noise: bytes, order: str, tensors: int, keys: int) -> None:
    mark = "<" if order == "little" else ">"
    scanner_against_schema(struct.pack(mark + "4sIQQ", b"GGUF", 3, tensors, keys) + noise)


@pytest.mark.parametrize("order", ["little", "big"])
def test_twins_agree_on_every_prefix(order: str) -> None:
    data = Draft("big" if order == "big" else "little").data
    for length in range(len(data)):
        scanner_against_schema(data[:length])


def test_twins_agree_on_every_byte() -> None:
    """Every header byte of a sound file, with each of ten other values."""
    draft = Draft()
    data = draft.data
    for at in range(draft.span("data")[0]):
        for value in {0, 255, *(data[at] ^ (1 << bit) for bit in range(8))} - {data[at]}:
            scanner_against_schema(data[:at] + bytes([value]) + data[at + 1 :])


@pytest.mark.parametrize("case", list(malformed()), ids=lambda case: case.name)
def test_twins_agree_on_malformed_files(case: Any) -> None:
    if len(case.data) > 2_000_000:
        assert File(BufferSource(case.data)).index is not None  # the schema takes minutes over these
        return
    code = scanner_against_schema(case.data)
    assert code is None or code == case.code


def test_twins_agree_on_files_of_other_projects(shared: Path) -> None:
    for path in sorted([*(shared / "real").glob("*.gguf"), *(shared / "vectors" / "gguf").iterdir()]):
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
@settings(max_examples=400, deadline=None)
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
