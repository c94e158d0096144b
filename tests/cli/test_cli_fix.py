"""`i2s fix`: output, exit codes, and files left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples import some
from interrupted import interrupted_writing
from malformed_cases import SMALL, broken
from transcripts_runner import run

from i2s_spec.testing.sample import Draft, Model


def test_exit_codes(tmp_path: Path) -> None:
    for name in ("bool_2", "overlap", "html"):
        (tmp_path / name).write_bytes(broken(name))
    assert "[exit" not in run("i2s fix bool_2 -o a", tmp_path)
    assert run("i2s fix overlap -o b", tmp_path).endswith("[exit 1]\n")
    assert run("i2s fix html -o c", tmp_path).endswith("[exit 3]\n")
    assert run("i2s fix bool_2 -o a", tmp_path).endswith("[exit 2]\n")
    assert (tmp_path / "a").read_bytes() == Draft().data
    assert run("i2s fix bool_2 -q -o a --force", tmp_path) == ""


def test_json_says_all_that_text_says(tmp_path: Path) -> None:
    data = Model("bitnet-25").add("general.architecture", 8, b"again").built() + bytes(64)  # type: ignore[arg-type]
    (tmp_path / "a.gguf").write_bytes(data)
    found = json.loads(run("i2s fix a.gguf --unsafe --json -o b.gguf", tmp_path))
    assert found["schema_version"] == 1
    assert {row["code"] for row in found["repaired"]} == {"G203", "G407", "M019"}
    assert found["weights"]["unchanged"] is True
    assert found["written"] is True
    assert found["size"] == (tmp_path / "b.gguf").stat().st_size
    assert found["remaining"]["errors"] == 0
    safe = json.loads(run("i2s fix a.gguf --json --dry-run", tmp_path).partition("[exit")[0])
    assert {row["code"] for row in safe["needs_unsafe"]} == {"G203", "M019"}
    assert [row["path"] for row in safe["changes"]] == ["trailing"]
    assert safe["changes"][0]["complete"] is True


def test_many_repairs_are_counted(tmp_path: Path) -> None:
    model = Model("llama")
    for i in range(30):
        model.add(f"general.\u0430{i}", 0, i)  # type: ignore[arg-type]
    (tmp_path / "a.gguf").write_bytes(model.built())
    text = run("i2s fix a.gguf --unsafe --dry-run", tmp_path)
    assert text.count("repaired: G205") == 11
    assert "a.gguf: repaired: G205: 20 more\n" in text


def test_output_has_no_control_characters(tmp_path: Path) -> None:
    for case in some(SMALL.values()):
        if len(case.data) < 1 << 16:
            (tmp_path / "a.gguf").write_bytes(case.data)
            for options in ("--unsafe --dry-run", "--unsafe --dry-run --json"):
                text = run(f"i2s fix a.gguf {options}", tmp_path)
                assert all(char.isprintable() or char == "\n" for char in text), case.name
                assert "internal error" not in text, case.name


@pytest.mark.parametrize("verb", ["fix", "sanitize --keep-unknown"])
def test_an_interruption_leaves_nothing_behind(tmp_path: Path, verb: str) -> None:
    with (tmp_path / "large.gguf").open("wb") as file:
        file.write(Model("llama").drop("general.quantization_version").built())
        file.truncate(16 << 20)
    done = interrupted_writing(tmp_path, *verb.split(), "large.gguf", "-o", "out.gguf")
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip() == "i2s: interrupted"
    assert os.listdir(tmp_path) == ["large.gguf"]


def test_a_diff_shows_records_in_words_and_the_rest_by_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(broken("heads_3"))
    (tmp_path / "b").write_bytes(broken("scale_be"))
    made = subprocess.run(
        [sys.executable, "-m", "i2s_spec", "fix", "a", "--unsafe", "--diff"],
        cwd=tmp_path, capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    key = "bitnet-b1.58.attention.head_count (u32)"
    assert made.stdout.splitlines() == [
        "--- a", "+++ a, repaired", "@@ key_values[8].value @@", f"-{key} = 3", f"+{key} = 4",
    ]  # fmt: skip
    assert "repaired: M006" in made.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    shown = run("i2s fix b --unsafe --diff", tmp_path)
    assert "@@ data[1].tail.scale: bytes" in shown
    assert "- 0x2a0  3f 40 00 00" in shown
    assert "diff" in json.loads(run("i2s fix b --unsafe --diff --json", tmp_path))
    assert "+++" not in run("i2s fix b --diff", tmp_path)  # nothing is repaired without --unsafe
    assert run("i2s fix b --diff -o c", tmp_path).endswith("[exit 2]\n")
