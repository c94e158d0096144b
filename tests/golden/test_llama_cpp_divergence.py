"""The base file of --kl-divergence: its bytes follow its definition."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from kl_base import read_base

from i2s_spec.errors import SettingError
from i2s_spec.golden import record
from i2s_spec.golden.llama_cpp import MAGIC, STEPS, BaseWriter, packed_row, rows_of
from i2s_spec.model.forward import Model

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]


def by_definition(row: np.ndarray) -> bytes:
    """A row as the stock tool makes it, number by number."""
    logits = [float(x) for x in row]
    top, least = max(logits), float(np.float32(max(min(logits), max(logits) - 24.0)))
    total = sum(np.exp(np.float32(x) - np.float32(top), dtype=np.float64) for x in row)
    step = np.float32((top - least) / STEPS)
    out = struct.pack("<ff", step, np.float32(least - top - float(np.log(total))))
    for x in logits:
        code = np.rint((np.float32(max(x, least)) - np.float32(least)) / step) if step > 0 else 0
        out += struct.pack("<H", int(min(code, STEPS)))
    return out + bytes(2 * (len(logits) % 2))


@examples(40)
@given(st.lists(st.floats(-60, 60, width=32), min_size=1, max_size=40))
def test_a_row_is_as_defined(values: list[float]) -> None:
    row = np.array(values, dtype=np.float32)
    assert packed_row(row) == by_definition(row)


def test_a_record_has_a_base_file(model_of: Callable[[str], Model], tmp_path: Path) -> None:
    model = model_of("bitnet-b1.58")
    record(model, TOKENS, tmp_path / "golden", kl_base=True)
    data = (tmp_path / "golden" / "logits.kld").read_bytes()
    vocab = model.vocab_size
    assert data[:8] == MAGIC
    assert struct.unpack("<Iii", data[8:20]) == (8, vocab, 1)
    assert list(struct.unpack("<8i", data[20:52])) == TOKENS
    assert len(data) == 52 + rows_of(8) * 2 * (2 * ((vocab + 1) // 2) + 4)
    base = read_base(data)
    logits = model.forward(TOKENS).logits
    assert logits is not None
    wide = logits[4:7].astype(np.float64)
    exact = wide - wide.max(axis=1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(axis=1, keepdims=True))
    least = exact.max(axis=1, keepdims=True) - 24
    assert np.abs(base.log_probabilities[0] - np.maximum(exact, least)).max() < 24 / STEPS


def test_rows_are_those_that_are_scored() -> None:
    assert [rows_of(n) for n in (4, 5, 8, 512)] == [1, 2, 3, 255]


@pytest.mark.parametrize("tokens", [[[1, 2, 3]], [[1, 2, 3, 4], [1, 2, 3]], []], ids=str)
def test_invalid_chunks_are_refused(tmp_path: Path, tokens: list[list[int]]) -> None:
    with open(tmp_path / "x", "wb") as file, pytest.raises(SettingError, match="four tokens"):
        BaseWriter(file, tokens, 8)


def test_rows_of_another_shape_are_refused() -> None:
    writer = BaseWriter(io.BytesIO(), [[1, 2, 3, 4]], 5)
    for shape in ((1, 6), (5,), (2, 5)):
        with pytest.raises(ValueError, match="are wanted"):
            writer.add(np.zeros(shape, dtype=np.float32))


def test_perplexity_writes_a_base_file(tmp_path: Path) -> None:
    """The rows that llama-perplexity scores: their own likelihoods are the perplexity that is printed."""
    import json
    import subprocess
    import sys

    import i2s_spec as i2s

    i2s.new(tmp_path / "m.gguf", layers=1)
    ids = ",".join(str(1 + 7 * i % 250) for i in range(40))
    words = [
        "perplexity",
        "m.gguf",
        "--tokens",
        ids,
        "-c",
        "16",
        "--no-bos",
        "--kl-divergence-base",
        "base",
        "--format",
        "json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "i2s_spec", *words], cwd=tmp_path, capture_output=True, encoding="utf-8", check=True
    )
    base = read_base((tmp_path / "base").read_bytes())
    assert base.tokens.shape == (2, 16)
    assert base.first == 8
    model = i2s.load_model(tmp_path / "m.gguf", "fast")
    for chunk, rows in zip(base.tokens, base.log_probabilities, strict=True):
        logits = model.forward(chunk.tolist()).logits
        assert logits is not None
        wide = logits[8:15].astype(np.float64)
        exact = wide - wide.max(axis=1, keepdims=True)
        exact = np.maximum(exact, -24) - np.log(np.exp(exact).sum(axis=1, keepdims=True))
        assert np.abs(rows - exact).max() < 1e-2
    assert json.loads(done.stdout)["scored_tokens"] == 14
