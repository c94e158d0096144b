"""Texts as runtimes print them: right ones under any numerics are not blamed, and each mistake is found where it begins.

The dumps are our own: a forward pass under the profile of a runtime, with a mistake of the catalogue or one planted in
the printed values. `python -m tests.golden.test_texts_of_runtimes` has the figures of all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from examples import pairs, share

import i2s_spec as i2s
from i2s_spec.golden import compare, fitting, record
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.golden.result import Comparison
from i2s_spec.golden.store import TEXT, corner
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import NUMERIC_PROFILES

TOKENS = [381, 51, 257, 259, 68, 72, 348, 82, 375]
SIZES = {"layers": 2, "embd": 256, "ff": 512, "heads": 4, "heads_kv": 2, "vocab": 512}
ARCHITECTURES = ["bitnet-b1.58", "bitnet", "llama", "qwen3-lm"]
TYPES = ["I2_S", "TQ2_0", "Q2_0", "F16"]

#: Runtimes of files of I2_S.
PROFILES = [
    name for name, each in NUMERIC_PROFILES.items() if each.quantizer_of("I2_S").groups == "token" and name != "fast"
]

#: Mistakes that change nothing that is printed: no tie, and no sum that overflows.
INVISIBLE = {"activation-2026", "activation-half-up", "int16-wrap-avx2", "int16-wrap-neon"}


@cache
def home() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def base(architecture: str, type: str = "I2_S") -> tuple[Path, Model]:
    """A model with its record under the default numerics beside it."""
    return made(architecture, type)


@cache
def made(architecture: str, type: str) -> tuple[Path, Model]:
    path = Path(home().name) / f"{architecture}.{type}.gguf"
    head = {"head_dim": 64} if architecture == "qwen3-lm" else {}
    i2s.new(path, architecture, **SIZES, **head, **({} if type == "I2_S" else {"type": type}))
    model = load_model(path, threads=1)
    record(model, TOKENS, path.with_suffix(".record"))
    return path, model


def text_of(model: Model, folder: Path) -> Path:
    record(model, TOKENS, folder, text="shown", force=True)
    return folder / TEXT


def first_shown(right: Model, wrong: Model) -> str | None:
    """The first value of which a printed number is another."""
    names = [name for name in wrong.tap_names() if not name.startswith("blk.")]
    mine = right.forward(TOKENS, taps=[name for name in right.tap_names() if not name.startswith("blk.")])
    theirs = wrong.forward(TOKENS, taps=names)
    known = {**mine.taps, "result_output": mine.logits}
    for name, value in {**theirs.taps, "result_output": theirs.logits}.items():
        if name.startswith(("k-", "v-", "result_rows")) or name not in known:
            continue
        a, b = (corner(each).astype(np.float64) for each in (value, known[name]))
        if a.shape != b.shape or np.abs(np.round(a, 4) - np.round(b, 4)).max() > 1.5e-4:
            return name
    return None


def right(architecture: str, type: str, profile: str, folder: Path) -> Iterator[Comparison]:
    """The comparisons of a right text: with its numerics among those that are tried, without them, and without a model."""
    path, model = base(architecture, type)
    text = text_of(model.replace(numerics=profile), folder)
    yield compare(path.with_suffix(".record"), text, model=path)
    quantizers = {NUMERIC_PROFILES[profile].quantizer_of(type)}
    others = [each for each in fitting.searched(model) if each.name != profile]
    if type == "F16" or any(each.quantizer_of(type) in quantizers for each in others):  # else it is another quantizer
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fitting, "searched", lambda model: others)
            yield compare(path.with_suffix(".record"), text, model=path)
    yield compare(path.with_suffix(".record"), text)


@pytest.mark.parametrize(("architecture", "profile"), pairs(ARCHITECTURES, PROFILES))
def test_right_texts_are_not_blamed(tmp_path: Path, architecture: str, profile: str) -> None:
    first, *others = right(architecture, "I2_S", profile, tmp_path / "theirs")
    assert first.agreement is not None
    assert first.agreement.exact >= 4, first.verdict
    assert "agree to the last printed digit under" in first.verdict
    for result in (first, *others):
        assert result.ok, result.verdict


@pytest.mark.parametrize(
    ("type", "profile"),
    share([("TQ2_0", "llamacpp-2026"), ("TQ2_0", "ik-f32"), ("Q2_0", "llamacpp-2026"), ("Q2_0", "bitnetcpp-2025"),
           ("F16", "llamacpp-2026"), ("F16", "bitnetcpp-2025-llamafile"), ("F16", "ik-f32")]),
)  # fmt: skip
def test_right_texts_of_other_types(tmp_path: Path, type: str, profile: str) -> None:
    for result in right("bitnet-b1.58", type, profile, tmp_path / "theirs"):
        assert result.ok, result.verdict


def wrong(architecture: str, profile: str, name: str, folder: Path) -> tuple[str | None, Comparison] | None:
    """The first value that shows a mistake, and the comparison; None where the model cannot have it."""
    path, model = base(architecture)
    other = model.replace(numerics=profile)
    changed = next(each for each in MISTAKES if each.name == name).apply(other)
    if changed is None:
        return None
    return first_shown(other, changed), compare(path.with_suffix(".record"), text_of(changed, folder), model=path)


#: Where a text says of which tensor a product is: exchanged ones are two values that are right each.
EXCHANGED = {"gate-up-exchanged", "key-value-exchanged", "norms-exchanged"}


@pytest.mark.parametrize("name", share(sorted(each.name for each in MISTAKES if each.name not in INVISIBLE)))
def test_mistakes_are_found_where_they_begin(tmp_path: Path, name: str) -> None:
    found = wrong("bitnet-b1.58", "bitnetcpp-2025-llamafile", name, tmp_path / "theirs")
    if found is None:
        pytest.skip("the model cannot have it")
    place, result = found
    assert place is not None
    assert not result.ok, result.verdict
    assert result.first is not None
    if name in EXCHANGED or name == "ffn-sub-norm-first":
        return
    assert result.first.name == place, result.verdict
    assert name in [each.name for each in result.diagnoses], result.verdict


@pytest.mark.parametrize("share_of", [1 + 2.0**-9, 0.999])
def test_a_scale_that_is_off_by_little(tmp_path: Path, share_of: float) -> None:
    """The output of one projection of the second layer, off by 2e-3 or 1e-3: no whole steps."""
    path, model = base("bitnet-b1.58")
    other = model.replace(numerics="bitnetcpp-2025-llamafile")
    weights = other.weights

    def change(name: str, matrix: Any) -> Any:
        return matrix._replace(scale=np.float32(matrix.scale * share_of)) if name == "blk.1.ffn_up.weight" else matrix

    changed = other.replace(weights=type(weights)(weights.file, weights.dialect, change))
    result = compare(path.with_suffix(".record"), text_of(changed, tmp_path / "theirs"), model=path)
    assert result.first is not None
    assert result.first.name == "ffn_up-1"
    assert result.agreement is not None
    assert (result.agreement.first, result.agreement.how) == ("ffn_up-1", "not-whole")


def test_a_record_of_wrong_numerics_accuses_itself(tmp_path: Path) -> None:
    path, model = base("bitnet-b1.58")
    record(load_model(path, "llamacpp-2026", threads=1), TOKENS, tmp_path / "silu")
    theirs = text_of(model.replace(numerics="bitnetcpp-2025"), tmp_path / "theirs")
    result = compare(tmp_path / "silu", theirs, model=path)
    assert result.ok, result.verdict
    assert any("silu in the place of relu2; the candidate does not, and is right" in note for note in result.notes)


def test_angles_of_webgpu_are_remarked(tmp_path: Path) -> None:
    """Cosines and sines that are off by 2e-4, as SwiftShader's are: no mistake, with a model and without."""
    path, model = base("llama")
    taps: dict[str, Any] = {}
    rng = np.random.default_rng(5)
    known = {
        name: value for name, value in model.forward(TOKENS, taps=["*"]).taps.items() if not name.startswith("blk.")
    }
    for name in ("Qcur-0#1", "Kcur-0#1"):
        value = known[name]
        largest = np.abs(value).max(axis=(1, 2), keepdims=True)
        taps[name] = (value + rng.uniform(-1.9e-4, 1.9e-4, value.shape) * largest).astype(np.float32)
    np.savez(
        tmp_path / "theirs.npz",
        **{name: known[name] for name in ("inp_embd", "attn_norm-0", "Qcur-0", "Kcur-0")},
        **taps,
    )
    for model_or_none in (path, None):
        result = compare(path.with_suffix(".record"), tmp_path / "theirs.npz", model=model_or_none)
        assert result.ok, result.verdict
        if model_or_none is None:
            assert any("WGSL" in note for note in result["Qcur-0#1"].notes)


