"""Identities: the documented form is the one that is hashed, and equal content has equal identities."""

from __future__ import annotations

import hashlib
import io
import re
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from hypothesis import example, given
from hypothesis import strategies as st

import i2s_spec as i2s
from i2s_spec.codec.reference import pack, unpack
from i2s_spec.compare.hash import Identity
from i2s_spec.compare.hash import hash as identity
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.rewrite import Value, convert_endian, rewrite
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.sample import Draft, array, key_value

#: A file of one small layer.
model_file = partial(model_bytes, layers=1, embd=256)


def of(data: bytes, dialect: str = "canonical", **options: Any) -> Identity:
    return identity(open_file(data), dialect, **options)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def text(data: bytes) -> bytes:
    return u64(len(data)) + data


def by_the_book(data: bytes) -> tuple[str, str]:
    """Metadata and weights of a little-endian file of canonical I2_S and floats, in the words of the module's text."""
    file = open_file(data)
    records = {
        entry.name: data[entry.span.start + 8 + len(entry.name) : entry.span.stop] for entry in file.metadata.rows
    }
    metadata = b"i2s-metadata-1\n" + u64(len(records))
    metadata += b"".join(text(key) + records[key] for key in sorted(records))
    weights = b"i2s-weights-1\n" + u64(len(file.tensors))
    for tensor in sorted(file.tensors.values(), key=lambda tensor: tensor.raw_name):
        one = b"i2s-tensor-1\n" + text(tensor.raw_name) + struct.pack("<I", len(tensor.ne))
        one += b"".join(map(u64, tensor.ne))
        assert tensor.type is not None
        if tensor.type.name == "I2_S":
            trits, scale = unpack(tensor.read(), tensor.shape)
            codes = (trits.reshape(-1, 4) + 1).astype(np.uint8)
            packed = codes[:, 0] | codes[:, 1] << 2 | codes[:, 2] << 4 | codes[:, 3] << 6
            one += text(b"ternary") + packed.tobytes() + struct.pack("<f", scale)
        else:
            one += text(tensor.type.name.encode()) + tensor.read()
        weights += hashlib.sha256(one).digest()
    return hashlib.sha256(metadata).hexdigest(), hashlib.sha256(weights).hexdigest()


def test_the_hash_is_the_documented_one() -> None:
    data = model_file()
    found = of(data)
    assert found.file == hashlib.sha256(data).hexdigest()
    assert (found.metadata, found.weights) == by_the_book(data)
    assert found == of(data, threads=3)


def test_an_identity_stays_what_it_is() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        writer.add("tokenizer.ggml.tokens", ["a", "b"])
        writer.add_tensor("blk.0.attn_q.weight", (1, 128), "I2_S", pack(np.array([[1, -1] * 64]), 0.5))
        writer.add_tensor("output_norm.weight", (2,), "F32", np.array([1, 2], dtype=np.float32))
    found = of(out.getvalue())
    assert found.metadata == "08d33ed7c3e8c98ed9b6f476782465c86630f82c55349e4a8525410bf4564fbd"
    assert found.weights == "51214f2544e2fc305f2599cb66796a9b7209b726d1050d8cae65989ca082370a"


@pytest.mark.parametrize("to", ["F32", "interleave-64", "rows-1x4", "interleave-128/twos-complement/replicated-8"])
@pytest.mark.parametrize("order", ["little", "big"])
def test_the_form_of_the_weights_does_not_change_the_identity(to: str, order: Any) -> None:
    data = model_file()
    out = io.BytesIO()
    convert_file(open_file(data), out, to=to, byte_order=order)
    found = of(out.getvalue(), "canonical" if to == "F32" else to)
    assert found.weights == of(data).weights
    assert (found.metadata == of(data).metadata) == (to != "F32")  # general.file_type differs


def test_order_alignment_and_tails_do_not_change_the_identity() -> None:
    data = model_file()
    file = open_file(data)
    out = io.BytesIO()
    with Writer(out, alignment=128) as writer:
        for entry in reversed(list(file.metadata.rows)):
            writer.add_raw(data[entry.span.start : entry.span.stop])
        for tensor in reversed(list(file.tensors.values())):
            assert tensor.type is not None
            stale = tensor.payload + tensor.tail[:4] + bytes(range(28)) if tensor.type.name == "I2_S" else tensor.read()
            writer.add_tensor(tensor.name, tensor.shape, tensor.type, stale)
    other = of(out.getvalue())
    assert other[1:] == of(data)[1:]
    assert other.file != of(data).file


