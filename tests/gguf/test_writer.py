"""What the writer writes is what was added, in a form that the schema and the reference reader find sound."""

from __future__ import annotations

import array
import errno
import io
import math
import shutil
import struct
import subprocess
import sys
import textwrap
import tracemalloc
from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from examples import examples, some
from hypothesis import given
from hypothesis import strategies as st

import i2s_spec as i2s
from i2s_spec.convert.container.rewrite import rewrite
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema import gguf as schema
from i2s_spec.schema import limits, types
from i2s_spec.schema.types import ValueType, padded
from i2s_spec.testing.sample import Draft, tensor_info

MIB = 1 << 20
ORDERS = ["little", "big"]
INTEGERS = {
    "u8": (0, 2**8 - 1), "i8": (-(2**7), 2**7 - 1), "u16": (0, 2**16 - 1), "i16": (-(2**15), 2**15 - 1),
    "u32": (0, 2**32 - 1), "i32": (-(2**31), 2**31 - 1), "u64": (0, 2**64 - 1), "i64": (-(2**63), 2**63 - 1),
}  # fmt: skip


def written(fill: Callable[[Writer], Any], **options: Any) -> bytes:
    """The bytes of a file, which the schema parses and builds again."""
    out = io.BytesIO()
    with Writer(out, **options) as writer:
        fill(writer)
        size = writer.size
    data = out.getvalue()
    assert len(data) == size
    assert schema.build(schema.parse(data)) == data
    return data


def one_key(value: Any, *types: Any, **options: Any) -> tuple[str, Any]:
    """Label and value of a key as the reader gives them back."""
    file = open_file(written(lambda writer: writer.add("k", value, *types), **options))
    found = file.metadata["k"]
    return file.metadata.entry("k").label, found.tolist() if isinstance(found, np.ndarray) else found


# Key-values.


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

    def test_its_key_counts(self) -> None:
        with Writer(io.BytesIO()) as writer:
            writer.add_raw(self.RECORD)
            with pytest.raises(ValueError, match="key 'k' has a value already"):
                writer.add_raw(self.RECORD)
            with pytest.raises(ValueError, match="key 'k' has a value already"):
                writer.add("k", 1)

    def test_it_is_of_the_files_byte_order(self) -> None:
        with pytest.raises(ValueError, match="well-formed"), Writer(io.BytesIO(), byte_order="big") as writer:
            writer.add_raw(self.RECORD)

    def test_it_may_be_the_alignment(self) -> None:
        def record(kind: int, value: int) -> bytes:
            return struct.pack("<Q17sII", 17, b"general.alignment", kind, value)

        def fill(writer: Writer) -> None:
            for kind, value in ((ValueType.UINT32, 48), (ValueType.INT32, 64), (ValueType.UINT32, 4)):
                with pytest.raises(ValueError, match="alignment"):
                    writer.add_raw(record(kind, value))
            writer.add_raw(record(ValueType.UINT32, 64))
            assert writer.alignment == 64

        written(fill)


# Tensors and layout.


def test_the_layout_of_a_small_file() -> None:
    def fill(writer: Writer) -> None:
        writer.add("k", 1, "u8")
        writer.add_tensor("a", (1, 3), "F32", np.array([[1, 2, 3]], np.float32))
        writer.add_tensor("b", (2, 32), "Q8_0", bytes(range(68)))

    data = written(fill)
    infos = struct.pack("<Q1sIQQiQ", 1, b"a", 2, 3, 1, 0, 0) + struct.pack("<Q1sIQQiQ", 1, b"b", 2, 32, 2, 8, 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 1) + struct.pack("<Q1sIB", 1, b"k", 0, 1) + infos
    start = padded(len(head), 32)
    assert data == (
        head.ljust(start, b"\0") + struct.pack("<3f", 1, 2, 3).ljust(32, b"\0") + bytes(range(68)).ljust(96, b"\0")
    )


