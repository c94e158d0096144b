"""The comparison: correct runtimes have no findings, taps in other forms are recognized, and mistakes are named."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import share

import i2s_spec as i2s
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.golden import compare, record
from i2s_spec.model.load import load_model

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]
Taps = dict[str, Any]
Find = Callable[[str], Any]


def saved(path: Path, taps: Taps) -> Path:
    np.savez(path / "theirs.npz", **taps)
    return path / "theirs.npz"


def plain(taps: Taps) -> Taps:
    """What a runtime without instruments dumps: floats, no unweighted norms."""
    return {name: value for name, value in taps.items() if not name.startswith(("blk.", "norm-"))}


@pytest.mark.requirement("R10.3-1", "R10.3-2")
@pytest.mark.parametrize(
    ("mode", "profile"),
    share(
        product(
            ["op-replay", "layer-forced", "free-running"],
            ["hf-f32", "bitnetcpp-2025", "bitnetcpp-2026", "webgpu", "fast"],
        )
    ),
)
@pytest.mark.parametrize("architecture", share(["bitnet-b1.58", "llama", "gemma3"]))
def test_correct_runtimes_are_clean(tmp_path: Path, architecture: str, profile: str, mode: Any) -> None:
    """Other numerics, the same graph: nothing is wrong, and what flips is explained."""
    file = io.BytesIO()
    i2s.new(file, architecture, layers=2, embd=256, ff=512)
    model = load_model(file.getvalue(), threads=1)
    tokens = np.random.default_rng(3).integers(0, 250, 20)
    record(model, tokens, tmp_path / "golden")
    record(model.replace(numerics=profile), tokens, tmp_path / "theirs")
    result = compare(tmp_path / "golden", tmp_path / "theirs", model=model, mode=mode)
    assert result.ok, result.verdict
    assert not result.counted("wrong", "behind", "missing", "extra", "shape", "skipped")
    for tap in result.taps:
        assert tap.flips is None or not tap.flips.unexplained or mode == "layer-forced"


@pytest.mark.requirement("R9.7-2")
def test_flips_are_explained_from_floats_alone(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    """An input on a rounding boundary: the other code is as right, and is found in the sums of plain outputs."""
    model, taps = model_of("bitnet-b1.58"), plain(taps_of("bitnet-b1.58"))
    x = np.zeros((8, 128), dtype=np.float32)
    x[:, 0] = 127.0
    x[:, 1:40] = np.arange(1, 40) + 0.5
    even = model.evaluate("Qcur-0", [x])
    from i2s_spec.model.reference.bitlinear import epilogue_of_rule
    from i2s_spec.model.weights import Ternary

    codes = even["blk.0.attn_q.act_q8"].copy()
    codes[3, 5] += 1 if codes[3, 5] < x[3, 5] else -1
    matrix = model.weights.matrix("blk.0.attn_q.weight")
    assert isinstance(matrix, Ternary)
    from i2s_spec.model.reference import matmul

    acc = matmul.accumulate(matrix.payload, matrix.rows, matrix.columns, codes)
    y = epilogue_of_rule(acc, even["blk.0.attn_q.act_scale"], matrix.scale, model.numerics.quantizer)
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, {**taps, "attn_norm-0": x, "Qcur-0": y}), model=model)
    tap = result["Qcur-0"]
    assert tap.status == "flips"
    assert tap.flips is not None
    assert (tap.flips.explained, tap.flips.unexplained) == (1, 0)
    codes[3, 100] += 1  # not at a rounding boundary
    acc = matmul.accumulate(matrix.payload, matrix.rows, matrix.columns, codes)
    y = epilogue_of_rule(acc, even["blk.0.attn_q.act_scale"], matrix.scale, model.numerics.quantizer)
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, {**taps, "attn_norm-0": x, "Qcur-0": y}), model=model)
    tap = result["Qcur-0"]
    assert tap.status == "wrong"
    assert tap.flips is not None
    assert tap.flips.unexplained
    assert tap.flips.first is not None
    assert tap.flips.first[0] == 3


@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "bitnet", "llama", "qwen3", "gemma3"])
def test_other_names(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path, architecture: str) -> None:
    from i2s_spec.golden.tap_names import other_names

    taps = plain(taps_of(architecture))
    renamed: Taps = {}
    for name, value in taps.items():
        other = next((each for each in other_names(name) if each not in taps and each not in renamed), name)
        renamed[other] = value
    assert len(set(renamed) - set(taps)) > 8
    result = compare(golden_of(architecture), saved(tmp_path, renamed), model=model_of(architecture))
    assert result.ok, result.verdict
    assert result.counted("ok") == len(taps)
    assert all(tap.other in renamed for tap in result.taps if tap.other is not None)


def test_modules_of_hugging_face(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    taps = taps_of("bitnet-b1.58")
    names = {"inp_embd": "model.embed_tokens", "attn_norm-0": "model.layers.0.input_layernorm",
             "Qcur-0": "model.layers.0.self_attn.q_proj", "ffn_down-0": "layers.0.mlp.down_proj",
             "l_out-0": "model.layers.0", "result_output": "lm_head"}  # fmt: skip
    theirs = {other: taps[name][None] for name, other in names.items()}
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, theirs), model=model_of("bitnet-b1.58"))
    assert result.ok
    assert result.counted("ok") == len(names)


def test_other_shapes(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    """ggml's order of dimensions, transposed, heads first, flat, a batch of one, padded scores."""
    taps = plain(taps_of("bitnet-b1.58"))
    kq = taps["kq-0"]
    changed = dict(taps)
    changed["Vcur-0"] = taps["Vcur-0"].T.copy()
    changed["ffn_up-0"] = taps["ffn_up-0"].reshape(taps["ffn_up-0"].shape[::-1])
    changed["Qcur-0#1"] = taps["Qcur-0#1"].transpose(1, 0, 2).copy()[None]
    changed["ffn_norm-0"] = taps["ffn_norm-0"].ravel()
    changed["kq-0"] = np.concatenate([kq, np.full((*kq.shape[:2], 24), 7.0, np.float32)], axis=2)
    p = taps["kq_soft_max_ext-0"]
    changed["kq_soft_max_ext-0"] = np.concatenate([p, np.zeros((*p.shape[:2], 24), np.float32)], axis=2).T.copy()
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, changed), model=model_of("bitnet-b1.58"))
    assert result.ok, result.verdict
    assert result.counted("ok") == len(taps)
    assert "transposed" in result["Vcur-0"].notes
    assert "dimensions in ggml's order" in result["ffn_up-0"].notes
    assert "heads first" in result["Qcur-0#1"].notes
    assert "padded columns cut" in result["kq-0"].notes