def test_metadata_of_every_type_is_the_same_in_both_byte_orders() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("general.architecture", "bitnet")
        writer.add("a.nested", [[["a", "ü"], []], [["b"]]], "arr[arr[arr[str]]]")
        writer.add("a.numbers", [1, -2], "arr[i16]")
        writer.add("a.bools", [True, False])
        writer.add("a.texts", [b"\xff", b"", b"x" * 300])
        writer.add("a.nan", b"\x01\x00\xa0\x7f", "f32")
        writer.add("a.wide", 1 << 40, "u64")
        writer.add("a.byte", 7, "u8")
    big = io.BytesIO()
    convert_endian(open_file(out.getvalue()), big, "big")
    assert of(big.getvalue()).metadata == of(out.getvalue()).metadata == by_the_book(out.getvalue())[0]


def test_each_relevant_bit_changes_the_hash() -> None:
    data = model_file()
    before = of(data)
    file = open_file(data)
    attn = file.tensors["blk.0.attn_q.weight"].span

    def changed(at: int, bits: int) -> Identity:
        copy = bytearray(data)
        copy[at] ^= bits
        return of(bytes(copy))

    for at, bits in ((attn.start, 1), (attn.stop - 32, 1), (file.tensors["token_embd.weight"].span.start, 1)):
        after = changed(at, bits)
        assert (after.metadata == before.metadata, after.weights == before.weights) == (True, False)
        assert sum(one != other for one, other in zip(before.tensors, after.tensors, strict=True)) == 1
    assert changed(attn.stop - 1, 1)[1:] == before[1:]  # a byte of the tail that does not count
    for changes in ({"general.name": "x"}, {"general.file_type": Value("u64", 40)}, {"x": 1}):
        out = io.BytesIO()
        rewrite(file, out, set=changes)
        after = of(out.getvalue())
        assert (after.metadata == before.metadata, after.weights == before.weights) == (False, True)
    out = io.BytesIO()
    rewrite(file, out, rename_tensors={"blk.0.attn_q.weight": "blk.9.attn_q.weight"})
    assert of(out.getvalue()).weights != before.weights


def test_the_wrong_dialect_gives_another_identity() -> None:
    assert of(model_file(), "interleave-64").weights != of(model_file()).weights
    with pytest.raises(ValueError, match="no layout is called"):
        of(model_file(), "nothing")
    with pytest.raises(ValueError, match="repeats the scale"):
        of(model_file(), "interleave-128/offset-1/replicated-8")


def single(name: str, shape: tuple[int, ...], type: str, data: Any) -> bytes:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_tensor(name, shape, type, data)
    return out.getvalue()


def test_forms_of_the_same_ternary_tensor_have_one_hash() -> None:
    trits = np.random.default_rng(0).integers(-1, 2, (3, 256), dtype=np.int8)
    half = (trits * np.float32(0.5)).astype(np.float32)
    kinds = [
        of(single("w", (3, 256), "F32", half)).tensors[0],
        of(single("w", (3, 256), "F16", half.astype(np.float16))).tensors[0],
        of(single("w", (3, 256), "I2_S", pack(trits, 0.5))).tensors[0],
        of(single("w", (1, 3, 256), "F32", half.reshape(1, 3, 256))).tensors[0],
    ]
    assert {kind.digest for kind in kinds} == {kinds[0].digest}
    assert {(kind.kind, kind.scale) for kind in kinds} == {("ternary", 0.5)}
    assert of(single("w", (256,), "F32", half[0])).tensors[0].kind == "F32"  # a vector is not a weight matrix
    half[2, 5] = 0.25
    assert of(single("w", (3, 256), "F32", half)).tensors[0].kind == "F32"
    odd = of(single("w", (3, 3), "F32", np.ones((3, 3), dtype=np.float32))).tensors[0]  # nine codes in three bytes
    head = b"i2s-tensor-1\n" + text(b"w") + struct.pack("<IQQ", 2, 3, 3) + text(b"ternary")
    assert odd.digest == hashlib.sha256(head + b"\xaa\xaa\x02" + struct.pack("<f", 1)).hexdigest()


def test_undecodable_tensors_are_hashed_as_bytes() -> None:
    for shape, size in (((1, 132), 65), ((2, 4, 128), 288)):
        found = of(single("w", shape, "I2_S", bytes(size))).tensors[0]
        assert (found.kind, found.scale) == ("I2_S", None)


def test_data_is_hashed_as_a_little_endian_file_has_it() -> None:
    rng = np.random.default_rng(0)
    for shape, type_ in (((1, 132), "I2_S"), ((2, 256), "Q6_K"), ((3, 64), "F16"), ((2, 32), "Q4_0"), ((5,), "I64")):
        data = single("w", shape, type_, rng.bytes(BY_NAME[type_].nbytes(shape[::-1])))
        big = io.BytesIO()
        convert_endian(open_file(data), big, "big")
        assert of(big.getvalue()).weights == of(data).weights
    file = open_file(single("w", (1, 32), "Q5_0", bytes(22)))
    out = io.BytesIO()
    with Writer(out, byte_order="big") as writer:
        writer.add_tensor("w", (1, 32), "Q5_0", bytes(22))
    assert identity(file).tensors[0].kind == "Q5_0"
    assert of(out.getvalue()).tensors[0].kind == "Q5_0 big-endian"  # its byte order is not documented