def test_a_file_without_tensors_ends_with_its_metadata() -> None:
    assert written(lambda writer: None) == b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
    assert len(written(lambda writer: writer.add("k", 1, "u8"))) == 24 + 14


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("alignment", [None, 8, 16, 32, 64, 4096, limits.MAX_ALIGNMENT])
def test_alignment(alignment: int | None, order: Any) -> None:
    def fill(writer: Writer) -> None:
        writer.add("first", 1)
        for i in range(3):
            writer.add_tensor(f"t{i}", (5,), "I8", bytes([i + 1]) * 5)

    file = open_file(written(fill, alignment=alignment, byte_order=order))
    assert file.alignment == (alignment or 32)
    assert list(file.metadata) == ["first"] + (["general.alignment"] if alignment not in (None, 32) else [])
    assert all(tensor.span.start % (alignment or 32) == 0 for tensor in file.tensors.rows)
    assert [tensor.read() for tensor in file.tensors.rows] == [bytes([i + 1]) * 5 for i in range(3)]
    assert file.size % (alignment or 32) == 0


def test_the_alignment_key_sets_the_alignment() -> None:
    def fill(writer: Writer) -> None:
        writer.add("general.alignment", 64)
        writer.add("last", 1)
        writer.add_tensor("t", (1,), "I8", b"x")

    for options in ({}, {"alignment": 64}):
        file = open_file(written(fill, **options))
        assert list(file.metadata) == ["general.alignment", "last"]
        assert file.metadata.entry("general.alignment").label == "u32"
        assert file.size % 64 == 0
    with pytest.raises(ValueError, match=r"general.alignment is given as 128 and as 64"):
        written(fill, alignment=128)


@pytest.mark.parametrize("alignment", [0, 1, 2, 4, 12, 33, 1 << 21, -8])
def test_alignments_that_cannot_be_are_refused(alignment: int) -> None:
    with pytest.raises(ValueError, match=r"general.alignment is"):
        Writer(io.BytesIO(), alignment=alignment)
    with pytest.raises(ValueError, match="alignment"), Writer(io.BytesIO()) as writer:
        writer.add("general.alignment", alignment)
    with pytest.raises(ValueError, match=r"general.alignment is of type u64"), Writer(io.BytesIO()) as writer:
        writer.add("general.alignment", 32, "u64")


@pytest.mark.parametrize("kind", types.TENSOR_TYPES, ids=lambda kind: f"{kind.number}-{kind.name}")
@pytest.mark.parametrize("order", ORDERS)
def test_every_type_has_its_exact_size(kind: types.TensorType, order: Any) -> None:
    ne = (512, 6)
    size = kind.nbytes(ne)
    body = np.random.default_rng(kind.number).integers(0, 256, size, np.uint8).tobytes()

    def fill(writer: Writer) -> None:
        writer.add_tensor("before", (1,), "I8", b"x")
        writer.add_tensor("t", ne[::-1], kind, body)
        writer.add_tensor("number", ne[::-1], kind.number, body)
        for wrong in (body[:-1], body + b"x", b""):
            with pytest.raises(ValueError, match=rf"tensor 'w': the data has {len(wrong):,} bytes and .* {size:,}"):
                writer.add_tensor("w", ne[::-1], kind, wrong)
        with pytest.raises(ValueError, match="tensor 'w': the data has 7 bytes"):
            writer.add_tensor("w", ne[::-1], kind, body, size=7)

    file = open_file(written(fill, byte_order=order))
    for name in ("t", "number"):
        tensor = file.tensors[name]
        assert (tensor.number, tensor.ne, tensor.shape) == (kind.number, ne, ne[::-1])
        assert tensor.type == kind
        assert tensor.read() == body


def test_types_go_by_name_too() -> None:
    file = open_file(written(lambda writer: writer.add_tensor("t", (4, 128), "i2_s", bytes(128 + 32))))
    assert file.tensors["t"].type == types.I2_S
    assert len(file.tensors["t"].tail) == 32


DTYPES = [*types.NUMPY_TYPES.items(), ("BF16", "u2")]


