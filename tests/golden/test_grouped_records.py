"""Records of files with a scale for each group: a record agrees with itself, and a wrong scale is located."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import model_bytes

import i2s_spec as i2s
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.golden import record
from i2s_spec.golden.dumps import read_dump
from i2s_spec.model.load import load_model
from i2s_spec.schema.blocks import BLOCK_LAYOUTS

TOKENS = [1, 17, 3, 44, 5]


@pytest.mark.parametrize("type", BLOCK_LAYOUTS)
def test_a_record_agrees_with_itself(tmp_path: Path, type: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(model_bytes("llama", layers=1, type=type))
    record(load_model(path, threads=1), TOKENS, tmp_path / "golden")
    record(load_model(path, "fast", threads=1), TOKENS, tmp_path / "fast")
    for other in ("golden", "fast"):
        result = i2s.golden.compare(tmp_path / "golden", tmp_path / other, model=load_model(path, threads=1))
        assert result.ok, [tap.name for tap in result.taps if tap.status == "wrong"]
    integers = [each for each in read_dump(tmp_path / "golden") if each.endswith("acc_i32")]
    assert len(integers) == 7


@pytest.mark.parametrize("type", ["Q2_0", "PTQ1_0", "IQ2_BN"])
def test_a_wrong_scale_of_one_group_is_located(tmp_path: Path, type: str) -> None:
    """A reader that doubles the scale of the first group of ffn_up: that projection is the first wrong tap."""
    path, wrong = tmp_path / "model.gguf", tmp_path / "wrong.gguf"
    data = bytearray(model_bytes("llama", layers=1, type=type))
    path.write_bytes(data)
    tensor = open_file(path).tensors["blk.0.ffn_up.weight"]
    layout = BLOCK_LAYOUTS[type]
    at = tensor.span.start + layout.scale.offset
    kind = "<f2" if layout.scale.type == "F16" else "<f4"
    (scale,) = np.frombuffer(data, dtype=kind, count=1, offset=at)
    data[at : at + layout.scale.nbytes] = np.array([2 * scale], dtype=kind).tobytes()
    wrong.write_bytes(data)
    record(load_model(path, threads=1), TOKENS, tmp_path / "golden")
    record(load_model(wrong, threads=1), TOKENS, tmp_path / "theirs")
    result = i2s.golden.compare(tmp_path / "golden", tmp_path / "theirs", model=load_model(path, threads=1))
    assert not result.ok
    assert result.first is not None
    assert result.first.name == "ffn_up-0"