def test_unused_codes_change_the_identity() -> None:
    data = bytearray(pack(np.zeros((2, 128), dtype=np.int8), 1.0))
    zero = of(single("w", (2, 128), "I2_S", bytes(data))).weights
    data[0] |= 3
    assert of(single("w", (2, 128), "I2_S", bytes(data))).weights != zero


def test_broken_files_are_refused() -> None:
    with pytest.raises(FormatError, match="G401"):
        of(model_file()[:-100])
    with pytest.raises(FormatError, match="G002"):
        of(b"nothing of the kind, but long enough to be read")


def test_progress_ends_where_it_should() -> None:
    seen: list[tuple[int, int]] = []
    of(model_file(), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == max(done for done, _ in seen)


def _tail(kind: str, scale: float, order: str) -> bytes:
    """32 bytes after a payload, as four sorts of writers leave them."""
    word, other = struct.pack("<f", scale), struct.pack(">f", scale)
    if order == "big":
        word, other = other, word
    return (
        word + {"zeros": bytes(28), "replicated": word * 7, "half-swapped": other * 7, "noise": bytes(range(28))}[kind]
    )


@given(
    st.sampled_from([f"{layout}/{codes}/{tail}" for layout in LAYOUTS for codes in CODE_MAPS for tail in TAILS]),
    st.sampled_from([(128,), (128, 4), (256, 3), (4, 32), (128, 1, 2), (128, 4, 1, 2), (128, 1, 1, 2), (130, 1)]),
    st.sampled_from(["zeros", "replicated", "half-swapped", "noise"]),
    st.sampled_from(["I2_S", "TL1"]),
    st.floats(width=32),
    st.sampled_from(["little", "big"]),
    st.integers(0, 255),
)
@example("interleave-128/offset-1/replicated-8", (128, 1, 2), "replicated", "I2_S", 0.5, "little", 0x1B)
def test_a_conversion_of_the_byte_order_keeps_the_identity(
    dialect: str, ne: tuple[int, ...], tail: str, kind: str, scale: float, order: Any, byte: int
) -> None:
    """The law of the weights' identity: of every dialect, tail and number of dimensions."""
    size = BY_NAME[kind].nbytes(ne)
    payload = bytes((byte + 37 * i) % 256 for i in range(size - 32))
    out, other = io.BytesIO(), io.BytesIO()
    with Writer(out, byte_order=order) as writer:
        writer.add_tensor("blk.0.attn_q.weight", ne[::-1], kind, payload + _tail(tail, scale, order))
    convert_endian(open_file(out.getvalue()), other, "big" if order == "little" else "little")
    try:
        wanted = of(out.getvalue(), dialect)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error).partition(",")[0])):
            of(other.getvalue(), dialect)
        return
    found = of(other.getvalue(), dialect)
    assert (found.weights, found.metadata) == (wanted.weights, wanted.metadata)


def test_bools_that_mean_the_same_are_the_same() -> None:
    """A byte that is neither 0 nor 1 is true, as readers take it."""
    one, other, false = (
        Draft().data.replace(b"sample.flag\x07\0\0\0\x01", b"sample.flag\x07\0\0\0" + bytes((value,)))
        for value in (1, 2, 0)
    )
    assert one != other
    assert i2s.diff(one, other).same
    assert i2s.hash(one).metadata == i2s.hash(other).metadata != i2s.hash(false).metadata
    assert not i2s.diff(one, false).same
    many = [metadata_with(bytes(values)) for values in ((1, 0, 1), (7, 0, 255), (1, 1, 1))]
    assert i2s.diff(many[0], many[1]).same
    assert not i2s.diff(many[0], many[2]).same


def metadata_with(flags: bytes) -> bytes:
    records = Draft().records()
    records.key_values.append(key_value(b"sample.bools", ValueType.ARRAY, array(ValueType.BOOL, flags)))
    return Draft().built(records)


def test_hash_and_diff_and_convert_are_functions_of_files(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    i2s.new(path, "bitnet", layers=1)
    assert len(i2s.convert(path, tmp_path / "64.gguf", to="interleave-64").proofs) == 7
    assert i2s.hash(path).weights == i2s.hash(tmp_path / "64.gguf", "interleave-64").weights
    assert i2s.diff(path, tmp_path / "64.gguf", dialect_b="interleave-64").same
    with i2s.open(path) as file:
        assert i2s.diff(file, path.read_bytes()).same
        assert not i2s.diff(path, file, "interleave-64").same


def test_a_tail_that_the_dialect_does_not_have_is_refused() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_tensor("a", (1, 128), "I2_S", bytes(32) + b"\0\0\0\1" + bytes(28))
    file = open_file(io.BytesIO(out.getvalue()))
    with pytest.raises(ValueError, match="repeats the scale"):
        identity(file, "interleave-128/offset-1/replicated-8")