def test_dumps_of_the_last_rows_only(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    """A runtime computes the end of the last layer only for the tokens that are asked for."""
    taps = plain(taps_of("bitnet-b1.58"))
    late = [name for name in taps if name.startswith(("ffn_", "l_out", "result"))]
    for count in (1, 3):
        cut = {name: value[-count:] if name in late else value for name, value in taps.items()}
        result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, cut), model=model_of("bitnet-b1.58"))
        assert result.ok, result.verdict
        assert result.counted("ok") == len(taps)
        cut["ffn_gate-0"] = cut["ffn_gate-0"] * np.float32(3)
        result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, cut), model=model_of("bitnet-b1.58"))
        assert result.first is not None
        assert result.first.name == "ffn_gate-0"


def test_missing_extra_and_misshapen_taps(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    taps = plain(taps_of("bitnet-b1.58"))
    del taps["ffn_up-0"]
    taps["Kcur-0"] = taps["Kcur-0"][:, :-3]
    taps["something"] = np.ones(3)
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, taps), model=model_of("bitnet-b1.58"))
    assert result["ffn_up-0"].status == "missing"
    assert result["Kcur-0"].status == "shape"
    assert "is expected" in result["Kcur-0"].notes[0]
    assert result["something"].status == "extra"
    assert result["ffn_out-0"].status == "ok"
    assert "ffn_up-0" in result["ffn_out-0"].reach
    assert result.ok


def test_a_few_taps_are_enough(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    """What lies between two taps is replayed together."""
    taps = taps_of("bitnet-b1.58")
    few = {name: taps[name] for name in ("l_out-0", "result_output")}
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, few), model=model_of("bitnet-b1.58"))
    assert result.ok
    assert result["l_out-0"].span == "layer"
    few["l_out-0"] = few["l_out-0"] + np.float32(1)
    assert not compare(golden_of("bitnet-b1.58"), saved(tmp_path, few), model=model_of("bitnet-b1.58")).ok


