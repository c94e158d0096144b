"""Graphs with experts (clause 9.3): against a plain reading of the formulas, against dense models, and llama.cpp."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from peers.llama_cpp import log_probabilities, log_softmax, missing

from i2s_spec.codec import blocks
from i2s_spec.errors import SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.engine import lint
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model

TOKENS = [3, 99, 250, 7, 7, 41, 11, 12]
ARCHITECTURES = ("llama", "bitnet-b1.58", "bitnet-25")


@cache
def dense(architecture: str) -> bytes:
    return model_bytes(architecture, layers=2, seed=2, embd=256, ff=256, heads=4, type="F32")


def with_experts(
    data: bytes, experts: int, used: int, kind: str = "F32", order: Any = None, scaled: bool = False, same: bool = False
) -> bytes:
    """The model with experts, whose matrices are other rows of one, in an order; `same` leaves one as it is."""
    out, drawn = io.BytesIO(), np.random.default_rng(3)
    order = list(range(experts)) if order is None else order
    with open_file(data) as file, Writer(out) as writer:
        for entry in file.metadata.rows:
            writer.add_raw(file.source.read(entry.start, entry.stop - entry.start))
        prefix = file.metadata["general.architecture"]
        writer.add(f"{prefix}.expert_count", experts, "u32")
        writer.add(f"{prefix}.expert_used_count", used, "u32")
        for tensor in file.tensors.rows:
            name = tensor.name.removesuffix(".weight")
            if not name.endswith(("ffn_up", "ffn_gate", "ffn_down")):
                writer.add_tensor(tensor.name, tensor.shape, tensor.type, tensor.read())
                continue
            one = tensor.array()
            every = np.stack([one if same else np.roll(one, 17 * place, axis=0) for place in range(experts)])[order]
            content = every.astype("<f4").tobytes()
            if kind != "F32":
                trits = np.sign(every).astype(np.int8)
                groups = blocks.blocks_of(every.shape, kind).groups
                scales = drawn.uniform(0.01, 0.04, groups).astype("f2").astype("f4")
                content = blocks.pack(trits, scales, kind)
            writer.add_tensor(f"{name}_exps.weight", every.shape, kind, content)
            if scaled:
                writer.add_tensor(
                    f"{name}_exps.scale", (experts,), "F32", np.linspace(0.5, 2, experts).astype("<f4").tobytes()
                )
        for layer in range(2):
            router = drawn.standard_normal((experts, 256)).astype("<f4")[order]
            writer.add_tensor(f"blk.{layer}.ffn_gate_inp.weight", router.shape, "F32", router.tobytes())
    return out.getvalue()


def logits(model: Model, **settings: Any) -> np.ndarray:
    found = model.forward(TOKENS, **settings).logits
    assert found is not None
    return found


def loaded(data: bytes, numerics: str = "bitnet-golden-1") -> Model:
    return load_model(data, numerics, threads=1)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_formulas(architecture: str, scaled: bool) -> None:
    """Each token and expert alone, in float64."""
    model = loaded(with_experts(dense(architecture), 5, 2, scaled=scaled))
    last = "ffn_moe_out-1"
    taps = model.forward(TOKENS, taps=("ffn_norm", "ffn_moe_topk", last)).taps
    weights = model.weights

    def wide(name: str) -> np.ndarray:
        return np.asarray(weights.file.tensors[f"blk.1.{name}"].array(), dtype=np.float64)

    b = taps["ffn_norm-1"].astype(np.float64)
    shares = np.exp(b @ wide("ffn_gate_inp.weight").T)
    shares /= shares.sum(axis=1, keepdims=True)
    for t, x in enumerate(b):
        best = np.argsort(-shares[t])[:2]
        assert taps["ffn_moe_topk-1"][t].tolist() == best.tolist()
        total = np.zeros(256)
        for e in best:
            up, gate, down = (wide(f"ffn_{name}_exps.weight")[e] for name in ("up", "gate", "down"))
            by = [float(wide(f"ffn_{name}_exps.scale")[e]) if scaled else 1.0 for name in ("up", "gate", "down")]
            u, g = up @ x * by[0], gate @ x * by[1]
            m = (g / (1 + np.exp(-g)) if architecture == "llama" else np.maximum(g, 0) ** 2) * u
            if architecture != "llama":
                m = m / np.sqrt((m * m).mean() + model.hyperparameters.eps) * wide("ffn_sub_norm.weight")
            total += shares[t][e] / shares[t][best].sum() * (down @ m) * by[2]
        assert np.abs(taps[last][t] - total).max() < 1e-5 * np.abs(total).max()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_one_expert_is_the_dense_model(architecture: str) -> None:
    assert (
        logits(loaded(with_experts(dense(architecture), 1, 1))).tobytes()
        == logits(loaded(dense(architecture))).tobytes()
    )


def test_equal_experts_are_the_dense_model() -> None:
    ours, theirs = logits(loaded(with_experts(dense("llama"), 4, 3, same=True))), logits(loaded(dense("llama")))
    assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize("kind", ["F32", "TQ2_0", "Q2_0"])
def test_the_order_of_experts_means_nothing_and_fast_is_near(kind: str) -> None:
    whole = with_experts(dense("llama"), 6, 2, kind)
    model = loaded(whole)
    found = logits(model)
    if kind == "F32":
        other = logits(loaded(with_experts(dense("llama"), 6, 2, kind, [3, 0, 5, 1, 4, 2])))
        assert other.tobytes() == found.tobytes()
    cache = model.new_cache()
    steps = [model.forward([token], cache=cache).logits for token in TOKENS]
    assert np.concatenate([step for step in steps if step is not None]).tobytes() == found.tobytes()
    assert np.abs(logits(loaded(whole, "fast")) - found).max() < 0.02 * np.abs(found).max()
    assert not [each for each in lint(whole).findings if each.severity.name == "ERROR"]


def test_what_has_no_meaning_is_refused() -> None:
    llama = dense("llama")
    for experts, used in ((2, 3), (2, 0)):
        with pytest.raises(SettingError, match=f"2 experts, and {used} of them are used"):
            load_model(with_experts(llama, experts, used), threads=1, force=True)
    qwen = model_bytes("qwen3-lm", layers=2, embd=256, ff=256, heads=4, type="F32")
    with pytest.raises(SettingError, match="no graph of qwen3-lm has any"):
        load_model(with_experts(qwen, 2, 1), threads=1, force=True)


@pytest.mark.skipif(missing("xllamacpp") is not None, reason="xllamacpp is not installed")
@pytest.mark.parametrize("kind", ["F32", "TQ2_0"])
def test_as_llama_cpp_computes_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(with_experts(dense("llama"), 4, 2, kind))
    theirs = log_probabilities("xllamacpp", path, TOKENS, flash=False)
    ours = log_softmax(logits(load_model(path, "llamacpp-2026", threads=1)))
    assert np.nanmax(np.abs(ours - theirs)) < 2e-2
