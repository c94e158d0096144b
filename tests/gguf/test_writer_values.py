"""The values that the writer accepts for keys: types, bounds, and bytes that are copied unchanged."""

from __future__ import annotations

import array
import io
import json
import math
import pickle
import struct
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from written_files import INTEGERS, ORDERS, one_key, written

from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema import container as schema
from i2s_spec.schema.types import ValueType


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (True, "bool"), ("text", "str"), ("", "str"), (b"text", "str"), (0, "u32"), (2**32 - 1, "u32"), (-1, "i32"),
        (2**32, "u64"), (2**64 - 1, "u64"), (-(2**31) - 1, "i64"), (1.5, "f32"), (math.inf, "f32"),
        (np.uint8(3), "u8"), (np.int16(-3), "i16"), (np.float64(1.5), "f64"), (np.float16(1.5), "f32"),
        (np.bool_(True), "bool"), (np.array(7, np.int64), "i64"),
        ([True, False], "arr[bool]"), (["a", "b"], "arr[str]"), ([1, 2], "arr[u32]"), ([1, -2], "arr[i32]"),
        ([1, 2**40], "arr[u64]"), ([-1, 2**40], "arr[i64]"), ([1, 2.5], "arr[f32]"), ((1, 2), "arr[u32]"),
        (range(3), "arr[u32]"), (array.array("h", [1, -1]), "arr[i32]"), (np.array([1, 2], np.int8), "arr[i8]"),
        (np.array([1.0, 2.0]), "arr[f64]"), (np.array([True]), "arr[bool]"), (np.array(["a", "b"]), "arr[str]"),
        (np.zeros(0, np.uint16), "arr[u16]"), ([np.int64(1), np.int64(2)], "arr[u32]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_a_type_follows_from_the_value(value: Any, label: str, order: Any) -> None:
    found, back = one_key(value, byte_order=order)
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(plain, bytes):
        plain = plain.decode()
    assert found == label
    assert back == (list(plain) if label.startswith("arr") else plain)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ([[1, 2], [-3]], "arr[arr[i32]]"), ([["a"], []], "arr[arr[str]]"), ([[[1.5]], [[], [2.5]]], "arr[arr[arr[f32]]]"),
        ([[[[True]]]], "arr[arr[arr[arr[bool]]]]"), (np.arange(6, dtype=np.uint8).reshape(2, 3), "arr[arr[u8]]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_nested_arrays_share_one_type(value: Any, label: str, order: Any) -> None:
    plain = value.tolist() if isinstance(value, np.ndarray) else value
    for given_type in ((), (label,), ("arr",), ("arr", "arr")):
        assert one_key(value, *given_type, byte_order=order) == ("arr[arr]", plain)
    data = written(lambda writer: writer.add("k", value), byte_order=order)
    item = schema.parse(data).key_values[0].value
    spelled = "arr"
    while item.type == ValueType.ARRAY:
        item = next(inner for inner in item["items"] if inner.count or len(item["items"]) == 1)
        spelled += "[arr"
    leaf = ValueType(item.type).label
    assert f"{spelled}[{leaf}{']' * (spelled.count('[') + 1)}" == label


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("label", INTEGERS)
def test_integers_are_bounded_by_their_type(label: str, order: Any) -> None:
    low, high = INTEGERS[label]
    for good in (low, high, np.int64(min(high, 2**63 - 1))):
        assert one_key(good, label, byte_order=order) == (label, int(good))
    assert one_key([low, high], f"arr[{label}]", byte_order=order) == (f"arr[{label}]", [low, high])
    for bad in (low - 1, high + 1):
        for value, kind in ((bad, label), ([0, bad], f"arr[{label}]")):
            with pytest.raises(ValueError, match=rf"{bad} does not fit {label}, which holds {low} to {high}"):
                one_key(value, kind)
    if label not in ("i64", "u64"):
        with pytest.raises(ValueError, match=rf"{high + 1} does not fit {label}"):
            one_key(np.array([high + 1, 0]), "arr", label)


@given(st.lists(st.floats(width=32)), st.sampled_from(ORDERS))
@examples(40)
def test_floats_come_back(values: list[float], order: Any) -> None:
    for given_values in (values, np.array(values, np.float32), np.array(values, np.float64)):
        label, back = one_key(given_values, "arr[f32]", byte_order=order)
        assert label == "arr[f32]"
        assert np.array_equal(np.array(back), np.array(values), equal_nan=True)


def test_floats_beyond_float32_are_refused() -> None:
    for value in (1e39, np.float64(1e39), [1.0, -1e39], np.array([1.0, 1e39])):
        with pytest.raises(ValueError, match=r"1e[+]39 is beyond the largest f32"):
            one_key(value, "arr[f32]" if np.ndim(value) else "f32")
    assert one_key(1e39, "f64") == ("f64", 1e39)
    with pytest.raises(ValueError, match="beyond the largest f64"):
        one_key(10**400, "f64")


@pytest.mark.parametrize("order", ORDERS)
def test_nan_payloads_survive(order: Any) -> None:
    """A signalling NaN that passes through a Python float becomes a quiet one."""
    bits = 0x7FA12345
    raw = bits.to_bytes(4, order)
    single = np.frombuffer(raw, ("<" if order == "little" else ">") + "f4")
    native = single.astype(single.dtype.newbyteorder("=")) if order == "little" else np.array([bits], "=u4").view("=f4")
    for value, kind in ((raw, "f32"), (single[0], "f32"), (native[0], None), (raw, "arr[f32]"), (single, None)):
        data = written(lambda writer, value=value, kind=kind: writer.add("k", value, kind), byte_order=order)
        assert data.endswith(raw)
    tensor = open_file(written(lambda w: w.add_tensor("t", (1,), "F32", native), byte_order=order)).tensors["t"]
    assert tensor.read() == raw


def test_bytes_are_a_numbers_bytes_in_the_files_order() -> None:
    assert one_key(b"\x01\x00", "u16") == ("u16", 1)
    assert one_key(b"\x01\x00", "u16", byte_order="big") == ("u16", 256)
    assert one_key(b"abc", "arr[u8]") == ("arr[u8]", [97, 98, 99])
    assert one_key([b"ab", b""], "arr[arr[u8]]") == ("arr[arr]", [[97, 98], []])
    for value, kind in ((b"abc", "u16"), (b"abcd", "u16"), (b"", "u8"), (b"abc", "arr[u16]")):
        with pytest.raises(ValueError, match="bytes"):
            one_key(value, kind)
    with pytest.raises(ValueError, match="a bool is stored as the byte 0 or 1"):
        one_key(b"\x00\x02", "arr[bool]")


@pytest.mark.requirement("R2.4-7")
@given(st.lists(st.binary(max_size=12), max_size=12), st.sampled_from(ORDERS))
@examples(40)
def test_text_that_is_not_utf8_comes_back(texts: list[bytes], order: Any) -> None:
    escaped = [text.decode("utf-8", "surrogateescape") for text in texts]
    for value in (texts, escaped):
        data = written(lambda writer, value=value: writer.add("k", value, "arr", "str"), byte_order=order)
        assert schema.parse(data).key_values[0].value["items"] == texts
        assert open_file(data).metadata["k"] == escaped


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'\\ud800' has a lone surrogate"):
        one_key("\ud800")


@pytest.mark.parametrize(
    ("value", "kinds", "error"),
    [
        (None, (), "GGUF has no type for NoneType"),
        ({"a": 1}, (), "GGUF has no type for dict"),
        (1 + 2j, (), "GGUF has no type for complex"),
        ([1, "a"], (), "elements of one type, not int, text"),
        ([1, True], (), "elements of one type, not bool, int"),
        ([1, [2]], (), "elements of one type, not int, list"),
        (1.0, ("u32",), "u32 takes integers, not float"),
        (True, ("u32",), "u32 takes integers, not bool"),
        ("1", ("u32",), "u32 takes integers, not text"),
        ("1", ("f32",), "f32 takes numbers, not text"),
        (np.array([1.5]), ("arr[i32]",), "i32 does not take an array of float64"),
        (1, ("bool",), None),
        (2, ("bool",), "bool takes True and False"),
        (1, ("str",), "str takes text, not int"),
        ([1], ("arr[str]",), "str takes text, not int"),
        ("ab", ("arr[str]",), "an array takes a list, not str"),
        (1, ("arr",), "arr takes a list, not u32"),
        ([1], ("arr[arr]",), "takes a list, not u32"),
        ([1, 2], ("u32",), "u32 takes integers, not list"),
        (np.array([1, 2]), ("i64",), "not list"),
    ],
)
def test_values_of_another_sort_are_refused(value: Any, kinds: tuple[str, ...], error: str | None) -> None:
    if error is None:
        one_key(value, *kinds)
        return
    with pytest.raises(TypeError, match=error) as caught:
        one_key(value, *kinds)
    assert str(caught.value).startswith("key 'k': ")


@pytest.mark.parametrize(
    ("value", "kinds", "error"),
    [
        ([], (), "an empty array does not say what it holds"),
        ([[], []], (), "an empty array does not say what it holds"),
        ([[[[[1]]]]], (), "nested 5 levels deep; the limit is 4"),
        ([], ("arr[arr[arr[arr[arr[u8]]]]]",), "nested 5 levels deep; the limit is 4"),
        (2**64, (), "no integer type holds 18446744073709551616"),
        ([-1, 2**63], (), "no integer type holds both -1 and 9223372036854775808"),
        (1, ("u31",), "'u31' is not a value type; the types are u8, i8"),
        (1, ("u32[u8]",), "is not a value type"),
        (1, ("arr[u8",), "is not a value type"),
        (1, (13,), "there is no value type 13"),
        ([1], ("arr[u8]", "u8"), "an element type is for arrays"),
        (1, ("u8", "u8"), "an element type is for arrays"),
    ],
)
def test_types_that_cannot_be_are_refused(value: Any, kinds: tuple[Any, ...], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        one_key(value, *kinds)


def test_arrays_of_bools_hold_0_and_1() -> None:
    assert one_key(np.array([0, 1]), "arr[bool]") == ("arr[bool]", [False, True])
    assert one_key([0, 1, True], "arr[bool]") == ("arr[bool]", [False, True, True])
    with pytest.raises(ValueError, match="2 does not fit bool, which holds 0 to 1"):
        one_key(np.array([0, 2]), "arr[bool]")


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested more than 4 levels deep"):
        one_key(loop)


def test_empty_arrays_of_a_given_type() -> None:
    assert one_key([], "arr[str]") == ("arr[str]", [])
    assert one_key([], "arr", "f32") == ("arr[f32]", [])
    assert one_key([], None, ValueType.INT8) == ("arr[i8]", [])
    assert one_key([], "arr[arr[u8]]") == ("arr[arr]", [])


@pytest.mark.parametrize("kind", ["u16", ValueType.UINT16, 2, "UINT16", "uint16"])
def test_types_are_given_in_many_ways(kind: Any) -> None:
    assert one_key(7, kind) == ("u16", 7)


@pytest.mark.parametrize("key", ["", "general.имя", "a\nb", "a\0", "\udcff", "a" * 65536])
def test_keys_that_the_format_does_not_have_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r"^key "), Writer(io.BytesIO()) as writer:
        writer.add(key, 1)


def test_a_key_has_one_value() -> None:
    with Writer(io.BytesIO()) as writer:
        writer.add("k", 1)
        with pytest.raises(ValueError, match="key 'k' has a value already"):
            writer.add("k", 2)
        with pytest.raises(TypeError, match="a key is text"):
            writer.add(b"k", 2)  # type: ignore[arg-type]


def test_a_failed_value_leaves_the_key_free() -> None:
    def fill(writer: Writer) -> None:
        with pytest.raises(ValueError, match="does not fit"):
            writer.add("k", 256, "u8")
        writer.add("k", 255, "u8")

    assert open_file(written(fill)).metadata["k"] == 255


class TestRaw:
    RECORD = struct.pack("<Q1sIQ2s", 1, b"k", ValueType.STRING, 2, b"\xff\x00")

    def test_a_record_is_copied_as_it_is(self) -> None:
        data = written(lambda writer: writer.add_raw(self.RECORD))
        assert data[24:] == self.RECORD

    @pytest.mark.parametrize("cut", range(len(RECORD)))
    def test_a_part_of_a_record_is_refused(self, cut: int) -> None:
        with pytest.raises(ValueError, match="well-formed key-value"), Writer(io.BytesIO()) as writer:
            writer.add_raw(self.RECORD[:cut])

    def test_more_than_a_record_is_refused(self) -> None:
        with Writer(io.BytesIO()) as writer:
            with pytest.raises(ValueError, match="3 bytes follow the key-value"):
                writer.add_raw(self.RECORD + b"abc")
            with pytest.raises(ValueError, match="bytes follow"):
                writer.add_raw(self.RECORD + self.RECORD.replace(b"k", b"l"))

    def test_a_record_takes_its_key(self) -> None:
        with Writer(io.BytesIO()) as writer:
            writer.add_raw(self.RECORD)
            with pytest.raises(ValueError, match="key 'k' has a value already"):
                writer.add_raw(self.RECORD)
            with pytest.raises(ValueError, match="key 'k' has a value already"):
                writer.add("k", 1)

    def test_a_record_of_another_byte_order_is_refused(self) -> None:
        with pytest.raises(ValueError, match="well-formed"), Writer(io.BytesIO(), byte_order="big") as writer:
            writer.add_raw(self.RECORD)

    def test_a_record_can_set_the_alignment(self) -> None:
        def record(kind: int, value: int) -> bytes:
            return struct.pack("<Q17sII", 17, b"general.alignment", kind, value)

        def fill(writer: Writer) -> None:
            for kind, value in ((ValueType.UINT32, 48), (ValueType.INT32, 64), (ValueType.UINT32, 4)):
                with pytest.raises(ValueError, match="alignment"):
                    writer.add_raw(record(kind, value))
            writer.add_raw(record(ValueType.UINT32, 64))
            assert writer.alignment == 64

        written(fill)


#: A value of each type, and arrays of each, empty and nested ones too.
_TYPED = (
    *((number, label) for label in ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64") for number in (0, 5, 100)),
    (-5, "i8"), (-5, "i64"), ((1 << 64) - 1, "u64"), (0.5, "f32"), (0.1, "f64"), (True, "bool"), ("x", "str"), ("", "str"),
    *(([], f"arr[{label}]") for label in ("u8", "i32", "u64", "f32", "f64", "bool", "str", "arr[i16]")),
    ([True, False], "arr[bool]"), ([1, 2], "arr[u64]"), ([1, 2], "arr[i8]"), ([0.5], "arr[f64]"), (["a", ""], "arr[str]"),
    ([[1, 2], [3]], "arr[arr[u16]]"), ([[1, 2], []], "arr[arr[u32]]"), ([[], []], "arr[arr[str]]"),
    ([[0.5], [0.25]], "arr[arr[f64]]"), ([["a"], []], "arr[arr[str]]"), ([[True]], "arr[arr[bool]]"),
)  # fmt: skip


def test_a_loop_that_copies_keys_keeps_their_types() -> None:
    def given(writer: Writer) -> None:
        for number, (value, kind) in enumerate(_TYPED):
            writer.add(f"k.{number}", value, kind)

    data = written(given)
    metadata = open_file(data).metadata

    def copied(writer: Writer) -> None:
        for key, value in metadata.items():
            writer.add(key, value)

    assert written(copied) == data
    read = pickle.loads(pickle.dumps(dict(metadata)))
    assert json.dumps(read["k.0"]) == "0"
    assert read["k.0"].stored_as == metadata["k.0"].stored_as
