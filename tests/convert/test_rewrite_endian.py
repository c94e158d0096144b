"""Changing the byte order keeps the content, and changing it twice gives the same file."""

from __future__ import annotations

import argparse
import io
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from builders import written
from examples import examples, some
from gguf.scripts.gguf_convert_endian import byteswap_tensors, convert_byteorder
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import blocks_native
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.compare.hash import hash as identity
from i2s_spec.convert.rewrite import convert_endian, rewrite
from i2s_spec.gguf.byte_order import swapped_record, swapped_tail
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema import container as schema
from i2s_spec.schema import types
from i2s_spec.schema.blocks import BLOCK_LAYOUTS

MIB = 1 << 20
KNOWN = [kind for kind in types.TENSOR_TYPES if kind.words is not None]
UNKNOWN = [kind for kind in types.TENSOR_TYPES if kind.words is None]


def converted(data: bytes, order: Any) -> bytes:
    out = io.BytesIO()
    convert_endian(open_file(data), out, order)
    result = out.getvalue()
    assert schema.build(schema.parse(result)) == result
    assert open_file(result).byte_order == order
    return result


def values(data: bytes) -> dict[str, Any]:
    file = open_file(data)
    return {e.key: (e.label, repr(file.metadata[e.key])) for e in file.metadata.rows}


def metadata(writer: Writer) -> None:
    for label in ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bool"):
        writer.add(label, 1, label)
        writer.add(f"array.{label}", [1, 0, 1], f"arr[{label}]")
        writer.add(f"nested.{label}", [[1], [], [0, 1]], f"arr[arr[{label}]]")
        writer.add(f"empty.{label}", [], f"arr[{label}]")
    writer.add("str", b"odd \xff\x00 text")
    writer.add("array.str", ["", "ab", "\U0001f600", b"\xff"])
    writer.add("nested.str", [[["a"], []], [["bc", "d"]]], "arr[arr[arr[str]]]")
    writer.add("last", 0x01020304)


def test_metadata_keeps_its_values() -> None:
    data = written(metadata)
    big = converted(data, "big")
    assert values(big) == values(data)
    assert big == written(metadata, byte_order="big")
    assert converted(big, "little") == data


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.name)
def test_every_type_comes_back(kind: types.TensorType) -> None:
    ne = (256, 12)  # a shape for which types that share a number have different sizes
    body = np.random.default_rng(kind.number).integers(0, 256, kind.nbytes(ne), np.uint8).tobytes()
    data = written(lambda writer: writer.add_tensor("t", ne[::-1], kind, body))
    big = converted(data, "big")
    turned = open_file(big).tensors["t"].read()
    assert len(turned) == len(body)
    assert sorted(turned) == sorted(body)
    assert (turned == body) == (not kind.words and not kind.row_words and kind.size is None)
    assert converted(big, "little") == data


@pytest.mark.parametrize("kind", [*BLOCK_LAYOUTS, "long rows"])
def test_types_with_a_scale_for_each_group_keep_their_weights(kind: str) -> None:
    shape = (2, 3, 512)
    if kind == "long rows":  # rows longer than one read
        kind, shape = "IQ2_BN", (2, 4 * MIB + 64)
    random = np.random.default_rng(4)
    scales = random.uniform(0.1, 2, blocks_of(shape, kind).groups).astype(np.float32)
    body = blocks_native.pack(random.integers(-1, 2, shape, dtype=np.int8), scales, kind)
    data = written(lambda writer: writer.add_tensor("blk.0.ffn_up.weight", shape, kind, body))
    big = converted(data, "big")
    before, after = (open_file(each).tensors["blk.0.ffn_up.weight"] for each in (data, big))
    assert after.kind == kind
    assert before.read() != after.read()
    assert np.array_equal(before.dequantize(), after.dequantize())
    assert identity(open_file(big)).weights == identity(open_file(data)).weights
    assert converted(big, "little") == data


def test_scales_of_rows_behind_the_payload_are_turned() -> None:
    payload, scales = bytes(range(192)), np.arange(1, 4, dtype="<f4")
    tail = struct.pack("<f", 0.75) + bytes(28)
    data = written(lambda writer: writer.add_tensor("t", (3, 256), "I2_SR", payload + scales.tobytes() + tail))
    big = converted(data, "big")
    turned = scales.astype(">f4").tobytes() + tail[3::-1] + bytes(28)
    assert open_file(big).tensors["t"].read() == payload + turned
    assert converted(big, "little") == data


