"""llama.cpp itself, from the packages `xllamacpp` (PyPI) and `node-llama-cpp` (npm): the probabilities that it computes.

    >>> log_probabilities("xllamacpp", path, [5, 6, 7])      # float64 [3, vocabulary]

Both take tokens as numbers, so no tokenizer affects the result. Each runs in a separate process, with one thread and
without a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from peers.child import Answer, answer_of
from peers.programs import PROGRAM

#: The packages that compute.
NAMES: Final = ("xllamacpp", "node-llama-cpp")
Name = Literal["xllamacpp", "node-llama-cpp"]

_Floats = np.ndarray[Any, np.dtype[np.float64]]


def missing(name: Name) -> str | None:
    """Why a package cannot be run, or None if it can."""
    return PROGRAM[name].missing()


def log_probabilities(name: Name, path: Path, tokens: Sequence[int], *, flash: bool | None = None) -> _Floats:
    """The log-probabilities of the token after each of the tokens, given all before it: float64 [T, vocabulary].

    Both compute probabilities in float32: those that underflow to 0, below 1e-45, are NaN here.

    :param tokens: at most 64
    :param flash: for xllamacpp, whether attention is computed in one operation, which sums values in F16; the program's
        default is yes
    :raises RuntimeError: if the package is missing or does not load the file, with its output
    """
    return as_floats(_answer(name, path, tokens, flash=flash))


def as_floats(answer: Answer) -> _Floats:
    """The log-probabilities of an answer: float64 [T, vocabulary], NaN where the probability is 0."""
    found = np.array(answer.log_probabilities, dtype=np.float64)
    return np.where(found > -1e30, found, np.nan)  # llama.cpp's server writes the least float32 there


def likeliest(rows: _Floats) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The likeliest token at each position: integers [T]."""
    return np.nanargmax(rows, axis=1)


def tokens_of(path: Path, text: str) -> list[int]:
    """The tokens that node-llama-cpp splits a text into, without special tokens before or after.

    :raises RuntimeError: as `log_probabilities`
    """
    return _answer("node-llama-cpp", path, text=text).tokens


def _answer(
    name: Name, path: Path, tokens: Sequence[int] = (), text: str | None = None, flash: bool | None = None
) -> Answer:
    answer = answer_of(PROGRAM[name], path, tokens, text, flash)
    if not answer.loads:
        printed = "\n".join(answer.printed)
        raise RuntimeError(f"{name} does not load {path.name} ({answer.outcome.name}):\n{printed}")
    return answer


def log_softmax(logits: np.ndarray[Any, Any]) -> _Floats:
    """Log-probabilities of logits: float64 of the same shape, over the last axis."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def correlation(one: _Floats, other: _Floats) -> float:
    """Pearson's correlation of all values that are finite in both."""
    both = np.isfinite(one) & np.isfinite(other)
    return float(np.corrcoef(one[both], other[both])[0, 1])
