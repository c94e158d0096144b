"""Values computed by the reference runtimes: correct ones pass, and the known mistakes of others are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import share

from i2s_spec.golden import compare, record
from i2s_spec.model.load import load_model

LAYERS = {"b158packed": "bitnet-b1.58.packed.i2_s.direct.gguf", "bitnet": "bitnet.i2_s.gguf"}


#: The sequences of the vectors. A wrong build is wrong in all of them, so the quick run takes the first.
SOME_SEQUENCES = [0, *(pytest.param(number, marks=pytest.mark.thorough) for number in range(1, 7))]


def tokens(vectors: Path, sequence: int) -> list[int]:
    found: list[int] = json.loads((vectors / "sequences.json").read_text())[sequence]["tokens"]
    return found


@pytest.mark.parametrize("profile", ["bitnet-golden-1", "bitnetcpp-2025"])
@pytest.mark.parametrize("mode", ["op-replay", "layer-forced", "free-running"])
@pytest.mark.parametrize("sequence", share([0, 3]))
@pytest.mark.parametrize("name", LAYERS)
def test_taps_of_the_official_runtime(
    shared: Path, tmp_path: Path, name: str, sequence: int, mode: Any, profile: str
) -> None:
    vectors = shared / "vectors"
    model = load_model(vectors / "gguf" / LAYERS[name], profile, threads=1)
    record(model, tokens(vectors, sequence), tmp_path / "golden")
    theirs = vectors / "layers" / f"{name}.npz"
    result = compare(tmp_path / "golden", theirs, model=model, mode=mode, prefix=f"s{sequence}/")
    assert result.ok, result.verdict
    assert result.counted("ok", "flips") == 37
    assert not result.counted("extra", "shape", "skipped")
    if profile == "bitnetcpp-2025":
        assert result.whole is not None
        assert result.whole.relative == 0


def verdict(vectors: Path, folder: Path, name: str, sequence: int, profile: str, **settings: Any) -> list[str]:
    """What explains the logits of a sequence; nothing where they are right."""
    file = vectors / "gguf" / settings.pop("file", "bitnet.i2_s.gguf")
    model = load_model(file, profile, threads=1, **settings)
    record(model, tokens(vectors, sequence), folder / "golden")
    with np.load(vectors / name) as stored:
        np.save(folder / "logits.npy", stored[f"s{sequence}"])
    result = compare(folder / "golden", folder / "logits.npy", model=model)
    assert result.ok == (not result.diagnoses)
    return [each.name for each in result.diagnoses]


@pytest.mark.parametrize("profile", ["bitnet-golden-1", "bitnetcpp-2025"])
@pytest.mark.parametrize("sequence", share(range(7)))
def test_logits_of_builds_that_are_right(shared: Path, tmp_path: Path, sequence: int, profile: str) -> None:
    for number, name in enumerate(("logits/bitnet.npz", "logits_arm/arm-old.bitnet.npz")):
        (tmp_path / str(number)).mkdir()
        assert verdict(shared / "vectors", tmp_path / str(number), name, sequence, profile) == []


@pytest.mark.parametrize("profile", share(["bitnet-golden-1", "bitnetcpp-2025"]))
@pytest.mark.parametrize("sequence", SOME_SEQUENCES)
def test_arm_reads_another_layout(shared: Path, tmp_path: Path, sequence: int, profile: str) -> None:
    """Four to seven tokens meet another bug on the way, whose NaN hide the first one."""
    name = "logits_expected_wrong/arm-new.bitnet.x86file.npz"
    found = verdict(shared / "vectors", tmp_path, name, sequence, profile)
    assert found[:2] == (["not-finite", "nrc-4"] if sequence in (3, 5, 6) else found[:2])
    assert (found[0] == "layout-interleave-64") == (sequence not in (3, 5, 6))


@pytest.mark.parametrize("sequence", share(range(7)))
def test_arm_computes_four_tokens_wrong(shared: Path, tmp_path: Path, sequence: int) -> None:
    name, file = "logits_arm/arm-new.bitnet.npz", "bitnet.i2_s.arm64block.gguf"
    found = verdict(shared / "vectors", tmp_path, name, sequence, "bitnet-golden-1", file=file, dialect="interleave-64")
    assert found[:2] == (["not-finite", "nrc-4"] if sequence in (3, 5, 6) else [])


@pytest.mark.parametrize(
    "settings", share([{}, {"file": "bitnet.i2_s.row4-BROKEN.gguf", "dialect": "rows-1x4", "force": True}]), ids=len
)
@pytest.mark.parametrize("sequence", SOME_SEQUENCES)
def test_x86_without_act_parallel(shared: Path, tmp_path: Path, sequence: int, settings: dict[str, Any]) -> None:
    """By the file that was meant, and by the file that was written."""
    name = "logits_expected_wrong/x86-newnoact.bitnet.ownfile.npz"
    found = verdict(shared / "vectors", tmp_path, name, sequence, "bitnetcpp-2025", **settings)
    assert found[0] in (
        {"rows-1x4-as-interleave-128", "layout-rows-1x4"} if not settings else {"layout-interleave-128"}
    ), found


def test_no_quantization(shared: Path, tmp_path: Path) -> None:
    """ik_llama.cpp with the same weights as F32: activations are not quantized."""
    model = load_model(shared / "vectors" / "gguf" / "bitnet.i2_s.gguf", threads=1)
    record(model, tokens(shared / "vectors", 0), tmp_path / "golden")
    with np.load(shared / "vectors" / "logits_ik" / "bitnet.F32.npz") as stored:
        np.save(tmp_path / "logits.npy", stored["s0"])
    assert compare(tmp_path / "golden", tmp_path / "logits.npy", model=model).ok
