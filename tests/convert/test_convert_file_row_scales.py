"""Files with I2_SR tensors: read, converted both ways, and refused if the target type has too few scales."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_process import i2s

from i2s_spec.codec import blocks
from i2s_spec.codec import encoding as trits_module
from i2s_spec.compare.hash import hash as identity
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.encode import decode_tensor
from i2s_spec.convert.new import new
from i2s_spec.convert.quantize_model import quantize_model
from i2s_spec.convert.rewrite import file_type_words
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer

NAME = "blk.0.ffn_down.weight"


def converted(data: bytes, **how: Any) -> tuple[bytes, Any]:
    target = io.BytesIO()
    result = convert_file(open_file(data), target, **how)
    return target.getvalue(), result


def made(**how: Any) -> bytes:
    stream = io.BytesIO()
    new(stream, "llama", layers=1, embd=256, ff=512, **how)
    return stream.getvalue()


def weights(file: File) -> dict[str, np.ndarray[Any, Any]]:
    return {name: tensor.dequantize() for name, tensor in file.tensors.items() if len(tensor.ne) > 1}


@pytest.fixture(scope="module")
def one_scale() -> bytes:
    return made()


@pytest.fixture(scope="module")
def rows() -> bytes:
    """A model whose rows have scales of their own."""
    return made(type="I2_SR")


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small windows, so that tensors have several of them."""
    monkeypatch.setattr(trits_module, "WINDOW", 1 << 13)


def test_new_files_have_the_type_and_its_number(rows: bytes) -> None:
    file = open_file(rows)
    tensor = file.tensors[NAME]
    assert (tensor.kind, tensor.number, file.metadata["general.file_type"]) == ("I2_SR", 40, 41)
    assert np.unique(tensor.ternary().encoding.decode(tensor.read(), tensor.elements).scales).size > 100
    want = blocks.dequantize(tensor.read(), tensor.shape, "I2_SR")
    assert np.array_equal(tensor.dequantize(), want)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("threads", [1, 2])
def test_from_one_scale_and_back(one_scale: bytes, order: Any, threads: int) -> None:
    there, result = converted(one_scale, to="I2_SR", byte_order=order, threads=threads)
    file = open_file(there)
    assert len(result.proofs) == 7
    assert result.file_type == (40, 41)
    assert "scale" in str(result.proofs[0])
    assert "kept" in str(result.proofs[0])
    words = ("I2_SR under type 40, which is NVFP4", "--to Q2_0 is recommended")
    assert any(all(each in note for each in words) for note in result.advice)
    assert {each.kind for each in file.tensors.values() if each.name.startswith("blk.0.ffn_d")} == {"I2_SR"}
    old = open_file(one_scale).tensors[NAME]
    assert file.tensors[NAME].read()[: old.elements // 4] == old.payload
    assert file.tensors[NAME].read()[-32:] == bytes(32)
    for name, found in weights(file).items():
        assert np.array_equal(found, weights(open_file(one_scale))[name])
    back, _ = converted(there, to="I2_S", byte_order="little", threads=threads)
    assert back == one_scale
    assert identity(file).weights == identity(open_file(one_scale)).weights


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("target", ["IQ2_BN", "F32"])
def test_float32_scales_convert_exactly_to_types_that_hold_them(rows: bytes, target: str, order: Any) -> None:
    there, result = converted(rows, to=target, byte_order=order)
    assert all(not proof.rounding.relative for proof in result.proofs)
    found, want = weights(open_file(there)), weights(open_file(rows))
    assert all(np.array_equal(found[name], want[name]) for name in want)
    if target == "IQ2_BN":
        assert converted(there, to="I2_SR", byte_order="little")[0] == rows


@pytest.mark.parametrize("target", ["Q2_0", "TQ1_0", "IQ1_BN", "F16", "BF16"])
def test_other_types_round_scales_and_say_so(rows: bytes, target: str) -> None:
    there, result = converted(rows, to=target, threads=2)
    assert all(0 < abs(proof.rounding.relative) < 2.0**-8 for proof in result.proofs)
    assert "most changed" in str(result.proofs[0])
    found, want = weights(open_file(there)), weights(open_file(rows))
    for name in want:
        assert np.allclose(found[name], want[name], rtol=2.0**-8, atol=0)
    if target in {"Q2_0", "TQ1_0", "IQ1_BN"}:
        back = weights(open_file(converted(there, to="I2_SR")[0]))
        assert all(np.array_equal(back[name], found[name]) for name in want)


def test_convert_says_what_file_type_41_means_in_each_file(rows: bytes, tmp_path: Path) -> None:
    """Number 41 is this fork's for I2_SR and llama.cpp's for Q2_0: what is meant is what the file holds."""
    (tmp_path / "a.gguf").write_bytes(rows)
    sr = "41 (I2_SR to a fork with row scales, Q2_0 to upstream llama.cpp)"
    i2_s = "40 (I2_S to the BitNet forks, Q1_0 to upstream llama.cpp)"
    for source, to, words in (("a", "Q2_0", f"{sr} -> 41 (Q2_0)"), ("Q2_0", "I2_SR", f"41 (Q2_0) -> {sr}"),
                              ("a", "PQ2_0", f"{sr} -> 141 (PQ2_0)"), ("I2_SR", "Q2_0", f"{sr} -> 41 (Q2_0)")):  # fmt: skip
        done = i2s(tmp_path, "convert", f"{source}.gguf", f"{to}.gguf", "--to", to, "--force")
        assert done.returncode == 0
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("general.file_type")]
        assert line == f"general.file_type: {words}"
    i2s(tmp_path, "new", "i2_s.gguf", "--layers", "1", "-q")
    done = i2s(tmp_path, "convert", "i2_s.gguf", "sr.gguf", "--to", "I2_SR")
    assert f"general.file_type: {i2_s} -> {sr}\n" in done.stdout
    done = i2s(tmp_path, "convert", "Q2_0.gguf", "one.gguf", "--to", "I2_SR", "--tensor", NAME)
    assert "general.file_type: 41 (Q2_0)\n" in done.stdout  # the type of most of the file
    assert file_type_words(40, "I2_S") == file_type_words(40) == file_type_words(40, "I2_SR") == i2_s
    assert file_type_words(41, "I2_SR") == sr


