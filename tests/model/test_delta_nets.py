"""Gated delta nets (clause 9.12): their definition, their states in the cache, what is refused, and llama.cpp."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from peers.llama_cpp import log_probabilities, log_softmax, missing

from i2s_spec.codec.float_passes import fold
from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.engine import lint
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.model.reference import delta_net, transcendental
from i2s_spec.model.text.likelihood import likelihood
from i2s_spec.schema.architectures import ARCHITECTURES, hyperparameters
from i2s_spec.schema.rotation import PREFIX

TOKENS = [3, 99, 250, 7, 7, 41, 11, 12, 200, 5, 5, 31]


@cache
def plain(**sizes: Any) -> bytes:
    """Three delta nets and attention, with two value heads to a key head."""
    return model_bytes("qwen35", **{"layers": 4, "type": "F32", **sizes})


def with_keys(data: bytes, **keys: Any) -> bytes:
    """The file with other values of its own keys; None drops one."""
    out = io.BytesIO()
    names = {f"qwen35.{name.replace('__', '.')}": value for name, value in keys.items()}
    with open_file(data) as file:
        dropped = {name for name, value in names.items() if value is None}
        rewrite(file, out, set={name: each for name, each in names.items() if each is not None}, drop_keys=dropped)
    return out.getvalue()


def changed(data: bytes, change: Any, **keys: Any) -> bytes:
    """The file with other tensors: `change` takes a dict of arrays by name, whose values are written as F32."""
    out = io.BytesIO()
    with open_file(data) as file, Writer(out) as writer:
        for entry in file.metadata.rows:
            if entry.key.removeprefix("qwen35.") not in keys:
                writer.add_raw(file.source.read(entry.start, entry.stop - entry.start))
        for name, value in keys.items():
            writer.add(
                name if "." in name else f"qwen35.{name}", *(value if isinstance(value, tuple) else (value, "u32"))
            )
        tensors = {tensor.name: tensor.array() for tensor in file.tensors.rows}
        change(tensors)
        for name, array in tensors.items():
            writer.add_tensor(name, array.shape, "F32", np.ascontiguousarray(array, dtype="<f4").tobytes())
    return out.getvalue()


def loaded(data: bytes, numerics: str = "bitnet-golden-1") -> Model:
    return load_model(data, numerics, threads=1)


def logits(model: Model, tokens: list[int] = TOKENS, **settings: Any) -> np.ndarray:
    found = model.forward(tokens, **settings).logits
    assert found is not None
    return found


# --- the definition --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R9.12-1")
@examples(40)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.integers(1, 9), st.integers(0, 1 << 16))
def test_the_delta_rule(groups: int, share: int, width: int, tokens: int, seed: int) -> None:
    """Each head alone, in float64, with matrices as they are written on paper."""
    drawn = np.random.Generator(np.random.PCG64(seed))
    heads = groups * share
    q, k, v = (drawn.standard_normal((tokens, count, width)).astype(np.float32) for count in (groups, groups, heads))
    fading, beta = (drawn.uniform(0, 1, (tokens, heads)).astype(np.float32) for _ in range(2))
    first = drawn.standard_normal((heads, width, width)).astype(np.float32)
    for order in ("tiled", "grouped"):
        found, last = delta_net.delta_rule(q, k, v, fading, beta, first, order)
        for h in range(heads):
            g = h % groups if order == "tiled" else h // share
            state = first[h].astype(np.float64)
            for t in range(tokens):
                key = k[t, g].astype(np.float64)
                state = float(fading[t, h]) * (np.eye(width) - float(beta[t, h]) * np.outer(key, key)) @ state
                state += float(beta[t, h]) * np.outer(key, v[t, h])
                want = q[t, g] / np.sqrt(width) @ state
                size = max(1.0, np.abs(state).max(), np.abs(want).max())
                assert np.abs(found[t, h] - want).max() <= 1e-4 * size
            assert np.abs(last[h] - state).max() <= 1e-4 * max(1.0, np.abs(state).max())


@examples(40)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 9), st.integers(0, 9), st.integers(0, 1 << 16))
def test_the_convolution(kernel: int, channels: int, tokens: int, cut: int, seed: int) -> None:
    """Each token alone; and in two parts, to the bit."""
    drawn = np.random.Generator(np.random.PCG64(seed))
    x, weights = (drawn.standard_normal(shape).astype(np.float32) for shape in ((tokens, channels), (channels, kernel)))
    none = np.zeros((kernel - 1, channels), dtype=np.float32)
    found, after = delta_net.convolve(x, none, weights)
    for t in range(tokens):
        seen = np.concatenate([none, x])[t : t + kernel].astype(np.float64)
        assert np.allclose(found[t], (seen * weights.T).sum(axis=0), rtol=1e-6, atol=1e-6)
    cut = min(cut, tokens)
    one, between = delta_net.convolve(x[:cut], none, weights)
    other, last = delta_net.convolve(x[cut:], between, weights)
    assert np.concatenate([one, other]).tobytes() == found.tobytes()
    assert last.tobytes() == after.tobytes()
    assert last.shape == none.shape


def test_sigmoid_and_softplus() -> None:
    x = np.float32([-np.inf, -104, -20, -1.5, -1e-9, 0, 1e-9, 0.3, 19.9, 20.1, 90, np.inf, np.nan])
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        assert np.array_equal(transcendental.sigmoid(x), (1 / (1 + np.exp(-wide))).astype(np.float32), equal_nan=True)
        want = (np.maximum(wide, 0) + np.log1p(np.exp(-np.abs(wide)))).astype(np.float32)
    assert np.array_equal(transcendental.softplus(x), want, equal_nan=True)
    many = np.linspace(-30, 30, 4001, dtype=np.float32)
    assert np.array_equal(transcendental.softplus(many), np.logaddexp(0, many.astype(np.float64)).astype(np.float32))


# --- the states in the cache -----------------------------------------------------------------------------------------


@pytest.mark.requirement("R9.12-2")
@pytest.mark.parametrize("numerics", ["bitnet-golden-1", "hf-f32", "fast"])
def test_parts_and_single_tokens_give_what_one_pass_gives(numerics: str) -> None:
    model = loaded(plain(), numerics)
    whole = logits(model)
    near = 1e-5 if numerics == "fast" else 0.0  # its last bits depend on how many tokens are computed together
    for together in (1, 2, 5):
        assert np.abs(logits(model, together=together) - whole).max() <= near
    store = model.new_cache()
    steps = np.concatenate([logits(model, [token], cache=store) for token in TOKENS])
    assert np.abs(steps - whole).max() <= near
    assert store.nbytes > 0
    results = model.forward_batch([TOKENS[:5], TOKENS])
    for result, want in zip(results, (whole[:5], whole), strict=True):
        assert np.abs(result.logits - want).max() <= near


def test_what_a_cache_can_be_cut_to() -> None:
    model = loaded(plain())
    store = model.new_cache()
    whole = logits(model, cache=store)
    with pytest.raises(ValueError, match="has the states after 12 tokens, not those after 5"):
        store.cut(5)
    assert (store.reach(12), store.reach(5), store.reach(0)) == (12, 0, 0)
    store.cut(12)
    assert logits(model, [7], cache=store).tobytes() == logits(model, [*TOKENS, 7])[-1:].tobytes()
    store.cut(0)
    assert logits(model, cache=store).tobytes() == whole.tobytes()
    other = loaded(plain(heads=8)).new_cache()
    assert not other.matches(store)


def test_an_error_in_a_later_part_leaves_the_states_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(plain())
    store = model.new_cache()
    logits(model, TOKENS[:4], cache=store)
    want = logits(model, TOKENS)[4:]

    def fails(done: int, total: int) -> None:
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.forward(TOKENS[4:], cache=store, together=2, progress=fails)
    assert store.used == 4
    assert logits(model, TOKENS[4:], cache=store).tobytes() == want.tobytes()


def test_a_conversation_begins_anew_where_its_states_are_gone() -> None:
    from i2s_spec.model.text.generate import Generation

    model = loaded(plain())
    first = Generation(model, TOKENS[:6], limit=4, cache=model.new_cache())
    said = list(first)
    fresh = list(Generation(model, [*TOKENS[:5], 9], limit=4))
    again = Generation(model, [*TOKENS[:5], 9], limit=4, cache=first.cache)
    assert (list(again), again.reused) == (fresh, 0)
    onward = Generation(model, [*TOKENS[:5], 9, *fresh, 3], limit=2, cache=again.cache)
    assert list(onward) == list(Generation(model, [*TOKENS[:5], 9, *fresh, 3], limit=2))
    assert onward.reused == 9
    assert said


# --- layers, sizes and what is refused -------------------------------------------------------------------------------


def kinds(model: Model) -> str:
    return "".join("d" if model.hyperparameters.has("delta", i) else "a" for i in range(model.graph.layers))


def test_which_layers_have_delta_nets() -> None:
    assert kinds(loaded(plain())) == "ddda"
    assert kinds(loaded(plain(layers=6))) == "dddadd"
    named = with_keys(plain(), attention__recurrent_layers=Value("arr[bool]", [True, True, True, False]))
    assert logits(loaded(named)).tobytes() == logits(loaded(plain())).tobytes()
    with pytest.raises(FormatError, match="M005"):
        loaded(with_keys(plain(), attention__recurrent_layers=Value("arr[bool]", [True])))


def test_layers_for_later_tokens_are_declared_and_not_computed() -> None:
    """The same logits with such a layer, whose tensors are those of attention and `nextn`."""

    def one_more(tensors: dict[str, np.ndarray]) -> None:
        for name in [name for name in tensors if name.startswith("blk.3.")]:
            tensors[name.replace("blk.3.", "blk.4.")] = np.flip(tensors[name])
        embd = len(tensors["output_norm.weight"])
        for name, shape in (("eh_proj", (embd, 2 * embd)), ("enorm", (embd,)), ("hnorm", (embd,))):
            tensors[f"blk.4.nextn.{name}.weight"] = np.full(shape, 0.5, np.float32)

    data = changed(plain(), one_more, block_count=5, nextn_predict_layers=1)
    model = loaded(data)
    assert (model.hyperparameters.layers, model.graph.layers) == (5, 4)
    assert logits(model).tobytes() == logits(loaded(plain())).tobytes()
    assert {found.code for found in lint(data).findings} <= {"T025"}
    declared = [
        name for name, _, spec in ARCHITECTURES["qwen35"].tensors(model.hyperparameters) if spec.need == "required"
    ]
    assert set(declared) == set(model.file.tensors)


@pytest.mark.parametrize(
    ("keys", "error", "says"),
    [
        ({"ssm__inner_size": Value("u32", 200)}, FormatError, "ssm.inner_size is 200; 256"),
        ({"ssm__group_count": Value("u32", 3)}, FormatError, "a multiple of ssm.group_count, which is 3"),
        ({"full_attention_interval": Value("u32", 0)}, FormatError, "full_attention_interval is 0; at least 1"),
        ({"nextn_predict_layers": Value("u32", 4)}, FormatError, "at most 3"),
        ({"ssm__conv_kernel": None}, FormatError, "ssm.conv_kernel is missing"),
        ({"attention__causal": Value("bool", False)}, SettingError, "know the past only"),
        ({"rope__dimension_sections": Value("arr[i32]", [1, 1, 1, 1])}, SettingError, "text does not have"),
        ({"rope__dimension_sections": Value("arr[i32]", [0, 0, 0, 0])}, SettingError, "not four numbers of pairs"),
        ({"rope__dimension_sections": Value("arr[i32]", [4, 4])}, SettingError, "not four numbers of pairs"),
    ],
    ids=str,
)
def test_what_has_no_meaning_is_refused(keys: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        load_model(with_keys(plain(), **keys), threads=1, force=True)


def test_sizes_that_contradict_each_other_are_found() -> None:
    for keys in ({"ssm__inner_size": Value("u32", 200)}, {"ssm__group_count": Value("u32", 3)}):
        assert "M004" in {found.code for found in lint(with_keys(plain(type="Q2_0"), **keys)).findings}


def test_the_likelihood_of_a_model_with_layers_of_two_kinds() -> None:
    with open_file(plain(type="Q2_0")) as file:
        found = likelihood(file, threads=1)
    assert (found.why_not, bool(found.standings)) == ("", True)
    assert not [
        each for each in found.standings if each.name.startswith("layers") and each.name.endswith("and 3 exchanged")
    ]


def test_sections_that_take_every_pair_change_nothing() -> None:
    other = with_keys(plain(), rope__dimension_sections=Value("arr[i32]", [4, 3, 3, 0]))
    assert logits(loaded(other)).tobytes() == logits(loaded(plain())).tobytes()


# --- rotation --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R9.12-3")
@pytest.mark.parametrize("grouped", [False, True])
def test_rotated_weights(grouped: bool) -> None:
    """Folded into all projections; with `gdn_v_grouped` the columns of ssm_out were grouped before that."""
    with open_file(plain()) as file:
        h = hyperparameters(file.metadata)
        names = [name for name in file.tensors if ARCHITECTURES["qwen35"].match(name)[0].role == "projection"]  # type: ignore[index]
    width = 64

    def folded(tensors: dict[str, np.ndarray]) -> None:
        for name in names:
            array = tensors[name].astype(np.float32)
            if grouped and name.endswith("ssm_out.weight"):
                order = (
                    np.arange(array.shape[1]).reshape(-1, h.net.key_heads, h.net.width).transpose(1, 0, 2).reshape(-1)
                )
                array = array[:, order]
            tensors[name] = fold(array, width, None)

    keys: dict[str, Any] = {
        "version": 1, "block_size": width, "transform": ("normalized-sylvester-walsh-hadamard", "str"),
        "axis": ("input-last-dimension", "str"), "sign_mode": ("identity", "str"), "weight_names": (names, "arr[str]"),
        "gdn_v_grouped": (grouped, "bool"),
    }  # fmt: skip
    named = {PREFIX + name: value if isinstance(value, tuple) else (value, "u32") for name, value in keys.items()}
    want = logits(loaded(plain()))
    found = logits(loaded(changed(plain(), folded, **named)))
    assert np.abs(found - want).max() < 2e-5 * np.abs(want).max()
    other = {**named, f"{PREFIX}gdn_v_grouped": (not grouped, "bool")}
    assert np.abs(logits(loaded(changed(plain(), folded, **other))) - want).max() > 1e-3 * np.abs(want).max()


# --- llama.cpp -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(missing("xllamacpp") is not None, reason="xllamacpp is not installed")
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"head": "untied", "head_dim": 128},
        {"layers": 5, "heads": 8, "heads_kv": 2},
        {"type": "Q2_0"},
        {"type": "F16"},
    ],
    ids=str,
)
def test_as_llama_cpp_computes_it(sizes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(plain(**sizes))
    theirs = log_probabilities("xllamacpp", path, TOKENS, flash=False)
    ours = log_softmax(logits(load_model(path, "llamacpp-2026", threads=1)))
    assert np.nanmax(np.abs(ours - theirs)) < (2e-2 if sizes.get("type") in ("Q2_0", "F16") else 5e-4)
