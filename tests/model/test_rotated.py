"""Rotated weights: the forward pass equals that of the unrotated weights, and a partial rotation is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes, written

import i2s_spec as i2s
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.golden import record
from i2s_spec.golden.store import read_header
from i2s_spec.model.load import load_model
from i2s_spec.schema.rotation import declared

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]
FLOAT: dict[str, Any] = {"layers": 2, "type": "F32"}


def logits(data: bytes, profile: str = "bitnet-golden-1") -> np.ndarray[Any, Any]:
    found = load_model(data, profile, threads=1).forward(TOKENS)
    result = found.logits if found.logits is not None else found.embedding
    assert result is not None
    return result


@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "bitnet", "llama", "qwen3", "qwen3-lm", "gemma3"])
@pytest.mark.parametrize("profile", ["bitnet-golden-1", "fast"])
def test_rotated_floats_compute_what_plain_ones_do(architecture: str, profile: str) -> None:
    plain = logits(model_bytes(architecture, **FLOAT), profile)
    rotated = logits(model_bytes(architecture, rotated=True, **FLOAT), profile)
    cache = 2e-3 if profile == "fast" else 2e-5  # fast keeps keys and values as F16, which may round either way
    assert np.abs(rotated - plain).max() <= cache * np.abs(plain).max()


def test_without_the_rotation_it_is_another_model() -> None:
    model = load_model(model_bytes("llama", rotated=True, **FLOAT), threads=1)
    plain = logits(model_bytes("llama", **FLOAT))
    names = [node.name for node in model.graph if node.op in ("rotate", "restore")]
    ignored = model.replace(graph=model.graph.without(*names)).forward(TOKENS).logits
    assert ignored is not None
    assert abs(np.corrcoef(ignored.ravel(), plain.ravel())[0, 1]) < 0.5


def test_the_graph_rotates_each_input_once() -> None:
    graph = load_model(model_bytes("llama", rotated=True, **FLOAT), threads=1).graph
    rotated = [node.name for node in graph if node.op == "rotate"]
    assert rotated == [
        *(f"{word}_rotated-{i}" for i in (0, 1) for word in ("attn_norm", "kqv_out", "ffn_norm", "ffn_gate_par")),
        "result_norm_rotated",
    ]
    assert graph["inp_embd#1"].op == "restore"
    assert graph["Qcur-0"].inputs == graph["Kcur-0"].inputs == ("attn_norm_rotated-0",)


@pytest.mark.parametrize("type", ["Q2_0", "PQ2_0", "PTQ1_0", "I2_S"])
def test_rotated_ternary_models_run(type: str) -> None:
    """Folded weights are no longer ternary, and quantizing them loses much: the model is another, and a sound one."""
    data = model_bytes("llama", layers=1, type=type, rotated=True)
    found, fast = logits(data), logits(data, "fast")
    assert np.isfinite(found).all()
    assert np.corrcoef(found.ravel(), fast.ravel())[0, 1] > 0.999


def test_records_name_the_rotation_and_ignoring_it_is_a_named_mistake(tmp_path: Path) -> None:
    data = model_bytes("llama", layers=1, type="PQ2_0", rotated=True)
    model = load_model(data, threads=1)
    record(model, TOKENS, tmp_path / "golden")
    rotation = declared(open_file(data).metadata)
    assert rotation is not None
    said = read_header(tmp_path / "golden")["rotation"]
    assert said["block"] == rotation.block == 128
    assert said["tables"] == ["token_embd.weight"]
    assert said["weights"] == list(rotation.weights)
    names = [node.name for node in model.graph if node.op in ("rotate", "restore")]
    record(model.replace(graph=model.graph.without(*names)), TOKENS, tmp_path / "theirs")
    result = i2s.golden.compare(tmp_path / "golden", tmp_path / "theirs", model=model)
    assert "rotation-ignored" in [each.name for each in result.diagnoses if each.fits == "exactly"]
    record(model, TOKENS, tmp_path / "same")
    assert i2s.golden.compare(tmp_path / "golden", tmp_path / "same", model=model).ok


def changed(**keys: Any) -> bytes:
    """A rotated model with other keys."""
    source = open_file(model_bytes("llama", layers=1, type="Q2_0", rotated=True))

    def fill(writer: Writer) -> None:
        for key in source.metadata:
            value = keys.get(key.removeprefix("prism.hadamard."), source.metadata[key])
            writer.add(key, value)
        for name, tensor in source.tensors.items():
            data = source.source.read(tensor.span.start, tensor.span.stop - tensor.span.start)
            writer.add_tensor(name, tensor.shape, tensor.type or tensor.number, data)

    return written(fill)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            {"weight_names": ["blk.0.attn_norm.weight"]},
            "weight_names lists 'blk.0.attn_norm.weight', which the graph does",
        ),
        (
            {"inverse_weight_names": ["output.weight"]},
            "inverse_weight_names lists 'output.weight', which the graph does",
        ),
        ({"block_size": 512}, "block_size is 512, which does not divide rows of 128 elements"),
        ({"sign_values": [0] * 128}, "sign_values has '0' at 0; signs must be -1 or \\+1"),
    ],
)
def test_impossible_rotations_are_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises((SettingError, FormatError), match=says):
        load_model(changed(**keys), threads=1, force=True)


def test_a_table_that_is_also_the_head_has_no_meaning() -> None:
    source = open_file(model_bytes("bitnet-b1.58", layers=1, rotated=True))

    def fill(writer: Writer) -> None:
        for key in source.metadata:
            writer.add(key, source.metadata[key])
        writer.add("prism.hadamard.inverse_weight_names", ["token_embd.weight"])
        for name, tensor in source.tensors.items():
            data = source.source.read(tensor.span.start, tensor.span.stop - tensor.span.start)
            writer.add_tensor(name, tensor.shape, tensor.type or tensor.number, data)

    with pytest.raises(SettingError, match="is rotated, and both embedding and head"):
        load_model(written(fill), threads=1)