def test_a_dump_with_nothing_in_common(golden_of: Find, tmp_path: Path) -> None:
    result = compare(golden_of("llama"), saved(tmp_path, {"a": np.ones(3)}))
    assert not result.ok
    assert "nothing could be compared" in result.verdict


def test_nan_is_never_right(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    for mode in ("op-replay", "layer-forced", "free-running"):
        taps = plain(taps_of("bitnet-b1.58"))
        taps["Vcur-0"] = taps["Vcur-0"].copy()
        taps["Vcur-0"][2, 5] = np.nan
        result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, taps), model=model_of("bitnet-b1.58"), mode=mode)  # type: ignore[arg-type]
        assert result.first is not None
        assert result.first.name == "Vcur-0"
        assert result.first.measures is not None
        assert result.first.measures.not_finite == 1
        assert result.first.measures.at == (2, 5)


def test_bfloat16_dumps(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    def rounded(value: Any) -> Any:
        bits = value.view(np.uint32).astype(np.uint64) + 0x8000
        return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32)

    taps = {name: rounded(np.ascontiguousarray(value)) for name, value in plain(taps_of("bitnet-b1.58")).items()}
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, taps), model=model_of("bitnet-b1.58"))
    assert result.ok, result.verdict
    assert any("bfloat16" in note for note in result.notes)
    taps["ffn_gate-0"] = taps["ffn_gate-0"] * np.float32(2)
    assert not compare(golden_of("bitnet-b1.58"), saved(tmp_path, taps), model=model_of("bitnet-b1.58")).ok


def test_dumps_of_half_precision(model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    taps = {name: value.astype(np.float16) for name, value in plain(taps_of("bitnet-b1.58")).items()}
    assert compare(golden_of("bitnet-b1.58"), saved(tmp_path, taps), model=model_of("bitnet-b1.58")).ok


def test_rows_that_two_threads_share() -> None:
    from i2s_spec.golden.diagnosis.patterns import recognized

    want = np.random.default_rng(0).normal(size=(5, 126)).astype(np.float32)
    got = want.copy()
    got[:, 62:64] = 0
    assert "row-split" in [each.name for each in recognized(got, want, 1e-6, (), 5)]
    got[:, 3] = 0
    assert "row-split" not in [each.name for each in recognized(got, want, 1e-6, (), 5)]


@pytest.mark.requirement("R10.4-1")
def test_without_a_model(golden_of: Find, taps_of: Find, tmp_path: Path) -> None:
    taps = plain(taps_of("bitnet-b1.58"))
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, taps), mode="op-replay")
    assert result.mode == "free-running"
    assert any("no model was given" in note for note in result.notes)
    assert result.ok
    assert result.verdict == "25 of 25 tensors agree to the last digit of float32 under bitnet-golden-1"
    taps["Qcur-0"] = taps["Qcur-0"] * np.float32(2)
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, taps))
    assert result.first is not None
    assert result.first.name == "Qcur-0"
    assert result.diagnoses[0].name == "scale-doubled"


def test_another_model_is_refused(golden_of: Find, model_of: Find, tmp_path: Path) -> None:
    file = io.BytesIO()
    i2s.new(file, "bitnet-b1.58", layers=1, heads=4, heads_kv=2, seed=1)
    golden = golden_of("bitnet-b1.58")
    with pytest.raises(SettingError, match="its weights are"):
        compare(golden, golden, model=load_model(file.getvalue(), threads=1))
    with pytest.raises(SettingError, match="the model is of llama"):
        compare(golden, golden, model=model_of("llama"))
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(FormatError):
        compare(golden, golden, model=tmp_path / "x")
    with pytest.raises(SettingError, match="no mode"):
        compare(golden, golden, mode="all")  # type: ignore[arg-type]


def test_a_model_by_its_path(golden_of: Find, tmp_path: Path) -> None:
    i2s.new(tmp_path / "m.gguf", "bitnet-b1.58", layers=1, heads=4, heads_kv=2)
    golden = golden_of("bitnet-b1.58")
    assert compare(golden, golden, model=tmp_path / "m.gguf", threads=1).ok


def test_an_override_of_the_activation_is_kept(tmp_path: Path) -> None:
    """What the record says of the activation holds for its replay."""
    i2s.new(tmp_path / "m.gguf", "bitnet-b1.58", layers=1)
    with load_model(tmp_path / "m.gguf", activation="silu", threads=1) as model:
        record(model, TOKENS, tmp_path / "golden")
    assert compare(tmp_path / "golden", tmp_path / "golden", model=tmp_path / "m.gguf").ok


