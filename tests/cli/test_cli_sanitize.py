"""`i2s sanitize`: output, exit codes, and files left behind."""

from __future__ import annotations

import json
from pathlib import Path

from examples import some
from malformed_cases import SMALL, broken
from transcripts_runner import run

from i2s_spec.testing.sample import Model


def test_exit_codes(tmp_path: Path) -> None:
    for name in ("bool_2", "overlap", "html", "trunc_infos"):
        (tmp_path / name).write_bytes(broken(name))
    assert "[exit" not in run("i2s sanitize bool_2 -o a --keep-unknown", tmp_path)
    assert run("i2s sanitize overlap -o b", tmp_path).endswith("[exit 1]\n")
    assert run("i2s sanitize trunc_infos -o b", tmp_path).endswith("[exit 1]\n")
    assert run("i2s sanitize html -o b", tmp_path).endswith("[exit 3]\n")
    assert run("i2s sanitize bool_2 -o b", tmp_path).endswith("[exit 2]\n")
    assert run("i2s sanitize bool_2 -o a --keep-unknown", tmp_path).endswith("[exit 2]\n")
    assert not (tmp_path / "b").exists()
    assert run("i2s sanitize bool_2 -o a --force -q --keep-unknown", tmp_path) == ""


def test_json(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(Model("llama").add("x.y", 0, 1).built() + b"z")  # type: ignore[arg-type]
    found = json.loads(run("i2s sanitize a.gguf --json -o b.gguf", tmp_path))
    assert [row["bytes"] for row in found["left_out"]] == [16, 1]
    assert found["weights"] in run("i2s hash b.gguf", tmp_path)


def test_output_has_no_control_characters(tmp_path: Path) -> None:
    for case in some(SMALL.values()):
        if len(case.data) < 1 << 16:
            (tmp_path / "a.gguf").write_bytes(case.data)
            for options in ("--keep-unknown", "--json"):
                text = run(f"i2s sanitize a.gguf --dry-run {options}", tmp_path)
                assert all(char.isprintable() or char == "\n" for char in text), case.name
                assert "internal error" not in text, case.name
