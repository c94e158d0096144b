"""Lists of checksums: `hash --write` and `--check`, and sha256sum on both sides."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders import model_bytes
from click.testing import CliRunner
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.cli import cli
from i2s_spec.compare.checksums import line, read
from i2s_spec.convert.rewrite import Value, rewrite

DIGEST = hashlib.sha256(b"").hexdigest()
NAMES = ["plain.gguf", "with blank.gguf", "back\\slash.gguf", "line\nend.gguf", "carriage\rreturn.gguf", "é.gguf"]
if os.name == "nt":
    NAMES = NAMES[:2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(NAMES):
        (tmp_path / os.fsdecode(name.encode())).write_bytes(model_bytes("llama", layers=1, seed=number))
    return tmp_path


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, ["hash", *words], standalone_mode=False)


@examples(200)
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1))
def test_any_name_comes_back(name: str) -> None:
    name = os.fsdecode(name.encode())  # as the system gives it, whatever the locale
    assert [(each.name, each.sha256) for each in read(os.fsencode(line(DIGEST, name)) + b"\n")] == [(name, DIGEST)]


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_sha256sum_takes_the_list_and_writes_the_same(folder: Path) -> None:
    names = [os.fsdecode(name.encode()) for name in NAMES]
    assert run(*names, "--write", "LIST", "-q").return_value == 0
    done = subprocess.run(["sha256sum", "-c", "--strict", "LIST"], capture_output=True, check=False, cwd=folder)
    assert (done.returncode, done.stderr) == (0, b"")
    theirs = subprocess.run(["sha256sum", *names], capture_output=True, check=True, cwd=folder).stdout
    ours = [row for row in (folder / "LIST").read_bytes().splitlines(keepends=True) if not row.startswith(b"#")]
    assert b"".join(ours) == theirs


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
@pytest.mark.parametrize("option", ["--binary", "--text", "--tag"])
def test_lists_of_sha256sum_are_checked(folder: Path, option: str) -> None:
    names = [os.fsdecode(name.encode()) for name in NAMES]
    (folder / "LIST").write_bytes(subprocess.run(["sha256sum", option, *names], capture_output=True, check=True).stdout)
    found = run("--check", "LIST", "-q")
    assert (found.return_value, found.output) == (0, "")


def test_other_bytes_with_the_same_weights(folder: Path) -> None:
    run("plain.gguf", "--write", "LIST", "-q")
    data = (folder / "plain.gguf").read_bytes()
    with open("plain.gguf", "wb") as out:
        rewrite(data, out, set={"general.name": Value("str", "another")})
    found = run("--check", "LIST")
    assert found.return_value == 1
    assert "plain.gguf: FAILED: other bytes; the weights are the same\n" in found.output
    (folder / "plain.gguf").write_bytes(model_bytes("llama", layers=1, seed=9))
    assert "the weights are others, too" in run("--check", "LIST", "-q").output
    (folder / "plain.gguf").write_bytes(b"GGUF")
    assert "FAILED: other bytes\n" in run("--check", "LIST", "-q").output
    (folder / "plain.gguf").unlink()
    (row,) = json.loads(run("--check", "LIST", "--json").output)["files"]
    assert (row["same"], row["same_weights"]) == (False, None)
    assert "cannot be read" in row["problem"]


def test_a_dialect_is_in_the_list(folder: Path) -> None:
    (folder / "plain.gguf").write_bytes(model_bytes("llama", layers=1))
    run("plain.gguf", "--write", "LIST", "--dialect", "interleave-64", "-q")
    (found,) = read((folder / "LIST").read_bytes())
    assert found.dialect == "interleave-64"
    assert run("--check", "LIST").return_value == 0


def test_a_list_is_not_overwritten(folder: Path) -> None:
    (folder / "LIST").write_bytes(b"mine")
    assert "already exists" in str(run("plain.gguf", "--write", "LIST").exception)
    assert "is an input file" in str(run("plain.gguf", "--write", "plain.gguf", "--force").exception)
    assert (folder / "LIST").read_bytes() == b"mine"
    assert run("plain.gguf", "--write", "LIST", "--force").return_value == 0


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n", b"# only a comment\n", b"a\n", f"{DIGEST} name".encode(), f"{DIGEST[1:]}  name".encode(), b"\0" * 99,
        f"\\{DIGEST}  a\\q".encode(), f"\\{DIGEST}  a\\\\\\".encode(), f"{DIGEST}  ".encode(), f"{DIGEST}  a\0b".encode(),
        b"GGUF" + bytes(999),
    ],
)  # fmt: skip
def test_what_is_no_list_is_refused(folder: Path, data: bytes) -> None:
    (folder / "LIST").write_bytes(data)
    found = run("--check", "LIST")
    assert "is no list of checksums: " in str(found.exception)
    assert len(str(found.exception)) < 200


def test_names_of_a_list_are_only_paths(folder: Path) -> None:
    """No address is fetched, no device is read, and nothing is printed as it is."""
    names = ["https://127.0.0.1:9/x.gguf", "hf://a/b", "/dev/zero", ".", "a\x1b[31m"]
    (folder / "LIST").write_text("".join(f"{DIGEST}  {name}\n" for name in names), encoding="utf-8")
    found = run("--check", "LIST")
    assert found.return_value == 1
    assert found.output.count("FAILED: ") == len(names)
    assert "\x1b" not in found.output


@pytest.mark.parametrize(
    "words", [[], ["--check", "LIST", "plain.gguf"], ["--check", "LIST", "--lineage"], ["hf://a/b", "--write", "LIST"]]
)
def test_calls_that_mean_nothing(folder: Path, words: list[str]) -> None:
    (folder / "LIST").write_text(f"{DIGEST}  plain.gguf\n", encoding="utf-8")
    assert run(*words).exception is not None