@pytest.mark.parametrize(("name", "dtype"), DTYPES)
@pytest.mark.parametrize("theirs", "<>")
@pytest.mark.parametrize("order", ORDERS)
def test_arrays_of_plain_types_in_any_byte_order(name: str, dtype: str, theirs: str, order: Any) -> None:
    values = np.arange(24, dtype=theirs + dtype).reshape(2, 3, 4)
    for data in (values, values.reshape(-1), values.astype(dtype), np.asfortranarray(values), values[::1, ::1]):
        file = open_file(written(lambda w, data=data: w.add_tensor("t", (2, 3, 4), name, data), byte_order=order))
        mark = "<" if order == "little" else ">"
        assert file.tensors["t"].read() == values.astype(mark + dtype).tobytes()
    strided = np.repeat(values, 2, axis=2)[:, :, ::2]
    file = open_file(written(lambda w: w.add_tensor("t", (2, 3, 4), name, strided), byte_order=order))
    assert file.tensors["t"].shape == (2, 3, 4)
    if name != "BF16":
        assert np.array_equal(file.tensors["t"].array(), values)


def test_arrays_that_are_not_of_the_type_are_refused() -> None:
    with Writer(io.BytesIO()) as writer:
        with pytest.raises(TypeError, match="tensor 't': the data is of dtype float64; F32 takes f4, or bytes"):
            writer.add_tensor("t", (4,), "F32", np.zeros(4))
        with pytest.raises(TypeError, match="of dtype float32; I2_S takes u1, or bytes"):
            writer.add_tensor("t", (4, 128), "I2_S", np.zeros(40, np.float32))
        with pytest.raises(ValueError, match=r"the data has the shape \[3, 2\], not \[2, 3\]"):
            writer.add_tensor("t", (2, 3), "F32", np.zeros((3, 2), np.float32))
        with pytest.raises(TypeError, match="tensor data is bytes, an array or a callable, not list"):
            writer.add_tensor("t", (2,), "F32", [1.0, 2.0])
        writer.add_tensor("t", (2,), "F32", np.zeros(8, np.uint8))
        writer.add_tensor("u", (2, 128), "I2_S", np.zeros((12, 8), np.int8))
        writer.add_tensor("v", (2,), "F32", array.array("f", [1, 2]))


def test_words_of_other_buffers_are_turned_into_the_files_order() -> None:
    values = array.array("f", [1, 2])
    for order in ORDERS:
        file = open_file(written(lambda w: w.add_tensor("t", (2,), "F32", values), byte_order=order))
        assert file.tensors["t"].array().tolist() == [1, 2]
    every_second = memoryview(b"a.b.c.d.")[::2]
    file = open_file(written(lambda w: w.add_tensor("t", (4,), "I8", every_second)))
    assert file.tensors["t"].read() == b"abcd"


@pytest.mark.parametrize("name", ["", "n" * 64, "é" * 32, "a\nb", "a\0", "\x7f", "\x85", "\udcff"])
def test_names_that_the_format_does_not_have_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^tensor "), Writer(io.BytesIO()) as writer:
        writer.add_tensor(name, (1,), "I8", b"x")


def test_a_name_has_one_tensor() -> None:
    with Writer(io.BytesIO()) as writer:
        writer.add_tensor("n" * 63, (1,), "I8", b"x")
        writer.add_tensor("é" * 31, (1,), "I8", b"x")
        with pytest.raises(ValueError, match="is there already"):
            writer.add_tensor("é" * 31, (1,), "I8", b"x")
        with pytest.raises(TypeError, match="a tensor's name is text"):
            writer.add_tensor(b"t", (1,), "I8", b"x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "kind", "error"),
    [
        ((), "F32", "it has 0 dimensions; 1 to 4 are possible"),
        ((1,) * 5, "F32", "it has 5 dimensions"),
        ((0,), "F32", "every length must be at least 1"),
        ((3, -1), "F32", "every length must be at least 1"),
        ((4, 48), "Q4_0", "its rows have 48 elements; Q4_0 packs blocks of 32"),
        ((32, 4), "Q4_0", "its rows have 4 elements"),
        ((2**32, 2**31), "I8", "there must be fewer than 2.63"),
        ((2**63,), "I8", "there must be fewer than 2.63"),
        ((1,), "Q9_9", "'Q9_9' is not a tensor type"),
        ((1,), 99, "no tensor type has the number 99"),
        ((1,), -1, "no tensor type has the number -1"),
    ],
)
def test_shapes_and_types_that_cannot_be_are_refused(shape: tuple[int, ...], kind: Any, error: str) -> None:
    with pytest.raises(ValueError, match=f"tensor 't': .*{error}"), Writer(io.BytesIO()) as writer:
        writer.add_tensor("t", shape, kind)


