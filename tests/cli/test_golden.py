"""`i2s golden`: typical commands, exit codes, help."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from one_process import i2s as run

import i2s_spec as i2s


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("golden-cli")
    i2s.new(path / "tiny.gguf", layers=1)
    assert run(path, "golden", "record", "tiny.gguf", "--tokens", "1,2,3,4", "-o", "golden", "-q").returncode == 0
    assert run(path, "golden", "record", "tiny.gguf", "--tokens", "5,6", "-o", "other", "-q").returncode == 0
    return path


@pytest.mark.parametrize("verb", ["record", "compare"])
def test_the_example_of_help_works_as_typed(tmp_path: Path, verb: str) -> None:
    told = run(tmp_path, "golden", verb, "--help").stdout
    text = " ".join(told[told.index("Example:") + 8 :].split())
    for command in text.split(" && "):
        done = run(tmp_path, *shlex.split(command)[1:])
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "golden" / "golden.json").is_file()


def test_record_says_what_to_type_next(folder: Path) -> None:
    done = run(folder, "golden", "record", "tiny.gguf", "--tokens", "1 2", "-o", "next")
    assert done.returncode == 0
    assert done.stdout.startswith("next: 2 tokens, ")
    assert "i2s golden compare next DUMP --model tiny.gguf" in done.stderr


def test_record_of_a_text(folder: Path) -> None:
    (folder / "text.txt").write_text("the weights")
    for number, words in enumerate((["--text", "the weights"], ["--text-file", "text.txt"])):
        done = run(folder, "golden", "record", "tiny.gguf", *words, "-o", f"text{number}", "-q")
        assert done.returncode == 0, done.stderr
    headers = [json.loads((folder / f"text{number}" / "golden.json").read_text()) for number in (0, 1)]
    assert headers[0]["token_ids"] == headers[1]["token_ids"]
    assert headers[0]["text"] == "the weights"


def test_everything_that_can_be_recorded(folder: Path) -> None:
    words = "record tiny.gguf --tokens 1,2,3,4 -o all --npz --light --callback-text shown --kl-divergence-base"
    done = run(folder, "golden", *words.split(), "--numerics", "hf-f32", "--activation", "silu")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "all").iterdir()) == [
        "eval-callback.txt", "golden.json", "logits.kld", "taps.npz"
    ]  # fmt: skip
    header = json.loads((folder / "all" / "golden.json").read_text())
    assert (header["profile"], header["activation"]["name"], header["set"]) == ("hf-f32", "silu", "light")
    with i2s.open(folder / "tiny.gguf") as file:
        first, wanted = file.metadata["tokenizer.ggml.bos_token_id"], file.metadata["tokenizer.ggml.add_bos_token"]
    assert wanted
    assert (f"llama-perplexity puts token {first} in place of the first one" in done.stderr) == (first != 1)


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["record", "tiny.gguf", "-o", "x"], 2, "one of --tokens, --text and --text-file"),
        (["record", "tiny.gguf", "--tokens", "1", "--text", "a", "-o", "x"], 2, "one of --tokens"),
        (["record", "tiny.gguf", "--tokens", "1,99999", "-o", "x"], 2, "the ids of this model are 0 to"),
        (["record", "tiny.gguf", "--tokens", "a", "-o", "x"], 2, "no token id"),
        (["record", "tiny.gguf", "--tokens", "1", "-o", "x", "--numerics", "none"], 2, "no numeric profile"),
        (["record", "tiny.gguf", "--tokens", "1", "-o", "x", "--dialect", "none"], 2, "none"),
        (["record", "tiny.gguf", "--tokens", "1", "-o", "golden"], 2, "use --overwrite to replace it"),
        (["record", "tiny.gguf", "--tokens", "1", "-o", "none/x"], 3, "no such folder"),
        (["record", "tiny.gguf", "--tokens", "1", "-o", "tiny.gguf"], 2, "is an input file"),
        (["record", "nothing.gguf", "--tokens", "1", "-o", "x"], 3, "nothing.gguf"),
        (["compare", "golden", "nothing.npz"], 3, "nothing.npz"),
        (["compare", "nothing", "golden"], 3, "not a record"),
        (["compare", "golden", "tiny.gguf"], 2, "neither"),
        (["compare", "golden", "golden", "--mode", "all"], 2, "all"),
        (["compare", "golden", "golden", "--model", "golden"], 3, "golden"),
        (["compare", "golden", "other"], 2, "a record of other tokens: 2"),
    ],
)  # fmt: skip
def test_impossible_requests_are_refused(folder: Path, words: list[str], status: int, says: str) -> None:
    done = run(folder, "golden", *words)
    assert done.returncode == status, (done.stdout, done.stderr)
    assert says in done.stderr.replace("is not a token id", "no token id")
    assert "Traceback" not in done.stderr
    assert not (folder / "x").exists()


def test_exit_codes_of_compare(folder: Path) -> None:
    done = run(folder, "golden", "compare", "golden", "golden", "--model", "tiny.gguf")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("OK: each of ")
    np.savez(
        folder / "wrong.npz", **{"ffn_up-0": np.ones((4, 256), np.float32), "ffn_norm-0": np.ones((4, 128), np.float32)}
    )
    done = run(folder, "golden", "compare", "golden", "wrong.npz", "--model", "tiny.gguf", "--no-diagnosis")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("WRONG: the first wrong tensor is ")
    (folder / "cut.npz").write_bytes((folder / "wrong.npz").read_bytes()[:-100])
    assert run(folder, "golden", "compare", "golden", "cut.npz").returncode == 3


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_reports_into_a_file(folder: Path, form: str) -> None:
    plain = run(folder, "golden", "compare", "golden", "golden", "--format", form)
    done = run(folder, "golden", "compare", "golden", "golden", "--format", form, "-o", f"report.{form}")
    assert (done.returncode, done.stdout) == (0, "")
    text = (folder / f"report.{form}").read_text(encoding="utf-8")
    if form == "html":  # the footers contain different commands and times
        assert f"<code>i2s golden compare --format html --output report.{form} golden golden</code>" in text
        text, before = (re.sub(r"<footer>.*</footer>", "", each) for each in (text, plain.stdout))
        assert text == before
    else:
        assert text == plain.stdout


def test_a_model_that_is_broken(folder: Path) -> None:
    """A scale that is NaN: refused with the linter's finding; with --force, since the logits are NaN."""
    with i2s.open(folder / "tiny.gguf") as file:
        span = file.tensors["blk.0.ffn_up.weight"].span
    data = bytearray((folder / "tiny.gguf").read_bytes())
    data[span.stop - 32 : span.stop - 28] = b"\x00\x00\xc0\x7f"
    (folder / "nan.gguf").write_bytes(data)
    done = run(folder, "golden", "record", "nan.gguf", "--tokens", "1,2", "-o", "nan")
    assert done.returncode in (2, 3)
    assert "nan" in done.stderr.lower()
    assert not (folder / "nan").exists()
    done = run(folder, "golden", "record", "nan.gguf", "--tokens", "1,2,3,4", "-o", "nan", "--force")
    assert (done.returncode, "M901" in done.stderr) == (3, True), done.stderr
    assert not (folder / "nan").exists()


def test_a_terminated_record_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    """SIGTERM, by which time limits end a program: not even the unfinished folder stays."""
    code = (
        "import os, signal; from i2s_spec.golden import store; from i2s_spec.cli import main\n"
        "store.NewRecord.add = lambda *_, **__: (print(os.listdir()), os.kill(os.getpid(), signal.SIGTERM))\n"
        f"main(['golden', 'record', {str(folder / 'tiny.gguf')!r}, '--tokens', '1,2', '-o', 'x'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    assert done.returncode == 143, done.stderr
    assert ".part" in done.stdout
    assert list(tmp_path.iterdir()) == []
