"""Mistakes in one place: the keys or weights of one layer, a scale of positions that is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from builders import model_bytes
from examples import share

from i2s_spec.gguf.reader import open as open_file
from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]


def changed(model: Model, node: str, **changes: tuple[str, ...]) -> Model:
    return model.replace(graph=model.graph.replaced(node, **changes))


def dumped(model: Model, path: Path, *without: str) -> Path:
    """The values of a model as a runtime dumps them: without integers, without caches, and without the named values."""
    left = ("blk.", "k-", "v-", *without)
    kept = [name for name in model.tap_names() if not name.startswith(left)]
    np.savez(path, **model.forward(TOKENS, taps=kept).taps)
    return path


#: The change, the value where it is first visible, the name of the mistake, and words of the message.
PLACES: dict[str, tuple[Callable[[Model], Model], str, str, str]] = {
    "keys": (
        lambda model: changed(model, "kq-1", inputs=("Qcur-1#1", "k-0")), "kq-1", "keys-of-another-layer", "keys of layer 0"
    ),
    "values": (
        lambda model: changed(model, "kqv_out-1", inputs=("kq_soft_max_ext-1", "v-0")), "kqv_out-1",
        "values-of-another-layer", "values of layer 0",
    ),
    "weights of K": (
        lambda model: changed(model, "Kcur-1", weights=("blk.0.attn_k.weight",)), "Kcur-1", "weights-of-another",
        "blk.0.attn_k.weight",
    ),
    "weights of the gate": (
        lambda model: changed(model, "ffn_gate-0", weights=("blk.1.ffn_gate.weight",)), "ffn_gate-0",
        "weights-of-another", "blk.1.ffn_gate.weight",
    ),
}  # fmt: skip


@pytest.mark.parametrize("architecture", ["llama", "bitnet-b1.58"])
@pytest.mark.parametrize("wrong", PLACES)
def test_values_of_another_layer_or_tensor_are_named(tmp_path: Path, architecture: str, wrong: str) -> None:
    model = load_model(model_bytes(architecture, layers=2), threads=1)
    change, first, name, words = PLACES[wrong]
    record(model, TOKENS, tmp_path / "golden")
    result = compare(tmp_path / "golden", dumped(change(model), tmp_path / "x.npz"), model=model)
    assert result.first is not None
    assert result.first.name == first
    assert [each.name for each in result.diagnoses] == [name], result.verdict
    assert words in result.verdict


def test_keys_of_another_layer_are_named_without_scores(tmp_path: Path) -> None:
    """As in a runtime with attention as one operation: its output is the first wrong value."""
    model = load_model(model_bytes("llama", layers=2), threads=1)
    record(model, TOKENS, tmp_path / "golden")
    theirs = dumped(PLACES["keys"][0](model), tmp_path / "x.npz", "kq-", "kq_soft")
    result = compare(tmp_path / "golden", theirs, model=model)
    assert result.first is not None
    assert result.first.name == "kqv_out-1"
    assert [each.name for each in result.diagnoses if each.fits == "exactly"] == ["keys-of-another-layer"]


def test_a_right_value_is_not_compared_with_other_places(tmp_path: Path) -> None:
    model = load_model(model_bytes("llama", layers=2), threads=1)
    record(model, TOKENS, tmp_path / "golden")
    assert compare(tmp_path / "golden", dumped(model, tmp_path / "x.npz"), model=model).ok


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model whose positions are divided by 4, which its file says."""
    data = bytearray(model_bytes("bitnet", layers=2))
    entry = open_file(bytes(data)).metadata.entry("bitnet.rope.scaling.factor")
    data[entry.value_span.start : entry.value_span.stop] = np.array([4.0], "<f4").tobytes()
    return load_model(bytes(data), threads=1)


@pytest.mark.parametrize("mode", share(["op-replay", "layer-forced", "free-running"]))
def test_a_scale_of_positions_that_is_ignored(scaled: Model, tmp_path: Path, mode: str) -> None:
    mistake = next(each for each in MISTAKES if each.name == "rope-scale-ignored")
    wrong = mistake.apply(scaled)
    assert wrong is not None
    record(scaled, TOKENS, tmp_path / "golden")
    record(wrong, TOKENS, tmp_path / "theirs")
    result = compare(tmp_path / "golden", tmp_path / "theirs", model=scaled, mode=mode)  # type: ignore[arg-type]
    assert result.first is not None
    assert result.first.name == "Qcur-0#1"
    assert "rope-scale-ignored" in [each.name for each in result.diagnoses], result.verdict


def test_logits_alone_reveal_an_ignored_scale_of_positions(scaled: Model, tmp_path: Path) -> None:
    """On a small model with few tokens, where attention matters as much as the parts that do not depend on positions."""
    wrong = next(each for each in MISTAKES if each.name == "rope-scale-ignored").apply(scaled)
    assert wrong is not None
    tokens = [*TOKENS, *range(40, 64)]
    record(scaled, tokens, tmp_path / "golden")
    np.save(tmp_path / "logits.npy", wrong.forward(tokens).logits)
    result = compare(tmp_path / "golden", tmp_path / "logits.npy", model=scaled)
    assert not result.ok
    assert "rope-scale-ignored" in [each.name for each in result.diagnoses], result.verdict