def test_more_bytes_than_a_file_has_are_refused() -> None:
    writer = Writer(io.BytesIO())
    for i in range(3):
        writer.add_tensor(f"t{i}", (2**60,), "F32")
    with pytest.raises(ValueError, match="no file can"):
        writer.commit()


def test_no_data_is_zeros() -> None:
    file = open_file(written(lambda writer: writer.add_tensor("t", (MIB + 5,), "I8")))
    assert file.tensors["t"].read() == bytes(MIB + 5)


# Streams, failures, targets.


def streamed(*parts: Any) -> Callable[[], Iterator[Any]]:
    return lambda: iter(parts)


def test_data_may_be_made_when_its_turn_comes() -> None:
    made: list[str] = []

    def make(name: str) -> Callable[[], Iterator[bytes]]:
        def parts() -> Iterator[bytes]:
            made.append(name)
            yield b"ab"
            yield b""
            yield bytearray(b"c")
            yield np.array([100], np.uint8).data

        return parts

    def fill(writer: Writer) -> None:
        for name in ("a", "b"):
            writer.add_tensor(name, (4,), "I8", make(name), size=4)
        writer.add_tensor("whole", (4,), "I8", lambda: b"whol")
        assert made == []

    file = open_file(written(fill))
    assert made == ["a", "b"]
    assert [tensor.read() for tensor in file.tensors.rows] == [b"abcd", b"abcd", b"whol"]


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ((b"abc",), "the data has 3 bytes and I8 of shape .4. takes 4"),
        ((), "the data has 0 bytes"),
        ((b"abcd", b"e"), "the data has 5 bytes or more and I8 of shape .4. takes 4"),
        ((b"abcde",), "the data has 5 bytes or more"),
    ],
)
def test_streams_of_another_size_leave_no_file(parts: tuple[bytes, ...], error: str, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.gguf")
    writer.add_tensor("t", (4,), "I8", streamed(*parts))
    writer.add_tensor("after", (4,), "I8", b"abcd")
    with pytest.raises(ValueError, match=f"tensor 't': {error}"):
        writer.commit()
    assert list(tmp_path.iterdir()) == []


def test_an_endless_stream_is_stopped(tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(1000)

    with pytest.raises(ValueError, match="or more"), Writer(tmp_path / "x.gguf") as writer:
        writer.add_tensor("t", (4096,), "I8", endless)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError, GeneratorExit])
@pytest.mark.parametrize("force", [False, True])
def test_a_failure_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, failure: type[BaseException], force: bool
) -> None:
    path = tmp_path / "x.gguf"
    if force:
        path.write_bytes(b"before")
    seen = []

    def fails() -> Iterator[bytes]:
        yield b"ab"
        seen.extend(sorted(tmp_path.iterdir()))
        raise failure

    with pytest.raises(failure), Writer(path, force=force) as writer:
        writer.add_tensor("t", (4,), "I8", fails)
    assert len(seen) == 1 + force
    assert list(tmp_path.iterdir()) == ([path] if force else [])
    assert not force or path.read_bytes() == b"before"


