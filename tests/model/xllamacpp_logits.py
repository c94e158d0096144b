"""llama.cpp of October 2026 as an oracle, as the package xllamacpp carries it: log-probabilities of a file's next tokens.

It has an environment of its own, which is looked for in the folder that I2S_XLLAMACPP names, or in the user's cache:

    python -m venv ~/.cache/i2s-spec/xllamacpp
    ~/.cache/i2s-spec/xllamacpp/bin/pip install xllamacpp==2026.10.11549
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

VARIABLE = "I2S_XLLAMACPP"
RELEASE = "2026.10.11549"
CHILD = Path(__file__).with_name("xllamacpp_child.py")
#: Seconds that a run on a file of a few hundred kilobytes may take.
PATIENCE = 120


def folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(cache) / "i2s-spec" / "xllamacpp")


def missing() -> str | None:
    """Why it cannot be run, or None if it can."""
    if (folder() / "bin" / "python").exists():
        return None
    return f"xllamacpp {RELEASE} is not installed in {folder()}; {VARIABLE} says where it is"


def log_probabilities(
    path: Path, tokens: list[int], vocabulary: int, letter: int, flash: bool = False
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Of the token after each of the tokens, all before it being the prompt: float64 [T, vocabulary].

    :param letter: a token that is a whole character
    :param flash: whether attention is computed in one operation, which is its own default
    """
    words = [json.dumps(each) for each in (tokens, vocabulary, letter, flash)]
    done = subprocess.run(
        [folder() / "bin" / "python", CHILD, path, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"xllamacpp stopped with {done.returncode}: {done.stderr[-2000:]}{done.stdout[-500:]}")
    return np.array(json.loads(done.stdout.rpartition("\n[")[2].join(["[", ""])), dtype=np.float64)


def log_softmax(logits: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Log-probabilities of logits, over the last axis."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
