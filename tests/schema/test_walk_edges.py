"""A walk of an array of strings that begins inside it, or whose strings no longer fit."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from i2s_spec.errors import FormatError
from i2s_spec.schema.types import ValueType
from i2s_spec.schema.walk import Elided, Scope, value_nodes

WORDS = [b"zero", b"one", b"two", b"three", b"four", b"five", b"six"]


def stored(words: list[bytes], order: str = "little") -> bytes:
    mark = "<" if order == "little" else ">"
    texts = b"".join(struct.pack(mark + "Q", len(word)) + word for word in words)
    return struct.pack(mark + "IQ", ValueType.STRING, len(words)) + texts


def walked(data: bytes, scope: Scope, order: Any = "little") -> list[tuple[str, Any]]:
    def read(start: int, length: int) -> bytes:
        assert 0 <= start <= start + length <= len(data)
        return data[start : start + length]

    nodes = value_nodes(read, order, ValueType.ARRAY, 0, len(data), "a", scope)
    return [(node.path.removeprefix("a.items"), node.value) for node in nodes if node.path.startswith("a.items")]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("first", range(len(WORDS)))
@pytest.mark.parametrize("limit", [None, 1, 2, 5])
def test_a_walk_that_begins_inside_an_array(order: Any, first: int, limit: int | None) -> None:
    data = stored(WORDS, order)
    start = 12 + sum(8 + len(word) for word in WORDS[:first]) + 1
    shown = WORDS[first:][:limit]
    wanted: list[tuple[str, Any]] = [(f"[0..{first}]", Elided(first, "elements"))] if first else []
    for i, word in enumerate(shown, first):
        wanted += [(f"[{i}].length", len(word)), (f"[{i}].text", word)]
    if left := len(WORDS) - first - len(shown):
        wanted.append((f"[{first + len(shown)}..{len(WORDS)}]", Elided(left, "elements")))
    assert walked(data, Scope(start=start, limit=limit), order) == wanted


@pytest.mark.parametrize("more", [1, 7, 8, 9, 1 << 40])
def test_a_string_that_goes_on_behind_its_array(more: int) -> None:
    data = bytearray(stored(WORDS))
    at = len(data) - len(WORDS[-1]) - 8
    data[at : at + 8] = struct.pack("<Q", len(WORDS[-1]) + more)
    with pytest.raises(FormatError) as error:
        walked(bytes(data), Scope())
    assert (error.value.code, error.value.span[0]) == ("S903", at)
