"""Checkpoints, configurations and receipts that are broken: a failed check or a refusal that says why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_checkpoints import Tiny, bf16_2b4t, packed_2b4t

from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.receipt import make_receipt, verify_receipt
from i2s_spec.errors import FormatError

_UP = "model.layers.0.mlp.up_proj.weight"


def _zero_scale(folder: Path, tiny: Tiny) -> None:
    tiny.tensors[f"{_UP}_scale"][1][0] = 0
    tiny.write(folder)


def _no_matrix(folder: Path, tiny: Tiny) -> None:
    del tiny.tensors[_UP], tiny.tensors[f"{_UP}_scale"]
    tiny.write(folder)


def _whole_numbers(folder: Path, tiny: Tiny) -> None:
    tiny.tensors["model.norm.weight"] = ("I8", np.ones(128, np.int8))
    tiny.write(folder)


def _floats_with_scale(folder: Path, tiny: Tiny) -> None:
    tiny.tensors[_UP] = bf16_2b4t().tensors[_UP]
    tiny.write(folder)


@pytest.mark.parametrize(
    ("change", "letter", "words"),
    [
        (_zero_scale, "b", "the weight_scale of 'layers.0.mlp.up_proj' is 0.0, not a positive number"),
        (_no_matrix, "a", f"the checkpoint has no tensor '{_UP}' for 'blk.0.ffn_up.weight'"),
        (_no_matrix, "b", f"'blk.0.ffn_up.weight': the checkpoint has no tensor '{_UP}'"),
        (_whole_numbers, "b", "'model.norm.weight' of the checkpoint is 'I8', not floats"),
        (_floats_with_scale, "a", f"'{_UP}_scale' of the checkpoint is in no tensor of the file"),
    ],
)
def test_a_damaged_checkpoint_fails_the_check_with_a_reason(
    change: Callable[[Path, Tiny], None], letter: str, words: str, tmp_path: Path
) -> None:
    import_checkpoint(packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf")
    change(tmp_path / "checkpoint", packed_2b4t())
    checks = make_receipt(tmp_path / "checkpoint", tmp_path / "out.gguf", only="abcdeg")["checks"]
    found = {each["id"]: each for each in checks}
    assert (found[letter]["status"], words in found[letter]["detail"]) == ("failed", True), found[letter]


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": None},
        {"rms_norm_eps": "x"},
        {"architectures": 5},
        {"quantization_config": ["bitnet"]},
        {"rope_scaling": [1]},
    ],
)
def test_a_damaged_config_is_refused_with_its_key_and_path(change: dict[str, Any], tmp_path: Path) -> None:
    tiny = packed_2b4t()
    folder = tiny.write(tmp_path / "checkpoint")
    import_checkpoint(folder, tmp_path / "out.gguf")
    (folder / "config.json").write_text(json.dumps(tiny.config | change))
    with pytest.raises(FormatError, match=next(iter(change)).replace("scaling", "parameters")) as found:
        make_receipt(folder, tmp_path / "out.gguf")
    assert found.value.file == str(folder / "config.json")


def test_invalid_receipts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"schema_version": 2}')
    with pytest.raises(FormatError, match=r"H105 .*it does not have the form of version 1"):
        verify_receipt(tmp_path / "x.gguf", tmp_path / "r.json")
    with pytest.raises(ValueError, match="unknown check 'z'"):
        make_receipt(tmp_path, tmp_path / "x.gguf", only="az")
