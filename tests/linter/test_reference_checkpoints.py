"""`lint --reference CHECKPOINT`: a file of any type that was imported from a checkpoint agrees with it, and wrong rows of
queries and keys are found in every type."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.checkpoints.export_checkpoint import export_checkpoint
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.linter.engine import lint
from i2s_spec.safetensors.names import to_checkpoint_rows

sys.path.insert(0, str(Path(__file__).parents[1] / "checkpoints"))
from tiny_checkpoints import TINY, TYPE


def compared(path: Path, reference: Path) -> list[tuple[str, str]]:
    """The findings of a comparison: code and message."""
    found = lint(path, select=("I4",), reference=str(reference), payload="full").findings
    return [(each.code, each.message) for each in found]


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("type", ["I2_S", "Q2_0", "F16", "F32"])
def test_an_imported_file_agrees_with_its_checkpoint(name: str, type: str, tmp_path: Path) -> None:
    """Packed, ternary and float weights, rows that are permuted, gains that are stored less 1, biases."""
    if type == "I2_S" and name in TYPE:
        pytest.skip("I2_S has one scale")
    TINY[name][1]().write(tmp_path / "checkpoint")
    import_checkpoint(tmp_path / "checkpoint", tmp_path / "a.gguf", to=type)
    assert compared(tmp_path / "a.gguf", tmp_path / "checkpoint") == []


def _with_rows_of_checkpoints(path: Path) -> Path:
    """A copy whose queries and keys have the rows in the order of checkpoints."""
    made, data = path.with_name("wrong.gguf"), bytearray(path.read_bytes())
    with i2s.open(path) as file:
        for name, tensor in file.tensors.items():
            key = {"attn_q": "head_count", "attn_k": "head_count_kv"}.get(name.split(".")[-2])
            if key is not None:
                rows = np.frombuffer(tensor.read(), np.uint8).reshape(tensor.shape[0], -1)
                moved = to_checkpoint_rows(rows, int(file.metadata[f"llama.attention.{key}"])).tobytes()
                data[tensor.span.start : tensor.span.start + len(moved)] = moved
    made.write_bytes(data)
    return made


@pytest.mark.parametrize("type", ["F16", "BF16", "F32", "Q2_0"])
@pytest.mark.parametrize(
    "choices",
    [{}, {"weight_scale": "divide"}, {"form": "F16"}, {"form": "BF16", "for_absmean": True}],
    ids=["packed", "divide", "F16", "absmean"],
)
def test_wrong_rows_of_queries_and_keys_are_found(type: str, choices: dict[str, object], tmp_path: Path) -> None:
    i2s.new(tmp_path / "a.gguf", "llama")
    with i2s.open(tmp_path / "a.gguf") as file:
        export_checkpoint(file, tmp_path / "checkpoint", **choices)  # type: ignore[arg-type]
        convert_file(file, tmp_path / "b.gguf", to=type)
    assert compared(tmp_path / "b.gguf", tmp_path / "checkpoint") == []
    found = compared(_with_rows_of_checkpoints(tmp_path / "b.gguf"), tmp_path / "checkpoint")
    assert [code for code, _ in found] == ["I405"] * 4
    assert all("in the order of checkpoints" in message for _, message in found)


def test_scales_and_latent_weights_are_compared(tmp_path: Path) -> None:
    """A reciprocal scale is a difference in floats, too; floats that are no trits are compared as floats."""
    i2s.new(tmp_path / "a.gguf", "llama")
    with i2s.open(tmp_path / "a.gguf") as file:
        export_checkpoint(file, tmp_path / "c")
        convert_file(file, tmp_path / "b.gguf", to="F32")
    config = tmp_path / "c" / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace("autobitlinear", "bitlinear"), encoding="utf-8")
    found = compared(tmp_path / "b.gguf", tmp_path / "c")
    assert [code for code, _ in found] == ["I405"] * 14
    assert all("times as large" in message for _, message in found)
