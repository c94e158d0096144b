"""Conclusions from the positions of wrong elements, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import each_of
from i2s_spec.golden.diagnosis.patterns import recognized
from i2s_spec.model.forward import Model

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]


def test_position_0_never_rotates(model_of: Callable[[str], Model], tmp_path: Path) -> None:
    model = model_of("bitnet-b1.58")
    wrong = each_of("rope", scale=0.37)(model)
    assert wrong is not None
    record(model, TOKENS, tmp_path / "golden")
    record(wrong, TOKENS, tmp_path / "theirs")
    result = compare(tmp_path / "golden", tmp_path / "theirs", model=model)
    assert "position 0 never rotates" in " ".join(each.says for each in result.diagnoses)
    assert not {"some-tokens", "nrc-4"} & {each.name for each in result.diagnoses}


@pytest.mark.parametrize(("rows", "named"), [([3], False), ([3, 5], True)])
def test_single_wrong_elements_are_not_a_split_of_rows(rows: list[int], named: bool) -> None:
    want = np.random.default_rng(1).standard_normal((8, 50)).astype(np.float32)
    got = want.copy()
    got[rows, 25] += 5
    found = recognized(got, want, np.float32(1e-3), (), 8)
    assert ("row-split" in [each.name for each in found]) == named
