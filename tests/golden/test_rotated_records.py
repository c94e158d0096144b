"""Records of rotated models: our own fast numerics are correct in every mode, and mistakes are still found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import share

from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.schema.blocks import BLOCK_LAYOUTS

MODES: tuple[Any, ...] = ("op-replay", "layer-forced", "free-running")
SEED = 1


def rotated(type: str, numerics: str = "bitnet-golden-1", **options: Any) -> Model:
    data = model_bytes("llama", layers=1, seed=SEED, type=type, rotated=True, **options)
    return load_model(data, numerics, threads=1)


def tokens(count: int) -> list[int]:
    found: list[int] = np.random.default_rng(50 + SEED).integers(0, 256, count).tolist()
    return found


@pytest.mark.parametrize("type", share(["I2_S", *BLOCK_LAYOUTS]))
def test_quick_numerics_are_right(tmp_path: Path, type: str) -> None:
    """Keys and values in F16 alone change every fourth code after a rotation."""
    golden, fast = rotated(type), rotated(type, "fast")
    record(golden, tokens(16), tmp_path / "golden")
    record(fast, tokens(16), tmp_path / "fast")
    for mode in MODES:
        result = compare(tmp_path / "golden", tmp_path / "fast", model=golden, mode=mode)
        assert result.ok, f"{mode}: {result.verdict}"


#: Two former false alarms: sums of one token that cancel almost completely, and one scale compared with a median of
#: many.
LONE = [("llama", "Q2_0", 0), ("llama", "TQ1_0", 0), ("llama", "Q2_0_G128", 0), ("qwen3-lm", "TQ2_0", 0)]


@pytest.mark.parametrize(("architecture", "type", "seed"), share(LONE))
def test_sums_and_scales_of_one_token(tmp_path: Path, architecture: str, type: str, seed: int) -> None:
    data = model_bytes(architecture, layers=2, seed=seed, type=type, rotated=True)
    golden, fast = load_model(data, threads=1), load_model(data, "fast", threads=1)
    one = np.random.default_rng(50).integers(0, 256, 1).tolist()
    record(golden, one, tmp_path / "golden")
    record(fast, one, tmp_path / "fast")
    for mine, theirs, model in (("golden", "fast", golden), ("fast", "golden", fast)):
        for mode in MODES:
            result = compare(tmp_path / mine, tmp_path / theirs, model=model, mode=mode)
            assert result.ok, f"{mine}, {mode}: {result.verdict}"


#: Mistakes whose effect exceeds all differences between correct runtimes, in every mode.
GROSS = (
    "activation-four-scales", "rope-pairs", "gate-up-exchanged", "gains-missing",
    "attention-not-causal", "rotation-ignored",
)  # fmt: skip


@pytest.fixture(scope="module")
def golden_q2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Path]:
    model, path = rotated("Q2_0"), tmp_path_factory.mktemp("golden") / "golden"
    record(model, tokens(12), path)
    return model, path


@pytest.mark.parametrize("name", share(GROSS))
def test_mistakes_are_found(golden_q2: tuple[Model, Path], tmp_path: Path, name: str) -> None:
    model, golden = golden_q2
    wrong = next(each for each in MISTAKES if each.name == name).apply(model)
    assert wrong is not None
    record(wrong, tokens(12), tmp_path / "theirs")
    for mode in MODES:
        result = compare(golden, tmp_path / "theirs", model=model, mode=mode, numerics="bitnet-golden-1")
        assert not result.ok, f"{mode}: {result.verdict}"
        if (name, mode) != ("rotation-ignored", "layer-forced"):  # the embedding table is outside of all layers
            assert name in [each.name for each in result.diagnoses if each.fits == "exactly"], (
                f"{mode}: {result.verdict}"
            )


def signs_ignored(model: Model) -> Model:
    """A runtime that rotates, and takes all signs for +1."""
    graph = model.graph
    for node in [each for each in graph if each.op == "rotate"]:
        plain = node.settings["rotation"]._replace(signs={})
        graph = graph.replaced(node.name, rotation=plain)
    return model.replace(graph=graph)


def another_block(model: Model) -> Model:
    """A runtime that rotates half as many elements together."""
    graph = model.graph
    for node in [each for each in graph if each.op == "rotate"]:
        rotation = node.settings["rotation"]
        graph = graph.replaced(node.name, rotation=rotation._replace(block=rotation.block // 2))
    return model.replace(graph=graph)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mistake", [signs_ignored, another_block], ids=lambda mistake: mistake.__name__)
def test_wrong_rotations_are_found(
    golden_q2: tuple[Model, Path], tmp_path: Path, mistake: Callable[[Model], Model], mode: Any
) -> None:
    model, golden = golden_q2
    record(mistake(model), tokens(12), tmp_path / "theirs")
    result = compare(golden, tmp_path / "theirs", model=model, mode=mode)
    assert not result.ok
    assert result.first is not None
    assert model.graph[result.first.name].op == "rotate" or result.first.name.startswith("blk.")


def test_a_fortieth_of_wrong_codes_is_detected(golden_q2: tuple[Model, Path], tmp_path: Path) -> None:
    """The limit after a rotation still detects mistakes: other codes of the same layer are outside of it."""
    model, golden = golden_q2
    taps = dict(model.forward(tokens(12), taps=("*",)).taps)
    name = "blk.0.ffn_down.act_q8"
    codes = taps[name].copy()
    codes[:, ::40] = -codes[:, ::40]
    np.savez(tmp_path / "x.npz", **{**taps, name: codes})
    result = compare(golden, tmp_path / "x.npz", model=model, mode="layer-forced")
    assert result[name].status == "wrong"
