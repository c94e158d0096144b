"""The tensors of a reader: the space that they occupy, their spans, and refusals."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.errors import FormatError
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.sample import Draft, key_value, tensor_info


def file_with(
    infos: list[tuple[bytes, tuple[int, ...], int, int]], data: bytes, order: Any = "little", alignment: int = 32
) -> i2s.File:
    """A file with no other tensors than these; name, ne, type number, offset."""
    draft = Draft(order)
    file = draft.records()
    file.key_values = [key_value(b"general.alignment", ValueType.UINT32, alignment)]
    file.tensor_infos = [tensor_info(*info) for info in infos]
    file.data = data
    return i2s.open(draft.built(file, alignment))


@pytest.mark.requirement("R2.6-10")
def test_a_number_of_several_types_is_resolved_by_the_size() -> None:
    """39 is MXFP4 or the older TL2, 40 is NVFP4 or I2_SR; also where a tensor is the last, and whatever the alignment."""
    for number, first, second in ((39, "MXFP4", "TL2"), (40, "NVFP4", "I2_SR")):
        ne = (512, 7)
        for alignment in (32, 256):
            for name in (first, second):
                kind = next(each for each in i2s.schema.types.READINGS[number] if each.name == name)
                size = -(-kind.nbytes(ne) // alignment) * alignment
                data = bytes(2 * size)
                file = file_with([(b"a", ne, number, 0), (b"b", ne, number, size)], data, alignment=alignment)
                assert [tensor.type for tensor in file.tensors.values()] == [kind, kind], (name, alignment)
                assert file.tensors["b"].read() == data[size : size + kind.nbytes(ne)]


@pytest.mark.requirement("R2.6-6")
def test_products_of_dimensions_do_not_wrap() -> None:
    """In 64 bits the first is 4, and the bytes of the second are 0 (ggml-org/llama.cpp#25401, CVE-2026-33298)."""
    file = file_with([(b"a", (4194305, 4194305, 211106198978564), 24, 0), (b"b", (1 << 31, 1 << 31), 0, 32)], bytes(64))
    assert file.tensors["a"].elements == 4194305 * 4194305 * 211106198978564
    assert file.tensors["b"].elements * 4 == 1 << 64
    with pytest.raises(FormatError):
        file.tensors["b"].read()


def test_allotted_bytes() -> None:
    file = file_with([(b"a", (16,), 24, 0), (b"b", (16,), 24, 32), (b"same", (16,), 24, 32)], bytes(100))
    assert [file.tensors.allotted_bytes(offset) for offset in (0, 31, 32, 99, 100, 200)] == [32, 1, 68, 1, None, None]
    assert [file.index.extent(offset)[0] for offset in (0, 31, 32, 99)] == [1, 1, 2, 2]


def test_of_two_tensors_the_first_counts() -> None:
    file = file_with([(b"twin", (4,), 24, 0), (b"twin", (8,), 24, 32)], bytes(64))
    assert file.tensors["twin"].ne == (4,)
    assert (len(file.tensors), len(list(file.tensors.rows))) == (1, 2)


@pytest.mark.parametrize("name", ["I2_S", "TL1"])
def test_payload_and_tail(name: str) -> None:
    payload, tail = bytes(range(128)), bytes(range(100, 132))
    file = file_with([(b"a", (128, 4), BY_NAME[name].number, 0)], payload + tail)
    tensor = file.tensors["a"]
    assert (tensor.payload, tensor.tail, tensor.read()) == (payload, tail, payload + tail)
    assert tensor.payload_span.stop == tensor.tail_span.start == tensor.span.stop - 32
    assert tensor.span.start == file.data_start


@pytest.mark.requirement("R2.7-4")
def test_tensors_that_end_with_the_file_and_behind_it() -> None:
    file = file_with(
        [(b"fits", (8,), 24, 0), (b"cut", (9,), 24, 0), (b"away", (0,), 24, 8), (b"far", (8,), 24, 9)], bytes(8)
    )
    assert file.tensors["fits"].read() == bytes(8)
    assert file.tensors["away"].read() == b""  # no bytes: the file ends there
    for name, code in (("cut", "G401"), ("far", "G402")):
        for read in (file.tensors[name].read, file.tensors[name].array):
            with pytest.raises(FormatError) as error:
                read()
            assert error.value.code == code


def test_a_tensor_that_begins_where_the_file_ends_is_cut_off() -> None:
    file = file_with([(b"a", (8,), 24, 0), (b"b", (8,), 24, 32)], bytes(32))
    with pytest.raises(FormatError) as error:
        file.tensors["b"].read()
    assert error.value.code == "G401"


def test_rows_are_whole_blocks() -> None:
    """Eight rows of 32 are a whole block of 256, and no row of one is."""
    file = file_with([(b"a", (32, 8), BY_NAME["Q6_K"].number, 0), (b"b", (32, 8), 99, 0)], bytes(512))
    for name, code in (("a", "G315"), ("b", "G313")):
        with pytest.raises(FormatError) as error:
            file.tensors[name].read()
        assert error.value.code == code
    start, stop, path = error.value.span
    assert path == "tensor_infos[1].type"
    assert file.source.read(start, stop - start) == struct.pack("<i", 99)
    with pytest.raises(FormatError) as error:
        file.tensors["a"].read()
    start, stop, path = error.value.span
    assert path == "tensor_infos[0].ne"
    assert file.source.read(start, stop - start) == struct.pack("<QQ", 32, 8)


@pytest.mark.parametrize("order", ["little", "big"])
def test_arrays(order: Any) -> None:
    mark = "<" if order == "little" else ">"
    words = np.array([[1.5, -2.0], [0.25, 65504.0]])
    parts = [
        words.astype(f"{mark}f4").tobytes(), words.astype(f"{mark}f2").tobytes(),
        (words.astype(np.float32).view(np.uint32) >> 16).astype(f"{mark}u2").tobytes(),
    ]  # fmt: skip
    data = b"".join(part.ljust(32, b"\0") for part in parts)
    infos = [(b"f32", (2, 2), 0, 0), (b"f16", (2, 2), 1, 32), (b"bf16", (2, 2), 30, 64)]
    file = file_with(infos, data, order)
    assert file.tensors["f32"].array().tolist() == words.tolist()
    assert file.tensors["f16"].array().tolist() == words.tolist()
    bfloat16 = file.tensors["bf16"].array()
    assert (bfloat16.dtype, bfloat16[0].tolist(), bfloat16[1, 1]) == (np.float32, [1.5, -2.0], 65280.0)
    assert not bfloat16.flags.writeable
