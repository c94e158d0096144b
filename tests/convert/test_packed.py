"""Packed checkpoints of Hugging Face: the form that transformers writes, conversion both ways, and refusals."""

from __future__ import annotations

import io
import json
import shutil
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from packed_checkpoints import read_packed, write_packed

from i2s_spec.codec.reference import UnusedCodeError
from i2s_spec.convert.new import new
from i2s_spec.convert.packed_files import from_checkpoint, to_checkpoint
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.safetensors.files import Checkpoint, NewTensor, write_checkpoint
from i2s_spec.safetensors.names import gguf_name, module_name, to_checkpoint_rows, to_gguf_rows
from i2s_spec.safetensors.packed import PackedWeights, configured, scale_of, stored_scale

MODULE = "model.layers.0.self_attn.q_proj"


#: A file of two small layers.
model_file = partial(model_bytes, layers=2, embd=256)


def safetensors(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def contents(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    with Checkpoint(path) as checkpoint:
        return {name: (stored.dtype, stored.shape, stored.read()) for name, stored in checkpoint.items()}


def test_transformers_packing_is_read(shared: Path) -> None:
    weights = read_packed(shared / "vectors/hf/b158_packed")
    truth = np.load(shared / "vectors/hf/b158_packed_ternary.npz")
    assert set(weights) == set(truth)
    for module in truth:
        assert np.array_equal(weights[module][0], truth[module])
    assert weights["model.layers.0.mlp.down_proj"][1] == np.float32(1.421875)


def test_packing_is_that_of_transformers(shared: Path, tmp_path: Path) -> None:
    theirs = contents(shared / "vectors/hf/b158_packed")
    path = tmp_path / "model.safetensors"
    roundings = write_packed(path, read_packed(shared / "vectors/hf/b158_packed"), scale_type="BF16")
    ours = contents(path)
    assert len(ours) == 28
    assert ours == {name: theirs[name] for name in ours}
    assert {each.relative for each in roundings.values()} == {0}


def test_packed_weights_become_what_the_converter_makes_of_them(shared: Path) -> None:
    folder = shared / "vectors/gguf"
    theirs = open_file(folder / "bitnet-b1.58.packed.i2_s.direct.gguf")
    out = io.BytesIO()
    source = open_file(folder / "bitnet-b1.58.i2_s.via_llama_quantize.gguf")
    result = from_checkpoint(shared / "vectors/hf/b158_packed", source, out)
    ours = open_file(out.getvalue())
    assert len(result.proofs) == 14
    for proof in result.proofs:
        assert ours.tensors[proof.name].read() == theirs.tensors[proof.name].read()
    assert ours.tensors["token_embd.weight"].read() == source.tensors["token_embd.weight"].read()


def test_a_file_becomes_the_checkpoint_that_it_came_from(shared: Path, tmp_path: Path) -> None:
    source = open_file(shared / "vectors/gguf/bitnet-b1.58.packed.i2_s.direct.gguf")
    path = tmp_path / "out.safetensors"
    result = to_checkpoint(source, path, scale_type="BF16", threads=2)
    ours, theirs = contents(path), contents(shared / "vectors/hf/b158_packed")
    assert set(ours) == set(theirs)
    assert (len(result.proofs), result.copied, result.left_out) == (14, 10, ())
    for name, stored in theirs.items():
        if stored[0] == "U8" or name.endswith("_scale"):
            assert ours[name] == stored


@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "bitnet", "llama"])
@pytest.mark.parametrize("convention", ["multiply", "divide"])
@pytest.mark.parametrize("order", ["little", "big"])
def test_there_and_back(architecture: str, convention: Any, order: Any, tmp_path: Path) -> None:
    source = open_file(model_file(architecture, byte_order=order))
    path = tmp_path / "out.safetensors"
    exported = to_checkpoint(source, path, weight_scale=convention)
    assert max(abs(proof.rounding.relative) for proof in exported.proofs) <= (2**-23 if convention == "divide" else 0)
    other = io.BytesIO()
    new(other, architecture, layers=2, embd=256, seed=9, byte_order=order)
    out = io.BytesIO()
    from_checkpoint(path, open_file(other.getvalue()), out, weight_scale=convention)
    back = open_file(out.getvalue())
    for proof in exported.proofs:
        one, two = source.tensors[proof.name].read(), back.tensors[proof.name].read()
        assert one[:-32] == two[:-32]
        if convention == "multiply":
            assert one == two


