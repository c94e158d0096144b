"""A correct run with other numerics is correct in each layer, even if a layer has so few codes that their flips scatter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.golden import compare, record
from i2s_spec.golden.tolerance import most_flips
from i2s_spec.model.load import load_model


@pytest.mark.parametrize("tokens", [[1, 5, 9, 7], [3, 2]])
def test_another_build_is_right(tokens: list[int], tmp_path: Path) -> None:
    """Of 512 codes 81 differ at the first tokens, where 15 % are 76.8."""
    path = tmp_path / "model.gguf"
    i2s.new(path, "llama")
    record(load_model(path), tokens, tmp_path / "golden")
    record(load_model(path, "bitnetcpp-2025-llamafile"), tokens, tmp_path / "theirs")
    found = compare(tmp_path / "golden", tmp_path / "theirs", model=load_model(path), mode="layer-forced")
    assert found.ok, found.verdict


def test_the_limit_of_flips_tightens_with_the_number_of_codes() -> None:
    counts = np.array([16, 512, 10_240, 1 << 20])
    limits = np.array([most_flips(int(each), 0.15) for each in counts])
    assert limits.tolist() == [6, 101, 1644, 158383]
    assert (np.diff(limits / counts) < 0).all()
