"""Converted files in llama.cpp itself: an I2_S file loads there after conversion, and has the same weights.

The releases from PyPI and npm are looked for in this environment (the extra `runtimes`) and in the user's cache (`python
tests/peers install`). Models get token ids, so that no tokenizer affects the comparison; a separate test compares how text
is split.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from peers.llama_cpp import NAMES, Name, correlation, likeliest, log_probabilities, log_softmax, missing, tokens_of

import i2s_spec as i2s
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.trained import write_trained
from i2s_spec.model.tokenizer.tokenizer import load_tokenizer

TOKENS = [5, 6, 7, 8, 100, 200, 31, 44]
LEAST = 0.999
#: Largest difference of logits if activations have a scale for each block.
NEAR = 0.1


def converted(source: Path, to: str) -> Path:
    target = source.with_name(f"{source.stem}.{to}.gguf")
    if not target.exists():
        with i2s.open(source) as file:
            convert_file(file, target, to=to)
    return target


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("llama")


@pytest.fixture(scope="module")
def random_model(folder: Path) -> Path:
    path = folder / "random.gguf"
    i2s.new(path, "llama", embd=256, ff=512)
    return path


@pytest.fixture(scope="module")
def trained_model(folder: Path) -> Path:
    """Its rows have 128 columns, which are not whole blocks of TQ2_0."""
    path = folder / "trained.gguf"
    write_trained(path, "llama")
    return path


def qwen3(folder: Path, head: Literal["tied", "untied"]) -> Path:
    path = folder / f"qwen3-{head}.gguf"
    i2s.new(path, "qwen3-lm", embd=256, ff=512, head=head)
    return path


@pytest.fixture(scope="module")
def tied_qwen3(folder: Path) -> Path:
    return qwen3(folder, "tied")


@pytest.fixture(scope="module")
def untied_qwen3(folder: Path) -> Path:
    return qwen3(folder, "untied")


@pytest.fixture(params=NAMES)
def program(request: pytest.FixtureRequest) -> Name:
    name: Name = request.param
    reason = missing(name)
    if reason is not None:
        pytest.skip(reason)
    return name


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("random_model", "Q2_0"),
        ("random_model", "TQ2_0"),
        ("trained_model", "Q2_0"),
        ("tied_qwen3", "Q2_0"),
        ("tied_qwen3", "F16"),
        ("untied_qwen3", "Q2_0"),
        ("untied_qwen3", "TQ2_0"),
    ],
)
def test_llama_cpp_computes_converted_files_alike(
    request: pytest.FixtureRequest, model: str, kind: str, program: Name
) -> None:
    source: Path = request.getfixturevalue(model)
    path = converted(source, kind)
    ours = log_softmax(i2s.load_model(source).forward(TOKENS).logits)
    theirs = log_probabilities(program, path, TOKENS)
    assert theirs.shape == ours.shape
    assert np.isfinite(theirs).mean() > 0.9
    # With random weights, two tokens may be so close that either may come first.
    near = 0.0 if model == "trained_model" else NEAR
    positions = np.arange(len(ours))
    assert (ours[positions, likeliest(ours)] - ours[positions, likeliest(theirs)] <= near).all()
    assert correlation(theirs, ours) >= LEAST


@pytest.mark.thorough
def test_other_weights_are_told_apart(folder: Path, program: Name) -> None:
    """The measure detects other weights: a model that differs only in its weights is far below the bound."""
    one, other = folder / "one.gguf", folder / "other.gguf"
    for seed, path in enumerate((one, other)):
        if not path.exists():
            i2s.new(path, "llama", embd=256, ff=512, seed=seed)
    ours = log_softmax(i2s.load_model(one).forward(TOKENS).logits)
    theirs = log_probabilities(program, converted(other, "Q2_0"), TOKENS)
    assert correlation(theirs, ours) < 0.5


def test_i2s_is_refused_there_with_the_sentence_that_people_report(random_model: Path, program: Name) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)does not load.*not a multiple of block size \(0\)"):
        log_probabilities(program, random_model, TOKENS)


def test_text_becomes_the_same_tokens(trained_model: Path) -> None:
    reason = missing("node-llama-cpp")
    if reason is not None:
        pytest.skip(reason)
    text = "Once upon a time there was 1 fox."
    with i2s.open(trained_model) as file:
        ours = load_tokenizer(file).encode(text, bos=False, eos=False)
    assert tokens_of(converted(trained_model, "Q2_0"), text) == ours
    assert len(ours) > 5