def test_a_failure_in_the_block_writes_nothing(tmp_path: Path) -> None:
    out = io.BytesIO()

    def fails(target: Any) -> None:
        with Writer(target) as writer:
            writer.add("k", 1)
            raise KeyboardInterrupt

    for target in (out, tmp_path / "x.gguf"):
        with pytest.raises(KeyboardInterrupt):
            fails(target)
    assert out.getvalue() == b""
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_refused_at_the_start_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    with pytest.raises(FileExistsError, match="there is a file"), Writer(path):
        path.write_bytes(b"theirs")
    with pytest.raises(FileExistsError, match="there is a file"):
        Writer(path)
    assert path.read_bytes() == b"theirs"
    with Writer(path, force=True) as writer:
        writer.add("k", 1)
    assert open_file(path).metadata["k"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: namedtuple("U", "total used free")(1000, 900, 100))
    with pytest.raises(OSError, match="the disk has 100 free") as error, Writer(tmp_path / "x.gguf") as writer:
        writer.add_tensor("t", (4096,), "I8", lambda: pytest.fail("nothing is made for a file without room"))
    assert error.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_chunks_are_bytes() -> None:
    for part, error in ((np.zeros(2, np.float32), "not words of 4 bytes"), ("abcd", "bytes-like"), (5, "bytes-like")):
        with pytest.raises(TypeError, match=error), Writer(io.BytesIO()) as writer:
            writer.add_tensor("t", (8,), "I8", streamed(part))


@pytest.mark.parametrize("target", [3, None, io.StringIO()])
def test_targets_are_paths_or_binary_streams(target: Any) -> None:
    with pytest.raises(TypeError, match="written to a path or a binary stream, not to"):
        Writer(target)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"version": 1}, "version 1 is not written"),
        ({"version": 4}, "version 4 is not written"),
        ({"version": 2, "byte_order": "big"}, "version 2 is little-endian"),
        ({"byte_order": "middle"}, "the byte order is 'middle'"),
    ],
)
def test_files_that_gguf_does_not_have_are_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Writer(io.BytesIO(), **options)


@pytest.mark.requirement("R2.3-2")
@pytest.mark.parametrize(("version", "order"), [(2, "little"), (3, "little"), (3, "big")])
def test_versions_and_byte_orders(version: int, order: Any) -> None:
    file = open_file(written(lambda w: w.add("k", 7), version=version, byte_order=order))
    assert (file.version, file.byte_order, file.metadata["k"]) == (version, order, 7)
    assert open_file(written(lambda w: w.add("k", 7), byte_order=order)).version == 3


def test_nothing_is_added_to_a_written_file() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("k", 1)
        writer.commit()
    assert len(out.getvalue()) == writer.size
    for late in (lambda: writer.add("l", 1), lambda: writer.add_tensor("t", (1,), "I8"), writer.commit):
        with pytest.raises(ValueError, match="has been written or given up"):
            late()


def test_progress_ends_with_the_whole_file(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with Writer(tmp_path / "x.gguf", progress=lambda done, total: told.append((done, total))) as writer:
        writer.add_tensor("t", (5 * MIB + 3,), "I8")
    size = (tmp_path / "x.gguf").stat().st_size
    assert told == sorted(set(told))
    assert told[-1] == (size, size)
    assert 5 <= len(told) <= 8


def test_streams_are_written_with_little_memory(tmp_path: Path) -> None:
    size = 64 * MIB
    tracemalloc.start()
    try:
        with Writer(tmp_path / "x.gguf") as writer:
            writer.add_tensor("made", (size,), "I8", lambda: (bytes(MIB) for _ in range(64)))
            writer.add_tensor("zeros", (size,), "I8")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB
    assert (tmp_path / "x.gguf").stat().st_size > 2 * size


def test_many_keys_and_tensors_take_linear_time() -> None:
    def fill(writer: Writer) -> None:
        for i in range(5000):
            writer.add(f"k{i}", i)
            writer.add_tensor(f"t{i}", (1,), "I8", b"x")

    out = io.BytesIO()
    with Writer(out) as writer:
        fill(writer)
    assert len(open_file(out.getvalue()).tensors) == 5000


# Laws.

texts = st.text(st.characters(codec="utf-8"), max_size=8)
leaves = {
    "bool": st.booleans(), "str": texts, "f32": st.floats(width=32, allow_nan=False), "f64": st.floats(allow_nan=False),
    **{label: st.integers(*bounds) for label, bounds in INTEGERS.items()},
}  # fmt: skip
scalars = st.sampled_from(sorted(leaves)).flatmap(lambda label: st.tuples(st.just(label), leaves[label]))
arrays = st.sampled_from(sorted(leaves)).flatmap(
    lambda label: st.tuples(st.just(f"arr[{label}]"), st.lists(leaves[label], max_size=5))
)
nested = st.sampled_from(sorted(leaves)).flatmap(
    lambda label: st.tuples(st.just(f"arr[arr[{label}]]"), st.lists(st.lists(leaves[label], max_size=3), max_size=3))
)
keys = st.dictionaries(st.from_regex(r"[a-z_.]{1,8}", fullmatch=True), scalars | arrays | nested, max_size=6)
tensor_names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=15)
shapes = st.lists(st.integers(1, 3), min_size=0, max_size=3).map(tuple)
tensors = st.dictionaries(tensor_names, st.tuples(st.sampled_from(types.TENSOR_TYPES), shapes, st.binary()), max_size=5)
layouts = st.sampled_from([(2, "little"), (3, "little"), (3, "big")])


