"""Type numbers to which single programs gave meanings of their own: named, or called undecided; never read wrongly."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_process import i2s as command

import i2s_spec as i2s
from i2s_spec.codec import blocks, quantized
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.new import new
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.sanitize import sanitize
from i2s_spec.schema.program_types import PROGRAM_TYPES, ProgramType, largest_room, of_number, of_type
from i2s_spec.schema.types import BY_NAME, READINGS, SECOND_NUMBERS, TensorType

PACKED = [each for each in PROGRAM_TYPES if each.packing is not None]
MORE = (("general.architecture", "craftsman"),)


def bits(values: np.ndarray[Any, Any], width: int) -> bytes:
    """Numbers of a few bits, the first in the lowest bits of each byte."""
    parts = values.reshape(-1, 8 // width).astype(np.uint8)
    shifted = [parts[:, i] << (width * i) for i in range(8 // width)]
    return np.bitwise_or.reduce(shifted).astype(np.uint8).tobytes()


def encoded(meaning: ProgramType, count: int, rng: np.random.Generator) -> tuple[bytes, list[float]]:
    """Random weights, block by block, and what they are."""
    packing = meaning.packing
    assert packing is not None
    data, weights = b"", []
    for _ in range(count // packing.block):
        codes = rng.integers(0, min(len(packing.weights), 3), packing.block)
        block = bytearray(packing.bytes)
        block[packing.codes : packing.codes + packing.block * packing.bits // 8] = bits(codes, packing.bits)
        share = packing.block // len(packing.scales)
        for i, place in enumerate(packing.scales):
            scale = np.float32(rng.uniform(0.002, 0.2))
            if packing.form == "F16":
                word = np.float16(scale).tobytes()
                scale = np.float32(np.float16(scale))
            else:
                word = scale.tobytes()[2:]
                scale = np.frombuffer(b"\0\0" + word, np.float32)[0]
            block[place : place + 2] = word
            weights += [packing.weights[code] * float(scale) for code in codes[share * i : share * (i + 1)]]
        data += bytes(block)
    return data, weights


def written(
    tensors: Sequence[tuple[TensorType, tuple[int, ...], bytes]], keys: Sequence[tuple[str, str]] = MORE
) -> bytes:
    stream = io.BytesIO()
    with Writer(stream) as writer:
        for key, value in keys:
            writer.add(key, value)
        for i, (kind, shape, data) in enumerate(tensors):
            writer.add_tensor(f"t{i}.weight", shape, kind, data, size=len(data))
        writer.add_tensor("last", (8,), "F32", np.arange(8, dtype=np.float32).tobytes())
    return stream.getvalue()


def side(meaning: ProgramType) -> int:
    return meaning.packing.block if meaning.packing is not None else meaning.type.block


@given(
    st.sampled_from(PACKED),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6)), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
@settings(max_examples=200)
def test_weights_of_each_meaning_are_decoded_or_called_undecided(
    meaning: ProgramType, shapes: list[tuple[int, int]], seed: int
) -> None:
    rng, tensors, truth = np.random.default_rng(seed), [], []
    for rows, blocks_of_row in shapes:
        shape = (rows, blocks_of_row * side(meaning))
        data, weights = encoded(meaning, shape[0] * shape[1], rng)
        tensors.append((meaning.type, shape, data))
        truth.append(np.array(weights, dtype=np.float32).reshape(shape))
    file = open_file(written(tensors))
    found = file.tensors.number_reading(meaning.number)
    assert found is not None
    for i, want in enumerate(truth):
        tensor = file.tensors[f"t{i}.weight"]
        assert largest_room(meaning.number, tensor.ne) is None or file.tensors.room_needed(tensor) >= len(tensors[i][2])  # type: ignore[operator]
        if tensor.type is None:
            assert found.is_undecided
            assert meaning.type in found.kinds
            with pytest.raises(FormatError, match="may be") as raised:
                tensor.dequantize()
            assert raised.value.code == "G323"
        else:
            assert tensor.type is meaning.type
            assert (tensor.dequantize() == want).all()
            with pytest.raises(ValueError, match=f"is {meaning.name} of"):
                tensor.trits()
    codes = {finding.code for finding in i2s.lint(file.source).findings if finding.severity == "error"}
    assert codes == ({"G323"} if found.is_undecided else {"G322"})


@given(
    st.sampled_from(["Q2_0", "Q2_0_G128", "PTQ1_0"]),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6)), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
@settings(max_examples=200)
def test_types_of_the_large_families_stay_what_they_are(name: str, shapes: list[tuple[int, int]], seed: int) -> None:
    rng, tensors, truth = np.random.default_rng(seed), [], []
    for rows, blocks_of_row in shapes:
        shape = (rows, 128 * blocks_of_row)
        trits = rng.integers(-1, 2, shape, dtype=np.int8)
        scales = rng.uniform(0.002, 0.2, blocks.blocks_of(shape, name).groups).astype(np.float32)
        data = blocks.pack(trits, scales, name)
        tensors.append((BY_NAME[name], shape, data))
        truth.append(blocks.dequantize(data, shape, name))
    try:
        made = written(tensors)
    except ValueError as error:  # in so little room the writer cannot tell Q2_0 from Q2_0_G128
        if "both have room" not in str(error):
            raise
        return
    file = open_file(made)
    for i, want in enumerate(truth):
        tensor = file.tensors[f"t{i}.weight"]
        if tensor.type is None:
            assert sum(map(len, (data for _, _, data in tensors))) < 34 * 8, "large tensors are never undecided"
        else:
            assert tensor.type.name == name
            assert (tensor.dequantize() == want).all()


@pytest.mark.parametrize("meaning", [each for each in PROGRAM_TYPES if each.packing is None], ids=str)
def test_meanings_that_are_not_decoded_are_named(meaning: ProgramType) -> None:
    shape = (4, 3 * max(meaning.type.block, 64) if meaning.name != "BF16" else 256)
    data = np.random.default_rng(1).integers(0, 256, meaning.type.nbytes(shape[::-1]), np.uint8).tobytes()
    file = open_file(written([(meaning.type, shape, data)]))
    tensor = file.tensors["t0.weight"]
    assert tensor.type is meaning.type
    assert tensor.read() == data
    if meaning.name == "BF16":
        assert tensor.array().shape == shape
        return
    with pytest.raises(ValueError, match="is not known here"):
        tensor.dequantize()


@pytest.mark.parametrize("order", ["little", "big"])
def test_a_big_endian_file_has_words_turned_round(order: Any) -> None:
    (meaning,) = (each for each in of_number(143))
    data, weights = encoded(meaning, 256, np.random.default_rng(3))
    if order == "big":
        turned = np.frombuffer(data, np.uint8).reshape(-1, 16).copy()
        turned[:, :8] = turned[:, [1, 0, 3, 2, 5, 4, 7, 6]]
        data = turned.tobytes()
    assert quantized.dequantize_packing(data, meaning, order).tolist() == weights


# --- whole models ----------------------------------------------------------------------------------------------------

WIDE = {"embd": 256, "ff": 256, "heads": 4, "layers": 1}


def model(kind: str, arch: str = "qwen3-lm") -> bytes:
    stream = io.BytesIO()
    new(stream, arch, type=kind, **WIDE)
    return stream.getvalue()


def changed(data: bytes, number: int, change: Any) -> bytes:
    """A model in which tensors of a number have another type and other bytes; `change` gives both."""
    file, stream = open_file(data), io.BytesIO()
    with Writer(stream) as writer:
        for entry in file.metadata.rows:
            writer.add_raw(file.source.read(entry.span.start, entry.span.stop - entry.span.start))
        for tensor in file.tensors.rows:
            kind, content = change(tensor) if tensor.number == number else (tensor.type, tensor.read())
            writer.add_tensor(tensor.name, tensor.shape, kind, content, size=len(content))
    return stream.getvalue()


def scale_last(tensor: Any) -> tuple[TensorType, bytes]:
    raw = np.frombuffer(tensor.read(), np.uint8).reshape(-1, 34)
    return of_number(42)[0].type, np.concatenate([raw[:, 2:], raw[:, :2]], 1).tobytes()


def test_the_scale_of_groups_of_128_is_last() -> None:
    """OxiBonsai's form of PrismML's: the same size, told by the contents; the twin stays what it was."""
    sound = model("Q2_0_G128")
    broken = changed(sound, 42, scale_last)
    before, after = open_file(sound), open_file(broken)
    name = "blk.0.ffn_down.weight"
    assert before.tensors[name].kind == "Q2_0_G128"
    assert after.tensors[name].kind == "TQ2_0_g128"
    assert (before.tensors[name].dequantize() == after.tensors[name].dequantize()).all()
    errors = [finding for finding in i2s.lint(broken).findings if finding.severity == "error"]
    assert [finding.code for finding in errors] == ["G322"]
    assert "the scale is last" in errors[0].message
    for to in ("Q2_0", "PQ2_0", "F16"):
        with pytest.raises(ValueError, match="OxiBonsai"):
            convert_file(after, io.BytesIO(), to=to)


def test_groups_of_128_in_rooms_for_64_are_read_as_what_they_are() -> None:
    sound = model("Q2_0_G128")
    broken = changed(sound, 42, lambda t: (BY_NAME["Q2_0"], t.read() + bytes(BY_NAME["Q2_0"].nbytes(t.ne) - t.nbytes)))
    before, after = open_file(sound), open_file(broken)
    name = "blk.0.ffn_down.weight"
    assert after.tensors[name].kind == "Q2_0_G128"
    assert (before.tensors[name].dequantize() == after.tensors[name].dequantize()).all()
    (found,) = [finding for finding in i2s.lint(broken).findings if finding.code == "G321"]
    assert "read other weights" in found.message


def rooms_for_128(path: Path) -> None:
    """Groups of 64, each tensor cut to the room of groups of 128."""
    kind = BY_NAME["Q2_0_G128"]
    path.write_bytes(changed(model("Q2_0"), 42, lambda t: (kind, t.read()[: kind.nbytes(t.ne)])))


def test_no_command_works_on_what_is_undecided(tmp_path: Path) -> None:
    path, out = tmp_path / "a.gguf", tmp_path / "b.gguf"
    rooms_for_128(path)
    name = "blk.0.ffn_down.weight"
    for arguments in (
        ["decode", str(path), name, str(tmp_path / "x.npy"), "--as", "float32"],
        ["convert", str(path), str(out), "--to", "F16"],
        ["convert", str(path), str(out), "--to", "Q2_0"],
        ["run", str(path), "--tokens", "1,2", "-n", "1"],
        ["run", str(path), "--tokens", "1,2", "-n", "1", "--force"],
        ["sanitize", str(path), "-o", str(out)],
    ):
        result = command(tmp_path, *arguments)
        assert result.returncode not in (0, 4), arguments
        assert "G323" in result.stderr or "type 42" in result.stderr, arguments
        assert not out.exists()
    command(tmp_path, "fix", str(path), "--unsafe", "-o", str(out))
    if out.exists():
        data = path.read_bytes()
        assert all(data[t.offset :][:100] in out.read_bytes() for t in open_file(data).tensors.rows)


@pytest.mark.parametrize("rows", [4, 512])
def test_ternary_weights_under_the_number_of_bfloat16(rows: int) -> None:
    """Small ones have the room of I2_S as well."""
    (meaning,) = of_number(30)
    data, weights = encoded(meaning, rows * 512, np.random.default_rng(2))
    file = open_file(written([(meaning.type, (rows, 512), data)]))
    tensor = file.tensors["t0.weight"]
    assert tensor.type is meaning.type
    assert tensor.dequantize().reshape(-1).tolist() == weights
    codes = [finding.code for finding in i2s.lint(file.source).findings if finding.severity == "error"]
    assert codes == ["G322"]
    assert all(verdict.computes != "correctly" for verdict in i2s.lint(file.source, runtimes=True).runtimes)


def test_a_clean_copy_has_every_weight() -> None:
    data, weights = encoded(of_number(143)[0], 256 * 64, np.random.default_rng(5))
    sound = model("Q2_0_G128", "llama")
    file, stream = open_file(sound), io.BytesIO()
    del file
    broken = written([(of_number(143)[0].type, (64, 256), data)], (("general.architecture", "llama"),))
    sanitize(broken, stream, keep_unknown=True)
    assert data in stream.getvalue()
    assert File(open_file(stream.getvalue()).source).tensors["t0.weight"].dequantize().reshape(-1).tolist() == weights


# --- declarations ----------------------------------------------------------------------------------------------------


def test_the_numbers_with_second_meanings_are_those_that_are_declared() -> None:
    assert {each.number for each in PROGRAM_TYPES} == SECOND_NUMBERS
    assert len({(each.number, each.name) for each in PROGRAM_TYPES}) == len(PROGRAM_TYPES)
    for each in PROGRAM_TYPES:
        assert each.type not in READINGS.get(each.number, ())
        assert of_type(each.type) is each
        if each.packing is not None:
            assert each.block == (each.packing.block, each.packing.bytes)
            assert each.packing.block % len(each.packing.scales) == 0


def test_room_needed_is_the_size_where_the_rooms_leave_no_doubt() -> None:
    for kind in ("BF16", "Q2_0", "Q2_0_G128", "PTQ1_0"):
        file = open_file(model(kind, "llama"))
        for tensor in file.tensors.rows:
            assert file.tensors.room_needed(tensor) == tensor.nbytes, kind
    assert largest_room(143, (256, 4)) == 512
    assert largest_room(43, (256, 4)) is None
    assert largest_room(30, (256, 4)) == 2048
