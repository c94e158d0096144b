"""Numeric profiles: each computes what it declares, and the normative one gives the same bits everywhere."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import isa
from i2s_spec.errors import SettingError
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import NUMERIC_PROFILES, ActivationQuantizer, numeric_profile
from i2s_spec.model.reference import bitlinear, ggml_math, linear, matmul, reductions, transcendental
from i2s_spec.model.reference import bitlinear as activation_quant
from i2s_spec.model.reference import reductions as reductions_reference
from i2s_spec.model.weights import Ternary

TOKENS = np.random.default_rng(3).integers(0, 256, 40).tolist()

NORMATIVE = "bitnet-golden-1"


def loaded(profile: Any = NORMATIVE, architecture: str = "bitnet-b1.58", threads: int = 1, **settings: Any) -> Model:
    data = model_bytes(architecture, layers=2, seed=5, embd=256, ff=512, heads=4, unit_tables=True)
    return load_model(data, profile, threads=threads, **settings)


def digest(model: Model, **settings: Any) -> str:
    """Of every value of a pass."""
    taps = model.forward(TOKENS, taps=("*",), **settings).taps
    together = hashlib.sha256()
    for name in model.tap_names():
        together.update(name.encode() + np.ascontiguousarray(taps[name]).tobytes())
    return together.hexdigest()


#: Hashes of the results of `bitnet-golden-1` for a model made by `new`. They must be the same on every machine.
GOLDEN = {
    "bitnet-b1.58": "a67b084a3ff0b812032b1076a09cfc9ce26a9c2c4282e118326f9d37fce4db36",
    "bitnet": "5639dfca3f001a705cf3f574eca2161c2a033ce45be38de2db555d0ebc2cc364",
    "llama": "314e7ad6bf802ceb1551f9146b0640843c35f16645da5143cafe923a06f3e7cf",
    "qwen3": "329546b43348ecf26f368634974dcbb6ff953d4c9e9e414484f53fc2022ef911",
    "qwen3-lm": "2cbb357568b9bd1755a634690741310d2a0184f86dafc2c03b98d3b6cbcc2ae3",
    "gemma3": "9f63400956b0958ce624e9d17f9fb1ce20bb766b1d2d93e4d81e6c8467a7b52f",
}


@pytest.mark.requirement("R9.7-1")
@pytest.mark.parametrize("architecture", list(GOLDEN))
def test_normative_bits_are_the_same_on_every_machine(architecture: str) -> None:
    assert digest(loaded(architecture=architecture)) == GOLDEN[architecture]


@pytest.mark.parametrize("name", [each.name for each in isa.kernel_sets() if each.available])
@pytest.mark.parametrize("threads", [1, 3])
def test_normative_bits_depend_on_no_threads_and_no_instruction_set(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(isa.VARIABLE, name)
    monkeypatch.setattr(reductions, "LEAST_WORK", 1)
    assert digest(loaded(threads=threads)) == GOLDEN["bitnet-b1.58"]


@pytest.mark.parametrize("name", [each.name for each in isa.kernel_sets() if each.available])
@pytest.mark.parametrize("profile", ["bitnetcpp-2025", "ik-iq2bn", "hf-f32"])
def test_emulations_depend_on_no_instruction_set(profile: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    want = digest(loaded(profile))
    monkeypatch.setenv(isa.VARIABLE, name)
    assert digest(loaded(profile, threads=2)) == want


#: Profiles that compute one token otherwise than several.
BY_COUNT = ("fast", "bitnetcpp-2025-llamafile", "bitnetcpp-2025-avx512", "ik-f16", "llamacpp-cuda", "webgpu")


@pytest.mark.parametrize("profile", share(name for name in NUMERIC_PROFILES if name not in BY_COUNT))
def test_tokens_together_or_one_by_one_are_the_same(profile: str) -> None:
    """Prefill in one piece, in pieces, and decoding: the same bits."""
    model = loaded(profile)
    whole = model.forward(TOKENS).logits
    pieces = model.forward(TOKENS, together=7).logits
    cache = model.new_cache()
    steps = np.concatenate([model.forward([token], cache=cache).logits for token in TOKENS])  # type: ignore[list-item]
    assert whole is not None
    assert pieces is not None
    assert whole.tobytes() == pieces.tobytes() == steps.tobytes()


@pytest.mark.parametrize("profile", list(NUMERIC_PROFILES))
def test_every_profile_is_near_the_normative_one(profile: str) -> None:
    """With the same activation and rotation; a flipped code is as far as roundings go."""
    normative = loaded(activation="relu2").forward(TOKENS).logits
    chosen = NUMERIC_PROFILES[profile].replace(rope="architecture")
    other = loaded(chosen, activation="relu2").forward(TOKENS).logits
    assert normative is not None
    assert other is not None
    distance = np.linalg.norm(other - normative) / np.linalg.norm(normative)
    assert distance < 0.15


# Sums by index

FLOATS = st.floats(-1e6, 1e6, width=32)


@examples(60)
@given(st.integers(1, 20), st.integers(1, 40), st.integers(1, 150), st.integers(0, 2**32 - 1), st.sampled_from("fhb"))
def test_products_are_the_definition(tokens: int, rows: int, columns: int, seed: int, kind: str) -> None:
    """Whatever the shape, the type and the strides, on every kernel set."""
    random = np.random.default_rng(seed)
    x = (random.normal(size=(tokens, columns)) * 10.0 ** random.integers(-6, 6)).astype(np.float32)
    wide = random.normal(size=(rows, columns)).astype(np.float32)
    w: Any = {"f": wide, "h": wide.astype(np.float16), "b": (wide.view(np.uint32) >> 16).astype(np.uint16)}[kind]
    if seed % 2:
        w = np.asfortranarray(w)
    want = reductions_reference.products_reference(x, w)
    lanes = {vector: ggml_math.sums(x, reductions.as_float32(w), vector) for vector in (8, 16)}
    for each in isa.kernel_sets():
        if each.available:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(isa.VARIABLE, each.name)
                assert reductions.products(x, w, threads=1 + seed % 3).tobytes() == want.tobytes()
                for vector, sums in lanes.items():
                    assert reductions.lanes(x, w, threads=1 + seed % 3, vector=vector).tobytes() == sums.tobytes()
    assert reductions.squares(x).tobytes() == reductions_reference.squares_reference(x).tobytes()
    assert (
        reductions.squares(x, rounded=True).tobytes()
        == reductions_reference.squares_reference(x, rounded=True).tobytes()
    )
    assert reductions.sums(x).tobytes() == reductions_reference.sums_reference(x.astype(np.float64)).tobytes()


def test_sums_are_added_in_the_order_of_indices() -> None:
    """Numbers whose sum depends on the order: a pairwise or a vector sum gives another."""
    x = np.array([[2.0**53, 1.0, 1.0, -(2.0**53)] * 8], dtype=np.float32)
    ones = np.ones_like(x)
    by_index = 0.0
    for value in x[0].tolist():
        by_index += value
    assert by_index == 0.0
    assert float(reductions.products(x, ones)[0, 0]) == float(reductions.sums(x)[0]) == by_index
    assert float(np.sort(x.astype(np.float64)).sum()) != by_index


@pytest.mark.parametrize("half", range(0, 1 << 16, 1 << 12))
def test_every_half_is_read_exactly(half: int) -> None:
    bits = np.arange(half, half + (1 << 12), dtype=np.uint32).astype(np.uint16)
    w = bits.view(np.float16)[:, None]
    got = reductions.products(np.ones((1, 1), np.float32), w)[0]
    want = w[:, 0].astype(np.float32)
    same = np.isnan(got) & np.isnan(want) | (got == want)
    assert same.all()


def test_special_values_stay_with_their_tokens() -> None:
    x = np.array([[np.inf, 1], [np.nan, 1], [1, 1]], dtype=np.float32)
    w = np.ones((3, 2), dtype=np.float32)
    got = reductions.products(x, w)
    assert np.isinf(got[0]).all()
    assert np.isnan(got[1]).all()
    assert got[2].tolist() == [2.0, 2.0, 2.0]


def test_products_refuse_what_does_not_fit() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"\[T, K\] and \[N, K\]"):
        reductions.products(x, np.ones((2, 4), np.float32))
    with pytest.raises(TypeError, match="float64"):
        reductions.products(x, np.ones((2, 3)))
    with pytest.raises(ValueError, match="0 threads"):
        reductions.products(x, x, threads=0)
    assert reductions.products(x[:0], x).shape == (0, 2)
    assert reductions.products(x, x[:0]).shape == (2, 0)


# Quantizers

GRID = np.array([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5] * 32], dtype=np.float32)


def activation_codes(x: Any, **rule: Any) -> list[int]:
    return activation_quant.quantize(np.asarray(x, dtype=np.float32), ActivationQuantizer(**rule)).codes[0].tolist()


def test_rounding_of_ties() -> None:
    assert activation_codes(GRID)[:8] == [127, 0, 2, 2, 0, -2, -2, 126]
    assert activation_codes(GRID, rounding="away")[:8] == [127, 1, 2, 3, -1, -2, -3, 127]
    assert activation_codes(GRID, rounding="up")[:8] == [127, 1, 2, 3, 0, -1, -2, 127]


def test_fused_products_round_once() -> None:
    """x * s is a tie once it is rounded, and just above one before: only the fused product sees it."""
    largest = np.float32(3.3)
    s = np.float32(127 / np.float64(largest))
    exact = np.arange(1, 126, dtype=np.float64) + 0.5
    x = (exact / np.float64(s)).astype(np.float32)
    wide = x.astype(np.float64) * np.float64(s)
    telling = (x * s).astype(np.float64) != wide
    tied = telling & ((x * s).astype(np.float64) == exact)
    assert tied.any()
    row = np.concatenate([[largest], x, np.zeros(2, np.float32)]).astype(np.float32)[None]
    one, two = (np.array(activation_codes(row, product=product))[1:126] for product in ("rounded", "exact"))
    assert (one[tied] == np.rint(exact[tied])).all()
    assert (two == np.rint(wide)).all()
    assert (one != two).any()


def test_floors_of_activation_scales() -> None:
    small = np.full((1, 256), 1e-6, dtype=np.float32)
    assert activation_codes(small)[:2] == [13, 13]
    assert activation_codes(small, floor=None)[:2] == [127, 127]
    zeros = np.zeros((1, 256), dtype=np.float32)
    ones = Ternary(np.full(64, 0xAA, np.uint8), 1, 256, np.float32(0.5))
    results = {}
    for name, profile in NUMERIC_PROFILES.items():
        rule = profile.quantizer
        if rule.groups == "none":
            continue
        results[name] = float(linear.quantized_linear(activation_quant.quantize(zeros, rule), rule, ones, 1)[0][0, 0])
    assert np.isnan(results.pop("bitnetcpp-2026"))  # s = 0, and 0 / 0
    assert set(results.values()) == {0.0}


def test_groups_have_their_own_scales() -> None:
    x = np.ones((1, 256), dtype=np.float32)
    x[0, 4:8] = 2.0  # group 1 of the interleaved four
    found = activation_quant.quantize(x, ActivationQuantizer("interleaved-4", None, "inverse", epilogue="sum"))
    np.testing.assert_allclose(found.scale[0], [127, 63.5, 127, 127], rtol=1e-6)
    assert found.codes[0, 20:24].tolist() == [64] * 4  # 1 * 63.5, rounded to even
    wide = np.concatenate([x, -3 * x], axis=1)
    blocks = activation_quant.quantize(wide, ActivationQuantizer("blocks-256", None, "signed", epilogue="blocks"))
    assert blocks.scale[0].tolist() == [-63.5, np.float32(127 / 6)]  # the largest becomes -127
    assert blocks.codes[0, 4] == -127
    assert blocks.codes[0, 260] == -127


@pytest.mark.parametrize(
    "name", [name for name, each in NUMERIC_PROFILES.items() if each.quantizer.groups in ("token", "interleaved-4")]
)
def test_every_epilogue_gives_what_the_integers_stand_for(name: str) -> None:
    """To a few units in the last place, whatever its order."""
    random = np.random.default_rng(1)
    x = random.normal(size=(5, 256)).astype(np.float32)
    trits = random.integers(-1, 2, size=(9, 256)).astype(np.int8)
    from i2s_spec.codec import reference

    payload = np.frombuffer(reference.pack(trits, 1.0), np.uint8)[:-32]
    weight = Ternary(payload, 9, 256, np.float32(0.37))
    rule = NUMERIC_PROFILES[name].quantizer
    found = activation_quant.quantize(x, rule)
    y, _ = linear.quantized_linear(found, rule, weight, 1)
    group = np.arange(256) // 4 % 4 if rule.groups == "interleaved-4" else np.zeros(256, int)
    scale = found.scale.reshape(5, -1)[:, group].astype(np.float64)
    want = (found.codes / scale) @ trits.T.astype(np.float64) * float(np.float32(0.37))
    np.testing.assert_allclose(y, want, rtol=2e-6, atol=1e-6)


def test_steps_are_what_the_runtimes_keep() -> None:
    """amax / 127 itself, which the reciprocal of the multiplier is not always."""
    x = np.random.default_rng(3).normal(size=(64, 256)).astype(np.float32)
    acc = np.random.default_rng(4).integers(-9000, 9000, (64, 5)).astype(np.int32)
    amax = np.abs(x).max(axis=1)
    rule, ws = NUMERIC_PROFILES["webgpu"].quantizer, np.float32(0.37)
    found = activation_quant.quantize(x, rule)
    together = acc.astype(np.float32) * (ws * (amax / np.float32(127)))[:, None]
    assert np.array_equal(activation_quant.epilogue_of_rule(acc, found.scale, ws, rule, found.steps), together)
    want = acc.astype(np.float32) * ws * (amax / np.float32(127))[:, None]
    assert found.steps is not None
    each = range(len(acc))
    singly = [
        activation_quant.epilogue_of_rule(acc[t : t + 1], found.scale[t : t + 1], ws, rule, found.steps[t : t + 1])
        for t in each
    ]
    assert np.array_equal(np.concatenate(singly), want)
    assert not np.array_equal(together, want)
    assert not np.array_equal(activation_quant.epilogue_of_rule(acc, found.scale, ws, rule), together)
    rule = NUMERIC_PROFILES["ik-iq2bn"].quantizer
    found = activation_quant.quantize(x, rule)
    d = np.abs(x.reshape(64, 16, 4, 4)).max(axis=(1, 3)) / np.float32(127)
    total = np.zeros((64, 5), dtype=np.float32)
    for group in range(4):
        total += acc.astype(np.float32) * d[:, group, None]
    assert np.array_equal(
        activation_quant.epilogue_of_rule(np.stack([acc] * 4), found.scale, ws, rule, found.steps), total * ws
    )
    assert found.steps is not None
    assert np.array_equal(found.scale, np.float32(1) / found.steps)


def test_the_original_rule_is_bitlinear() -> None:
    x = np.random.default_rng(2).normal(size=(7, 256)).astype(np.float32)
    ours, theirs = activation_quant.quantize(x, ActivationQuantizer()), bitlinear.quantize_activations(x)
    assert ours.steps is None
    assert [each.tobytes() for each in ours[:3]] == [each.tobytes() for each in theirs]
    general = activation_quant.quantize(x, ActivationQuantizer(zero="zero", least=-127))
    assert general.codes.tobytes() == theirs.codes.tobytes()


@examples(20)
@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_integer_sums_are_the_definition(tokens: int, rows: int, blocks: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    columns = 128 * blocks
    payload = random.integers(0, 256, rows * columns // 4, dtype=np.uint8)
    x = random.integers(-128, 128, (tokens, columns)).astype(np.int8)
    want = bitlinear.accumulate(payload, rows, columns, x)
    assert matmul.accumulate(payload, rows, columns, x, threads=2).tobytes() == want.tobytes()


# Activations


@pytest.mark.requirement("R9.6-1")
def test_the_rule_that_decides_the_activation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded().activation_rule[:2] == ("relu2", "architecture")
    assert loaded().activation_rule.doubt is not None  # the vocabulary of 256 tokens is not that of 2B-4T
    assert loaded("bitnetcpp-2026").activation_rule[:2] == ("silu", "profile")
    assert loaded("webgpu", "bitnet").activation_rule[:2] == ("relu2", "profile")
    assert loaded("bitnetcpp-2026", activation="relu2").activation_rule[:2] == ("relu2", "override")
    with pytest.raises(SettingError, match="activations are relu2, silu, gelu"):
        loaded(activation="tanh")


def test_the_key_decides_where_the_runtime_reads_it() -> None:
    from i2s_spec.model.architectures import resolve_activation
    from i2s_spec.schema.architectures import ARCHITECTURES

    metadata = {"bitnet.hidden_activation": "relu2"}
    bitnet = ARCHITECTURES["bitnet"]

    def rule(profile: str, values: dict[str, Any] = metadata) -> tuple[str, str]:
        return resolve_activation(bitnet, values, NUMERIC_PROFILES[profile], None, 32000)[:2]

    assert rule(NORMATIVE) == rule("tq2_0") == ("relu2", "key")
    assert rule("bitnetcpp-2025") == ("silu", "architecture")
    with pytest.raises(SettingError, match="activations are"):
        rule(NORMATIVE, {"bitnet.hidden_activation": "\x1b[31m"})


def test_ggml_silu_is_silu() -> None:
    x = np.linspace(-80, 80, 4001, dtype=np.float32)
    np.testing.assert_allclose(ggml_math.silu(x), transcendental.silu(x), rtol=4e-7, atol=1e-30)
    assert (ggml_math.silu(x) != transcendental.silu(x)).any()


# Names


def test_profiles_by_name() -> None:
    assert numeric_profile("bitnet-golden-1") is NUMERIC_PROFILES[NORMATIVE]
    own = NUMERIC_PROFILES[NORMATIVE].replace(cache="f16", name="mine")
    assert numeric_profile(own) is own
    assert own.name == "mine"
    assert NUMERIC_PROFILES[NORMATIVE].replace(quantizer={"floor": None}).quantizer.floor is None
    with pytest.raises(
        SettingError, match="there is no numeric profile 'fp4'; there are bitnet-golden-1, bitnetcpp-2025"
    ):
        numeric_profile("fp4")
    with pytest.raises(TypeError):
        own.replace(colour="red")


def test_every_profile_has_a_name_and_a_description() -> None:
    assert list(NUMERIC_PROFILES) == [
        "bitnet-golden-1", "bitnetcpp-2025", "bitnetcpp-2025-llamafile", "bitnetcpp-2025-avx512", "bitnetcpp-2026",
        "hf-f32", "ik-iq2bn", "ik-f32", "ik-f16", "c-article", "tq2_0", "llamacpp-2026", "llamacpp-2026-avx512",
        "llamacpp-cuda", "webgpu", "loom", "bitnet-go", "fast",
    ]  # fmt: skip
    assert all(profile.about and profile.name == name for name, profile in NUMERIC_PROFILES.items())


def test_one_vector_equals_sums_written_out() -> None:
    """The kernel for four vectors also does one, in llamafile's order: compared with sums written out."""
    from i2s_spec.model.reference import ggml_math, reductions

    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(3, 72)).astype(np.float32), rng.normal(size=(5, 72)).astype(np.float16)
    lanes = np.zeros((3, 5, 8), dtype=np.float32)
    for k in range(0, 72, 8):
        lanes = ggml_math.fma(x[:, None, k : k + 8], w[None, :, k : k + 8].astype(np.float32), lanes)
    four = lanes[..., :4] + lanes[..., 4:]
    want = (four[..., 0] + four[..., 2]) + (four[..., 1] + four[..., 3])
    assert reductions.one_vector(x, w).tobytes() == want.tobytes()
    assert (
        reductions.one_vector(x, w).tobytes() != (four[..., 0] + four[..., 1] + four[..., 2] + four[..., 3]).tobytes()
    )
    x, w = rng.normal(size=(3, 96)).astype(np.float32), rng.normal(size=(5, 96)).astype(np.float32)
    lanes = np.zeros((3, 5, 16), dtype=np.float32)
    for k in range(0, 96, 16):
        lanes = ggml_math.fma(x[:, None, k : k + 16], w[None, :, k : k + 16], lanes)
    while lanes.shape[-1] > 1:
        lanes = lanes[..., : lanes.shape[-1] // 2] + lanes[..., lanes.shape[-1] // 2 :]
    assert reductions.one_vector(x, w, vector=16).tobytes() == lanes[..., 0].tobytes()


# Statements of the specification


def test_the_chapter_lists_the_profiles_and_activations() -> None:
    from pathlib import Path

    from i2s_site import generated
    from i2s_spec.schema.architectures import ARCHITECTURES

    text = (Path(__file__).resolve().parents[2] / "spec" / "09-inference.md").read_text(encoding="utf-8")
    table = text.partition("## 9.9 ")[2].partition("## 9.10 ")[0]
    listed = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert listed == [name for name in NUMERIC_PROFILES if name not in (NORMATIVE, "fast")]
    assert "```i2s-table\nactivations (" in text.partition("## 9.6 ")[2].partition("## 9.7 ")[0]
    rows = [line.split("|")[1:3] for line in generated.table("activations").splitlines()[2:]]
    found = {name: value.strip() for names, value in rows for name in names.split("`")[1::2]}
    assert (found["bitnet-b1.58"], found["llama"], found["gemma3"]) == ("relu2", "silu", "gelu")
    assert found == {name: architecture.activation for name, architecture in ARCHITECTURES.items()}
