"""Conversion of whole files to another type or dialect: proofs, unchanged parts, refusals."""

from __future__ import annotations

import gzip
import io
import os
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from builders import model_bytes

from i2s_spec.codec.reference import unpack
from i2s_spec.convert.convert_file import Conversion, convert_file, wanted_form
from i2s_spec.convert.new import new
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.types import ValueType

TARGETS = [
    "F32",
    "F16",
    "BF16",
    "TQ1_0",
    "TQ2_0",
    "interleave-64",
    "rows-1x4",
    "sequential-msb/zero-first/replicated-8",
]


#: A file of one small layer.
model_file = partial(model_bytes, layers=1, embd=256, ff=512)


def converted(data: bytes | File, **options: Any) -> tuple[File, Conversion]:
    out = io.BytesIO()
    result = convert_file(data if isinstance(data, File) else open_file(data), out, **options)
    assert result.size == len(out.getvalue())
    return open_file(out.getvalue()), result


def ternary(file: File) -> dict[str, bytes]:
    return {name: tensor.read() for name, tensor in file.tensors.items() if tensor.type and tensor.type.name == "I2_S"}


def others(file: File) -> dict[str, bytes]:
    return {name: tensor.read() for name, tensor in file.tensors.items() if name not in projections(file)}


def projections(file: File) -> set[str]:
    return {name for name in file.tensors if name.startswith("blk.") and "norm" not in name}


def dialect_of(target: str) -> str:
    return "canonical" if target.isupper() or "_" in target else target


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("order", ["little", "big"])
def test_there_and_back(to: str, order: Any) -> None:
    source = open_file(model_file(byte_order=order))
    there, result = converted(source, to=to, threads=2)
    assert (len(result.proofs), result.copied) == (7, len(source.tensors) - 7)
    assert there.byte_order == order
    back, again = converted(there, to="I2_S", source_dialect=dialect_of(to))
    assert others(there) == others(back) == others(source)
    for name, data in ternary(source).items():
        proof = next(proof for proof in result.proofs if proof.name == name)
        assert ternary(back)[name][:-32] == data[:-32]
        scale = np.frombuffer(ternary(back)[name][-32:-28], dtype="<f4" if order == "little" else ">f4")[0]
        assert scale == proof.rounding.stored
        assert abs(proof.rounding.relative) <= (0 if to == "F32" or "-" in to else 2**-8 if to == "BF16" else 2**-11)
    if to == "F32" or "-" in to:
        assert ternary(back) == ternary(source)
    assert again.file_type[1] == 40


def test_file_type_says_what_most_tensors_are() -> None:
    numbers = {to: converted(model_file(), to=to)[1].file_type for to in TARGETS[:6]}
    assert numbers == {
        "F32": (40, 0), "F16": (40, 1), "BF16": (40, 32), "TQ1_0": (40, 36), "TQ2_0": (40, 37), "interleave-64": (40, 40)
    }  # fmt: skip
    file, _ = converted(model_file(), to="TQ1_0")
    assert file.metadata["general.file_type"] == 36
    assert file.metadata.entry("general.file_type").type == ValueType.UINT32


@pytest.mark.parametrize("to", ["TQ1_0", "TQ2_0"])
def test_the_gguf_package_reads_the_result(to: str, tmp_path: Path) -> None:
    path, source = tmp_path / "out.gguf", open_file(model_file())
    result = convert_file(source, path, to=to)
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    for proof in result.proofs:
        trits, _ = unpack(source.tensors[proof.name].read(), proof.shape)
        weights = gguf.quants.dequantize(theirs[proof.name].data, theirs[proof.name].tensor_type)
        assert np.array_equal(weights, trits * np.float32(proof.rounding.stored))


def test_a_file_of_floats_becomes_what_llama_quantize_makes_of_it(shared: Path) -> None:
    with gzip.open(shared / "vectors/gguf/bitnet.f32.gguf.gz") as stream:
        floats = open_file(stream.read())
    theirs = open_file(shared / "vectors/gguf/bitnet.i2_s.gguf")
    ours, result = converted(floats, to="I2_S", threads=2)
    assert len(result.proofs) == 14
    assert result.file_type == (0, 40)
    for name, data in ternary(theirs).items():
        assert ternary(ours)[name] == data[:-28] + bytes(28)
    assert ours.metadata["general.quantization_version"] == 2


def test_layouts_of_real_files(shared: Path) -> None:
    folder = shared / "vectors/gguf"
    arm, theirs = (open_file(folder / f"bitnet.i2_s{which}.gguf") for which in (".arm64block", ""))
    ours, _ = converted(arm, to="canonical", source_dialect="interleave-64")
    assert {name: data[:-28] for name, data in ternary(ours).items()} == {
        name: data[:-28] for name, data in ternary(theirs).items()
    }


