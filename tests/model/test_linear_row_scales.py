"""Models with I2_SR give the same numbers as with another type that holds the same weights exactly."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from builders import model_bytes

from i2s_spec.convert.convert_file import convert_file
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model.load import load_model

TOKENS = [1, 17, 3, 44, 5]


def logits(data: bytes, profile: str) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = load_model(open_file(data), numerics=profile).forward(TOKENS).logits
    return found


@pytest.mark.parametrize("profile", ["bitnet-golden-1", "fast"])
@pytest.mark.parametrize(("type", "other"), [("I2_SR", "IQ2_BN"), ("I2_S", "I2_SR")])
def test_rows_have_their_scales(type: str, other: str, profile: str) -> None:
    """With scales that differ from row to row, and with one for all."""
    data = model_bytes("llama", layers=1, type=type)
    stream = io.BytesIO()
    convert_file(open_file(data), stream, to=other)
    assert np.array_equal(logits(data, profile), logits(stream.getvalue(), profile))