@given(keys, tensors, layouts, st.sampled_from([None, 8, 32, 128]))
@examples(60)
def test_what_is_added_is_read_back(
    keys: dict[str, Any], tensors: dict[str, Any], layout: tuple[int, Any], alignment: int | None
) -> None:
    bodies = {}

    def fill(writer: Writer) -> None:
        for key, (label, value) in keys.items():
            writer.add(key, value, label)
        for name, (kind, lengths, seed) in tensors.items():
            shape = (*lengths, 256)
            size = kind.nbytes(shape[::-1])
            bodies[name] = (shape, kind, (seed * size)[:size].ljust(size, b"\x5a"))
            writer.add_tensor(name, shape, kind, bodies[name][2])

    refused = ""
    try:
        made = written(fill, version=layout[0], byte_order=layout[1], alignment=alignment)
    except ValueError as error:
        refused = str(error)
    if refused:  # one number of several types, and no tensor's room tells which
        assert "both have room" in refused
        assert any(
            padded(other.nbytes(shape[::-1]), alignment or 32) == padded(len(body), alignment or 32)
            for shape, kind, body in bodies.values()
            for other in types.READINGS[kind.number]
            if other.name != kind.name and shape[-1] % other.block == 0
        )
        return
    file = open_file(made)
    expected = {key: value for key, (_, value) in keys.items()}
    if alignment not in (None, 32):
        expected["general.alignment"] = alignment
    found = {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in file.metadata.items()}
    assert list(found.items()) == list(expected.items())
    assert list(file.tensors) == list(bodies)
    for name, (shape, kind, body) in bodies.items():
        tensor = file.tensors[name]
        assert (tensor.shape, tensor.number) == (shape, kind.number)
        rooms = [padded(reading.nbytes(tensor.ne), file.alignment or 32) for reading in types.READINGS[kind.number]]
        if len(rooms) == len(set(rooms)):  # else the file itself does not tell which fork's type is meant
            assert tensor.type == kind
            assert tensor.read() == body


# The reference implementation.

