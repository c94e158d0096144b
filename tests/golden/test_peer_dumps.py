"""Dumps of llama.cpp's own library against our records: correct by its numerics, otherwise with a known name.

The library is that of npm's @node-llama-cpp/linux-x64 (`python tests/peers install @node-llama-cpp/linux-x64`).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import share
from finding_codes import codes
from peers.llama_tools import Dumped, dump, missing

from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.new import new
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.golden import compare, record
from i2s_spec.linter.engine import lint
from i2s_spec.model.load import load_model
from i2s_spec.schema import container
from i2s_spec.schema.types import BY_NAME, NOT_WEIGHTS, READINGS, padded

REASON = missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

#: Eight tokens, so that every product has several rows.
TOKENS = [5, 6, 7, 8, 100, 200, 31, 44]
ARCHITECTURES = ("bitnet", "llama", "qwen3-lm")
TYPES = ("F16", "TQ2_0", "Q2_0")

#: The mistake that their quantization of activations amounts to, when compared with one scale for each token.
KNOWN = {"F16": None, "TQ2_0": "activation-blocks", "Q2_0": "activation-blocks-32"}

#: The product of gate and up; each graph names this node differently.
PRODUCT = {"bitnet": "ffn_sub_out-0", "llama": "ffn_gate_par-0", "qwen3-lm": "ffn_gate_up-0"}

#: Each architecture with each type; a quick run has each of them once.
EACH = pytest.mark.parametrize(
    ("architecture", "type"),
    share(
        ((architecture, TYPES[(i + j) % 3]) for i, architecture in enumerate(ARCHITECTURES) for j in range(3)), every=3
    ),
)

Dump = Callable[[str, str], tuple[Path, Dumped]]


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    """A file of an architecture and a type, and what the library computed of it; each made once."""
    made: dict[tuple[str, str], tuple[Path, Dumped]] = {}

    def find(architecture: str, type: str) -> tuple[Path, Dumped]:
        if (architecture, type) not in made:
            folder = tmp_path_factory.mktemp("peer")
            path = folder / "model.gguf"
            new(path, architecture, type=type, embd=256, ff=512, layers=1)
            made[architecture, type] = path, dump(path, TOKENS, folder)
        return made[architecture, type]

    return find


@EACH
def test_dumps_are_right_with_their_own_numerics(dumped: Dump, tmp_path: Path, architecture: str, type: str) -> None:
    path, theirs = dumped(architecture, type)
    model = load_model(path, "llamacpp-2026", threads=1)
    record(model, TOKENS, tmp_path / "golden")
    for mode in ("op-replay", "layer-forced", "free-running"):
        result = compare(tmp_path / "golden", theirs.values, model=model, mode=mode)
        assert result.ok, result.verdict
        assert result.counted("ok", "flips") >= 20
        fine = {each.name for each in result.taps if each.status == "ok"}
        assert fine >= {"Qcur-0", "Kcur-0", "kq-0", "l_out-0", PRODUCT[architecture]}
    text = compare(tmp_path / "golden", theirs.text, model=model)
    assert text.ok, text.verdict
    assert text.counted("ok", "flips") >= 20
    assert result.whole is not None
    assert result.whole.same_top == 1
    # If an activation lies between two codes, another processor's sums may give the other code: 2e-4 of the logits.
    assert result.whole.relative < (3e-2 if type == "TQ2_0" else 1e-3)


@EACH
def test_llama_cpp_deviates_from_the_specification_as_known(
    dumped: Dump, tmp_path: Path, architecture: str, type: str
) -> None:
    path, theirs = dumped(architecture, type)
    model = load_model(path, threads=1)
    record(model, TOKENS, tmp_path / "golden")
    assert compare(tmp_path / "golden", theirs.values, model=model).ok  # with the numerics that fit
    result = compare(tmp_path / "golden", theirs.values, model=model, numerics="bitnet-golden-1")
    assert [each.name for each in result.diagnoses] == ([] if KNOWN[type] is None else [KNOWN[type]])
    if KNOWN[type] is not None:
        # rows of 256 columns are one block of Q8_K; only ffn_down has two
        place = {"Q2_0": "Qcur-0", "TQ2_0": "ffn_out-0" if architecture == "llama" else "ffn_down-0"}[type]
        assert result.first is not None
        assert result.first.name == place


def test_an_activation_key_that_llama_cpp_ignores(tmp_path: Path) -> None:
    """A file that states ReLU squared is computed with SiLU, and the comparison says so at the gate."""
    origin, path = tmp_path / "origin.gguf", tmp_path / "model.gguf"
    new(origin, "bitnet", type="Q2_0", embd=256, ff=512, layers=1)
    with open_file(origin) as file:
        convert_file(file, path, hidden_activation="relu2")
    theirs = dump(path, TOKENS, tmp_path)
    model = load_model(path, "llamacpp-2026", threads=1, activation="relu2")
    record(model, TOKENS, tmp_path / "golden")
    result = compare(tmp_path / "golden", theirs.values, model=model)
    assert not result.ok
    assert result.diagnoses[0].name == "activation-silu"
    assert result.first is not None
    assert result.first.name.startswith("ffn_")


def test_another_matrix_is_found(dumped: Dump, tmp_path: Path) -> None:
    """The comparison detects mistakes: if one matrix is replaced by another, its projection is the first wrong tap."""
    path, theirs = dumped("llama", "Q2_0")
    data = bytearray(path.read_bytes())
    with open_file(path) as file:
        span, other = (file.tensors[f"blk.0.{name}.weight"].span for name in ("ffn_up", "ffn_gate"))
    data[span.start : span.stop] = data[other.start : other.stop]
    (tmp_path / "other.gguf").write_bytes(data)
    model = load_model(tmp_path / "other.gguf", "llamacpp-2026", threads=1)
    record(model, TOKENS, tmp_path / "golden")
    result = compare(tmp_path / "golden", theirs.values, model=model)
    assert not result.ok
    assert result.first is not None
    assert result.first.name == "ffn_up-0"


def test_dumps_with_views_and_of_files_written_over(dumped: Dump, tmp_path: Path) -> None:
    """A callback that keeps views gives a name three times; one that writes a file for each name leaves the last."""
    path, theirs = dumped("llama", "Q2_0")
    model = load_model(path, "llamacpp-2026", threads=1)
    record(model, TOKENS, tmp_path / "golden")
    with np.load(theirs.values) as stored:
        plain: dict[str, Any] = dict(stored)
    views, last = dict(plain), dict(plain)
    for word in ("Qcur-0", "Kcur-0"):
        views[f"{word}#2"] = plain[f"{word}#1"]
        views[f"{word}#1"] = plain[word].reshape(plain[f"{word}#1"].shape)
        last[word] = last.pop(f"{word}#1")
    for name, taps in (("views", views), ("last", last)):
        np.savez(tmp_path / f"{name}.npz", **taps)
        result = compare(tmp_path / "golden", tmp_path / f"{name}.npz", model=model)
        assert result.ok, result.verdict
        assert result["Qcur-0#1"].other == {"views": "Qcur-0#2", "last": "Qcur-0"}[name]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", NOT_WEIGHTS)
@pytest.mark.parametrize("name", ["token_embd.weight", "blk.0.ffn_down.weight"])
def test_types_that_no_weights_have_end_the_library(kind: str, name: str, tmp_path: Path) -> None:
    """The library loads such a file, and is killed at the first token: what a finding of the linter says."""
    made, path = io.BytesIO(), tmp_path / "model.gguf"
    new(made, "llama", type="F16", embd=256, ff=256, layers=1)
    file = container.parse(made.getvalue())
    data = b""
    for info in file.tensor_infos:
        content = bytes(file.data[info.offset : info.offset + READINGS[info.type][0].nbytes(info.ne)])
        if info.name == name.encode():
            info.type, content = BY_NAME[kind].number, bytes(BY_NAME[kind].nbytes(info.ne))
        info.offset = len(data)
        data += content.ljust(padded(len(content), 32), b"\0")
    file.data = data
    path.write_bytes(container.build(file))
    assert codes(lint(path)) == {"G415"}
    with pytest.raises(RuntimeError, match=r"does not compute model.gguf \(SIG(ABRT|SEGV)\)"):
        dump(path, TOKENS, tmp_path)
