"""Matrices with a scale for each group: sums by products of I2_S against their definition, and the resulting floats."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from builders import model_bytes, written
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import blocks_native, native
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.errors import SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import NUMERIC_PROFILES, ActivationQuantizer
from i2s_spec.model.reference import bitlinear
from i2s_spec.model.reference import bitlinear as activation_quant
from i2s_spec.model.reference.linear import (
    grouped_product,
    partial_sums,
    partial_sums_reference,
    run_length,
    sums_of_runs,
)
from i2s_spec.model.weights import Grouped, Ternary, grouped, one_scale
from i2s_spec.schema.blocks import BLOCK_LAYOUTS

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]
RULES = {name: each.quantizer for name, each in NUMERIC_PROFILES.items()} | {
    "q8_0": ActivationQuantizer("blocks-32", None, "f32", zero="zero", epilogue="nested", steps="f16", weight_group=64)
}


def random_matrix(seed: int, rows: int, columns: int, group: int) -> Grouped:
    rng = np.random.default_rng(seed)
    values = rng.integers(-1, 3, (rows, columns)).astype(np.int8)
    return grouped(values, rng.uniform(0.1, 2, (rows, columns // group)).astype(np.float16).astype(np.float32))


@examples(60)
@given(st.data())
def test_sums_are_those_of_the_definition(data: st.DataObject) -> None:
    group = data.draw(st.sampled_from([32, 64, 128, 256]))
    columns = group * data.draw(st.integers(1, 5))
    length = data.draw(st.sampled_from([each for each in (32, 64, 128, 256, columns) if columns % each == 0]))
    matrix = random_matrix(data.draw(st.integers(0, 99)), data.draw(st.integers(1, 9)), columns, group)
    codes = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-128, 128, (3, columns)).astype(np.int8)
    assert np.array_equal(partial_sums(matrix, codes, length), partial_sums_reference(matrix, codes, length))


def test_packed_values_are_unpacked_unchanged() -> None:
    values = np.random.default_rng(1).integers(-1, 3, (5, 192)).astype(np.int8)
    scales = np.full((5, 3), 0.5, dtype=np.float32)
    matrix = grouped(values, scales)
    assert np.array_equal(matrix.values(), values)
    assert np.array_equal(matrix.part(1, 3).dequantized(), values[1:3] * np.float32(0.5))
    assert (matrix.rows, matrix.columns, matrix.group, matrix.wide) == (5, 192, 64, 256)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.groups != "none"])
@pytest.mark.parametrize("group", [64, 128, 256, 512])
def test_the_product_is_that_of_floats(name: str, group: int) -> None:
    """Every rule stands for codes times steps times weights; only the order of roundings is its own."""
    rule, matrix = RULES[name], random_matrix(7, 6, 512, group)
    x = np.random.default_rng(2).normal(size=(4, 512)).astype(np.float32)
    quantized = activation_quant.quantize(x, rule)
    y, acc = grouped_product(quantized, rule, matrix)
    steps = activation_quant.steps_of(quantized).astype(np.float64)
    if rule.groups == "interleaved-4":
        wide = quantized.codes * steps[:, np.arange(512) // 4 % 4]
    else:
        wide = quantized.codes * np.repeat(steps.reshape(4, -1), 512 // max(1, steps.size // 4), axis=1)
    want = wide @ (matrix.values() * np.repeat(matrix.scales, group, axis=1)).astype(np.float64).T
    assert np.allclose(y, want, rtol=0, atol=2e-6 * np.abs(want).max())
    assert acc.dtype == np.int32


@pytest.mark.parametrize("name", ["bitnet-golden-1", "bitnetcpp-2026", "webgpu"])
def test_a_scale_for_each_row_has_the_epilogue_of_i2s(name: str) -> None:
    rule, matrix = RULES[name], random_matrix(3, 6, 256, 256)
    x = np.random.default_rng(5).normal(size=(4, 256)).astype(np.float32)
    quantized = activation_quant.quantize(x, rule)
    y, acc = grouped_product(quantized, rule, matrix)
    for row in range(matrix.rows):
        own = activation_quant.epilogue_of_rule(
            acc[:, row : row + 1], quantized.scale, matrix.scales[row, 0], rule, quantized.steps
        )
        assert np.array_equal(y[:, row : row + 1], own)


def test_one_scale_for_all_gives_the_sums_of_i2s() -> None:
    rng = np.random.default_rng(3)
    trits = rng.integers(-1, 2, (8, 256)).astype(np.int8)
    payload = np.frombuffer(native.pack(trits, 0.5), dtype=np.uint8)[:-32]
    matrix = one_scale(payload, 8, 256, np.float32(0.5), 64)
    assert np.array_equal(matrix.values(), trits)
    codes = rng.integers(-127, 128, (3, 256)).astype(np.int8)
    assert np.array_equal(partial_sums(matrix, codes, 64).sum(axis=0), bitlinear.accumulate(payload, 8, 256, codes))


def test_the_definition_by_hand() -> None:
    """Two groups of 64: ones times 127 in the first, twos times 127 in the second."""
    values = np.concatenate([np.ones((1, 64)), np.full((1, 64), 2)], axis=1).astype(np.int8)
    matrix = grouped(values, np.array([[0.5, 0.25]], dtype=np.float32))
    x = np.ones((1, 128), dtype=np.float32)
    rule = ActivationQuantizer()
    y, acc = grouped_product(activation_quant.quantize(x, rule), rule, matrix)
    assert acc.tolist() == [[[64 * 127], [128 * 127]]]
    assert y.tolist() == [[64.0]]
    assert sums_of_runs(np.full((1, 128), 127, dtype=np.int8), 2).tolist() == [[64 * 127, 64 * 127]]
    assert run_length(rule, matrix) == 64


@pytest.mark.parametrize("type", BLOCK_LAYOUTS)
@pytest.mark.parametrize("order", ["little", "big"])
def test_matrices_are_what_the_file_says(type: str, order: Any) -> None:
    data = model_bytes("llama", layers=1, type=type, byte_order=order)
    model, name = load_model(data, threads=1), "blk.0.ffn_up.weight"
    matrix = model.weights.matrix(name)
    assert isinstance(matrix, Grouped)
    tensor = open_file(data).tensors[name]
    raw = model.weights._bytes(tensor)
    want = blocks_native.dequantize(raw, tensor.shape, type, byte_order=order)
    assert np.array_equal(matrix.dequantized(), want)
    assert len(np.unique(matrix.scales)) > 8


@pytest.mark.parametrize("type", BLOCK_LAYOUTS)
def test_one_scale_in_all_groups_is_a_matrix_of_i2s(type: str) -> None:
    """What `i2s convert` makes of I2_S has the kernels of I2_S, and its arithmetic."""
    plain = model_bytes("llama", layers=1, embd=256, ff=256)
    out = io.BytesIO()
    convert_file(open_file(plain), out, to=type)
    model, name = load_model(out.getvalue(), threads=1), "blk.0.ffn_up.weight"
    matrix, own = model.weights.matrix(name), load_model(plain, threads=1).weights.matrix(name)
    assert isinstance(matrix, Ternary)
    assert isinstance(own, Ternary)
    assert np.array_equal(matrix.payload, own.payload)
    assert abs(matrix.scale - own.scale) <= 2**-11 * own.scale


@pytest.mark.parametrize("type", BLOCK_LAYOUTS)
@pytest.mark.parametrize("profile", ["bitnet-golden-1", "fast"])
def test_the_forward_pass_is_near_that_of_its_own_floats(type: str, profile: str) -> None:
    """The same weights dequantized into an F32 file, with activations that stay floats, give nearly the same logits."""
    data = model_bytes("llama", layers=1, type=type)
    logits = load_model(data, profile, threads=1).forward(TOKENS).logits
    exact = NUMERIC_PROFILES["bitnet-golden-1"].replace(quantizer={"groups": "none"})
    want = load_model(data, exact, threads=1).forward(TOKENS).logits
    assert logits is not None
    assert want is not None
    assert np.corrcoef(logits.ravel(), want.ravel())[0, 1] > 0.999


@pytest.mark.parametrize("type", BLOCK_LAYOUTS)
def test_fast_gives_the_integers_of_the_definition(type: str) -> None:
    data = model_bytes("llama", layers=1, type=type)
    taps = {}
    for profile in ("bitnet-golden-1", "fast"):
        taps[profile] = load_model(data, profile, threads=2).forward(TOKENS, taps=("blk.0.attn_q.*",)).taps
    ours, fast = taps["bitnet-golden-1"], taps["fast"]
    assert (
        set(ours)
        == set(fast)
        == {f"blk.0.attn_q.{tap}" for tap in ("act_q8", "act_scale", "act_sum", "dot_i32", "acc_i32")}
    )
    assert np.array_equal(ours["blk.0.attn_q.act_q8"], fast["blk.0.attn_q.act_q8"])
    assert np.array_equal(ours["blk.0.attn_q.acc_i32"], fast["blk.0.attn_q.acc_i32"])
    acc, dot = ours["blk.0.attn_q.acc_i32"], ours["blk.0.attn_q.dot_i32"]
    runs = 1 if acc.ndim == 2 else acc.shape[1]
    sums = sums_of_runs(ours["blk.0.attn_q.act_q8"], runs)
    assert np.array_equal(dot - acc, np.broadcast_to(sums if acc.ndim == 2 else sums[..., None], acc.shape))


def test_tables_of_block_types_are_looked_up_and_multiplied() -> None:
    """An embedding and a head of Q2_0: rows are what the file stands for."""
    source = open_file(model_bytes("llama", layers=1))
    rng = np.random.default_rng(1)
    tables = {}

    def fill(writer: Writer) -> None:
        for key in source.metadata:
            writer.add(key, source.metadata[key])
        for name, tensor in source.tensors.items():
            data: Any = source.source.read(tensor.span.start, tensor.span.stop - tensor.span.start)
            kind: Any = tensor.type
            if name in ("token_embd.weight", "output.weight"):
                values = rng.integers(-1, 3, tensor.shape).astype(np.int8)
                scales = rng.uniform(0.5, 1.5, values.size // 64).astype(np.float16)
                data, kind = blocks_native.pack(values, scales, "Q2_0"), "Q2_0"
                tables[name] = blocks_native.dequantize(data, tensor.shape, "Q2_0")
            writer.add_tensor(name, tensor.shape, kind, data)

    file = written(fill)
    for profile in ("bitnet-golden-1", "fast"):
        model = load_model(file, profile, threads=1)
        found = model.forward(TOKENS, taps=("inp_embd", "result_norm"))
        assert np.array_equal(found.taps["inp_embd"], tables["token_embd.weight"][TOKENS])
        want = found.taps["result_norm"].astype(np.float64) @ tables["output.weight"].astype(np.float64).T
        assert found.logits is not None
        assert np.allclose(found.logits, want, atol=1e-4 * np.abs(want).max())


def test_a_reserved_code_is_refused_by_name() -> None:
    data = bytearray(model_bytes("llama", layers=1, type="TQ2_0"))
    tensor = open_file(bytes(data)).tensors["blk.0.ffn_up.weight"]
    data[tensor.span.start] = 0xFF
    model = load_model(bytes(data), threads=1, force=True)
    with pytest.raises(SettingError, match=r"blk\.0\.ffn_up\.weight"):
        model.weights.matrix("blk.0.ffn_up.weight")
