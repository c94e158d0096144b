"""Searching very many keys and tensors through the index gives the same results as examining each of them."""

from __future__ import annotations

import re
import struct

import pytest
from examples import some
from hypothesis import example, given
from hypothesis import strategies as st

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import source_of
from i2s_spec.linter.analysis.context import plain_name, snake_case
from i2s_spec.testing.malformed import malformed

#: The patterns that the two name functions and the index in C implement.
SNAKE_CASE = re.compile(rb"[a-z0-9_]+(?:-[a-z0-9_]+)*(?:\.[a-z0-9_]+)*")
PLAIN_NAME = re.compile(rb"[A-Za-z0-9_.\-]{1,63}(?<!_scale)")

NAMES = st.one_of(
    st.binary(max_size=70),
    st.from_regex(SNAKE_CASE.pattern, fullmatch=True),
    st.from_regex(PLAIN_NAME.pattern, fullmatch=True),
)


def header(keys: list[tuple[bytes, int]], tensors: list[bytes]) -> bytes:
    """A file whose keys have values of these types, zeros; of arrays the type is that of their one element + 16."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
    widths = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 8: 8, 9: 12, 10: 8, 11: 8, 12: 8}
    for name, kind in keys:
        out += struct.pack("<Q", len(name)) + name
        head = struct.pack("<I", kind) if kind < 16 else struct.pack("<IIQ", 9, kind - 16, 1)
        out += head + bytes(widths[kind % 16])
    for name in tensors:
        out += struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 32, 0, 0)
    return bytes(out)


def check(file: File) -> None:
    index = file.index
    keys = [index.key(i) for i in range(index.keys)]
    names = [key.name for key in keys]
    tensors = [index.tensor(i).name for i in range(index.tensors)]
    for kind in range(14):
        assert index.keys_of(kind) == [i for i, key in enumerate(keys) if kind in (key.type, key.element)]
    for wanted in ({b"general.name", b"", b"a" * 64, b"a" * 65}, set(names[::2]), dict.fromkeys(names[1::2])):
        assert index.keys_named(wanted) == [i for i, name in enumerate(names) if name in wanted]
    assert [snake_case(name) for name in names] == [SNAKE_CASE.fullmatch(name) is not None for name in names]
    assert [plain_name(name) for name in tensors] == [PLAIN_NAME.fullmatch(name) is not None for name in tensors]
    assert index.odd_keys() == [i for i, name in enumerate(names) if not SNAKE_CASE.fullmatch(name) or b"-" in name]
    assert index.odd_tensors() == [i for i, name in enumerate(tensors) if not PLAIN_NAME.fullmatch(name)]
    assert index.all_differ(tensors=False) == (len(set(names)) == len(names))
    assert index.all_differ(tensors=True) == (len(set(tensors)) == len(tensors))


@given(
    st.lists(st.tuples(NAMES, st.sampled_from([0, 4, 6, 7, 8, 9, 12, 16, 20, 23, 24])), max_size=12),
    st.lists(NAMES, max_size=12),
)
@example([], [])
@example(
    [(b"a", 4), (b"a", 7), (b"a\0", 4), (b"a.b", 23), (b"a..b", 23), (b".a", 4), (b"a.", 4), (b"a-b", 4), (b"", 8)], []
)
@example(
    [],
    [b"x" * 63, b"x" * 64, b"", b"a_scale", b"_scale", b"scale", b"a_scale.b", b"a_scale", b"\xffa", b"a b", b"a-B.9_"],
)
@example([(b"12345678", 4), (b"123456789", 4), (b"12345678\0", 4), (b"123456780", 4)], [b"abcdefgh", b"abcdefghi"])
def test_names_of_small_headers(keys: list[tuple[bytes, int]], tensors: list[bytes]) -> None:
    check(File(source_of(header(keys, tensors))))


@pytest.mark.parametrize("twice", [False, True])
def test_names_of_large_headers(twice: bool) -> None:
    names = [b"key.%d" % (i * 7919 % 20_011) for i in range(20_011 + twice)]
    check(File(source_of(header([(name, 4) for name in names], names))))


def test_names_of_every_malformed_file() -> None:
    for case in some(case for case in malformed() if not case.large):
        if len(case.data) < 1 << 20:
            check(File(source_of(case.data)))
