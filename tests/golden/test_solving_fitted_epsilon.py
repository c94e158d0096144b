"""An epsilon that is not in the list is fitted; one common factor for all rows is not taken for an epsilon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import epsilon
from i2s_spec.model.forward import Model

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]


@pytest.mark.parametrize("value", [3e-4, 2.5e-3])
def test_an_epsilon_is_fitted(model_of: Callable[[str], Model], tmp_path: Path, value: float) -> None:
    model = model_of("bitnet-b1.58")
    wrong = epsilon(value)(model)
    assert wrong is not None
    record(model, TOKENS, tmp_path / "golden")
    record(wrong, TOKENS, tmp_path / "theirs")
    result = compare(tmp_path / "golden", tmp_path / "theirs", model=model)
    first = result.diagnoses[0]
    assert (first.name, first.fits) == ("epsilon", "exactly")
    assert f"an epsilon of {value:.3g};" in first.says


def test_one_factor_for_all_rows_is_not_taken_for_an_epsilon(model_of: Callable[[str], Model], tmp_path: Path) -> None:
    model = model_of("bitnet-b1.58")
    record(model, TOKENS, tmp_path / "golden")
    taps = dict(model.forward(TOKENS, taps=["inp_embd", "attn_norm-0"]).taps)
    taps["attn_norm-0"] = taps["attn_norm-0"] * np.float32(0.9)
    np.savez(tmp_path / "x.npz", **taps)
    result = compare(tmp_path / "golden", tmp_path / "x.npz", model=model)
    assert result.first is not None
    assert "epsilon" not in [each.name for each in result.diagnoses]
