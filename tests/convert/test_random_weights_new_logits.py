"""Logits of new models vary as little as those of an untrained model: the perplexity is near the size of the vocabulary."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import share

from i2s_spec.convert.random_weights import NORMAL, halvings_of, quantiles
from i2s_spec.convert.recipes import TYPES
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model.load import load_model
from i2s_spec.schema.architectures import ARCHITECTURES

#: Largest factor between perplexity and the number of tokens.
FACTOR = 3.0


def logits_of(architecture: str, **options: Any) -> tuple[np.ndarray[Any, Any], list[int], dict[str, Any]]:
    """Logits of tokens drawn at random, those tokens, and other values by name.

    Embedding models have no logits; theirs are what a program makes of the same file as a language model.
    """
    data = model_bytes(architecture, **options)
    file = open_file(data)
    table = file.tensors["token_embd.weight"]
    tokens = np.random.default_rng(0).integers(0, table.shape[0], 64).tolist()
    result = load_model(data, threads=1).forward(tokens, taps=("attn_norm", "l_out", "result_norm"))
    found = result.logits
    if found is None:
        found = result.taps["result_norm"] @ table.dequantize().T
    return found.astype(np.float64), tokens, dict(result.taps)


def perplexity(logits: np.ndarray[Any, Any], tokens: list[int]) -> float:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return math.exp(-float(shifted[np.arange(len(tokens) - 1), tokens[1:]].mean()))


def check_sane(architecture: str, **options: Any) -> None:
    logits, tokens, values = logits_of(architecture, **options)
    assert 1 / FACTOR < perplexity(logits, tokens) / logits.shape[1] < FACTOR
    assert 0.4 < logits.std() < 1.6
    # The likeliest token must depend on the input: not always the same token, and not always the last input.
    assert len(set(logits.argmax(axis=-1).tolist())) > 10
    assert (logits.argmax(axis=-1) == tokens).mean() < 1 / 3
    del values["result_norm"]  # its norm weights have another magnitude
    for name, value in values.items():
        assert 0.1 < np.sqrt(np.mean(np.square(value))) < 12, name


@pytest.mark.parametrize(("type", "architecture"), share(product(TYPES, ARCHITECTURES)))
def test_perplexity_is_near_the_size_of_the_vocabulary(architecture: str, type: str) -> None:
    check_sane(architecture, type=type)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_of_rotated_models(architecture: str) -> None:
    check_sane(architecture, rotated=True)


@pytest.mark.parametrize(
    "sizes",
    [
        {"layers": 1},
        {"layers": 30},
        {"embd": 1024, "ff": 256, "layers": 1},
        {"vocab": 8192, "layers": 1},
        # the widths of BitNet-b1.58-2B-4T
        {"embd": 2560, "ff": 6912, "heads": 20, "heads_kv": 5, "layers": 1},
    ],
    ids=lambda sizes: "-".join(f"{name}{size}" for name, size in sizes.items()),
)
def test_logits_of_other_sizes(sizes: dict[str, int]) -> None:
    check_sane("bitnet-b1.58", **sizes)


@pytest.mark.parametrize("architecture", ["llama", "qwen3-lm"])
@pytest.mark.parametrize("head", ["tied", "untied"])
def test_with_either_head(architecture: str, head: str) -> None:
    check_sane(architecture, head=head)


def test_unit_tables_are_those_of_the_first_version() -> None:
    """Their logits are useless: with a tied head, the perplexity is larger than any vocabulary."""
    logits, tokens, _ = logits_of("bitnet-b1.58", unit_tables=True, embd=256)
    assert perplexity(logits, tokens) > 1e10
    little, unit = (open_file(model_bytes("llama", unit_tables=each)) for each in (False, True))
    for name, tensor in unit.tensors.items():
        other = little.tensors[name]
        if name in ("token_embd.weight", "output.weight"):
            assert np.array_equal(other.array() * np.float16(16), tensor.array())
        else:
            assert other.read() == tensor.read()


def test_tables_are_halved_to_the_power_of_two_below() -> None:
    for width in (128, 256, 384, 1024, 2560, 1 << 20):
        halvings = halvings_of(width)
        assert 4.0**-halvings * width <= 1 < 4.0 ** (1 - halvings) * width
    assert np.array_equal(quantiles(), NORMAL.view(np.float16))
    for halvings in (4, 6, 10):
        exact = NORMAL.view(np.float16).astype(np.float64) * 2.0**-halvings
        assert np.abs(quantiles(halvings) - exact).max() <= 2.0**-25  # half of the smallest positive float16
    assert np.array_equal(quantiles(6).astype(np.float64) * 64, NORMAL.view(np.float16))
