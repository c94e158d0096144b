"""From logits alone: a known mistake is named by one pass with each, and what is too far off is not called right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec.convert.trained import open_trained
from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis import diagnose
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model

TOKENS = [3, 51, 130, 7, 68, 72, 148, 82]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(open_trained(), threads=1)


@pytest.fixture(scope="module")
def golden(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logits") / "golden"
    record(model, TOKENS, folder)
    return folder


def of(model: Model, name: str) -> Any:
    """The logits of a model with a mistake."""
    mistake = next(each for each in MISTAKES if each.name == name)
    changed = mistake.apply(model)
    assert changed is not None
    return changed.forward(TOKENS).logits


def compared(golden: Path, model: Model, logits: Any, tmp_path: Path, **options: Any) -> Any:
    np.save(tmp_path / "logits.npy", logits)
    return compare(golden, tmp_path / "logits.npy", model=model, **options)


@pytest.mark.parametrize("numerics", ["bitnet-golden-1", "hf-f32"])
@pytest.mark.parametrize("name", ["scales-requantised", "activation-silu", "rope-pairs", "key-value-exchanged"])
def test_a_mistake_is_named(golden: Path, model: Model, tmp_path: Path, name: str, numerics: str) -> None:
    """Also of a runtime that rounds otherwise."""
    result = compared(golden, model, of(model.replace(numerics=numerics), name), tmp_path)
    assert not result.ok
    assert result.diagnoses[0].name == name
    assert f"{name} comes nearest: it leaves" in " ".join(result["result_output"].notes)
    assert "; the next, " in " ".join(result["result_output"].notes)


@pytest.mark.parametrize("mode", ["op-replay", "free-running"])
def test_what_nothing_explains_is_not_called_right(golden: Path, model: Model, tmp_path: Path, mode: Any) -> None:
    """Half of the tokens have another most probable one, and nothing known gives these logits."""
    right = model.forward(TOKENS).logits
    random = np.random.default_rng(3)
    wrong = right + (0.25 * np.linalg.norm(right) / np.sqrt(right.size) * random.normal(size=right.shape)).astype("f4")
    result = compared(golden, model, wrong, tmp_path, mode=mode)
    assert result.whole is not None
    assert result.whole.relative < 0.3
    assert result.whole.verdict == "fail"
    assert not result.ok
    assert "certainly" not in result.verdict
    if mode == "op-replay":
        assert f"{result.whole.same_top:.0%} of the tokens" in result.verdict
    assert "comes nearest" in result.verdict


def test_a_right_runtime_is_plausible(golden: Path, model: Model, tmp_path: Path) -> None:
    for numerics in ("hf-f32", "bitnetcpp-2025", "ik-iq2bn"):
        result = compared(golden, model, model.replace(numerics=numerics).forward(TOKENS).logits, tmp_path)
        assert result.ok, numerics
        assert "plausible" in result.verdict


def test_long_passes_are_few(golden: Path, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large model 20 mistakes are tried, those first that programs were seen to make."""
    passes: list[Model] = []
    whole = Model.forward

    def counting(self: Model, *args: Any, **options: Any) -> Any:
        passes.append(self)
        return whole(self, *args, **options)

    monkeypatch.setattr(diagnose, "MUCH", 0)
    logits = of(model, "scales-requantised")
    monkeypatch.setattr(Model, "forward", counting)
    result = compared(golden, model, logits, tmp_path)
    assert result.diagnoses[0].name == "scales-requantised"
    assert len(passes) <= diagnose.MOST_PASSES + 2
