"""The training script: a run of a few steps gives a valid model, reproducibly, with the same values in this package."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s

SCRIPTS = Path(__file__).resolve().parents[1] / "training"

pytestmark = [
    pytest.mark.thorough,
    *(
        pytest.mark.skipif(find_spec(each) is None, reason=f"{each} is not installed: pip install 'i2s-spec[training]'")
        for each in ("torch", "tokenizers")
    ),
]


def trained(folder: Path, name: str, steps: int) -> dict[str, Any]:
    """A run of the script; its card."""
    arguments = ["--model", name, "--steps", str(steps), "--stories", "500", "--out", str(folder)]
    done = subprocess.run(
        [sys.executable, "train.py", *arguments], cwd=SCRIPTS, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads((folder / f"{name}.card.json").read_text())
    return made


@pytest.mark.parametrize("name", ["stories", "llama"])
def test_a_short_run(tmp_path: Path, name: str) -> None:
    card = trained(tmp_path, name, 3)
    file = tmp_path / f"{name}.gguf"
    assert card["file"]["sha256"] == sha256(file.read_bytes()).hexdigest()
    assert {finding.severity for finding in i2s.lint(file, payload="full").findings} <= {"note"}
    expected = json.loads((tmp_path / f"{name}.logits.json").read_text())
    with i2s.load_model(file, numerics="bitnet-golden-1", threads=1) as model:
        logits = np.asarray(model.forward(expected["tokens"]).logits)
    assert np.abs(logits[-1] - expected["last_logits"]).max() < 0.02 * np.abs(logits[-1]).max()
    records = [json.loads(line) for line in (tmp_path / f"{name}.log.jsonl").read_text().splitlines()]
    assert records[-1]["step"] == 2
    assert card["training"]["unseen_loss"] == records[-1]["unseen"] < records[0]["unseen"]


def test_two_runs_give_the_same_files(tmp_path: Path) -> None:
    cards = [trained(tmp_path / folder, "llama", 2) for folder in ("one", "two")]
    assert cards[0]["file"] == cards[1]["file"]
    assert (tmp_path / "one/vocabulary.json").read_bytes() == (tmp_path / "two/vocabulary.json").read_bytes()


def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint contains everything: the weights, the state of the optimizer, and the position in the text."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import corpus
    import torch
    from train import PLANS, train
    from vocabulary import learn

    stories = list(corpus.stories("training", 400))
    plan = PLANS["llama"]._replace(horizon=4, warmup=1, batch=1)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
        learn(stories, folder / "vocabulary.json")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        train("llama", plan, 4, whole, stories, stories[:2], every=2)
        train("llama", plan, 2, parts, stories, stories[:2], every=2)
        train("llama", plan, 4, parts, stories, stories[:2], every=2)
    finally:
        torch.set_num_threads(threads)
    assert (whole / "llama.gguf").read_bytes() == (parts / "llama.gguf").read_bytes()
    for module in ("corpus", "stories", "world", "grammar", "train", "vocabulary", "network", "export"):
        sys.modules.pop(module, None)
