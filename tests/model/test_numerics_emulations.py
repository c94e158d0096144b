"""Profiles of runtimes beside formulas written out from their sources: loom, 0xBitNet, llama.cpp with CUDA, bitnet.cpp.

Sources: openfluke/loom@3083bb7 poly/bitnet_cpu.go; m96-chan/0xBitNet@f2ab5ec packages/core/src (quantize.wgsl,
ternary_gemv.wgsl, ternary_gemm.wgsl, loader.ts, weights.ts); llama.cpp's quantize.cu.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

import i2s_spec as i2s
from i2s_spec.convert.rewrite import rewrite
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.golden.tolerance import limit_of
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import NUMERIC_PROFILES, numeric_profile
from i2s_spec.model.reference import bitlinear, ggml_math, linear
from i2s_spec.schema.architectures import ARCHITECTURES

TOKENS = [3, 51, 130, 7, 68, 72, 148, 82, 175]
SIZES: dict[str, Any] = {"layers": 1, "embd": 256, "ff": 256, "heads": 4, "seed": 3}


def logits(data: bytes, numerics: Any, tokens: list[int] = TOKENS) -> Any:
    return load_model(data, numerics, threads=1).forward(tokens).logits


# loom


def of_loom(x: Any, trits: Any, scale: np.float32) -> tuple[Any, Any]:
    """Codes and outputs of one token as loom computes them, in plain Python: a float is a float64."""
    largest = np.float32(0)
    for v in x:
        largest = np.float32(abs(v)) if abs(v) > largest else largest  # so a NaN is passed over
    largest = np.float32(1e-5) if largest < 1e-5 else largest
    factor = 127.0 / float(largest)
    products = [float(v) * factor for v in x]
    codes = [  # int(math.Round(NaN)) is the least integer
        -128 if math.isnan(p) else max(-128, min(127, int(math.copysign(math.floor(abs(p) + 0.5), p))))
        for p in products
    ]
    step = float(scale) * float(largest) / 127.0
    outputs = [np.float32(float(sum(c * int(t) for c, t in zip(codes, row, strict=True))) * step) for row in trits]
    return np.array(codes, np.int8), np.array(outputs, np.float32)


@examples(60)
@given(
    st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**32 - 1),
    st.sampled_from(["normal", "halves", "zeros", "tiny", "odd"]),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_loom_is_its_source(columns: int, rows: int, seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(size=(2, columns)).astype(np.float32)
    if kind == "halves":  # codes at ties: the largest is 127
        x = (random.integers(-253, 254, size=(2, columns)) / 2).astype(np.float32)
        x[:, 0] = 127
    elif kind == "odd":  # NaN and infinities
        x = random.choice(np.array([np.nan, np.inf, -np.inf, 1, -0.5, 0, 3], np.float32), size=(2, columns))
    elif kind != "normal":
        x *= np.float32(0 if kind == "zeros" else 1e-7)
    trits = random.integers(-1, 2, size=(rows, columns)).astype(np.int8)
    scale = np.float32(random.uniform(0.01, 3))
    want = [of_loom(row, trits, scale) for row in x]
    made = i2s.quantize_activations(x, numerics="loom")
    assert made.codes.tolist() == [codes.tolist() for codes, _ in want]
    found = i2s.bitlinear(x, trits, float(scale), numerics="loom")
    outputs = np.stack([outputs for _, outputs in want])
    np.testing.assert_array_equal(found, outputs)
    assert kind == "odd" or found.tobytes() == outputs.tobytes()  # the sign of a NaN is the processor's


def test_loom_differs_from_the_rules_near_it() -> None:
    x = np.array([[127.0, 0.5, -0.5, 1.5]], np.float32)
    assert i2s.quantize_activations(x, numerics="loom").codes.tolist() == [[127, 1, -1, 2]]
    x = np.array([[np.nan, 127, -0.5, 0], [np.nan] * 4, [np.inf, 1, -np.inf, 0]], np.float32)
    codes = [[-128, 127, -1, 0], [-128] * 4, [-128, 0, -128, 0]]
    assert i2s.quantize_activations(x, numerics="loom").codes.tolist() == codes
    random = np.random.default_rng(0)
    x, trits = random.normal(size=(8, 256)).astype(np.float32), random.integers(-1, 2, size=(64, 256)).astype(np.int8)
    ours, article = (i2s.bitlinear(x, trits, 0.37, numerics=name) for name in ("loom", "c-article"))
    share = float((ours != article).mean())
    assert 0.1 < share < 0.6  # by a last bit: the epilogue is in float64
    np.testing.assert_allclose(ours, article, rtol=5e-7)


# 0xBitNet


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_webgpu_to_the_bit(tokens: int) -> None:
    random = np.random.default_rng(tokens)
    x = random.normal(size=(tokens, 256)).astype(np.float32)
    trits, scale = random.integers(-1, 2, size=(64, 256)).astype(np.int8), np.float32(0.37)
    amax = np.abs(x).max(axis=1)
    codes = np.clip(np.rint(x * (np.float32(127) / amax)[:, None]), -127, 127).astype(np.int32)
    acc, steps = (codes @ trits.T.astype(np.int32)).astype(np.float32), amax / np.float32(127)
    want = acc * scale * steps[:, None] if tokens == 1 else acc * (scale * steps)[:, None]
    assert i2s.bitlinear(x, trits, float(scale), numerics="webgpu").tobytes() == want.tobytes()


def changed(data: bytes, **changes: Any) -> bytes:
    out = io.BytesIO()
    with i2s.open(data) as file:
        rewrite(file, out, **changes)
    return out.getvalue()


@pytest.mark.parametrize(("architecture", "base"), [("bitnet-b1.58", 500_000.0), ("llama", 10_000.0)])
def test_webgpu_has_a_base_of_its_own(architecture: str, base: float) -> None:
    key = f"{ARCHITECTURES[architecture].prefix}.rope.freq_base"
    data = model_bytes(architecture, **SIZES)
    missing = changed(data, drop_keys=(key,))
    named = changed(data, set={key: base})
    assert logits(missing, "webgpu").tobytes() == logits(named, "webgpu").tobytes()
    assert (logits(missing, "hf-f32").tobytes() == logits(named, "hf-f32").tobytes()) == (base == 10_000.0)


def test_webgpu_runs_models_that_lack_sub_norms() -> None:
    data = changed(model_bytes(**SIZES), drop_tensors=("blk.0.attn_sub_norm.weight",))
    with pytest.raises((FormatError, SettingError)):
        load_model(data, force=True)
    model = load_model(data, "webgpu", force=True, threads=1)
    assert [name for name in model.tap_names() if "sub_norm" in name] == ["ffn_sub_norm-0"]
    assert np.isfinite(model.forward(TOKENS).logits).all()


def test_webgpu_reads_one_shard_of_a_table() -> None:
    """Of 512 columns in F16 a limit of 100.5 rows: what is behind is 0, in the embedding and in the head."""
    data = model_bytes(**SIZES)
    whole = load_model(data, "webgpu", threads=1)
    columns = whole.hyperparameters.embd
    numerics = whole.numerics.replace(table_bytes=100 * columns * 2 + columns)
    found = load_model(data, numerics, threads=1).forward(TOKENS, taps=("inp_embd",))
    rows = whole.forward(TOKENS, taps=("inp_embd",)).taps["inp_embd"]
    for token, cut, full in zip(TOKENS, found.taps["inp_embd"], rows, strict=True):
        assert np.array_equal(cut, full if token < 100 else np.zeros_like(full))
    assert found.logits[:, :101].all()
    assert not found.logits[:, 101:].any()
    assert NUMERIC_PROFILES["webgpu"].table_bytes == 128 << 20


def test_webgpu_allows_the_angles_of_wgsl() -> None:
    """SwiftShader's cosine and sine are 1.9e-4 off, which WGSL permits; a rotation by the next position is not."""
    data = model_bytes(**SIZES)
    model = load_model(data, "webgpu", threads=1)
    node = next(node for node in model.graph if node.op == "rope")
    x = model.forward(TOKENS, taps=node.inputs).taps[node.inputs[0]]
    value = model.evaluate(node, [x])[node.name]
    words, limit = limit_of(model, False, node, [x], value)
    heads = x.reshape(len(x), -1, model.hyperparameters.head_dim)
    off = np.abs(heads).max(axis=(1, 2))[:, None, None] * 1.9e-4
    assert (off <= limit).all()
    assert "cosine" in words
    assert (np.abs(model.evaluate(node, [x], past=1)[node.name] - value) > limit).any()
    _, strict = limit_of(model.replace(numerics="hf-f32"), False, node, [x], value)
    assert (off > strict).any()


