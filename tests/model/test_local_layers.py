"""Local layers, whose tokens see a window of the earlier ones, and what the keys of a graph change (clauses 3.3, 9.5)."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from peers.damage import Content
from peers.features import CHANGES as CHANGES_OF_FILES
from peers.llama_cpp import log_probabilities, log_softmax, missing

from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.model.reference import attention
from i2s_spec.model.reference.embedding_table import EmbeddingTable
from i2s_spec.schema.architectures import ARCHITECTURES

LOCAL = [name for name, each in ARCHITECTURES.items() if each.local_period is not None]
WINDOW, PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"


def with_keys(data: bytes, keys: Mapping[str, Any]) -> bytes:
    """The file with other values of keys, whose names lack the architecture."""
    out = io.BytesIO()
    with open_file(data) as file:
        prefix = file.metadata["general.architecture"]
        rewrite(file, out, set={f"{prefix}.{name}": value for name, value in keys.items()})
    return out.getvalue()


@cache
def small(architecture: str) -> bytes:
    """Floats, with which no activation is rounded to another code."""
    return model_bytes(architecture, layers=4, embd=128, ff=128, heads=4, context=2048, type="F32")


def local(architecture: str, window: int, pattern: Any = None, numerics: str = "bitnet-golden-1", **more: Any) -> Model:
    keys = {WINDOW: Value("u32", window), **more}
    if pattern is not None:
        keys[PATTERN] = Value("u32", pattern) if isinstance(pattern, int) else Value("arr[bool]", pattern)
    return load_model(with_keys(small(architecture), keys), numerics, threads=2)


def result(model: Model, tokens: list[int], **settings: Any) -> np.ndarray:
    """The embedding, or the logits of the last token."""
    found = model.forward(tokens, logits="last", **settings)
    value = found.embedding if found.logits is None else found.logits[0]
    assert value is not None
    return value


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b.astype(np.float64)))


TOKENS = np.random.Generator(np.random.PCG64(3)).integers(3, 200, 700).tolist()


@pytest.mark.requirement("R9.5-2")
@examples(60)
@given(
    st.integers(1, 6), st.integers(1, 12), st.integers(0, 9), st.booleans(), st.integers(0, 9), st.integers(0, 1 << 16)
)
def test_the_definition(heads: int, tokens: int, past: int, causal: bool, window: int, seed: int) -> None:
    """Each row alone: the soft-max over the keys that it sees, and 0 for the others."""
    scores = (
        np.random.Generator(np.random.PCG64(seed)).standard_normal((heads, tokens, past + tokens)).astype(np.float32)
    )
    found = attention.soft_max(scores.copy(), np.float32(0.5), past, "f64", causal=causal, window=window)
    for t in range(tokens):
        at = past + t
        last = at if causal else past + tokens - 1
        first = max(0, at - window + 1) if window else 0
        seen = slice(first, last + 1)
        alone = attention.soft_max(scores[:, t : t + 1, seen].copy(), np.float32(0.5), last - first, "f64")
        assert found[:, t : t + 1, seen].tobytes() == alone.tobytes()
        assert not found[:, t, :first].any()
        assert not found[:, t, last + 1 :].any()


@pytest.mark.requirement("R9.5-2")
@pytest.mark.parametrize("architecture", LOCAL)
@pytest.mark.parametrize(("window", "pattern"), [(1, None), (5, 2), (64, None), (300, 3)])
def test_the_program_gives_what_the_definition_gives(architecture: str, window: int, pattern: int | None) -> None:
    """In one pass, in parts, and token by token with more keys than one thread looks at alone."""
    fast, slow = (local(architecture, window, pattern, numerics) for numerics in ("fast", "hf-f32"))
    for count in (9, 130, 690):
        want = result(slow, TOKENS[:count])
        assert distance(result(fast, TOKENS[:count]), want) < 2e-3
        assert distance(result(fast, TOKENS[:count], taps=("l_out-0",), together=100), want) < 2e-3
    cache = fast.new_cache()
    result(fast, TOKENS[:600], cache=cache)
    assert distance(result(fast, TOKENS[600:601], cache=cache), result(slow, TOKENS[:601])) < 2e-3


@pytest.mark.parametrize("architecture", LOCAL)
def test_which_layers_are_local(architecture: str) -> None:
    def windows(pattern: Any = None) -> list[int]:
        graph = local(architecture, 7, pattern).graph
        return [node.settings["window"] for node in graph if node.op == "soft_max"]

    assert windows() == [7, 7, 7, 7]
    assert windows(0) == [7, 7, 7, 7]
    assert windows(2) == [7, 0, 7, 0]
    assert windows([False, True, True, False]) == [0, 7, 7, 0]
    assert windows(1) == [0, 0, 0, 0]
    assert load_model(small(architecture)).settings.local is None or architecture == "gemma3"
    for wrong in ([True], [True] * 5):
        with pytest.raises(FormatError, match="M005"):
            local(architecture, 7, wrong)


def test_the_rotation_of_local_layers_of_gemma3_is_their_own() -> None:
    scaled = {"rope.freq_base": Value("f32", 1e6), "rope.scaling.factor": Value("f32", 8.0)}

    def bases(**more: Any) -> set[tuple[float, float]]:
        graph = local("gemma3", 7, 2, **scaled, **more).graph
        return {(node.settings["base"], node.settings["scale"]) for node in graph if node.op == "rope"}

    assert bases() == {(10000.0, 1.0), (1e6, 0.125)}
    assert bases(**{"rope.freq_base_swa": Value("f32", 500.0)}) == {(500.0, 1.0), (1e6, 0.125)}


@pytest.mark.skipif(missing("xllamacpp") is not None, reason="xllamacpp is not installed")
@pytest.mark.parametrize(("pattern", "more"), [
    (None, {}), (2, {}), (0, {}), (None, {"rope.freq_base_swa": 5e4}), (2, {"rope.scaling.factor": 8.0}),
])  # fmt: skip
def test_gemma3_is_what_llama_cpp_computes(pattern: int | None, more: dict[str, float], tmp_path: Path) -> None:
    """As a language model, which is the embedding model without its norms before projections; with a base of 10^6."""
    path = tmp_path / "model.gguf"
    path.write_bytes(model_bytes("gemma3", layers=7, context=2048, type="F16", head_dim=128))
    CHANGES_OF_FILES["language"](Content.read(path)).write(path)
    keys = {WINDOW: Value("u32", 4), "rope.freq_base": Value("f32", 1e6)}
    keys |= {name: Value("f32", value) for name, value in more.items()}
    keys |= {} if pattern is None else {PATTERN: Value("u32", pattern)}
    path.write_bytes(with_keys(path.read_bytes(), keys))
    model, tokens = load_model(path, "hf-f32", threads=2), TOKENS[:40]
    rows = model.forward(tokens, taps=("result_norm",)).taps["result_norm"].astype(np.float64)
    table = EmbeddingTable(model.weights, "token_embd.weight").take(np.arange(model.vocab_size))
    ours, theirs = log_softmax(rows @ table.T), log_probabilities("xllamacpp", path, tokens, flash=False)
    assert distance(ours - ours.mean(axis=1)[:, None], theirs - theirs.mean(axis=1)[:, None]) < 5e-3


#: Other values than those of a new file, and keys that are left out or added for them; without, they would mean nothing.
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "attention.causal": (Value("bool", False), {}),
    WINDOW: (Value("u32", 3), {}),
    PATTERN: (Value("u32", 2), {WINDOW: Value("u32", 3)}),
    "rope.freq_base_swa": (Value("f32", 77.0), {WINDOW: Value("u32", 3)}),
    "rope.freq_base": (Value("f32", 77.0), {PATTERN: Value("u32", 1)}),
    "rope.dimension_count": (Value("u32", 2), {}),
    "rope.dimension_sections": (Value("arr[i32]", [1, 1, 1, 1]), {}),
    "rope.scaling.type": (Value("str", "yarn"), {"rope.scaling.factor": Value("f32", 4.0)}),
    "rope.scaling.factor": (Value("f32", 4.0), {PATTERN: Value("u32", 1)}),
    "rope.scale_linear": (Value("f32", 4.0), {PATTERN: Value("u32", 1)}),
    "attention.layer_norm_rms_epsilon": (Value("f32", 0.5), {}),
    "hidden_activation": (Value("str", "relu2"), {}),
    "pooling_type": (Value("u32", 1), {}),
    "expert_count": (Value("u32", 4), {}),
    "expert_used_count": (Value("u32", 2), {}),
}
#: Keys that only yarn reads, which is refused.
NOT_ALONE = {"rope.scaling.original_context_length"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_key_of_the_graph_changes_the_result_or_is_refused(architecture: str) -> None:
    declared = ARCHITECTURES[architecture]
    plain, tokens = small(architecture), TOKENS[:24]
    before = result(load_model(plain, threads=2), tokens)
    for key in declared.keys.values():
        name = key.name.removeprefix(f"{declared.prefix}.")
        if "graph" not in key.readers or not key.name.startswith(f"{declared.prefix}.") or name in NOT_ALONE:
            continue
        if name not in CHANGES:
            assert "loader" in key.readers, name  # a size
            continue
        value, more = CHANGES[name]
        if name == "hidden_activation" and declared.activation == "relu2":
            value = Value("str", "silu")
        more = {each: what for each, what in more.items() if f"{declared.prefix}.{each}" in declared.keys}
        try:
            changed = with_keys(plain, {**more, name: value})
            if name == "rope.scale_linear":
                out = io.BytesIO()
                given = {f"{declared.prefix}.rope.scaling.factor", f"{declared.prefix}.rope.scaling.type"}
                with open_file(changed) as file:
                    rewrite(file, out, drop_keys=given & set(file.metadata))
                changed = out.getvalue()
            after = result(load_model(changed, threads=2), tokens)
        except (SettingError, FormatError):
            continue
        assert before.tobytes() != after.tobytes(), key.name
