"""Servers return log-probabilities: these are recognized, compared row by row up to a constant, and explained."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import one_process
import pytest
from examples import pairs
from peers.llama_cpp import missing
from peers.programs import PROGRAM

import i2s_spec as i2s
from i2s_site import checkout
from i2s_spec.golden import compare, record
from i2s_spec.golden.candidate import are_log_probabilities, shifted
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model

TOKENS = [1, 2, 3]


class Recorded(NamedTuple):
    """A model, its record, and what the same model computes with SiLU."""

    model: Model
    silu: Model
    folder: Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    file = io.BytesIO()
    i2s.new(file)
    model = load_model(file.getvalue(), threads=1)
    folder = tmp_path_factory.mktemp("log-probabilities") / "golden"
    record(model, TOKENS, folder)
    return Recorded(model, load_model(file.getvalue(), threads=1, activation="silu"), folder)


def logits(model: Model) -> Any:
    return model.forward(TOKENS).logits


def of_a_server(values: Any) -> Any:
    wide = values.astype(np.float64)
    return (wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))).astype(np.float32)


def saved(folder: Path, values: Any) -> Path:
    np.save(folder / "theirs.npy", values)
    return folder / "theirs.npy"


def test_log_probabilities_are_recognized(recorded: Recorded) -> None:
    values = logits(recorded.model)
    assert not are_log_probabilities(values)
    assert are_log_probabilities(of_a_server(values))
    assert are_log_probabilities(np.round(of_a_server(values), 4)), "servers print few digits"
    for spoilt in (np.nan, np.inf, -np.inf, 0.1):
        other = of_a_server(values)
        other[1, 2] = spoilt
        assert not are_log_probabilities(other)
    assert not are_log_probabilities(np.zeros((0, 5), np.float32))
    assert not are_log_probabilities(np.full((2, 3), -1e30, np.float32)), "no probability at all"
    assert np.allclose(shifted(of_a_server(values), values), values, atol=1e-5)


@pytest.mark.parametrize("mode", ["op-replay", "layer-forced", "free-running"])
def test_a_correct_server_is_plausible(recorded: Recorded, tmp_path: Path, mode: Any) -> None:
    theirs = saved(tmp_path, of_a_server(logits(recorded.model.replace(numerics="bitnetcpp-2025"))))
    result = compare(recorded.folder, theirs, model=recorded.model, mode=mode)
    assert result.ok, result.verdict
    assert result.whole is not None
    assert result.whole.verdict == "plausible"
    assert "log-probabilities, each row shifted" in result["result_output"].notes


@pytest.mark.parametrize("mode", ["op-replay", "free-running"])
def test_a_mistake_is_named_exactly(recorded: Recorded, tmp_path: Path, mode: Any) -> None:
    theirs = saved(tmp_path, of_a_server(logits(recorded.silu)))
    result = compare(recorded.folder, theirs, model=recorded.model, mode=mode)
    assert not result.ok
    assert [(each.name, each.fits) for each in result.diagnoses] == [("activation-silu", "exactly")]


@pytest.mark.parametrize(("mode", "server"), pairs(["op-replay", "free-running"], [False, True]))
def test_a_mistake_with_other_numerics_is_named(recorded: Recorded, tmp_path: Path, mode: Any, server: bool) -> None:
    """Logits between plausible and wrong: a mistake that explains nine tenths of the distance is named."""
    values = logits(recorded.silu.replace(numerics="bitnetcpp-2025"))
    theirs = saved(tmp_path, of_a_server(values) if server else values)
    result = compare(recorded.folder, theirs, model=recorded.model, mode=mode)
    assert not result.ok
    assert [(each.name, each.fits) for each in result.diagnoses] == [("activation-silu", "nearly")]
    assert result["result_output"].measures is not None
    assert result["result_output"].measures.relative < 0.3, "else this would be wrong without an explanation, too"


def test_beside_other_taps_the_head_is_replayed(recorded: Recorded, tmp_path: Path) -> None:
    """The constant is that of the replay, not of the record: the head of another profile is right on its own inputs."""
    other = recorded.model.replace(numerics="bitnetcpp-2025")
    found = other.forward(TOKENS, taps=["result_norm"])
    np.savez(tmp_path / "theirs.npz", result_norm=found.taps["result_norm"], result_output=of_a_server(found.logits))
    result = compare(recorded.folder, tmp_path / "theirs.npz", model=recorded.model)
    assert result["result_output"].status == "ok"
    assert result["result_output"].span == "op"


def test_the_tutorials_program_judges_llama_cpp(tmp_path: Path) -> None:
    """The steps of the tutorial as written: new, record, convert, dump by xllamacpp, compare."""
    reason = missing("xllamacpp")
    if reason is not None:
        pytest.skip(reason)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = PROGRAM["xllamacpp"].folder / "lib" / version / "site-packages"
    if not packages.is_dir():
        pytest.skip(f"xllamacpp is installed, but not for {version}")
    i2s.new(tmp_path / "tiny.gguf")
    record(tmp_path / "tiny.gguf", [1, 2, 3], tmp_path / "right")
    words = ["--to", "Q2_0", "--arch", "bitnet", "--hidden-activation", "relu2", "-q"]
    assert one_process.i2s(tmp_path, "convert", "tiny.gguf", "theirs.gguf", *words).returncode == 0
    program = checkout.chapters() / "tutorials" / "dump_logits.py"
    subprocess.run(
        [sys.executable, str(program), "theirs.gguf", "1,2,3", "logits.npy"], cwd=tmp_path, check=True,
        capture_output=True, timeout=600, env={**os.environ, "PYTHONPATH": str(packages)},
    )  # fmt: skip
    result = compare(tmp_path / "right", tmp_path / "logits.npy", model=tmp_path / "tiny.gguf")
    page = (checkout.chapters() / "tutorials" / "compare.md").read_text(encoding="utf-8")
    assert result.verdict in page.replace("\n", " ")