@pytest.mark.parametrize(("name", "dtype"), types.NUMPY_TYPES.items())
def test_plain_types_keep_their_numbers(name: str, dtype: str) -> None:
    numbers = np.arange(-7, 8).astype(dtype).reshape(3, 5)
    data = written(lambda writer: writer.add_tensor("t", numbers.shape, name, numbers))
    assert np.array_equal(open_file(converted(data, "big")).tensors["t"].array(), numbers)


def test_the_words_of_a_block_are_turned_and_nothing_else() -> None:
    body = bytes(range(2, 146)) * 2
    data = written(lambda writer: writer.add_tensor("t", (2, 256), "Q4_K", body))
    block = bytes([3, 2, 5, 4, *range(6, 146)])
    assert open_file(converted(data, "big")).tensors["t"].read() == block * 2


class TestI2S:
    PAYLOAD = np.random.default_rng(3).integers(0, 256, 96, np.uint8).tobytes()
    SCALE = struct.pack("<f", 0.75)

    def turned(self, tail: bytes, kind: str = "I2_S") -> bytes:
        data = written(lambda writer: writer.add_tensor("t", (3, 128), kind, self.PAYLOAD + tail))
        big = converted(data, "big")
        tensor = open_file(big).tensors["t"]
        assert tensor.payload == self.PAYLOAD
        assert converted(big, "little") == data
        return tensor.tail

    @pytest.mark.parametrize("kind", ["I2_S", "TL1"])
    def test_the_scale_is_turned_and_the_unused_bytes_are_not(self, kind: str) -> None:
        for rest in (bytes(28), bytes(range(28)), self.SCALE * 6 + b"else"):
            tail = self.turned(self.SCALE + rest, kind)
            assert struct.unpack(">f", tail[:4]) == (0.75,)
            assert tail[4:] == rest

    def test_a_replicated_scale_is_turned_eight_times(self) -> None:
        assert self.turned(self.SCALE * 8) == self.SCALE[::-1] * 8

    @given(st.binary(min_size=4, max_size=4), st.binary(min_size=4, max_size=4), st.integers(0, 3))
    @examples(60)
    def test_any_tail_comes_back(self, scale: bytes, other: bytes, rest: int) -> None:
        tail = scale + [scale * 7, scale[::-1] * 7, other * 7, scale * 6 + other][rest]
        assert swapped_tail(swapped_tail(tail)) == tail
        assert swapped_tail(tail)[:4] == scale[::-1]

    def test_real_models_come_back(self, shared: Path) -> None:
        for path in sorted((shared / "vectors" / "gguf").glob("*.gguf")):
            if "CORRUPT" in path.name:  # its tensors have gaps, which a copy removes
                continue
            data = path.read_bytes()
            big = converted(data, "big")
            assert values(big) == values(data)
            for old, new in zip(open_file(data).tensors.rows, open_file(big).tensors.rows, strict=True):
                assert (old.name, old.shape, old.type) == (new.name, new.shape, new.type)
                if old.type is types.I2_S:
                    assert old.payload == new.payload
                    assert struct.unpack("<f", old.tail[:4]) == struct.unpack(">f", new.tail[:4])
                else:
                    assert np.array_equal(old.array(), new.array())
            assert converted(big, "little") == data


def test_real_vocabularies_come_back(shared: Path) -> None:
    paths = sorted((shared / "real").glob("ggml-vocab-*.gguf"))
    assert paths
    for path in some(paths)[::2]:  # they differ only in vocabulary, and each takes seconds
        data = path.read_bytes()
        big = converted(data, "big")
        assert values(big) == values(data)
        assert converted(big, "little") == data


@pytest.mark.parametrize("kind", UNKNOWN, ids=lambda kind: f"{kind.number}-{kind.name}")
def test_types_whose_words_are_not_known_are_refused(kind: types.TensorType, tmp_path: Path) -> None:
    def fill(writer: Writer) -> None:
        writer.add_tensor("fine", (1,), "F32")
        writer.add_tensor("t", (3, 512), kind)

    data = written(fill)
    with pytest.raises(ValueError, match=f"tensor 't' is of type {kind.name}: which of its bytes form words"):
        convert_endian(open_file(data), tmp_path / "x.gguf", "big")
    assert list(tmp_path.iterdir()) == []
    convert_endian(open_file(data), tmp_path / "x.gguf", "little")
    assert (tmp_path / "x.gguf").read_bytes() == data


