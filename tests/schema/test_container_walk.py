from __future__ import annotations

import struct
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.errors import FormatError
from i2s_spec.schema import container
from i2s_spec.schema.container import (
    HEAD_BYTES,
    Elided,
    Head,
    Opened,
    Scope,
    info_nodes,
    is_leaf,
    key_nodes,
    numbers,
    value_nodes,
)
from i2s_spec.schema.field import FieldNode, Word
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, array, key_value, tensor_info

_numbers = {
    ValueType.UINT8: st.integers(0, 255),
    ValueType.INT16: st.integers(-(2**15), 2**15 - 1),
    ValueType.BOOL: st.integers(0, 1),
    ValueType.UINT64: st.integers(0, 2**64 - 1),
    ValueType.FLOAT32: st.floats(width=32, allow_nan=False),
    ValueType.FLOAT64: st.floats(allow_nan=False),
    ValueType.STRING: st.binary(max_size=9),
}


def _arrays(depth: int) -> st.SearchStrategy[Any]:
    flat = st.sampled_from(sorted(_numbers)).flatmap(
        lambda kind: st.lists(_numbers[kind], max_size=5).map(lambda items: array(kind, items))
    )
    if depth == 1:
        return flat
    return flat | st.lists(_arrays(depth - 1), max_size=4).map(lambda items: array(ValueType.ARRAY, items))


_values = st.one_of(
    *[st.tuples(st.just(kind), values) for kind, values in _numbers.items()],
    st.tuples(st.just(ValueType.ARRAY), _arrays(4)),
)
_names = st.binary(max_size=20).filter(lambda name: name != container.ALIGNMENT_KEY)
_keys = st.builds(lambda key, value: key_value(key, *value), _names, _values)
_infos = st.builds(
    tensor_info,
    st.binary(max_size=20),
    st.lists(st.integers(0, 2**64 - 1), max_size=4).map(tuple),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**64 - 1),
)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    order = draw(st.sampled_from(["little", "big"]))
    draft = Draft(order)
    file = draft.records()
    file.key_values = draw(st.lists(_keys, max_size=3))
    file.tensor_infos = draw(st.lists(_infos, max_size=3))
    return order, draft.built(file)


def leaves_of(trace: list[FieldNode]) -> list[FieldNode]:
    """Of the schema's own trace, the nodes that no other node lies below."""
    above = {node.path[:i] for node in trace for i, char in enumerate(node.path) if char in ".["}
    return [node for node in trace if node.path not in above]


def records(order: Any, data: bytes, trace: list[FieldNode], scope: Scope) -> list[FieldNode]:
    """Every record of a file, walked one by one at the places that the schema's trace says."""

    def read(start: int, length: int) -> bytes:
        assert 0 <= start <= start + length <= len(data)
        return data[start : start + length]

    nodes: list[FieldNode] = []
    spans = {node.path: (node.start, node.stop) for node in trace}
    for i in range(len(data)):
        if (path := f"key_values[{i}]") not in spans:
            break
        head = key_nodes(read, order, *spans[path], path)
        value = spans[f"{path}.value"]
        nodes += [*head, *value_nodes(read, order, head[-1].value, *value, f"{path}.value", scope)]
    for i in range(len(data)):
        if (path := f"tensor_infos[{i}]") not in spans:
            break
        nodes += info_nodes(read, order, *spans[path], path)
    return nodes


@given(files())
@examples(60)
def test_a_whole_walk_gives_the_leaves_of_the_schema(file: tuple[str, bytes]) -> None:
    order, data = file
    trace: list[FieldNode] = []
    parsed = container.parse(data, trace)
    assert parsed.byte_order == order
    wanted = [node[:4] for node in leaves_of(trace) if node.path.startswith(("key_values[", "tensor_infos["))]
    walked = [node for node in records(order, data, trace, Scope()) if is_leaf(node)]
    assert [node[:4] for node in walked] == wanted
    fields = {node.path: node.field for node in trace}
    for node in walked:
        assert node.field in (None, fields[node.path], fields.get(node.path.rpartition(".")[0]))


@given(files(), st.integers(1, 4), st.data())
@examples(60)
def test_a_walk_within_limits_leaves_no_byte_out(file: tuple[str, bytes], limit: int, draw: st.DataObject) -> None:
    order, data = file
    trace: list[FieldNode] = []
    container.parse(data, trace)
    start = draw.draw(st.integers(0, len(data)))
    scopes = [Scope(limit), Scope(None, None, start, draw.draw(st.integers(start, len(data))))]
    known = {node.path: node[:4] for node in trace}
    for scope in scopes:
        at = 24
        for node in records(order, data, trace, scope):
            if not is_leaf(node):
                continue
            assert node.start == at
            at = node.stop
            if not isinstance(node.value, Elided):
                assert node[:4] == known[node.path]
        assert at == max(node.stop for node in trace if node.path.startswith(("header", "key_", "tensor_")))


