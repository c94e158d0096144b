"""The law of the look at arrays of strings: it sees what its definition sees, wherever the bytes come from."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import i2s_spec as i2s
from i2s_spec.errors import FormatError
from i2s_spec.gguf import strings
from i2s_spec.gguf.source import BufferSource, Source, StreamSource

_TEXTS = [
    b"", b"a", b"a b", b" a", b"a ", b"a b c", b" ", b"[PAD7]", b"[PAD]", b"[PAD", b"<dummy12>", b"<dummy>", b"<0x0A>",
    b"<0x0a>", b"<0x-1>", b"<0x", b"<0x1", b"<0x1>", b"<0x123>", b"<0xzz>", b"\x00", b"\xff" * 9,
    b"y" * (strings.LOOKED_AT + 1), b"z" * strings.LOOKED_AT,
]  # fmt: skip
_items = st.lists(
    st.sampled_from(_TEXTS) | st.binary(max_size=20) | st.text("ab <0x", max_size=9).map(str.encode), max_size=9
)


def encoded(items: list[bytes], big: bool) -> bytes:
    return b"".join(struct.pack(">Q" if big else "<Q", len(item)) + item for item in items)


def sources(data: bytes) -> list[Source]:
    return [BufferSource(data), StreamSource(io.BytesIO(data))]


@given(_items, st.booleans(), st.integers(0, 9), st.lists(st.sampled_from(_TEXTS), max_size=4))
@settings(max_examples=60, deadline=None)
def test_look_sees_what_the_definition_sees(items: list[bytes], big: bool, compared: int, texts: list[bytes]) -> None:
    data = b"before" + encoded(items, big) + b"behind"
    wanted = strings.definition(items, texts, compared)
    for source in sources(data):
        assert strings.look(source, 6, len(data) - 6, len(items), big, texts, compared) == wanted
        for i, item in enumerate(items):
            start, stop = strings.span_of(source, 6, len(data) - 6, big, i)
            assert data[start:stop] == item


@pytest.mark.parametrize("big", [False, True])
def test_arrays_of_many_parts(big: bool) -> None:
    items = [b"token %d" % i for i in range(100_000)]
    items[77] = items[99_990] = b"twice"
    items[50_000:50_000] = [b"x" * 60_000, b"y" * 300_000, b"z" * 65_536]
    data = encoded(items, big)
    wanted = strings.definition(items, [b"token 99999"])
    assert wanted.same == (77, 99_993)
    for source in sources(data):
        assert strings.look(source, 0, len(data), len(items), big, [b"token 99999"]) == wanted
        start, stop = strings.span_of(source, 0, len(data), big, 50_001)
        assert data[start:stop] == b"y" * 300_000


def test_real_vocabularies(shared: Path) -> None:
    paths = sorted((shared / "real").glob("ggml-vocab-*.gguf"))
    assert paths
    for path in paths:
        with i2s.open(path) as file:
            for name in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges"):
                if name in file.metadata:
                    entry = file.metadata.entry(name)
                    items = [item.encode("utf-8", "surrogateescape") for item in file.metadata[name]]
                    seen = strings.look(file.source, *entry.value_span[:2], entry.count, False, [b"<0x0A>"])
                    assert seen == strings.definition(items, [b"<0x0A>"]), path.name


@pytest.mark.parametrize("cut", [1, 8, 9, 15])
def test_arrays_that_no_longer_fill_their_bytes(cut: int) -> None:
    data = encoded([b"one", b"two", b"three"], False)
    for source in sources(data[:-cut]):
        with pytest.raises(FormatError) as error:
            strings.look(source, 0, len(data) - cut, 3, False)
        assert error.value.code == "S903"


@pytest.mark.parametrize("length", [2**32, 2**62, 2**63, 2**64 - 1])
def test_lengths_that_lie(length: int) -> None:
    data = struct.pack("<Q", length) + b"abc" * 10
    for source in sources(data):
        with pytest.raises(FormatError):
            strings.look(source, 0, len(data), 1, False)
        with pytest.raises(FormatError):
            strings.span_of(source, 0, len(data), False, 1)


def test_all_strings_the_same() -> None:
    items = [b"same"] * 200_000
    data = encoded(items, False)
    assert strings.look(BufferSource(data), 0, len(data), len(items), False).same == (0, 1)


def test_too_many_texts_at_once() -> None:
    with pytest.raises(ValueError, match="at most 64"):
        strings.look(BufferSource(b""), 0, 0, 0, False, [b"%d" % i for i in range(65)])


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=12), st.booleans(), st.integers(-3, 3), st.integers(-3, 9))
@settings(max_examples=60, deadline=None)
def test_first_outside(values: list[int], big: bool, least: int, most: int) -> None:
    data = b"\0" + struct.pack(f"{'>' if big else '<'}{len(values)}i", *values)
    wanted = next((i for i, value in enumerate(values) if not least <= value <= most), -1)
    for source in sources(data):
        assert strings.first_outside(source, 1, len(values), big, least, most) == wanted


def test_first_outside_of_many_parts() -> None:
    values = [1] * 700_000
    values[600_001] = 7
    data = struct.pack(f"<{len(values)}i", *values)
    assert strings.first_outside(BufferSource(data), 0, len(values), False, 0, 6) == 600_001
