"""llama-perplexity, built from npm's sources, and this package read each other's --kl-divergence-base files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from kl_base import read_base
from peers import llama_tools

from i2s_spec.cli import cli
from i2s_spec.convert.new import new

REASON = llama_tools.perplexity_missing()
pytestmark = [pytest.mark.thorough, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

CHUNK = 128
TEXT = "Once upon a time there was a little girl who had a big dog, and one day it ran away. " * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("perplexity")
    for seed, name in enumerate(("model", "other")):
        new(made / f"{name}.gguf", "llama", type="Q2_0", embd=256, ff=512, layers=1, seed=seed)
    (made / "text.txt").write_text(TEXT)
    for name in ("model", "other"):
        words = (
            f"perplexity {made}/{name}.gguf --file {made}/text.txt -c {CHUNK} --numerics llamacpp-2026 --format json"
        )
        words += f" --kl-divergence-base {made}/{name}.kld"
        assert not cli.main(words.split(), prog_name="i2s", standalone_mode=False)
    return made


def chunks(log: str) -> list[list[float]]:
    """The rows of --kl-divergence by chunk: perplexity, ln of its ratio, divergence, Δp and same top, each with its error.

    What the tool logs last may be lost when it ends.
    """
    rows = [re.findall(r"-?\d+\.\d+", line) for line in log.splitlines() if re.match(r" +\d+ +\d.*±.*%", line)]
    return [[float(each) for each in row] for row in rows if len(row) == 10]


def test_llama_perplexity_reads_what_we_write(folder: Path) -> None:
    """With the same weights it differs from our base only by 16-bit rounding and has the same top tokens; else not."""
    options = ("--kl-divergence", "--kl-divergence-base", f"{folder}/model.kld")
    rows = chunks(llama_tools.perplexity(folder / "model.gguf", *options))
    assert rows
    for perplexity, _, ratio, _, divergence, _, _, _, same, _ in rows:
        assert 272 / 3 < perplexity < 3 * 272
        assert abs(ratio) < 1e-3
        assert abs(divergence) < 1e-4
        assert same > 99
    rows = chunks(llama_tools.perplexity(folder / "other.gguf", *options))
    assert rows
    assert all(row[4] > 0.1 and row[8] < 50 for row in rows)


def test_we_read_what_llama_perplexity_writes(folder: Path, tmp_path: Path) -> None:
    """Same tokens, and log-probabilities as close as 16 bits over a range of 24 allow."""
    base = tmp_path / "theirs.kld"
    log = llama_tools.perplexity(folder / "model.gguf", "-f", f"{folder}/text.txt", "--kl-divergence-base", str(base))
    theirs, ours = read_base(base.read_bytes()), read_base((folder / "model.kld").read_bytes())
    # the tool replaces the first token of a chunk for evaluation, and stores the token of the text
    assert np.array_equal(theirs.tokens[:, 1:], ours.tokens[:, 1:])
    assert theirs.first == ours.first == CHUNK // 2
    assert theirs.log_probabilities.shape == ours.log_probabilities.shape
    apart = np.abs(theirs.log_probabilities - ours.log_probabilities)
    assert np.median(apart) < 1e-3
    assert apart.max() < 0.2
    found = re.findall(r"\[\d+\](\d+\.\d+)", log)
    last = float(found[-1])
    targets = theirs.tokens[:, theirs.first + 1 :][:, : theirs.log_probabilities.shape[1]]
    likelihood = np.take_along_axis(theirs.log_probabilities, targets[..., None].astype(np.int64), axis=-1)
    assert abs(np.exp(-likelihood[: len(found)].mean()) / last - 1) < 1e-3