def test_rows_that_differ_have_no_one_scale(rows: bytes) -> None:
    with pytest.raises(ValueError, match=r"blk\.0.*row scales, from .* where one for all weights is wanted"):
        converted(rows, to="I2_S")
    with pytest.raises(ValueError, match="I2_SR has one scale where 2 different ones"):
        converted(groups(), to="I2_SR")


def groups() -> bytes:
    """A file with a row of two groups of 128."""
    stream = io.BytesIO()
    with Writer(stream) as writer:
        writer.add("general.architecture", "llama")
        data = blocks.pack(np.ones((1, 256), np.int8), np.array([0.5, 1], np.float16), "PQ2_0")
        writer.add_tensor(NAME, (1, 256), "PQ2_0", data)
    return stream.getvalue()


def test_code_3_and_scales_that_are_not_numbers_are_refused() -> None:
    data = bytearray(blocks.pack(np.ones((8, 128), np.int8), 1.0, "I2_SR"))
    data[256:260] = b"\0\0\xc0\x7f"
    stream = io.BytesIO()
    with Writer(stream) as writer:
        writer.add("general.architecture", "llama")
        writer.add_tensor(NAME, (8, 128), "I2_SR", bytes(data))
        writer.add_tensor("blk.1.ffn_down.weight", (8, 128), "I2_SR", b"\xff" * len(data))
    file = open_file(stream.getvalue())
    with pytest.raises(ValueError, match="infinities or NaN"):
        file.tensors[NAME].trits()
    with pytest.raises(ValueError, match="code 3"):
        file.tensors["blk.1.ffn_down.weight"].trits()


def test_decoded_arrays(rows: bytes, one_scale: bytes, tmp_path: Path) -> None:
    file = open_file(rows)
    result = decode_tensor(file, NAME, tmp_path / "w.npy", form="float32")
    assert result.scale is None
    assert np.array_equal(np.load(tmp_path / "w.npy"), file.tensors[NAME].dequantize())
    with pytest.raises(ValueError, match=r"row scales, from .*; --as float32 decodes weights with any scales"):
        decode_tensor(file, NAME, tmp_path / "t.npy")
    there = open_file(converted(one_scale, to="I2_SR")[0])
    decode_tensor(there, NAME, tmp_path / "t.npy")
    assert np.array_equal(np.load(tmp_path / "t.npy"), open_file(one_scale).tensors[NAME].trits())


def test_a_float_model_is_quantized() -> None:
    stream = io.BytesIO()
    quantize_model(open_file(made(type="F32")), stream, to="I2_SR")
    file = open_file(stream.getvalue())
    assert file.tensors[NAME].kind == "I2_SR"
    assert np.array_equal(file.tensors[NAME].dequantize(), open_file(made(type="F32")).tensors[NAME].array())