@pytest.mark.parametrize("with_model", [True, False])
def test_bfloat16_without_being_told(tmp_path: Path, with_model: bool) -> None:
    """Upcast values on the grid of bfloat16 are judged as such, and a scale that is wrong by a half is still found."""
    path, model = base("bitnet-b1.58")
    taps = {
        name: value for name, value in model.forward(TOKENS, taps=["*"]).taps.items() if not name.startswith("blk.")
    }
    halves = {
        name: ((value.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)
        for name, value in taps.items() if name.startswith(("inp_embd", "attn_norm", "Qcur", "Kcur", "Vcur", "ffn"))
    }  # fmt: skip
    given = path if with_model else None
    np.savez(tmp_path / "right.npz", **halves)
    result = compare(path.with_suffix(".record"), tmp_path / "right.npz", model=given)
    assert result.ok, result.verdict
    np.savez(tmp_path / "wrong.npz", **{**halves, "Vcur-0": halves["Vcur-0"] * np.float32(0.5)})
    result = compare(path.with_suffix(".record"), tmp_path / "wrong.npz", model=given)
    assert result.first is not None
    assert result.first.name == "Vcur-0"


def figures() -> None:
    """Print how many right texts are blamed, and how many mistakes are found, at their tensor, and named."""
    folder = Path(home().name) / "theirs"
    blamed = count = 0
    for architecture in ARCHITECTURES:
        for kind in TYPES:
            for profile in fitting.searched(base(architecture, kind)[1]):
                if profile.name != "fast":
                    found = list(right(architecture, kind, profile.name, folder))
                    count, blamed = count + len(found), blamed + sum(not each.ok for each in found)
    print(f"{blamed} of {count} right texts blamed")
    for architecture in ARCHITECTURES:
        for profile_name in ("bitnetcpp-2025-llamafile", "hf-f32"):
            seen = [0, 0, 0, 0]
            for mistake in MISTAKES:
                result = (
                    wrong(architecture, profile_name, mistake.name, folder) if mistake.name not in INVISIBLE else None
                )
                if result is None or result[0] is None:
                    continue
                place, found_there = result
                named = mistake.name in [each.name for each in found_there.diagnoses]
                here = found_there.first is not None and found_there.first.name == place
                seen = [a + b for a, b in zip(seen, (not found_there.ok, here, named, True), strict=True)]
            print(
                f"{architecture}, {profile_name}: found {seen[0]}, at the tensor {seen[1]}, named {seen[2]}, of {seen[3]}"
            )


if __name__ == "__main__":
    sys.exit(figures())
