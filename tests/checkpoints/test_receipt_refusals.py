"""Checkpoints, configurations and receipts that are broken: a failed check or a refusal that says why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from receipts import statuses
from tiny_checkpoints import Tiny, bf16_2b4t, packed_2b4t

from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.receipt import make_receipt, verify_receipt, write_receipt
from i2s_spec.convert.new import new
from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, tensor_info

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
    ("change", "words"),
    [
        (_zero_scale, "'model.layers.0.mlp.up_proj' has the scale 0.0, which is not a positive number"),
        (_no_matrix, f"tensor '{_UP}' is missing"),
        (_whole_numbers, "tensor 'model.norm.weight' is 'I8'; F32, F16, BF16 are read here"),
        (_floats_with_scale, f"tensor '{_UP}_scale' belongs to a packed matrix, and '{_UP}' is 'BF16'"),
    ],
)
def test_a_damaged_checkpoint_fails_the_checks_with_a_reason(
    change: Callable[[Path, Tiny], None], words: str, tmp_path: Path
) -> None:
    import_checkpoint(packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf")
    change(tmp_path / "checkpoint", packed_2b4t())
    receipt = make_receipt(tmp_path / "checkpoint", tmp_path / "out.gguf")
    found = {"abcefgk": "not made", "dh": "passed", "i": "not made", "ab": "failed"}
    assert statuses(receipt) == {id: status for ids, status in found.items() for id in ids}
    assert receipt["checks"][1]["detail"] == f"the checkpoint cannot be imported: {words}"


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


def _checks(folder: Path, path: Path, only: str) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in make_receipt(folder, path, only=only)["checks"]}


@pytest.mark.parametrize(
    "value",
    [
        Value(ValueType.ARRAY, [1, 2, 3], ValueType.INT32), Value(ValueType.ARRAY, ["a"], ValueType.STRING),
        Value(ValueType.ARRAY, [], ValueType.FLOAT32), Value(ValueType.STRING, "text"), Value(ValueType.INT64, -7),
        Value(ValueType.FLOAT64, -1.5), Value(ValueType.BOOL, True),
    ],
)  # fmt: skip
def test_keys_of_any_type_are_compared(tmp_path: Path, value: Value) -> None:
    """A key that config.json or the tokenizer decides, as an array for one, fails a check and stops none."""
    folder, path = packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    with open_file(path) as file:
        keys = [
            key for key in file.metadata if key.startswith((f"{file.metadata['general.architecture']}.", "tokenizer."))
        ]
        for number, key in enumerate(keys):
            other = tmp_path / f"{number}.gguf"
            rewrite(file, other, set={key: value})
            for check in _checks(folder, other, "fgk").values():
                assert check["detail"].isprintable(), (key, check)


@pytest.mark.parametrize(
    "change",
    [
        {"checks": [{"id": [], "status": "passed"}]}, {"checks": [{"id": {}, "status": "passed"}]}, {"checks": [5]},
        {"checks": [{"id": "a"}]}, {"checkpoint": ["x"]}, {"tensors": {"t": []}}, {"choices": {"rule": []}},
        {"tensors": []}, {"file": None}, {"schema_version": [1]},
    ],
)  # fmt: skip
def test_receipts_of_another_form_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    new(tmp_path / "m.gguf", "bitnet", layers=1)
    receipt = {"schema_version": 1, "file": {}, "checkpoint": [], "choices": {}, "checks": [], "tensors": {}}
    (tmp_path / "r.json").write_text(json.dumps(receipt | change), encoding="utf-8")
    with pytest.raises(FormatError, match=r"H105 .*does not have the form of version 1"):
        verify_receipt(tmp_path / "m.gguf", tmp_path / "r.json")
    with open_file(tmp_path / "m.gguf") as file:
        rewrite(file, tmp_path / "inside.gguf", set={"i2s.receipt": json.dumps(receipt | change)})
    with pytest.raises(FormatError, match="H105"):
        verify_receipt(tmp_path / "inside.gguf")


def test_a_matrix_with_an_unused_code_is_verified(tmp_path: Path) -> None:
    folder, path = packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    write_receipt(make_receipt(folder, path), tmp_path / "r.json")
    with open_file(path) as file:
        span = file.tensors["blk.0.attn_q.weight"].span
    with path.open("r+b") as stream:
        stream.seek(span.start)
        stream.write(b"\xff" * 64)
    for against in (None, folder):
        now = verify_receipt(path, tmp_path / "r.json", against)
        assert now["changed"][0].startswith("tensor 'blk.0.attn_q.weight' differs: data")
    import_checkpoint(folder, tmp_path / "other.gguf")
    with pytest.raises(FormatError, match=r"H104 .*'blk.0.attn_q.weight' of the base model: code 3"):
        make_receipt(folder, tmp_path / "other.gguf", base=path)


@pytest.mark.parametrize("against", [False, True])
def test_shared_bytes_are_not_read_again_and_again(tmp_path: Path, against: bool) -> None:
    """If each tensor were decoded, the time would grow with the square of the file's size."""
    records = Draft().records()
    records.tensor_infos = [tensor_info(b"t%d" % i, (1024, 1023), 36, 32 * i) for i in range(500)]
    records.data = bytes(32 * 500 + 262_144)
    (tmp_path / "stair.gguf").write_bytes(Draft().built(records))
    receipt = {"schema_version": 1, "file": {}, "checkpoint": [], "choices": {}, "checks": [], "tensors": {}}
    (tmp_path / "r.json").write_text(json.dumps(receipt), encoding="utf-8")
    folder = packed_2b4t().write(tmp_path / "checkpoint") if against else None
    with pytest.raises(SettingError, match="tensors share bytes"):
        verify_receipt(tmp_path / "stair.gguf", tmp_path / "r.json", folder)


def test_a_base_of_rotation_that_is_null_is_the_default(tmp_path: Path) -> None:
    tiny = packed_2b4t()
    tiny.config |= {"rope_theta": None}
    folder = tiny.write(tmp_path / "checkpoint")
    import_checkpoint(folder, tmp_path / "out.gguf")
    found = _checks(folder, tmp_path / "out.gguf", "gk")
    assert (found["g"]["status"], found["k"]["status"]) == ("passed", "passed")
