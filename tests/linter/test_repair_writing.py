"""Repaired files are new files, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from malformed_cases import broken

from i2s_spec.convert.rewrite import write_edited
from i2s_spec.errors import FormatError
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.fix import fix
from i2s_spec.linter.repair.plan import chosen, plan
from i2s_spec.testing.sample import Draft


def test_the_file_itself_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(broken("bool_2"))
    (tmp_path / "link.gguf").symlink_to(path)
    for name in ("a.gguf", "link.gguf"):
        with pytest.raises(ValueError, match="another name"):
            fix(path, tmp_path / name, force=True)
    assert path.read_bytes() == broken("bool_2")
    fix(path, tmp_path / "b.gguf")
    with pytest.raises(FileExistsError):
        fix(path, tmp_path / "b.gguf")
    fix(path, tmp_path / "b.gguf", force=True)
    assert (tmp_path / "b.gguf").read_bytes() == Draft().data


def test_a_sound_file_is_copied(tmp_path: Path) -> None:
    fixed = fix(Draft().data, tmp_path / "copy.gguf")
    assert (fixed.actions, fixed.changed, fixed.written) == ((), 0, True)
    assert (tmp_path / "copy.gguf").read_bytes() == Draft().data


def test_an_unreadable_file_has_no_repaired_copy(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="G004"):
        fix(broken("html"), tmp_path / "a.gguf")
    fixed = fix(broken("trunc_infos"), tmp_path / "a.gguf", unsafe=True)
    assert not fixed.written
    assert not fixed.remaining.ok
    assert os.listdir(tmp_path) == []


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fix(broken("bool_2"), tmp_path / "a.gguf", progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_edited(plan(BufferSource(broken("bool_2")), chosen()).source, tmp_path / "a.gguf", progress=interrupt)
    assert os.listdir(tmp_path) == []