def test_byte_order_does_not_reach_the_checkpoint(tmp_path: Path) -> None:
    for order in ("little", "big"):
        to_checkpoint(open_file(model_file(byte_order=order)), tmp_path / f"{order}.safetensors")
    assert (tmp_path / "little.safetensors").read_bytes() == (tmp_path / "big.safetensors").read_bytes()


def test_rows_of_llama_move_and_those_of_bitnet_do_not(tmp_path: Path) -> None:
    for architecture, moves in (("llama", True), ("bitnet", False)):
        source = open_file(model_file(architecture, heads=4, heads_kv=2))
        path = tmp_path / f"{architecture}.safetensors"
        to_checkpoint(source, path)
        weights = read_packed(path, "multiply")
        for name, kind, heads in (("attn_q", "q_proj", 4), ("attn_k", "k_proj", 2), ("attn_v", "v_proj", None)):
            trits, _ = source.tensors[f"blk.1.{name}.weight"].ternary().whole()
            there = weights[f"model.layers.1.self_attn.{kind}"][0]
            if moves and heads:
                d = trits.shape[0] // heads
                for h, p, i in ((0, 0, 0), (1, 1, 3), (heads - 1, 0, d // 2 - 1)):
                    assert np.array_equal(there[h * d + p * (d // 2) + i], trits[h * d + 2 * i + p])
                assert not np.array_equal(there, trits)
            else:
                assert np.array_equal(there, trits)


@examples(30)
@given(heads=st.integers(1, 5), half=st.integers(1, 6), cols=st.integers(1, 4))
def test_rows_moved_for_gguf_can_be_moved_back(heads: int, half: int, cols: int) -> None:
    matrix = np.arange(heads * 2 * half * cols).reshape(-1, cols)
    moved = to_gguf_rows(matrix, heads)
    # the expression of the converters
    assert np.array_equal(moved, matrix.reshape(heads, 2, half, cols).swapaxes(1, 2).reshape(matrix.shape))
    assert np.array_equal(to_checkpoint_rows(moved, heads), matrix)


@examples(30)
@given(
    quarter=st.integers(1, 9),
    cols=st.integers(1, 40),
    scale=st.floats(2.0**-20, 2.0**20, width=32),
    convention=st.sampled_from(["multiply", "divide"]),
)
def test_any_matrix_comes_back(quarter: int, cols: int, scale: float, convention: Any, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("packed") / "x.safetensors"
    trits = np.random.default_rng(cols).integers(-1, 2, (4 * quarter, cols), dtype=np.int8)
    rounding = write_packed(path, {"m": (trits, scale)}, weight_scale=convention)["m"]
    found, stored = read_packed(path, convention)["m"]
    assert np.array_equal(found, trits)
    assert float(stored) == rounding.stored
    assert abs(rounding.relative) <= 2**-23


@pytest.mark.requirement("R8.4-1")
def test_scales_by_convention_and_type() -> None:
    assert scale_of(np.float32(1.421875), "divide") == np.float32(1 / 1.421875)
    assert stored_scale(0.7, "multiply", "BF16").rounding.stored == np.float32(0.69921875)
    for scale, convention, kind, reason in (
        (0.0, "divide", "F32", "no reciprocal"),
        (1e-45, "multiply", "BF16", "no bfloat16"),
        (1.0, "multiply", "F16", "can be stored as F32 or BF16"),
        (1.0, "times", "F32", "must be 'multiply' or 'divide'"),
    ):
        with pytest.raises(ValueError, match=reason):
            stored_scale(scale, convention, kind)  # type: ignore[arg-type]


def test_the_configuration_says_the_convention(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_packed(path, {MODULE: (np.ones((4, 4), dtype=np.int8), 0.5)})
    for config, convention in (
        ({"quant_method": "bitnet", "linear_class": "autobitlinear"}, "multiply"),
        ({"quant_method": "bitnet", "linear_class": "bitlinear"}, "divide"),
        ({"quant_method": "bitnet"}, "divide"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
        assert configured(path) == configured(tmp_path) == configured([path]) == convention
        assert read_packed(path)[MODULE][1] == np.float32(0.5 if convention == "multiply" else 2)
    for text in ("{}", "[]", "{", '{"quantization_config": {"quant_method": "gptq"}}', '{"quantization_config": 3}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"multiplies in BitNet b1.58 2B-4T, and divides in Llama3"):
            read_packed(path)


def test_several_files(tmp_path: Path) -> None:
    ones = np.ones((4, 4), dtype=np.int8)
    write_packed(tmp_path / "a.safetensors", {"a": (ones, 1)})
    write_packed(tmp_path / "b.safetensors", {"b": (-ones, 1)})
    assert set(read_packed(tmp_path, "multiply")) == {"a", "b"}
    assert set(read_packed([tmp_path / "b.safetensors"], "multiply")) == {"b"}
    shutil.copy(tmp_path / "a.safetensors", tmp_path / "c.safetensors")
    with pytest.raises(FormatError, match="is in another file too"):
        read_packed(tmp_path, "multiply")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError):
        read_packed(tmp_path / "empty", "multiply")


GOOD = {"dtype": "U8", "shape": [1, 2], "data_offsets": [0, 2]}
SCALE = {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"short", "the length of the header alone"),
        (struct.pack("<Q", 1 << 60), "would have 1,152,921,504,606,846,976 bytes"),
        (safetensors(b"{nothing"), "is not JSON"),
        (safetensors(b"[" * 5000), "is not JSON"),
        (safetensors(b'{"a": 1, "a": 2}'), "is not JSON"),
        (safetensors([1]), "not a JSON object"),
        (safetensors({"a": 1}), "not described by an object"),
        (safetensors({"a": {**GOOD, "shape": [1, "2"]}}), "type, shape or offsets"),
        (safetensors({"a": {**GOOD, "shape": [True, 2]}}), "type, shape or offsets"),
        (safetensors({"a": {**GOOD, "data_offsets": [2, 0]}}, b"12"), "lies at bytes"),
        (safetensors({"a": {**GOOD, "data_offsets": [0, 1 << 62]}}, b"12"), "lies at bytes"),
        (safetensors({"a": {**GOOD, "shape": [3, 3]}}, b"12"), "takes 9 bytes, and has 2"),
        (safetensors({"\x1b[2Ja.weight": GOOD}, b"12"), r"tensor '\\x1b\[2Ja.weight'"),
        (safetensors({"a.weight": {**GOOD, "shape": [2]}, "a.weight_scale": SCALE}, bytes(6)), "rows and columns"),
        (
            safetensors({"a.weight": GOOD, "a.weight_scale": {**SCALE, "dtype": "I32"}}, bytes(6)),
            "one float is expected",
        ),
        (
            safetensors({"a.weight": GOOD, "a.weight_scale": {**SCALE, "dtype": "zz"}}, bytes(6)),
            "one float is expected",
        ),
    ],
)
def test_invalid_checkpoints_are_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=reason):
        read_packed(path, "multiply")


def test_code_3_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(safetensors({"a.weight": GOOD, "a.weight_scale": SCALE}, b"\x55\x5d" + bytes(4)))
    weights = read_packed(path, "multiply")
    with pytest.raises(UnusedCodeError, match=r"row 1, column 1"):
        weights["a"]


def test_weights_that_the_model_has_no_tensor_for_are_refused(tmp_path: Path) -> None:
    source = open_file(model_file())
    path, out = tmp_path / "x.safetensors", tmp_path / "out.gguf"
    ones = np.ones((256, 256), dtype=np.int8)
    for module, trits, reason in (
        ("model.layers.0.self_attn.q_proj", np.ones((128, 256), dtype=np.int8), r"has the shape \[128, 256\]"),
        ("model.layers.7.self_attn.q_proj", ones, "no blk.7.attn_q.weight"),
        ("model.layers.0.self_attn.z_proj", ones, "the model has no tensor for"),
    ):
        write_packed(path, {module: (trits, 1)}, force=True)
        with pytest.raises(ValueError, match=reason):
            from_checkpoint(path, source, out, weight_scale="multiply")
    write_checkpoint(path, [NewTensor("a", "F32", (1,), lambda: [bytes(4)])], force=True)
    with pytest.raises(ValueError, match="no packed weights"):
        from_checkpoint(path, source, out, weight_scale="multiply")
    assert not out.exists()


def test_files_that_have_no_such_checkpoint_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(ValueError, match="of architecture 'qwen3' are known"):
        to_checkpoint(open_file(model_file("qwen3")), path)
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("general.architecture", "bitnet")
        writer.add_tensor("token_embd.weight", (2, 256), "Q8_0")
    with pytest.raises(ValueError, match="is Q8_0, a type that checkpoints do not have"):
        to_checkpoint(open_file(out.getvalue()), path)
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("general.architecture", "bitnet")
        writer.add_tensor("token_embd.weight", (4, 128), "I2_S")
    with pytest.raises(ValueError, match="only the matrices of layers"):
        to_checkpoint(open_file(out.getvalue()), path)
    with pytest.raises(ValueError, match="a multiple of 4 rows"):
        write_packed(path, {"m": (np.ones((3, 4), dtype=np.int8), 1)})
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_unasked_or_left_half_written(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        to_checkpoint(open_file(model_file()), path)
    bad = np.full((4, 4), 2, dtype=np.int8)
    with pytest.raises(ValueError, match="not -1, 0 or"):
        write_packed(tmp_path / "y.safetensors", {"m": (bad, 1)})
    with pytest.raises(ValueError, match="tensor 'a' has 1 byte of data, not 4"):
        write_checkpoint(tmp_path / "z.safetensors", [NewTensor("a", "F32", (1,), lambda: [b"x"])])
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.safetensors"]
    assert path.read_text() == "mine"


def test_names_of_modules_and_tensors() -> None:
    assert gguf_name("model.layers.12.mlp.ffn_layernorm") == "blk.12.ffn_sub_norm.weight"
    assert module_name("blk.12.ffn_sub_norm.weight") == "model.layers.12.mlp.ffn_sub_norm"
    assert module_name("output.weight") == "lm_head"
    assert [gguf_name(name) for name in ("model.layers.01.input_layernorm", "x", "model.layers.0.x")] == [None] * 3
    assert [module_name(name) for name in ("blk.0.attn_q.bias", "weight", "blk.0.x.weight", "rope_freqs.weight")] == [
        None
    ] * 4


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    library: Any = pytest.importorskip("safetensors", reason="the safetensors package is not installed")
    path = tmp_path / "x.safetensors"
    to_checkpoint(open_file(model_file()), path)
    theirs = {name: (about["dtype"], tuple(about["shape"]), bytes(about["data"])) for name, about in
              library.deserialize(path.read_bytes())}  # fmt: skip
    assert theirs == contents(path)


def test_packed_weights_are_unpacked_on_access(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_packed(path, {"a": (np.zeros((4, 2), dtype=np.int8), 1.5), "b": (np.ones((8, 2), dtype=np.int8), -2.5)})
    with Checkpoint(path) as checkpoint:
        weights = PackedWeights(checkpoint, "multiply")
        assert (list(weights), len(weights)) == (["a", "b"], 2)
        assert {module: (matrix.shape, float(matrix.scale)) for module, matrix in weights.matrices.items()} == {
            "a": ((4, 2), 1.5), "b": ((8, 2), -2.5)
        }  # fmt: skip
