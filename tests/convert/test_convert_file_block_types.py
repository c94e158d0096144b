"""Files with a scale for each group: every exact conversion between types, and the messages for the others."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec.codec import blocks_native
from i2s_spec.codec.encoding import ProofError
from i2s_spec.codec.native import pack
from i2s_spec.convert import groups
from i2s_spec.convert.convert_file import advice, convert_file
from i2s_spec.convert.encode import decode_tensor
from i2s_spec.convert.new import new
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.blocks import BLOCK_LAYOUTS
from i2s_spec.schema.keys import FILE_TYPES

TYPES = ["I2_S", *BLOCK_LAYOUTS]
NAME = "blk.0.ffn_down.weight"


@pytest.fixture(scope="module")
def model() -> bytes:
    stream = io.BytesIO()
    new(stream, "llama", layers=1, embd=256, ff=512)
    return stream.getvalue()


def converted(data: bytes, **how: Any) -> tuple[bytes, Any]:
    target = io.BytesIO()
    result = convert_file(open_file(data), target, **how)
    return target.getvalue(), result


def weights(file: File) -> dict[str, np.ndarray[Any, Any]]:
    return {name: tensor.dequantize() for name, tensor in file.tensors.items() if len(tensor.ne) > 1}


@pytest.fixture(scope="module")
def exact(model: bytes) -> bytes:
    """The same model with scales that float16 holds: from there on nothing is rounded."""
    return converted(model, to="Q2_0")[0]


@pytest.mark.parametrize("source", TYPES)
def test_from_every_type_to_every_other_and_back(exact: bytes, source: str) -> None:
    data, _ = converted(exact, to=source)
    there = weights(open_file(data))
    for target in TYPES:
        other, result = converted(data, to=target)
        back, _ = converted(other, to=source)
        found = weights(open_file(other))
        assert all(np.array_equal(found[name], there[name]) for name in there)
        if target != source:
            assert len(result.proofs) == 7
            assert all(not proof.rounding.relative for proof in result.proofs)
        returned = weights(open_file(back))
        assert all(np.array_equal(returned[name], there[name]) for name in there)
        assert open_file(other).tensors[NAME].type.name == target


@pytest.mark.parametrize("target", list(BLOCK_LAYOUTS))
def test_file_type_says_what_most_tensors_are(exact: bytes, target: str) -> None:
    number = next((number for number, name in FILE_TYPES.items() if name == target), None)
    file = open_file(converted(exact, to=target)[0])
    if number is not None:
        assert file.metadata["general.file_type"] == number


def test_byte_order_turns_with_the_file(exact: bytes) -> None:
    for target in BLOCK_LAYOUTS:
        big, _ = converted(exact, to=target, byte_order="big")
        file = open_file(big)
        assert file.byte_order == "big"
        there = weights(open_file(exact))
        assert all(np.array_equal(found, there[name]) for name, found in weights(file).items())


def written(values: np.ndarray[Any, Any], kind: str, data: bytes) -> bytes:
    """A file with one tensor."""
    stream = io.BytesIO()
    with Writer(stream) as writer:
        writer.add("general.architecture", "llama")
        writer.add_tensor(NAME, values.shape, kind, data)
    return stream.getvalue()


def grouped(scales: np.ndarray[Any, Any], kind: str = "PQ2_0") -> bytes:
    """A file with one tensor, which has these scales."""
    values = np.resize(np.array([1, -1, 0, 1], dtype=np.int8), (2, 256))
    return written(values, kind, blocks_native.pack(values, scales.astype(np.float16), kind))


def test_different_scales_are_kept_by_types_with_a_scale_for_each_group() -> None:
    data = grouped(np.array([0.5, 0.25, 2.0, 0.125]))
    other, result = converted(data, to="Q2_0")
    assert str(result.proofs[0]) == f"{NAME}: PQ2_0 -> Q2_0, codes equal, 8 scales kept"
    assert np.array_equal(open_file(other).tensors[NAME].dequantize(), open_file(data).tensors[NAME].dequantize())
    assert open_file(other).tensors[NAME].type.name == "Q2_0"
    assert open_file(converted(other, to="PQ2_0")[0]).tensors[NAME].read() == open_file(data).tensors[NAME].read()


@pytest.mark.parametrize("target", ["I2_S", "TQ2_0", "IQ2_BN"])
def test_different_scales_do_not_become_one(target: str, tmp_path: Path) -> None:
    path = tmp_path / "out.gguf"
    with pytest.raises(ValueError, match=rf"tensor '{NAME}': .*0\.125"):
        convert_file(open_file(grouped(np.array([0.5, 0.25, 2.0, 0.125]))), path, to=target)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("kind", list(BLOCK_LAYOUTS))
def test_different_scales_become_floats(kind: str, target: str) -> None:
    """Three dimensions, every code, a scale for each group; F32 is exact, and of the others the scale alone is rounded."""
    layout, random = BLOCK_LAYOUTS[kind], np.random.default_rng(7)
    shape = (3, 5, 2 * layout.block)
    values = random.integers(-1, 3 if layout.fourth == "weight" else 2, shape, dtype=np.int8)
    scales = random.uniform(0.01, 90, layout.groups(15, shape[-1])) * random.choice([-1, 1])
    scales = scales.astype(np.float16 if layout.scale.type == "F16" else np.float32)
    data = written(values, kind, blocks_native.pack(values, scales, kind))
    for order in ("little", "big"):
        other, result = converted(data, to=target, byte_order=order)
        tensor = open_file(other).tensors[NAME]
        assert (tensor.type.name, tensor.shape) == (target, shape)
        before = open_file(data).tensors[NAME].dequantize()
        (proof,) = result.proofs
        assert proof.rounding.scales == scales.size
        found = tensor.dequantize()
        assert not np.signbit(found[found == 0]).any()
        if target == "F32" or (target, layout.scale.type) == ("F16", "F16"):
            assert np.array_equal(found, before)
            assert not proof.rounding.relative
        else:
            assert np.array_equal(np.sign(found), np.sign(before))
            present = before != 0
            apart = np.abs(found[present] / before[present] - 1).max()
            assert apart == pytest.approx(abs(proof.rounding.relative), rel=1e-3)
            assert 0 < apart <= (2**-8 if target == "BF16" else 2**-11)


@pytest.mark.parametrize("kind", list(BLOCK_LAYOUTS))
def test_decode_gives_weights_whatever_the_scales(kind: str, tmp_path: Path) -> None:
    layout, random = BLOCK_LAYOUTS[kind], np.random.default_rng(8)
    shape = (3, 5, 2 * layout.block)
    values = random.integers(-1, 3 if layout.fourth == "weight" else 2, shape, dtype=np.int8)
    scales = random.uniform(0.01, 90, layout.groups(15, shape[-1])).astype(np.float16).astype(np.float32)
    file = open_file(written(values, kind, blocks_native.pack(values, scales, kind)))
    done = decode_tensor(file, NAME, tmp_path / "a.npy", form="float32")
    assert (done.shape, done.dtype, done.scale) == (shape, "float32", None)
    found = np.load(tmp_path / "a.npy")
    assert np.array_equal(found, (values.reshape(len(scales), -1) * scales[:, None]).reshape(shape))
    ones = open_file(written(np.sign(values), kind, blocks_native.pack(np.sign(values), 0.5, kind)))
    assert decode_tensor(ones, NAME, tmp_path / "b.npy", form="float32").scale == 0.5


def test_floats_beyond_float16_are_refused(tmp_path: Path) -> None:
    twos = np.full((2, 256), 2, dtype=np.int8)
    large = written(twos, "PQ2_0", blocks_native.pack(twos, np.float16(60000), "PQ2_0"))
    assert open_file(converted(large, to="F32")[0]).tensors[NAME].dequantize().max() == 2 * np.float32(
        np.float16(60000)
    )
    for data, target, words in (
        (large, "F16", "F16 cannot represent twice the scale"),
        (grouped(np.array([0.5, np.nan, 1, 1])), "F32", "nan"),
        (grouped(np.array([0.5, np.inf, 1, 1])), "BF16", "inf"),
        (grouped(np.array([0.5, 0, 1, 1])), "F16", "a scale is 0"),
    ):
        with pytest.raises(ValueError, match=f"tensor '{NAME}': .*{words}"):
            convert_file(open_file(data), tmp_path / "out.gguf", to=target)
    assert not list(tmp_path.iterdir())


def test_q2_0_holds_rows_that_other_types_cannot() -> None:
    values = np.ones((2, 192), dtype=np.int8)
    data = written(values, "Q2_0", blocks_native.pack(values, 0.5, "Q2_0"))
    with pytest.raises(ValueError, match="and Q2_0, with blocks of 64, can hold them"):
        converted(data, to="TQ2_0")
    with pytest.raises(ValueError, match="rows of 192 are not whole blocks"):
        converted(data, to="PQ2_0")
    assert open_file(converted(data, to="F16")[0]).tensors[NAME].dequantize().min() == 0.5


@pytest.mark.parametrize("source", ["F32", "I2_S"])
def test_rows_of_8640_fit_only_q2_0(source: str) -> None:
    """As the feed-forward of BitNet b1.58 3B has; `advice` says that Q2_0 holds what TQ2_0 does not."""
    values = np.resize(np.array([-1, 0, 1, 1, 0, -1, 0], dtype=np.int8), (64, 8640))
    floats = (values * np.float32(0.25)).astype("<f4").tobytes()
    file = written(values, source, floats if source == "F32" else pack(values, 0.25, strict=False))
    with pytest.raises(
        ValueError, match=r"rows of 8,?640 are not whole blocks.*and Q2_0, with blocks of 64, can hold them"
    ):
        converted(file, to="TQ2_0")
    data, result = converted(file, to="Q2_0")
    assert not result.proofs[0].rounding.relative
    tensor = open_file(data).tensors[NAME]
    assert tensor.type.name == "Q2_0"
    assert len(tensor.read()) == 64 * 8640 // 64 * 18
    assert np.array_equal(tensor.dequantize(), values * np.float32(0.25))
    if source == "I2_S":
        kept = " ".join(converted(file, to="sequential-msb")[1].advice)
        assert "recommended" in kept
        assert "rows of 8,640, which are not whole blocks of TQ2_0 and I2_S, fit" in kept


@pytest.mark.parametrize(
    ("types", "architecture", "activation", "rows", "words"),
    [
        ({"I2_S"}, "llama", None, {2048, 8192}, "--to Q2_0 is recommended.* only rounds scales"),
        ({"I2_S"}, "llama", None, {3200, 8640}, "rows of 3,200, which are not whole blocks of TQ2_0, fit"),
        ({"I2_S"}, "llama", None, {8640}, "rows of 8,640, which are not whole blocks of TQ2_0 and I2_S, fit"),
        ({"I2_S"}, "bitnet", None, {8640}, "--to Q2_0 is recommended"),
        ({"I2_S"}, "llama", None, {5460}, "--to Q2_0 --fallback F16 makes a file .* rows of 5,460"),
        ({"I2_S"}, "bitnet-b1.58", None, {2560}, "computes no BitNet architecture with ReLU squared"),
        ({"I2_S"}, "qwen3", None, {1024}, "if not qwen3 with .*_norm_in"),
        ({"I2_S"}, "bitnet", "relu2", {2560}, "computes no BitNet architecture with ReLU squared"),
        ({"PTQ1_0"}, "llama", None, {2048}, "--to Q2_0 is recommended"),
        ({"Q2_0_G128"}, "llama", None, {2048}, "--to Q2_0 is recommended"),
        (
            {"TQ2_0", "F16"},
            "llama",
            None,
            {3200, 8640},
            "Rows of 3,200 are not whole blocks of 256.*--to Q2_0.*have 64",
        ),
    ],
)
def test_q2_0_is_recommended_only_where_it_helps(
    types: set[str], architecture: str, activation: str | None, rows: set[int], words: str
) -> None:
    text = " ".join(advice(types, architecture, activation, None, True, rows))
    assert re.search(words, text), text
    if any(word in words for word in ("ReLU squared", "fallback", "norm_in")):
        assert "recommended" not in text


def test_advice_on_the_written_file(exact: bytes) -> None:
    said = {target: " ".join(converted(exact, to=target)[1].advice) for target in TYPES if target != "Q2_0"}
    assert "--to Q2_0 is recommended" in said["I2_S"]
    assert "--to Q2_0 is recommended" in said["PQ2_0"]
    assert "prism-v5" in said["Q2_0_G128"]
    assert "Only ik_llama.cpp" in said["IQ2_BN"]
    assert "llama.cpp reads Q2_0 since July 2026" in " ".join(
        converted(converted(exact, to="I2_S")[0], to="Q2_0")[1].advice
    )


def test_a_proof_names_what_was_compared() -> None:
    """Weights of +2 are no trits, and each group has a scale."""
    data = bytearray(grouped(np.array([0.5, 0.25, 2.0, 0.125])))
    data[open_file(bytes(data)).tensors[NAME].span.start + 4] = 0xFF
    for to, compared in (("Q2_0", "codes"), ("F16", "weights")):
        other, result = converted(bytes(data), to=to)
        assert (result.proofs[0].compared, result.proofs[0].rounding.scales > 1) == (compared, True)
        assert 4.0 * 0.25 in open_file(other).tensors[NAME].dequantize()


@pytest.mark.parametrize(("target", "module", "part"), [("Q2_0", blocks_native, "pack"), ("F16", groups, "_words")])
def test_changed_bytes_of_groups_are_noticed(
    target: str, module: Any, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, made = io.BytesIO(), getattr(module, part)
    with Writer(out) as writer:
        data = blocks_native.pack(np.ones((1, 256), dtype=np.int8), 0.5, "TQ2_0")
        writer.add_tensor("blk.0.attn_q.weight", (1, 256), "TQ2_0", data)

    def changed(*given: Any, **more: Any) -> Any:
        found = made(*given, **more)
        return bytes(len(found)) if target == "Q2_0" else found * 0

    monkeypatch.setattr(module, part, changed)
    with pytest.raises(ProofError, match="does not give back"):
        convert_file(io.BytesIO(out.getvalue()), io.BytesIO(), to=target)
