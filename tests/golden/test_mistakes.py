"""Injected bugs: for every known mistake and every architecture, the comparison names the tap and the mistake.

Some mistakes are the same function on a model, and then either name is right. Reading a file as rows-1x4 and packing it
as rows-1x4 exchange the same weights if a row is one block. If a model has only one sub-norm that matters, leaving out
one or both cannot be distinguished.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import share

from i2s_spec.convert.new import new
from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import MISTAKES, ModelMistake, mistakes
from i2s_spec.golden.result import group_words
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.schema.architectures import ARCHITECTURES

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]

#: Mistakes of windows, which these prompts are too short to show.
WINDOWS = {"window-ignored", "window-everywhere", "window-one-more", "window-one-less"}

#: Mistakes within the tolerance: all code changes are at rounding boundaries, and no 16-bit lane overflows at these
#: widths.
TOLERATED = {"activation-2026", "activation-half-up", "int16-wrap-avx2", "int16-wrap-neon"}

#: Mistakes that have the same effect on these models.
SAME = {
    "rows-1x4-as-interleave-128": {"layout-rows-1x4"},
    "layout-rows-1x4": {"rows-1x4-as-interleave-128"},
    "sub-norms-missing": {"attn-sub-norm-missing", "ffn-sub-norm-missing"},
}

#: Mistakes without an effect on these small models.
NOWHERE = {
    "layout-interleave-128", "rope-factors-ignored", "rope-scale-ignored", "activation-blocks", "pooling-last",
    "rotation-ignored", "table-read-as-halves", "window-everywhere",
}  # fmt: skip


def loaded(architecture: str, **sizes: int) -> Model:
    """A model of some sizes."""
    return load_model(model_bytes(architecture, **{"layers": 1, **sizes}), threads=1)


@pytest.mark.parametrize("mistake", MISTAKES[::6], ids=lambda mistake: mistake.name)
def test_a_mistake_is_named(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path, mistake: ModelMistake
) -> None:
    """For one of the architectures on which it has an effect; they are chosen in turn."""
    turn = MISTAKES.index(mistake) % len(ARCHITECTURES)
    for name in (*ARCHITECTURES, *ARCHITECTURES)[turn : turn + len(ARCHITECTURES)]:
        if wrong := mistake.apply(model_of(name)):
            the_mistake_is_named(mistake, model_of(name), wrong, golden_of(name), tmp_path / "theirs")
            return
    assert mistake.name in NOWHERE


@pytest.mark.thorough
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_mistake_is_named_for_every_architecture(
    model_of: Callable[[str], Model],
    golden_of: Callable[[str], Path],
    tmp_path: Path,
    architecture: str,
    mistake: ModelMistake,
) -> None:
    model = model_of(architecture)
    if wrong := mistake.apply(model):
        the_mistake_is_named(mistake, model, wrong, golden_of(architecture), tmp_path / "theirs")


def the_mistake_is_named(
    mistake: ModelMistake,
    model: Model,
    wrong: Model,
    golden: Path,
    theirs: Path,
    hidden: set[str] = TOLERATED | WINDOWS,
) -> None:
    record(wrong, TOKENS, theirs)
    result = compare(golden, theirs, model=model)
    if mistake.name in hidden:
        assert result.ok
        return
    assert result.first is not None
    found = [each.name for each in result.diagnoses if each.fits == "exactly"]
    assert found
    assert set(found) <= {mistake.name, *SAME.get(mistake.name, ())}, result.verdict
    ops = {model.graph[name].op for name in result.first.reach if name in model.graph.by_name}
    assert ops & mistake.ops or result.first.name.startswith("blk.")


def test_every_mistake_applies_somewhere(model_of: Callable[[str], Model]) -> None:
    found = {mistake.name for name in ARCHITECTURES for mistake, _ in mistakes(model_of(name))}
    assert {mistake.name for mistake in MISTAKES} - found == NOWHERE


@pytest.mark.parametrize("word", ["attn_sub_norm", "ffn_sub_norm"])
def test_a_runtime_without_a_norm_gives_its_input_the_norms_name(
    model_of: Callable[[str], Model], tmp_path: Path, word: str
) -> None:
    model = model_of("bitnet-b1.58")
    wrong = next(each for each in MISTAKES if each.name == f"{word.replace('_', '-')}-missing").apply(model)
    assert wrong is not None
    record(model, TOKENS, tmp_path / "golden")
    names = [name for name in wrong.tap_names() if not name.startswith(("blk.", "norm"))]
    kept = [name for name in names if wrong.graph[name].op not in ("store_kv", "select_rows")]
    taps = wrong.forward(TOKENS, taps=kept).taps
    raw = {"attn_sub_norm": "kqv_out-0", "ffn_sub_norm": "ffn_out-0"}[word]
    np.savez(tmp_path / "x.npz", **{**taps, f"{word}-0": taps[raw]})
    result = compare(tmp_path / "golden", tmp_path / "x.npz", model=model)
    assert result.first is not None
    assert result.first.name == f"{word}-0"
    assert f"{word.replace('_', '-')}-missing" in [each.name for each in result.diagnoses if each.fits == "exactly"]


@pytest.mark.thorough
def test_blocks_of_256(tmp_path: Path) -> None:
    """Q8_K needs widths of 256."""
    model = loaded("bitnet-b1.58", embd=256, ff=512)
    wrong = next(each for each in MISTAKES if each.name == "activation-blocks").apply(model)
    assert wrong is not None
    record(model, TOKENS, tmp_path / "golden")
    record(wrong, TOKENS, tmp_path / "theirs")
    result = compare(tmp_path / "golden", tmp_path / "theirs", model=model)
    assert [each.name for each in result.diagnoses if each.fits == "exactly"] == ["activation-blocks"]


@pytest.mark.parametrize("mode", share(["layer-forced", "free-running"]))
def test_a_layer_of_flipped_codes_is_explained_by_its_operations(tmp_path: Path, mode: Any) -> None:
    """A mistake that changes little flips codes that no other run flips: half of what is off is left with it in place.

    With free inputs, Qcur-0 is the first: what goes into it agrees, and it is off by more than flipped codes explain.
    With the layer's input given, only what is far off counts, and the operations say where it begins.
    """
    path = tmp_path / "model.gguf"
    new(path, "llama", type="TQ2_0", embd=512, ff=1024, layers=1)
    tokens = [5, 6, 7, 8, 100, 200, 31, 44]
    model, theirs = load_model(path, threads=1), load_model(path, "llamacpp-2026", threads=1)
    record(model, tokens, tmp_path / "golden")
    names = [name for name in theirs.tap_names() if not name.startswith("blk.")]
    np.savez(tmp_path / "x.npz", **theirs.forward(tokens, taps=names).taps)
    mine = "bitnet-golden-1"  # of which the other is a mistake
    result = compare(tmp_path / "golden", tmp_path / "x.npz", model=model, mode=mode, numerics=mine)
    assert result.first is not None
    assert result.first.name == ("Qcur-0" if mode == "free-running" else "ffn_out-0")
    assert result.diagnoses[0].name == "activation-blocks", result.verdict
    assert result.diagnoses[0].fits == "exactly"
    if mode == "layer-forced":
        assert "operation by operation Qcur-0 is the first that is wrong" in result.first.notes


def test_files_of_another_layout(tmp_path: Path) -> None:
    """A file that is interleave-64, read as the format is."""
    from i2s_spec.model.weights import ModelWeights
    from i2s_spec.schema.dialect import parse

    model = loaded("bitnet-b1.58", embd=256, ff=512)
    other = model.replace(weights=ModelWeights(model.file, parse("interleave-64")))
    record(other, TOKENS, tmp_path / "golden")
    record(model, TOKENS, tmp_path / "theirs")
    result = compare(tmp_path / "golden", tmp_path / "theirs", model=other)
    assert "layout-interleave-128" in [each.name for each in result.diagnoses if each.fits == "exactly"]


def test_names_are_unique() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize("kernel", share(["avx2", "neon"]))
def test_sums_of_16_bits_wrap(tmp_path: Path, kernel: str) -> None:
    """An input that is all the same: the sums of 4,096 columns do not fit into lanes of 16 bits."""

    model = loaded("llama", layers=1, embd=4096, ff=128, heads=32, heads_kv=1, vocab=512)
    tokens = [1, 2]
    x = np.full((2, 4096), 0.75, dtype=np.float32)
    wrong = next(each for each in MISTAKES if each.name == f"int16-wrap-{kernel}").apply(model)
    assert wrong is not None
    value = wrong.evaluate("Kcur-0", [x])["Kcur-0"]
    assert not np.array_equal(value, model.evaluate("Kcur-0", [x])["Kcur-0"])
    record(model, tokens, tmp_path / "golden", light=True)
    np.savez(tmp_path / "theirs.npz", **{"attn_norm-0": x, "Kcur-0": value})
    result = compare(tmp_path / "golden", tmp_path / "theirs.npz", model=model)
    named = result["Kcur-0"].diagnoses
    assert [each.name for each in named if each.fits == "exactly"] == [f"int16-wrap-{kernel}"]


def test_layers_are_grouped(model_of: Callable[[str], Model], tmp_path: Path) -> None:
    """One sentence for a mistake that is in every layer."""

    model = loaded("bitnet-b1.58", layers=4)
    record(model, TOKENS, tmp_path / "golden")
    record(model, TOKENS, tmp_path / "theirs", form="npz")
    with np.load(tmp_path / "theirs" / "taps.npz") as stored:
        taps = {name: stored[name] for name in stored if not name.startswith("blk.")}
    for layer in range(4):
        taps[f"ffn_gate-{layer}"] = taps[f"ffn_gate-{layer}"] * np.float32(2)
        taps[f"ffn_relu-{layer}"] = taps[f"ffn_relu-{layer}"] * np.float32(2)
        taps[f"ffn_sqr(relu)-{layer}"] = taps[f"ffn_sqr(relu)-{layer}"] * np.float32(4)
        taps[f"ffn_out-{layer}"] = taps[f"ffn_out-{layer}"] * np.float32(4)
    np.savez(tmp_path / "doubled.npz", **taps)
    result = compare(tmp_path / "golden", tmp_path / "doubled.npz", model=model)
    (gate,) = (group for group in result.groups if group.word == "ffn_gate")
    assert group_words(gate) == "ffn_gate in 4 layers (0-3): scale-doubled"


@pytest.mark.parametrize("name", share(["ffn_gate", "ffn_up"]))
def test_scales_that_logits_do_not_show(tmp_path: Path, name: str) -> None:
    """A doubled scale before a norm leaves the logits as they are; the replay of the operation finds it."""
    from i2s_spec.model.weights import ModelWeights, Ternary

    model = loaded("bitnet-b1.58", layers=2)
    record(model, TOKENS, tmp_path / "golden")

    def doubled(tensor: str, matrix: Ternary) -> Ternary:
        return matrix._replace(scale=matrix.scale * np.float32(2)) if tensor == f"blk.1.{name}.weight" else matrix

    record(model.replace(weights=ModelWeights(model.file, change=doubled)), TOKENS, tmp_path / "theirs")
    free = compare(tmp_path / "golden", tmp_path / "theirs", mode="free-running")
    assert free.whole is not None
    assert free.whole.verdict == "plausible"
    assert free.whole.relative < 0.01
    result = compare(tmp_path / "golden", tmp_path / "theirs", model=model)
    assert result.first is not None
    assert result.first.name == f"{name}-1"
    assert result.diagnoses[0].name == "scale-doubled"
    forced = compare(tmp_path / "golden", tmp_path / "theirs", model=model, mode="layer-forced")
    assert forced.first is not None
    assert forced.first.name == f"{name}-1"
    assert forced.diagnoses[0].name == "scale-doubled"


@pytest.mark.parametrize(
    ("name", "mode"),
    share(
        product(
            ["layout-interleave-64", "activation-silu", "rope-pairs", "scale-ignored"], ["layer-forced", "free-running"]
        )
    ),
)
def test_other_modes_name_mistakes_too(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path, mode: str, name: str
) -> None:
    model = model_of("bitnet-b1.58")
    wrong = next(each for each in MISTAKES if each.name == name).apply(model)
    assert wrong is not None
    record(wrong, TOKENS, tmp_path / "theirs")
    result = compare(golden_of("bitnet-b1.58"), tmp_path / "theirs", model=model, mode=mode)  # type: ignore[arg-type]
    assert name in [each.name for each in result.diagnoses], result.verdict


@pytest.mark.parametrize("name", sorted(WINDOWS))
@pytest.mark.parametrize(
    "architecture", [name for name, each in ARCHITECTURES.items() if each.local_period is not None]
)
def test_a_mistake_of_windows_is_named(tmp_path: Path, architecture: str, name: str) -> None:
    data = io.BytesIO()
    sizes = {"layers": 2, "embd": 128, "ff": 128, "heads": 4}
    with open_file(model_bytes(architecture, **sizes)) as file:
        key = f"{file.metadata['general.architecture']}.attention.sliding_window"
        rewrite(file, data, set={key: Value("u32", 3), f"{key}_pattern": Value("arr[bool]", [True, False])})
    model = load_model(data.getvalue(), threads=1)
    mistake = next(each for each in MISTAKES if each.name == name)
    wrong = mistake.apply(model)
    assert wrong is not None
    record(model, TOKENS, tmp_path / "golden")
    the_mistake_is_named(mistake, model, wrong, tmp_path / "golden", tmp_path / "theirs", set())