def test_the_advice_says_that_the_file_does_not_state_its_layout() -> None:
    _, result = converted(model_file(), to="interleave-64")
    assert any("The file does not state that its layout is interleave-64" in sentence for sentence in result.advice)


def test_another_name_for_the_architecture() -> None:
    file, result = converted(model_file(), to="TQ2_0", arch="bitnet", hidden_activation="relu2")
    source = open_file(model_file())
    assert file.metadata["general.architecture"] == "bitnet"
    assert file.metadata["bitnet.hidden_activation"] == "relu2"
    renamed = [key.replace("bitnet-b1.58.", "bitnet.") for key in source.metadata]
    assert list(file.metadata) == [*renamed, "bitnet.hidden_activation"]
    assert file.metadata["bitnet.context_length"] == source.metadata["bitnet-b1.58.context_length"]
    assert "whatever bitnet.hidden_activation says" in result.advice[0]
    _, result = converted(model_file(), to="TQ2_0", arch="bitnet")
    assert "bitnet.hidden_activation is set to relu2" in result.advice[0]
    assert "whatever bitnet.hidden_activation says" in result.advice[1]
    _, result = converted(model_file(), to="TQ2_0")
    assert "does not know architecture bitnet-b1.58" in result.advice[0]


def test_names_alone_and_byte_order_alone() -> None:
    source = open_file(model_file())
    file, result = converted(source, arch="bitnet-25")
    assert result.proofs == ()
    assert {name: t.read() for name, t in file.tensors.items()} == {n: t.read() for n, t in source.tensors.items()}
    big, _ = converted(source, byte_order="big")
    little, _ = converted(big, byte_order="little")
    assert little.source.read(0, little.size) == source.source.read(0, source.size)


def test_byte_order_changes_on_the_way() -> None:
    source = open_file(model_file())
    big, _ = converted(source, to="TQ2_0", byte_order="big")
    little, _ = converted(source, to="TQ2_0")
    turned, _ = converted(big, byte_order="little")
    assert turned.source.read(0, turned.size) == little.source.read(0, little.size)


@pytest.mark.requirement("R8.1-1")
def test_tensors_that_are_not_ternary_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    floats = io.BytesIO()
    with Writer(floats) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        writer.add_tensor("blk.0.attn_q.weight", (2, 256), "F32", np.random.default_rng(0).random((2, 256), np.float32))
    path = tmp_path / "out.gguf"
    with pytest.raises(ValueError, match=r"tensor 'blk.0.attn_q.weight': the weights are not ternary: there are 512"):
        convert_file(open_file(floats.getvalue()), path, to="I2_S")
    assert list(tmp_path.iterdir()) == []


def test_tensors_by_name_and_pattern() -> None:
    file, result = converted(model_file(), to="F16", tensors=["blk.*.ffn_*", "blk.0.attn_q.weight"])
    assert [proof.name for proof in result.proofs] == [
        "blk.0.ffn_down.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.attn_q.weight"
    ]  # fmt: skip
    types = {name: str(tensor.type) for name, tensor in file.tensors.items()}
    assert types["blk.0.attn_k.weight"] == "I2_S"
    assert types["blk.0.ffn_up.weight"] == "F16"
    with pytest.raises(ValueError, match=r"no tensor that could be converted is called 'blk\.9\.\*'"):
        converted(model_file(), to="F16", tensors=["blk.9.*"])
    with pytest.raises(ValueError, match=r"token_embd.weight.*not ternary"):
        converted(model_file(), to="I2_S", tensors=["token_embd.weight"])
    with pytest.raises(TypeError, match="must be a list"):
        converted(model_file(), to="F16", tensors="blk.0.attn_q.weight")


def test_rows_that_the_type_cannot_hold_need_a_fallback() -> None:
    data = model_file(ff=384)  # ffn_down has rows of 384, which are not whole blocks of 256
    with pytest.raises(ValueError, match=r"blk.0.ffn_down.weight.*rows of 384.*fallback"):
        converted(data, to="TQ2_0")
    file, result = converted(data, to="TQ2_0", fallback="F16")
    assert {proof.name: proof.target for proof in result.proofs}["blk.0.ffn_down.weight"] == "F16"
    assert str(file.tensors["blk.0.ffn_up.weight"].type) == "TQ2_0"
    with pytest.raises(ValueError, match="is not a fallback type"):
        converted(data, to="TQ2_0", fallback="Q8_0")


