"""Receipts in the file itself: it gets its name only together with its receipt."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from receipts import statuses
from tiny_checkpoints import packed_2b4t

import i2s_spec as i2s
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.receipt import embed_receipt, import_with_receipt, verify_receipt
from i2s_spec.cli import cli
from i2s_spec.convert.rewrite import Value
from i2s_spec.errors import FormatError
from i2s_spec.schema.types import ValueType


def test_a_receipt_in_the_file(tmp_path: Path) -> None:
    """The keys say what the receipt says, the tensors stay, and a later change of the file is found."""
    folder, path, receipt = packed_2b4t().write(tmp_path / "c"), tmp_path / "o.gguf", tmp_path / "r.json"
    arguments = ["import", str(folder), "-o", str(path), "--receipt", str(receipt), "--receipt-in-file", "-q"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    written = json.loads(receipt.read_text())
    with i2s.open(path) as file:
        inside = json.loads(file.metadata["i2s.receipt"])
    assert {**inside, "file": 0, "checks": 0} == {**written, "file": 0, "checks": 0}
    assert statuses(inside) == statuses(written)
    assert written["file"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c", "o.gguf", "r.json"]
    for options in ([], ["--receipt", str(receipt)]):
        run = CliRunner().invoke(cli, ["verify", str(path), *options])
        assert (run.exit_code, run.output.splitlines()[-1]) == (0, "24 tensors match the receipt")
    with i2s.open(path) as file:
        place = file.tensors["blk.1.ffn_up.weight"].span.start
    with path.open("r+b") as stream:
        stream.seek(place)
        stream.write(b"\x15\x15")
    run = CliRunner().invoke(cli, ["verify", str(path)])
    assert (run.exit_code, "changed: tensor 'blk.1.ffn_up.weight' differs: data, trits" in run.output) == (1, True)
    with pytest.raises(ValueError, match="another file: tensors differ"):
        embed_receipt(written, path)


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["make_receipt", "embed_receipt", "give_name"])
def test_a_killed_run_leaves_no_file_without_its_receipt(tmp_path: Path, step: str) -> None:
    """Wherever the run is killed, the old file stays as it was, and the next run removes what was left."""
    folder, path = packed_2b4t().write(tmp_path / "c"), tmp_path / "o.gguf"
    path.write_bytes(b"old")
    code = f"""
import os, signal
from i2s_spec.checkpoints import receipt as module
module.{step} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
module.import_with_receipt({str(folder)!r}, {str(path)!r}, force=True)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (left,) = (each for each in tmp_path.iterdir() if each.name not in ("c", "o.gguf"))
    assert left.name.startswith(".o.gguf.")
    imported, receipt = import_with_receipt(folder, path, force=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c", "o.gguf"]
    assert (imported.size, receipt["file"]["name"]) == (path.stat().st_size, "o.gguf")
    assert not verify_receipt(path)["changed"]


def test_a_refused_import_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, path = packed_2b4t().write(tmp_path / "c"), tmp_path / "o.gguf"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        import_with_receipt(folder, path)
    path.unlink()
    with pytest.raises(FormatError):
        import_with_receipt(folder, path, rule="ternary", latent=tmp_path)
    monkeypatch.setattr(os, "link", _no_room)
    with pytest.raises(OSError, match=r"No space left on device: '.*o\.gguf'$") as error:
        import_with_receipt(folder, path)
    assert error.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == ["c"]


def _no_room(part: str, _: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", part)


def test_a_file_without_a_receipt_says_so(tmp_path: Path) -> None:
    path = tmp_path / "plain.gguf"
    import_checkpoint(packed_2b4t().write(tmp_path / "c"), path)
    with pytest.raises(FormatError, match=r"H105 .*no text under the key i2s.receipt"):
        verify_receipt(path)
    for text in ("{", "[]", '{"schema_version": 1}'):
        with i2s.open(path) as file:
            i2s.rewrite(file, tmp_path / "odd.gguf", set={"i2s.receipt": Value(ValueType.STRING, text)}, force=True)
        with pytest.raises(FormatError, match="H105"):
            verify_receipt(tmp_path / "odd.gguf")
    run = CliRunner().invoke(cli, ["verify", str(path)])
    assert isinstance(run.exception, FormatError)