THEIRS = {kind.name: kind for kind in gguf.GGMLQuantizationType}
#: The types that both know; the package still gives Q8_1 the 40 bytes of before its two floats became halves.
GGUF_TYPES = [kind for kind in types.TENSOR_TYPES if kind.name in THEIRS and kind.name != "Q8_1"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("alignment", [None, 128])
def test_the_reference_reader_reads_what_we_write(tmp_path: Path, order: Any, alignment: int | None) -> None:
    rng = np.random.default_rng(1)
    values = {
        "general.architecture": ("bitnet-b1.58", "str"), "a.u8": (200, "u8"), "a.i8": (-3, "i8"), "a.u16": (60000, "u16"),
        "a.i16": (-300, "i16"), "a.u32": (2**31, "u32"), "a.i32": (-(2**31), "i32"), "a.u64": (2**63, "u64"),
        "a.i64": (-(2**63), "i64"), "a.f32": (0.5, "f32"), "a.f64": (0.1, "f64"), "a.bool": (True, "bool"),
        "a.strings": (["a", "é", "", "\U0001f600"], "arr[str]"), "a.ints": ([1, -2, 3], "arr[i32]"),
        "a.floats": ([0.5, -1.5], "arr[f32]"), "a.bools": ([True, False], "arr[bool]"), "a.bytes": ([0, 255], "arr[u8]"),
    }  # fmt: skip
    path = tmp_path / "x.gguf"
    bodies = {}
    with Writer(path, byte_order=order, alignment=alignment) as writer:
        for key, (value, label) in values.items():
            writer.add(key, value, label)
        for kind in GGUF_TYPES:
            shape = (3, 2, 256)
            body = rng.integers(0, 60, kind.nbytes(shape[::-1]), np.uint8).tobytes()
            bodies[kind.name] = body
            writer.add_tensor(kind.name.lower(), shape, kind, body)
    reader = gguf.GGUFReader(path)
    for key, (value, _) in values.items():
        assert reader.fields[key].contents() == value
    assert reader.alignment == (alignment or 32)
    assert len(reader.tensors) == len(GGUF_TYPES) > 25
    for tensor in reader.tensors:
        assert tensor.tensor_type.name.lower() == tensor.name
        assert tensor.shape.tolist() == [256, 2, 3]
        assert tensor.data.tobytes() == bodies[tensor.tensor_type.name]


@pytest.mark.parametrize("order", ORDERS)
def test_we_read_what_the_reference_writer_writes_and_write_the_same(tmp_path: Path, order: Any) -> None:
    endian = gguf.GGUFEndian.BIG if order == "big" else gguf.GGUFEndian.LITTLE
    theirs, ours = tmp_path / "theirs.gguf", tmp_path / "ours.gguf"
    rng = np.random.default_rng(2)
    plain = {
        "f32": rng.standard_normal((3, 4)).astype(np.float32), "f16": rng.standard_normal((2, 3, 4)).astype(np.float16),
        "i8": rng.integers(-128, 128, (5,), np.int8), "i16": rng.integers(-999, 999, (5, 1)).astype(np.int16),
        "i32": rng.integers(-999, 999, (1, 5)).astype(np.int32), "i64": rng.integers(-9, 9, (7,)).astype(np.int64),
        "f64": rng.standard_normal((3,)),
    }  # fmt: skip
    packed = rng.integers(0, 256, (4, 34), np.uint8)

    reference = gguf.GGUFWriter(theirs, "llama", endianess=endian)
    reference.add_uint32("llama.block_count", 7)
    reference.add_array("tokenizer.ggml.tokens", ["a", "bé", "c"])
    reference.add_array("tokenizer.ggml.scores", [0.5, -1.0])
    reference.add_bool("tokenizer.ggml.add_bos_token", True)
    for name, values in plain.items():
        reference.add_tensor(name, values)
    reference.add_tensor("q8_0", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    reference.write_header_to_file()
    reference.write_kv_data_to_file()
    reference.write_tensors_to_file()
    reference.close()

    with open_file(theirs) as file:
        assert file.byte_order == order
        assert file.metadata["tokenizer.ggml.tokens"] == ["a", "bé", "c"]
        for name, values in plain.items():
            assert np.array_equal(file.tensors[name].array(), values)
        assert file.tensors["q8_0"].read() == packed.tobytes()
        with Writer(ours, byte_order=order) as writer:
            for entry in file.metadata.rows:
                kind = f"arr[{ValueType(entry.element).label}]" if entry.element >= 0 else entry.type
                writer.add(entry.key, file.metadata[entry.key], kind)
            for name, values in plain.items():
                writer.add_tensor(name, values.shape, name, values)
            writer.add_tensor("q8_0", (4, 32), "Q8_0", packed)
    assert ours.read_bytes() == theirs.read_bytes()


def test_every_real_file_can_be_written_again_from_its_values(shared: Path) -> None:
    count, paths = 0, sorted([*(shared / "real").glob("*.gguf"), *(shared / "vectors" / "gguf").glob("*.gguf")])
    for path in some(paths, every=3):
        data = path.read_bytes()
        file = File(BufferSource(data))
        if file.fault is not None or "CORRUPT" in path.name or path.name.startswith("bitnet-rs"):
            continue

        def fill(writer: Writer, file: File = file) -> None:
            for entry in file.metadata.rows:
                writer.add(entry.key, file.metadata[entry.key], entry.label)
            for tensor in file.tensors.rows:
                values = tensor.array() if tensor.type and tensor.type.is_plain else tensor.read()
                writer.add_tensor(tensor.name, tensor.shape, tensor.number, values)

        assert written(fill) == data
        count += 1
    assert count >= (11 if some(paths) == paths else 2)


def test_lists_and_bytes_are_written_without_numpy(tmp_path: Path) -> None:
    program = """
        import sys
        from i2s_spec.gguf.writer import Writer
        with Writer(sys.argv[1]) as writer:
            writer.add("a", [1, 2], "arr[i32]")
            writer.add("b", [[0.5], []], "arr[arr[f32]]")
            writer.add_tensor("t", (4,), "I8", lambda: iter([b"abcd"]))
        sys.exit("numpy" in sys.modules or "construct" in sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "x.gguf")]
    assert subprocess.run(command, check=False).returncode == 0


# --- what a writer just takes, and the other byte order ---


def test_the_longest_key() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("k" * 65_535, 7)
        with pytest.raises(ValueError, match="65,536"):
            writer.add("k" * 65_536, 7)
    assert i2s.open(out.getvalue()).metadata["k" * 65_535] == 7


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("by_key", [False, True])
def test_alignment_by_key_and_by_parameter(order: Any, by_key: bool) -> None:
    out = io.BytesIO()
    with Writer(out, byte_order=order, alignment=None if by_key else 4096) as writer:
        if by_key:
            writer.add("general.alignment", 4096, "u32")
        assert writer.alignment == 4096
        writer.add_tensor("a", (3,), "F32", bytes(12))
        writer.add_tensor("b", (3,), "F32", bytes(range(12)))
    file = i2s.open(out.getvalue())
    assert (file.alignment, file.metadata["general.alignment"]) == (4096, 4096)
    assert [tensor.offset for tensor in file.tensors.values()] == [0, 4096]
    assert file.tensors["b"].read() == bytes(range(12))
    assert len(out.getvalue()) == 3 * 4096


@pytest.mark.parametrize("other", [64, 256])
def test_two_alignments(other: int) -> None:
    writer = Writer(io.BytesIO(), alignment=128)
    with pytest.raises(ValueError, match=f"given as 128 and as {other}"):
        writer.add("general.alignment", other, "u32")
    writer.add("general.alignment", 128, "u32")


@pytest.mark.parametrize("tensors", [False, True])
def test_an_alignment_is_stored_with_or_without_tensors(tensors: bool) -> None:
    out = io.BytesIO()
    with Writer(out, alignment=64) as writer:
        if tensors:
            writer.add_tensor("a", (4,), "I8", bytes(4))
    assert i2s.open(out.getvalue()).metadata["general.alignment"] == 64


@pytest.mark.parametrize(
    "copy", [rewrite, partial(rewrite, byte_order="big"), partial(i2s.sanitize, keep_unknown=True)],
    ids=["copy", "other order", "sanitize"],
)  # fmt: skip
def test_a_number_with_two_meanings_keeps_its_own(tmp_path: Path, copy: Callable[[Path, Path], object]) -> None:
    """3 rows of 256 take 204 bytes as Q2_0 in groups of 128 and 216 as Q2_0, and 224 either way where padding follows."""
    old = types.BY_NAME["Q2_0_G128"]
    draft = Draft()
    records = draft.records()
    records.tensor_infos = [tensor_info(b"w", (256, 3), old.number, 0)]
    records.data = b"\0\x3c" * (old.nbytes((256, 3)) // 2)
    data = draft.built(records)
    assert open_file(data).tensors["w"].type is old
    (tmp_path / "a.gguf").write_bytes(data)
    with pytest.raises(ValueError, match="type 42 is Q2_0_G128 here"):
        copy(tmp_path / "a.gguf", tmp_path / "b.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_what_is_larger_tells_which_meaning_it_has() -> None:
    old = types.BY_NAME["Q2_0_G128"]
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_tensor("w", (128, 256), old)
        writer.add_tensor("v", (3, 256), old)  # as the other: most of a file are of one type
    assert all(tensor.type is old for tensor in open_file(out.getvalue()).tensors.values())