# llama.cpp with CUDA, ik_llama.cpp, bitnet.cpp


def test_cuda_has_two_numerics() -> None:
    data = model_bytes("llama", type="Q2_0", **SIZES)
    cuda = NUMERIC_PROFILES["llamacpp-cuda"]
    assert cuda.of(8).name == "llamacpp-2026"
    assert cuda.of(9) is cuda
    assert logits(data, cuda, TOKENS[:8]).tobytes() == logits(data, "llamacpp-2026", TOKENS[:8]).tobytes()
    many = logits(data, cuda)
    assert many.tobytes() != logits(data, "llamacpp-2026").tobytes()
    model = load_model(data, cuda, threads=1)
    cache = model.new_cache()
    singly = np.concatenate([model.forward([token], cache=cache).logits for token in TOKENS])
    assert singly.tobytes() != many.tobytes()


def test_cuda_keeps_float_steps_and_rounds_away() -> None:
    rule = NUMERIC_PROFILES["llamacpp-cuda"].quantizer_of("Q2_0")
    x = np.random.default_rng(1).normal(size=(9, 64)).astype(np.float32)
    x[0, :4] = 127, 0.5, 1.5, -2.5
    x[0, 4:] = 0
    made = bitlinear.quantize(x, rule)
    assert made.codes[0, :4].tolist() == [127, 1, 2, -3]
    with np.errstate(divide="ignore"):
        inverse = np.float32(127) / np.abs(x.reshape(9, 2, 32)).max(axis=2)
        assert np.array_equal(bitlinear.steps_of(made)[1:], (np.float32(1) / inverse)[1:])
    assert bitlinear.steps_of(made)[0].tolist() == [1, 0]
    assert NUMERIC_PROFILES["llamacpp-cuda"].quantizer_of("TQ2_0").groups == "blocks-256"


