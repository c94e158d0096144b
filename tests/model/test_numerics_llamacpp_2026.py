"""Profile `llamacpp-2026` against llama.cpp of October 2026 itself, from the package xllamacpp.

Its server rounds probabilities to float32 before it takes their logarithm, so values below e^-87 are left out.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import share
from peers.llama_cpp import correlation, likeliest, log_probabilities, log_softmax, missing

from i2s_spec.convert.new import new
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import NUMERIC_PROFILES, NumericProfile

REASON = missing("xllamacpp")
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

TOKENS = [5, 6, 7, 8, 100, 200, 31, 44]
LEAST_LOG = -87.0
#: Two units in the last place of float32 values from 64 to 128, the form in which the tool prints them.
STEP = 2**-16
#: Embedding tables of magnitude 1, so that log-probabilities and their differences are large.
SIZES: dict[str, Any] = {"embd": 256, "ff": 512, "unit_tables": True}


def both(path: Path, numerics: str | NumericProfile = "llamacpp-2026", *, flash: bool = False) -> tuple[Any, Any]:
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


@pytest.mark.parametrize(
    ("architecture", "type"),
    share(product(["llama", "bitnet", "qwen3-lm"], ["Q2_0", "TQ2_0", "TQ1_0", "F32", "F16"])),
)
def test_log_probabilities(tmp_path: Path, architecture: str, type: str) -> None:
    """Measured: 8e-6 at most, which is a step of float32 at the size of these numbers.

    Sums of TQ1_0 and TQ2_0 have another order, which flips codes of some tokens: 8e-4 in bitnet, 0.7 in qwen3-lm.
    """
    path = tmp_path / "model.gguf"
    new(path, architecture, type=type, head="untied" if architecture == "qwen3-lm" else None, **SIZES)
    ours, theirs = both(path)
    assert len(theirs) > 300
    apart = np.abs(ours - theirs)
    if type.startswith("TQ"):
        assert np.median(apart) <= STEP
        assert correlation(ours, theirs) >= 1 - 1e-4
    else:
        assert apart.max() <= STEP


@pytest.mark.parametrize("changes", [{"llamafile": False}, {"llamafile_input": "f32"}, {"drops_rows": False}], ids=str)
def test_each_choice_of_the_profile_matters(tmp_path: Path, changes: dict[str, Any]) -> None:
    """F16 matrices round what enters: a step of float32 in a sum decides how, and log-probabilities are up to 4e-2 off."""
    path = tmp_path / "model.gguf"
    new(path, "llama", type="F16", seed=1, **SIZES)
    ours, theirs = both(path, NUMERIC_PROFILES["llamacpp-2026"].replace(**changes))
    assert np.abs(ours - theirs).max() > 50 * STEP


def test_another_activation_is_told_apart(tmp_path: Path) -> None:
    """The bound detects mistakes: relu2 in the place of silu is far outside of it."""
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