def test_words_that_are_not_certain_are_not_known() -> None:
    """ggml reads their qh or scales through a uint32, so their half-precision scales may not be all that turns."""
    assert {"Q5_0", "Q5_1", "Q3_K"} <= {kind.name for kind in UNKNOWN}


def test_big_endian_files_are_of_version_3() -> None:
    old = written(metadata, version=2)
    big = converted(old, "big")
    assert open_file(big).version == 3
    assert converted(big, "little") == written(metadata)
    assert converted(old, "little") == old


def test_changes_and_byte_order_go_together() -> None:
    def fill(writer: Writer) -> None:
        metadata(writer)
        writer.add_tensor("t", (2, 3), "F32", np.arange(6, dtype=np.float32))

    out = io.BytesIO()
    changes: dict[str, Any] = {
        "set": {"u16": 0x1234, "new": [1, 2]}, "rename": {"str": "text"}, "drop_keys": ["array.str"], "alignment": 64,
    }  # fmt: skip
    rewrite(open_file(written(fill)), out, byte_order="big", **changes)
    plain = io.BytesIO()
    rewrite(open_file(written(fill)), plain, **changes)
    assert out.getvalue() == converted(plain.getvalue(), "big")
    file = open_file(out.getvalue())
    assert file.metadata["u16"] == 0x1234
    assert file.tensors["t"].array().tolist() == [[0, 1, 2], [3, 4, 5]]


@given(st.binary(max_size=6), st.lists(st.binary(max_size=5), max_size=4), st.integers(0, 2**64 - 1))
@examples(40)
def test_records_come_back(text: bytes, texts: list[bytes], number: int) -> None:
    def fill(writer: Writer) -> None:
        writer.add("text", text)
        writer.add("texts", texts, "arr[str]")
        writer.add("deep", [[texts], []], "arr[arr[arr[str]]]")
        writer.add("number", number, "u64")
        writer.add("nan", number.to_bytes(8, writer.byte_order), "f64")

    little, big = written(fill), written(fill, byte_order="big")
    pairs = [[data[e.span.start : e.span.stop] for e in open_file(data).metadata.rows] for data in (little, big)]
    for one, other in zip(*pairs, strict=True):
        assert swapped_record(one, "little") == other
        assert swapped_record(other, "big") == one


def test_the_reference_reader_reads_the_copy_and_its_own_conversion_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the package's converter, which works in place, makes of a file is what we make of it."""
    path, big = tmp_path / "x.gguf", tmp_path / "big.gguf"
    rng = np.random.default_rng(5)
    theirs = [kind.name for kind in byteswap_tensors if kind.name in types.BY_NAME]
    names = [*theirs, "F32", "F16", "BF16"]
    with Writer(path) as writer:
        writer.add("general.architecture", "llama")
        writer.add("a.tokens", ["a", "bé"])
        writer.add("a.ints", [1, -2], "arr[i32]")
        for name in names:
            kind = types.BY_NAME[name]
            body = rng.integers(0, 256, kind.nbytes((256, 2)), np.uint8).tobytes()
            writer.add_tensor(name, (2, 256), name, body)
    with open_file(path) as file:
        convert_endian(file, big, "big")

    reader = gguf.GGUFReader(big)
    assert reader.endianess == gguf.GGUFEndian.BIG
    assert reader.fields["a.tokens"].contents() == ["a", "bé"]
    assert reader.fields["a.ints"].contents() == [1, -2]
    assert [tensor.name for tensor in reader.tensors] == names

    in_place = gguf.GGUFReader(path, "r+")
    monkeypatch.setattr("builtins.input", lambda prompt: "YES")
    convert_byteorder(in_place, argparse.Namespace(order="big", dry_run=False))
    in_place.data.flush()
    assert path.read_bytes() == big.read_bytes()


def test_tensors_pass_through_in_parts(tmp_path: Path) -> None:
    source, target, back = (tmp_path / name for name in ("source", "target", "back"))
    with Writer(source) as writer:
        writer.add_tensor("plain", (8 * MIB,), "F32")
        writer.add_tensor("blocks", (20 * MIB,), "Q6_K", lambda: (bytes(range(210)) for _ in range(20 * MIB // 256)))
        writer.add_tensor("ternary", (64 * MIB,), "I2_S")
    for a, b, order in ((source, target, "big"), (target, back, "little")):
        with open_file(a) as file:
            tracemalloc.start()
            try:
                convert_endian(file, b, order)  # type: ignore[arg-type]
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert peak < 8 * MIB
    assert back.read_bytes() == source.read_bytes()