def test_a_light_record(model_of: Find, taps_of: Find, tmp_path: Path) -> None:
    model = model_of("bitnet-b1.58")
    record(model, TOKENS, tmp_path / "golden", light=True)
    result = compare(tmp_path / "golden", saved(tmp_path, plain(taps_of("bitnet-b1.58"))), model=model)
    assert result.ok
    assert result["acc" if "acc" in result.header else "Qcur-0"].status == "ok"


PATTERNS: dict[str, Callable[[Any], Any]] = {
    "scale-doubled": lambda x: x * np.float32(2),
    "scale-halved": lambda x: x / np.float32(2),
    "factor": lambda x: x * np.float32(1.37),
    "negated": lambda x: -x,
    "zeros": lambda x: x * np.float32(0),
    "offset": lambda x: x + np.float32(3),
    "shifted": lambda x: np.roll(x, 1, axis=0),
    "rows-permuted": lambda x: x[::-1].copy(),
    "columns-permuted": lambda x: np.roll(x, 5, axis=1),
    "q-k-permuted": lambda x: x.reshape(8, 2, 2, -1).swapaxes(2, 3).reshape(8, -1).copy(),
    "not-finite": lambda x: np.where(np.arange(8)[:, None] == 3, np.float32("nan"), x),
    "some-tokens": lambda x: np.where(
        np.arange(8)[:, None] == 3, x + np.linspace(-3, 5, x.shape[1], dtype=np.float32), x
    ),
    "some-columns": lambda x: np.where(np.arange(x.shape[1]) > x.shape[1] - 8, np.float32(1) - x, x),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_of_wrong_elements_are_named(
    model_of: Find, golden_of: Find, taps_of: Find, tmp_path: Path, name: str
) -> None:
    taps = plain(taps_of("bitnet-b1.58"))
    taps["Kcur-0"] = PATTERNS[name](taps["Kcur-0"])
    result = compare(golden_of("bitnet-b1.58"), saved(tmp_path, taps), model=model_of("bitnet-b1.58"))
    assert result.first is not None
    assert result.first.name == "Kcur-0"
    assert name in [each.name for each in result.diagnoses]


def test_four_tokens_computed_by_a_kernel_for_one(tmp_path: Path) -> None:
    """Of seven tokens ARM's mat-mul computes the first four with a kernel for one."""
    file = io.BytesIO()
    i2s.new(file, "llama", layers=1)
    model = load_model(file.getvalue(), threads=1)
    record(model, TOKENS[:7], tmp_path / "golden")
    from i2s_spec.golden.dumps import read_dump

    dump = read_dump(tmp_path / "golden")
    taps = plain({name: dump[name].value for name in dump})
    rng = np.random.default_rng(0)
    for name in ("Qcur-0", "ffn_up-0"):
        taps[name] = taps[name].copy()
        taps[name][:4] = rng.normal(size=taps[name][:4].shape)
    result = compare(tmp_path / "golden", saved(tmp_path, taps), model=model)
    assert result.first is not None
    assert result.first.name == "Qcur-0"
    assert result.diagnoses[0].name == "nrc-4"


def test_drift_is_reported(golden_of: Find, taps_of: Find, model_of: Find, tmp_path: Path) -> None:
    result = compare(golden_of("llama"), saved(tmp_path, plain(taps_of("llama"))), model=model_of("llama"))
    assert [layer for layer, _, _ in result.drift] == [0]
    assert result.drift[0][1] == 0


def test_the_header_is_that_of_the_record(golden_of: Find) -> None:
    golden = golden_of("llama")
    result = compare(golden, golden)
    about = json.loads((golden / "golden.json").read_text())
    assert {name: about[name] for name in about if name != "taps"} == result.header


def test_a_record_of_an_unknown_dialect_is_refused(tmp_path: Path) -> None:
    """Fuzzing found a ValueError here."""
    path = tmp_path / "model.gguf"
    i2s.new(path, "llama", layers=1)
    with load_model(path) as model:
        record(model, [1, 2, 3], tmp_path / "golden")
    header = json.loads((tmp_path / "golden" / "golden.json").read_text())
    (tmp_path / "golden" / "golden.json").write_text(json.dumps(header | {"dialect": "odd"}))
    with pytest.raises(SettingError, match="odd"):
        compare(tmp_path / "golden", tmp_path / "golden", mode="op-replay", model=path)