@pytest.mark.parametrize("name", ["ik-f32", "ik-iq2bn"])
def test_inputs_of_bfloat16_matrices_are_rounded(name: str) -> None:
    random = np.random.default_rng(5)
    x, wide = random.normal(size=(3, 64)).astype(np.float32), random.normal(size=(5, 64)).astype(np.float32)
    projections = linear.Projections(numeric_profile(name))
    bits = (wide.view(np.uint32) >> 16).astype(np.uint16)
    assert projections.dense(x, bits).tobytes() == projections.products(ggml_math.bfloat16(x), bits).tobytes()
    half = wide.astype(np.float16)
    assert projections.dense(x, half).tobytes() == projections.products(x, half).tobytes()


@pytest.mark.parametrize("type", ["TQ1_0", "TQ2_0"])
def test_bitnet_cpp_quantizes_by_blocks_for_ternary_types(type: str) -> None:
    """Its own graph, activation and attention, with the kernels of ggml for these types."""
    data = model_bytes(type=type, **SIZES)
    official = load_model(data, "bitnetcpp-2025", threads=1)
    taps = official.forward(TOKENS, taps=("*",)).taps
    assert taps["blk.0.attn_q.act_scale"].shape == (len(TOKENS), 1)
    assert "blk.0.attn_q.dot_i32" not in taps
    assert official.activation_rule.activation == "relu2"
    upstream = load_model(data, "tq2_0", threads=1, activation="relu2").forward(TOKENS).logits
    assert official.forward(TOKENS).logits.tobytes() == upstream.tobytes()


def test_bitnet_go_rounds_no_activation_of_tq2_0() -> None:
    data = model_bytes(type="TQ2_0", **SIZES)
    exact = NUMERIC_PROFILES["bitnet-golden-1"].replace(quantizer={"groups": "none"})
    assert logits(data, "bitnet-go").tobytes() == logits(data, exact).tobytes()
    own = model_bytes(**SIZES)
    assert logits(own, "bitnet-go").tobytes() == logits(own, "bitnet-golden-1").tobytes()


def test_profiles_that_repeat_mistakes_say_so() -> None:
    b158, bitnet, llama = (ARCHITECTURES[name] for name in ("bitnet-b1.58", "bitnet", "llama"))
    eps, base = "attention.layer_norm_rms_epsilon", "rope.freq_base"

    def words(profile: str, architecture: Any, keys: dict[str, Any]) -> list[str]:
        metadata = {f"{architecture.prefix}.{key}": value for key, value in {eps: 1e-5, base: 1e4, **keys}.items()}
        return [each.partition(" ")[0] for each in NUMERIC_PROFILES[profile].deviations(architecture, metadata)]

    for right in ("bitnet-golden-1", "bitnetcpp-2025", "hf-f32", "ik-f32", "loom", "fast"):
        assert not words(right, b158, {})
        assert not words(right, llama, {})
    for wrong in ("tq2_0", "llamacpp-2026", "llamacpp-cuda", "bitnetcpp-2026"):
        assert words(wrong, b158, {}) == ["silu"]
        assert not words(wrong, bitnet, {})
    assert not words("tq2_0", bitnet, {"hidden_activation": "relu2"})  # it reads the key
    assert words("bitnetcpp-2025", bitnet, {"hidden_activation": "relu2"}) == ["silu"]
    assert words("webgpu", b158, {}) == ["neighboring"]
    assert words("webgpu", b158, {eps: 1e-6}) == ["neighboring", "an"]
    assert words("webgpu", bitnet, {}) == ["relu2", "neighboring"]
    assert not words("webgpu", llama, {})
    assert len(NUMERIC_PROFILES["webgpu"].deviations(b158, {})) == 2  # no base in the file
