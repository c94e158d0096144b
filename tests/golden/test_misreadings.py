"""Files of other types than a program knows, whose bytes it takes for its own: each is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.model.load import load_model

TOKENS = [1, 17, 3, 44, 5, 9, 30]
SIZES = {"layers": 1, "embd": 256, "ff": 512, "heads": 4, "heads_kv": 2}


@pytest.mark.parametrize("type", ["F32", "F16", "TQ2_0"])
@pytest.mark.parametrize("form", ["text", "logits"])
def test_projections_read_as_codes(tmp_path: Path, type: str, form: str) -> None:
    i2s.new(tmp_path / "model.gguf", type=type, **SIZES)
    model = load_model(tmp_path / "model.gguf", threads=1)
    wrong = next(each for each in MISTAKES if each.name == "type-read-as-codes").apply(model)
    assert wrong is not None
    with open_file(tmp_path / "model.gguf") as file:
        tensor = file.tensors["blk.0.attn_v.weight"]
        raw = (tmp_path / "model.gguf").read_bytes()[tensor.span.start : tensor.span.stop]
        rows, columns = tensor.shape
    k = np.arange(rows * columns)
    data = np.frombuffer(raw, dtype=np.uint8)
    trits = (data[k // 128 * 32 + k % 32] >> (6 - 2 * (k % 128 // 32)) & 3).reshape(rows, columns).astype(int) - 1
    scale = np.frombuffer(raw[rows * columns // 4 :][:4], dtype="<f4")[0]
    found = wrong.forward(TOKENS, taps=["attn_norm-0", "Vcur-0"])
    x = found.taps["attn_norm-0"]
    s = (127 / np.abs(x).max(axis=1).astype(np.float64)).astype(np.float32)[:, None]
    with np.errstate(all="ignore"):
        want = (np.rint(x * s) @ trits.T).astype(np.float32) / s * scale
    assert np.array_equal(found.taps["Vcur-0"], want.astype(np.float32), equal_nan=True)

    record(model, TOKENS, tmp_path / "golden")
    if not np.isfinite(found.logits).all():
        pytest.skip("what stands where the scale would be is no number")
    record(wrong, TOKENS, tmp_path / "theirs", text="shown")
    np.save(tmp_path / "logits.npy", found.logits)
    dump = tmp_path / "theirs" / "eval-callback.txt" if form == "text" else tmp_path / "logits.npy"
    result = compare(tmp_path / "golden", dump, model=tmp_path / "model.gguf")
    assert result.first is not None
    assert result.first.name == ("Qcur-0" if form == "text" else "result_output")
    names = [each.name for each in result.diagnoses]
    assert "type-read-as-codes" in names or names[0] == "zeros", result.verdict  # a scale so small is printed as 0


@pytest.mark.parametrize("type", ["F32", "BF16"])
def test_a_table_read_as_halves(tmp_path: Path, type: str) -> None:
    i2s.new(tmp_path / "model.gguf", "llama", **SIZES)
    path = with_table(tmp_path / "model.gguf", type)
    model = load_model(path, threads=1)
    table = np.frombuffer(model.weights.data("token_embd.weight").tobytes(), dtype="<f2").astype(np.float32)
    wrong = next(each for each in MISTAKES if each.name == "table-read-as-halves").apply(model)
    assert wrong is not None
    taps = {
        name: value for name, value in wrong.forward(TOKENS, taps=["*"]).taps.items() if not name.startswith("blk.")
    }
    width = taps["inp_embd"].shape[1]
    assert np.array_equal(taps["inp_embd"][1], table[17 * width : 18 * width], equal_nan=True)
    taps = {name: value for name, value in taps.items() if name == "inp_embd"}
    record(model, TOKENS, tmp_path / "golden")
    np.savez(tmp_path / "theirs.npz", **taps)
    result = compare(tmp_path / "golden", tmp_path / "theirs.npz", model=model)
    assert result.first is not None
    assert "table-read-as-halves" in [each.name for each in result.diagnoses], result.verdict


def with_table(path: Path, type: str) -> Path:
    """The model with its embedding table in another type."""
    from i2s_spec.convert.rewrite import Replacement, rewrite

    with open_file(path) as file:
        values = file.tensors["token_embd.weight"].array().astype(np.float32)
    data = values.tobytes() if type == "F32" else (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    out = path.with_name(f"{type}.gguf")
    rewrite(path, out, replace={"token_embd.weight": Replacement(type, lambda: iter([data]))})
    return out
