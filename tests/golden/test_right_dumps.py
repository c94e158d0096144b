"""Texts of real runtimes that are right: each agrees with one numeric profile in every printed digit."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.trained import open_trained, write_trained
from i2s_spec.golden import compare, record
from i2s_spec.golden.candidate import Candidate, Record
from i2s_spec.golden.dumps import read_dump
from i2s_spec.golden.shown import pair_of
from i2s_spec.model.load import load_model
from i2s_spec.model.reference import attention

TOKENS = [3, 51, 130, 7, 68, 72, 148, 82, 175]

#: By the beginning of a dump's name, which is its program, and the type of the weights.
PROFILES = {
    "ms": "bitnetcpp-2025-avx512", "ms2": "bitnetcpp-2025-avx512", "x": "llamacpp-2026", "node": "llamacpp-2026-avx512",
    "ik": "ik-f16",
}  # fmt: skip
DUMPS = (
    "ik-trained-llama.F16", "ik-trained.F16", "ik-trained.F16.asbitnet", "ms-trained-llama", "ms-trained-llama.F16",
    "ms-trained", "ms-trained.F16", "ms-trained.F16.asbitnet", "ms2-trained", "node-trained-llama.F16",
    "node-trained-llama.Q2_0", "node-trained.F16.asbitnet", "node-trained.Q2_0.asbitnet", "x-trained-llama.F16",
    "x-trained-llama.Q2_0", "x-trained.F16.asbitnet", "x-trained.Q2_0.asbitnet",
)  # fmt: skip


@pytest.fixture(scope="module")
def dumps(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = shared / "cases" / "golden" / "dumps.tar.xz"
    if not archive.is_file():
        pytest.skip("no dumps of runtimes")
    folder = tmp_path_factory.mktemp("dumps")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / "right"


@cache
def made(folder: Path, words: str) -> Path:
    """A model: `trained` or `trained-llama`, and after points the type and whether it is renamed."""
    name, *more = words.split(".")
    plain, path = folder / f"{name}.gguf", folder / f"{words}.gguf"
    if not plain.is_file():
        write_trained(plain, architecture="llama" if name.endswith("llama") else "bitnet-b1.58")
    if more:
        renamed: dict[str, Any] = {"arch": "bitnet", "hidden_activation": "relu2"} if "asbitnet" in more else {}
        with i2s.open(plain) as file:
            convert_file(file, path, to=more[0], **renamed)
    return path if more else plain


@pytest.mark.parametrize("name", DUMPS)
def test_every_digit(dumps: Path, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    program, _, words = name.partition("-")
    folder = tmp_path_factory.getbasetemp() / "right-models"
    folder.mkdir(exist_ok=True)
    path = made(folder, words)
    model = load_model(path, PROFILES[program], threads=1)
    if not (folder / f"{words}.record").is_dir():
        record(path, TOKENS, folder / f"{words}.record")
    candidate = Candidate(read_dump(dumps / f"{name}.txt"), Record(folder / f"{words}.record"))
    found = model.forward(TOKENS, taps=[each for each in model.tap_names() if each in candidate])
    values: dict[str, Any] = {**found.taps, "result_output": found.logits}
    pairs = {each: pair_of(candidate, each, values[each]) for each in values if each in candidate}
    assert len(pairs) > 35
    assert [each for each, pair in pairs.items() if pair is not None and not pair.agrees()] == []


@pytest.mark.parametrize("name", [name for name in DUMPS if "asbitnet" not in name])
def test_compare_finds_nothing_wrong(dumps: Path, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """With the default record; the others apply SiLU where the file says ReLU squared, and are wrong."""
    folder = tmp_path_factory.getbasetemp() / "right-models"
    folder.mkdir(exist_ok=True)
    path = made(folder, name.partition("-")[2])
    record(path, TOKENS, folder / f"{name}.golden")
    result = compare(folder / f"{name}.golden", dumps / f"{name}.txt", model=path)
    assert result.ok, result.verdict


@pytest.mark.parametrize("given", [True, False])
def test_angles_of_a_platform_that_promises_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    """SwiftShader's cosine and sine are up to 1.9e-4 off, which WGSL allows: nothing is wrong with the runtime."""
    own, random = attention.cos_sin, np.random.default_rng(1)

    def rough(*settings: Any) -> Any:
        return tuple((each + random.uniform(-1.9e-4, 1.9e-4, each.shape)).astype(np.float32) for each in own(*settings))

    model = load_model(open_trained("llama"), threads=1)
    record(model, TOKENS, tmp_path / "golden")
    runtime = load_model(open_trained("llama"), "webgpu", threads=1)
    monkeypatch.setattr(attention, "cos_sin", rough)
    taps = runtime.forward(TOKENS, taps=("*",)).taps
    monkeypatch.undo()
    np.savez(tmp_path / "theirs.npz", **{name: value for name, value in taps.items() if "." not in name})
    result = compare(tmp_path / "golden", tmp_path / "theirs.npz", model=model if given else None)
    assert result.ok, result.verdict
    if given:
        assert result.profile == "webgpu"
