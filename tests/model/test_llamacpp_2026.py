"""Profile `llamacpp-2026` against llama.cpp of October 2026 itself, as the package xllamacpp carries it.

Its server rounds probabilities to float32 before it takes their logarithm: what is below e^-87 there is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec.convert.synthetic.new import new
from i2s_spec.model.load import load_model
from runs.llama_cpp import correlation, likeliest, log_probabilities, log_softmax, missing

REASON = missing("xllamacpp")
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

TOKENS = [5, 6, 7, 8, 100, 200, 31, 44]
LEAST_LOG = -87.0
SIZES: dict[str, Any] = {"embd": 256, "ff": 512}


def both(path: Path, numerics: str = "llamacpp-2026", *, flash: bool = False) -> tuple[Any, Any]:
    """Log-probabilities of ours and of theirs, where theirs are numbers; prompts grow token by token, as theirs do."""
    model = load_model(path, numerics, threads=1)
    theirs = log_probabilities("xllamacpp", path, TOKENS, flash=flash)
    logits = []
    for end in range(1, len(TOKENS) + 1):
        found = model.forward(TOKENS[:end]).logits
        assert found is not None
        logits.append(found[-1])
    ours = log_softmax(np.array(logits))
    if numerics == "llamacpp-2026" and not flash:
        assert np.array_equal(likeliest(ours), likeliest(theirs))
    known = theirs > LEAST_LOG
    return ours[known], theirs[known]


@pytest.mark.parametrize("architecture", ["llama", "bitnet", "qwen3-lm"])
@pytest.mark.parametrize(
    ("type", "most"), [("Q2_0", 2e-3), ("TQ2_0", 1e-2), ("TQ1_0", 1e-2), ("F32", 1e-2), ("F16", 6e-2)]
)
def test_log_probabilities(tmp_path: Path, architecture: str, type: str, most: float) -> None:
    """Measured: Q2_0 1.1e-4 at most, TQ 2.5e-3, F32 3.7e-3 (a flipped F16 rounding), F16 3e-2; correlation 1 - 1e-7."""
    path = tmp_path / "model.gguf"
    new(path, architecture, type=type, head="untied" if architecture == "qwen3-lm" else None, **SIZES)
    ours, theirs = both(path)
    assert np.abs(ours - theirs).max() <= most
    assert correlation(ours, theirs) >= 1 - 1e-6


def test_another_activation_is_told_apart(tmp_path: Path) -> None:
    """The bound is no formality: relu2 in the place of silu is far outside of it."""
    path = tmp_path / "model.gguf"
    new(path, "bitnet", type="Q2_0", **SIZES)
    model = load_model(path, "llamacpp-2026", threads=1, activation="relu2")
    theirs = log_probabilities("xllamacpp", path, TOKENS, flash=False)
    ours = log_softmax(model.forward(TOKENS).logits)
    known = theirs > LEAST_LOG
    assert np.corrcoef(ours[known], theirs[known])[0, 1] < 0.99


def test_with_flash_attention_it_is_near(tmp_path: Path) -> None:
    """Its own default sums values in F16: codes flip, and log-probabilities are up to 0.7 apart."""
    path = tmp_path / "model.gguf"
    new(path, "llama", type="Q2_0", **SIZES)
    ours, theirs = both(path, flash=True)
    assert correlation(ours, theirs) >= 0.9995


@pytest.mark.parametrize("numerics", ["bitnet-golden-1", "fast"])
def test_other_profiles_are_near(tmp_path: Path, numerics: str) -> None:
    path = tmp_path / "model.gguf"
    new(path, "llama", type="Q2_0", **SIZES)
    ours, theirs = both(path, numerics)
    assert correlation(ours, theirs) >= 0.999