def walked(items: list[Any], kind: ValueType, scope: Scope) -> list[tuple[str, Any]]:
    """Paths and values of the elements of an array that a scope gives."""
    data = Draft().built(_with(items, kind))
    trace: list[FieldNode] = []
    container.parse(data, trace)
    nodes = [node for node in records("little", data, trace, scope) if ".items[" in node.path]
    return [(node.path.removeprefix("key_values[0].value.items"), node.value) for node in nodes]


def _with(items: list[Any], kind: ValueType) -> Any:
    file = Draft().records()
    file.key_values = [key_value(b"k", ValueType.ARRAY, array(kind, items))]
    file.tensor_infos = []
    return file


def test_long_arrays_are_elided() -> None:
    assert walked(list(range(9)), ValueType.UINT8, Scope(2)) == [
        ("[0]", 0),
        ("[1]", 1),
        ("[2..9]", Elided(7, "elements")),
    ]
    assert walked([b"a", b"bc", b""], ValueType.STRING, Scope(1)) == [
        ("[0].length", 1),
        ("[0].text", b"a"),
        ("[1..3]", Elided(2, "elements")),
    ]


def test_elements_before_the_scope_are_one_node() -> None:
    start = 24 + 8 + 1 + 4 + 12  # header, key, type, element type and count
    assert walked(list(range(9)), ValueType.UINT16, Scope(None, None, start + 7, start + 9)) == [
        ("[0..3]", Elided(3, "elements")),
        ("[3]", 3),
        ("[4]", 4),
        ("[5..9]", Elided(4, "elements")),
    ]
    assert walked([b"a", b"bc", b"d"], ValueType.STRING, Scope(None, None, start + 20, start + 21))[0] == (
        "[0..2]",
        Elided(2, "elements"),
    )


def test_an_inner_array_that_is_not_finished_ends_the_walk() -> None:
    inner = [array(ValueType.STRING, [b"a", b"b", b"c"]), array(ValueType.UINT8, [1, 2])]
    nodes = walked(inner, ValueType.ARRAY, Scope(2))
    assert nodes[-1] == ("[0..2]", Elided(None, "elements"))
    assert ("[0].items[1].text", b"b") in nodes
    whole = walked(inner, ValueType.ARRAY, Scope())
    assert whole[-1] == ("[1].items[1]", 2)
    assert Opened("arr[u8]", 2) in [value for _, value in whole]  # type: ignore[arg-type]


def test_a_long_text_is_read_in_part() -> None:
    asked: list[int] = []
    data = (HEAD_BYTES * 3).to_bytes(8, "little") + b"x" * HEAD_BYTES * 3

    def read(start: int, length: int) -> bytes:
        asked.append(length)
        return data[start : start + length]

    nodes = list(value_nodes(read, "little", ValueType.STRING, 0, len(data), "value", Scope()))
    assert isinstance(nodes[1].value, Head)
    assert (len(nodes[1].value), nodes[1].value.length) == (HEAD_BYTES, 3 * HEAD_BYTES)
    assert sum(asked) == 8 + HEAD_BYTES


def test_numbers_are_read_in_pieces() -> None:
    data = bytes(range(256)) * 100
    lengths: list[int] = []

    def read(start: int, length: int) -> bytes:
        lengths.append(length)
        return data[start : start + length]

    nodes = list(numbers(read, Word("big", "H"), 0, len(data) // 2, "n", Scope()))
    assert [node.value for node in nodes] == [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]
    assert max(lengths) <= HEAD_BYTES


def test_a_file_that_changed_is_refused() -> None:
    data = (13).to_bytes(4, "little") + bytes(8)
    with pytest.raises(FormatError, match="S903"):
        list(value_nodes(lambda at, n: data[at : at + n], "little", ValueType.ARRAY, 0, 12, "value", Scope()))
    data = (8).to_bytes(4, "little") + (1).to_bytes(8, "little") + (99).to_bytes(8, "little")
    with pytest.raises(FormatError, match="S903"):
        list(value_nodes(lambda at, n: data[at : at + n], "little", ValueType.ARRAY, 0, 20, "value", Scope()))


# --- arrays of strings: a walk that begins inside one, strings that do not fit ---


WORDS = [b"zero", b"one", b"two", b"three", b"four", b"five", b"six"]


def stored(words: list[bytes], order: str = "little") -> bytes:
    mark = "<" if order == "little" else ">"
    texts = b"".join(struct.pack(mark + "Q", len(word)) + word for word in words)
    return struct.pack(mark + "IQ", ValueType.STRING, len(words)) + texts


def walked_bytes(data: bytes, scope: Scope, order: Any = "little") -> list[tuple[str, Any]]:
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
    assert walked_bytes(data, Scope(start=start, limit=limit), order) == wanted


@pytest.mark.parametrize("more", [1, 7, 8, 9, 1 << 40])
def test_a_string_that_goes_on_behind_its_array(more: int) -> None:
    data = bytearray(stored(WORDS))
    at = len(data) - len(WORDS[-1]) - 8
    data[at : at + 8] = struct.pack("<Q", len(WORDS[-1]) + more)
    with pytest.raises(FormatError) as error:
        walked_bytes(bytes(data), Scope())
    assert (error.value.code, error.value.span[0]) == ("S903", at)