def test_unused_codes() -> None:
    data = bytearray(model_file())
    at = open_file(bytes(data)).tensors["blk.0.attn_q.weight"].span.start
    data[at] |= 3
    with pytest.raises(ValueError, match=r"tensor 'blk.0.attn_q.weight': code 3 .* at element 96"):
        converted(bytes(data), to="F16")
    file, result = converted(bytes(data), to="interleave-64")
    assert sum(proof.unused for proof in result.proofs) == 1
    assert "1 unused code kept" in " ".join(map(str, result.proofs))
    file, result = converted(bytes(data), to="canonical", unused_code="zero")
    assert not sum(proof.unused for proof in result.proofs)
    unpack(file.tensors["blk.0.attn_q.weight"].read(), (256, 256))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"to": "Q4_0"}, "'Q4_0' is not one of I2_S.*and not a dialect"),
        ({"to": "row-blocks-4"}, "layout of checkpoints"),
        ({"to": "TQ2_0", "dialect": "interleave-64"}, "TQ2_0 has no dialects"),
        ({"to": "interleave-64", "dialect": "rows-1x4"}, "interleave-64 and rows-1x4"),
        ({"to": "F16", "source_dialect": "nothing"}, "no layout is called 'nothing'"),
        ({"arch": "gpt2"}, "unknown architecture 'gpt2'"),
        ({"arch": "llama"}, "would have to be put in another order"),
        ({"arch": "qwen3"}, "architecture qwen3 has no tensor"),
        ({"hidden_activation": "tanh"}, "'tanh' is not an activation"),
        ({"to": "F16", "threads": 0}, "0 threads"),
    ],
)
def test_impossible_conversions_are_refused_before_anything_is_written(
    options: Any, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=reason):
        convert_file(open_file(model_file()), tmp_path / "out.gguf", **options)
    assert list(tmp_path.iterdir()) == []


def test_another_architecture_needs_its_tensors() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("general.architecture", "bitnet-25")
        writer.add_tensor("output.weight", (2, 4), "F32")
    with pytest.raises(ValueError, match=r"architecture bitnet has no tensor 'output.weight'"):
        converted(out.getvalue(), arch="bitnet")
    with pytest.raises(ValueError, match=r"needs tensor token_embd.weight"):
        converted(out.getvalue(), arch="bitnet-b1.58")


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(model_file())
    other = tmp_path / "other.gguf"
    other.write_bytes(b"before")
    for name, force in ((path, False), (path, True), (other, False)):
        with pytest.raises(FileExistsError):
            convert_file(open_file(path), name, to="TQ2_0", force=force)
    assert (path.read_bytes(), other.read_bytes()) == (model_file(), b"before")
    convert_file(open_file(path), other, to="TQ2_0", force=True)
    assert str(open_file(other).tensors["blk.0.attn_q.weight"].type) == "TQ2_0"


def test_a_file_of_version_2_becomes_big_endian() -> None:
    data = bytearray(model_file())
    data[4:8] = (2).to_bytes(4, "little")
    file, _ = converted(bytes(data), to="TQ2_0")
    assert file.version == 2
    file, _ = converted(bytes(data), to="TQ2_0", byte_order="big")
    assert (file.version, file.byte_order) == (3, "big")


def test_tensors_that_share_bytes_are_refused(tmp_path: Path) -> None:
    data = bytearray(model_file())
    file = open_file(bytes(data))
    one, other = file.tensors["blk.0.attn_k.weight"], file.tensors["blk.0.attn_v.weight"]
    data[other.info_span.stop - 8 : other.info_span.stop] = one.offset.to_bytes(8, "little")
    with pytest.raises(ValueError, match="share bytes"):
        convert_file(open_file(bytes(data)), tmp_path / "out.gguf", to="F16")
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_changes_meanwhile_gives_no_file(tmp_path: Path) -> None:
    path, out = tmp_path / "model.gguf", tmp_path / "out.gguf"
    path.write_bytes(model_file())

    def touch(done: int, size: int) -> None:
        os.utime(path, (1, 1))

    with pytest.raises(FormatError, match="S903"), open_file(path) as file:
        convert_file(file, out, to="F32", progress=touch)
    cut = open_file(model_file()[:-3000])
    with pytest.raises(FormatError, match="G401"):
        convert_file(cut, out, to="F32")
    assert list(tmp_path.iterdir()) == [path]


def test_names_of_types_and_dialects() -> None:
    assert [str(part) for part in wanted_form("tq2_0")] == ["TQ2_0", "interleave-128"]
    assert [str(part) for part in wanted_form("I2_S", "interleave-64")] == ["I2_S", "interleave-64"]
    assert wanted_form(None)[0] is None


def test_memory_and_progress(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    new(path, layers=1, embd=1024, ff=8192)  # a matrix has 8 M weights, 32 MB as F32
    seen: list[tuple[int, int]] = []
    with open_file(path) as file:
        tracemalloc.start()
        result = convert_file(
            file, tmp_path / "out.gguf", to="F32", progress=lambda done, size: seen.append((done, size))
        )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 60e6
    assert seen[-1] == (result.size, result.size)
    assert len(seen) > 20
