"""Every mistake that is injected into the importer fails a check of the receipt, and those of weights the slow twin."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from importer_mistakes import MISTAKES
from reference_import import Witness, differences
from tiny_checkpoints import Tiny, embedding_qwen3

from i2s_spec.checkpoints.folder import CheckpointFolder
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.receipt import failed, make_receipt
from i2s_spec.gguf.reader import open as open_file


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], Tiny]], Path]:
    """The folder of each checkpoint, written once for all mistakes; nothing writes there."""
    return cache(lambda make: make().write(tmp_path_factory.mktemp("checkpoint")))


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_caught(
    name: str, folders: Callable[[Callable[[], Tiny]], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, to, patch, check = MISTAKES[name]
    folder, path = folders(make), tmp_path / "out.gguf"
    with monkeypatch.context() as patched:
        patch(patched)
        import_checkpoint(folder, path, to=to, pre="qwen2" if make is embedding_qwen3 else None)
    assert check in failed(make_receipt(folder, path, only=check, positions=8))
    if check in "abce":
        with CheckpointFolder(folder) as opened, open_file(path) as file:
            assert differences(file, Witness(opened))


def test_logits_catch_what_weights_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistakes of tables and orders fail check g as well."""
    for name in (
        "gate and up exchanged", "queries not permuted", "reciprocal scale", "Gemma's norms without the 1",
        "value heads left grouped", "convolution in reverse",
    ):  # fmt: skip
        make, to, patch, _ = MISTAKES[name]
        folder, path = make().write(tmp_path / name), tmp_path / f"{name}.gguf"
        with monkeypatch.context() as patched:
            patch(patched)
            import_checkpoint(folder, path, to=to)
        assert failed(make_receipt(folder, path, only="g", positions=8)) == ["g"], name
