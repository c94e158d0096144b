"""Imported files run in llama.cpp (from PyPI): the most likely token is the same as with the checkpoint itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from peers.llama_cpp import correlation, likeliest, log_probabilities, log_softmax, missing
from reference_import import CheckpointForward, Witness
from tiny_checkpoints import SIZES, Maker, Tiny, bonsai, falcon_e, llama3, plain_llama, qwen35

import i2s_spec as i2s
from i2s_spec.checkpoints import plan
from i2s_spec.checkpoints.folder import CheckpointFolder

Floats = NDArray[Any]

TOKENS = [5, 6, 7, 8, 100, 200, 31, 44]
LEAST = 0.9995
#: Largest difference of log-probabilities between checkpoint and file with 8-bit activations. Tokens closer than this
#: may be in either order.
NEAR = 0.1
#: The same with identical rounding.
SAME = 1e-5


def small_table(tiny: Tiny) -> Tiny:
    """Embedding tables that give logits of a few units, as in trained models: larger ones leave one token."""
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        if name in tiny.tensors:
            dtype, words = tiny.tensors[name]
            values = words.view(np.float16).astype(np.float32) if dtype == "F16" else widened(words)
            maker = Maker(0, dtype, SIZES)
            maker.add(name, values / 8)
            tiny.tensors |= maker.tensors
    return tiny


def widened(words: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (words.astype(np.uint32) << 16).view(np.float32)


#: Checkpoints, and the type to which each is imported; llama.cpp has a graph for these architectures.
IMPORTED = {
    "llama, packed, Q2_0": (llama3, "Q2_0"),
    "llama, Falcon's family, Q2_0": (falcon_e, "Q2_0"),
    "llama, ternary floats, Q2_0": (plain_llama, "Q2_0"),
    "llama, ternary floats, F16": (plain_llama, "F16"),
    "qwen3, groups, Q2_0": (bonsai, "Q2_0"),
    "qwen3, groups, F16": (bonsai, "F16"),
    "qwen35, ternary floats, Q2_0": (qwen35, "Q2_0"),
    "qwen35, ternary floats, F16": (qwen35, "F16"),
}


def run_there(make: Callable[[], Tiny], to: str, folder: Path) -> tuple[Floats, Floats, Path]:
    """Log-probabilities of the checkpoint, those of llama.cpp for the file that is imported, and that file."""
    reason = missing("xllamacpp")
    if reason is not None:
        pytest.skip(reason)
    checkpoint, path = small_table(make()).write(folder / "checkpoint"), folder / "out.gguf"
    i2s.import_checkpoint(checkpoint, path, to=to)
    with CheckpointFolder(checkpoint) as opened:
        forward = CheckpointForward(Witness(opened), lambda values: values.astype(np.float16).astype(np.float32))
        wanted = log_softmax(forward.logits(forward.hidden(TOKENS)))
    theirs = log_probabilities("xllamacpp", path, TOKENS, flash=False)
    assert theirs.shape == wanted.shape == (len(TOKENS), SIZES["vocab"])
    return wanted, theirs, path


@pytest.mark.parametrize("name", IMPORTED)
def test_llama_cpp_computes_imported_files_alike(name: str, tmp_path: Path) -> None:
    """Compared with the checkpoint itself, without any GGUF file, and with our model with llama.cpp's roundings."""
    checkpoint, theirs, path = run_there(*IMPORTED[name], tmp_path)
    rows, found = np.arange(len(TOKENS)), likeliest(theirs)
    assert (checkpoint.max(axis=1) - checkpoint[rows, found]).max() <= NEAR
    assert correlation(theirs, checkpoint) >= LEAST
    ours = log_softmax(i2s.load_model(path, "llamacpp-2026").forward(TOKENS).logits)
    assert np.array_equal(likeliest(ours), found)
    assert np.abs(theirs - ours).max() <= SAME


def test_rows_that_are_not_permuted_change_the_logits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound detects mistakes: without the permutation of queries and keys, the correlation is below it."""
    monkeypatch.setattr(plan, "to_gguf_rows", lambda rows, _: rows)
    checkpoint, theirs, _ = run_there(plain_llama, "F16", tmp_path)
    assert correlation(theirs, checkpoint) < 0.99
