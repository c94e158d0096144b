"""`i2s new` on the command line: output, exit codes, and files left behind."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from interrupted import interrupted_writing
from one_process import i2s as i2s_here

import i2s_spec as i2s
from i2s_site import examples
from i2s_spec.convert.new import new
from i2s_spec.convert.recipes import SHAPES
from i2s_spec.schema.architectures import ARCHITECTURES

I2S = [sys.executable, "-m", "i2s_spec"]


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return i2s_here(folder, "new", *args)


def test_one_line_says_what_was_written(tmp_path: Path) -> None:
    result = run(tmp_path, "tiny.gguf")
    assert (result.returncode, result.stderr) == (0, "")
    size = (tmp_path / "tiny.gguf").stat().st_size
    assert result.stdout == f"tiny.gguf: bitnet-b1.58, {size:,} bytes, 25 keys, 24 tensors\n"


def test_every_option(tmp_path: Path) -> None:
    result = run(
        tmp_path, "a.gguf", "--arch", "qwen3", "--layers", "1", "--embd", "256", "--ff", "384", "--heads", "2",
        "--heads-kv", "1", "--head-dim", "64", "--vocab", "300", "--context", "77", "--seed", "5", "--alignment", "64",
        "--endian", "big", "--quiet",
    )  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    new(
        tmp_path / "b.gguf", "qwen3", layers=1, embd=256, ff=384, heads=2, heads_kv=1, head_dim=64, vocab=300, context=77,
        seed=5, alignment=64, byte_order="big",
    )  # fmt: skip
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def test_any_architecture_that_llama_cpp_loads(tmp_path: Path) -> None:
    result = run(tmp_path, "a.gguf", "--arch", "qwen3next", "--type", "bf16", "--vocab", "300", "--seed", "5")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("a.gguf: qwen3next, ")
    new(tmp_path / "b.gguf", "qwen3next", type="BF16", vocab=300, seed=5)
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def test_help_names_what_there_is_and_its_example_works(tmp_path: Path) -> None:
    result = run(tmp_path, "--help")
    assert result.returncode == 0
    assert all(name in result.stdout for name in (*ARCHITECTURES, *SHAPES))
    example = result.stdout.rsplit("Example:", 1)[1].strip()
    assert example.startswith("i2s new ")
    result = run(tmp_path, *shlex.split(example)[2:])
    assert result.returncode == 0
    assert len(i2s.open(tmp_path / "tiny.gguf").tensors) == 30


def test_help_is_light() -> None:
    code = (
        "import sys\nfrom i2s_spec.cli import main\n"
        "try:\n    main(['new', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('numpy', 'construct', 'rich') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert result.stdout.endswith("\n[]\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--embd", "100"], "embd is 100; it must be a multiple of 128"),
        (["--heads", "3"], "heads is 3; it must divide embd, which is 128"),
        (["--heads-kv", "0"], "heads_kv is 0; it must divide heads"),
        (["--vocab", "7"], "a vocabulary of this kind has 259 to 1,048,576 tokens, not 7"),
        (["--layers", "many"], "'many' is not a valid integer"),
        (["--arch", "gtp2"], "unknown architecture 'gtp2'; did you mean gpt2?"),
        (["--arch", "gpt2", "--rotated"], "rotated is for bitnet-b1.58"),
        (["--arch", "eagle3"], "the shape of fc.weight in eagle3 is not resolved by the table"),
        (["--shape", "2b4t", "--ff", "256"], "2b4t sets all sizes; ff cannot be given as well"),
        (["--alignment", "3"], "general.alignment is 3, which is not a power of two"),
        (["--seed", "-1"], "the seed is -1; seeds start at 0"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, args: list[str], said: str) -> None:
    result = run(tmp_path, "model.gguf", *args)
    assert result.returncode == 2
    assert result.stdout == ""
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert os.listdir(tmp_path) == []


def test_a_file_is_replaced_by_force_only(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"precious")
    result = run(tmp_path, "model.gguf")
    assert result.returncode == 2
    assert "model.gguf already exists; use --force to overwrite it" in result.stderr
    assert path.read_bytes() == b"precious"
    assert run(tmp_path, "model.gguf", "--force").returncode == 0
    assert i2s.open(path).version == 3


@pytest.mark.parametrize("target", ["missing/model.gguf", "."])
def test_impossible_targets_are_refused(tmp_path: Path, target: str) -> None:
    result = run(tmp_path, target)
    assert result.returncode == 3
    assert result.stderr.startswith("i2s: ")
    assert os.listdir(tmp_path) == []


def test_odd_names_are_shown_safely(tmp_path: Path) -> None:
    result = run(tmp_path, "\x1b[31mred.gguf", "--layers", "1")
    assert result.returncode == 0
    assert result.stdout.startswith("\\x1b[31mred.gguf: ")
    assert os.listdir(tmp_path) == ["\x1b[31mred.gguf"]


def test_interrupted(tmp_path: Path) -> None:
    done = interrupted_writing(tmp_path, "new", "model.gguf")
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    assert done.stderr.strip() == "i2s: interrupted"
    assert os.listdir(tmp_path) == []


def test_progress_on_a_terminal_only(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*I2S, "new", "model.gguf", "--embd", "1024", "--ff", "4096"]
    shown = b""
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        with suppress(OSError):  # Linux reports the closed end of a terminal as an error
            while part := os.read(ours, 1 << 12):
                shown += part
        out, _ = process.communicate(timeout=600)
    os.close(ours)
    assert process.returncode == 0
    assert b"writing" in shown
    assert out.startswith(b"model.gguf: bitnet-b1.58, ")


def test_the_sample_is_that_of_the_examples(tmp_path: Path) -> None:
    i2s_here(tmp_path, "new", "sample.gguf", "--sample")
    i2s_here(tmp_path, "new", "big.gguf", "--sample", "--endian", "big")
    assert (tmp_path / "sample.gguf").read_bytes() == examples.FILES["sample.gguf"]()
    assert (tmp_path / "big.gguf").read_bytes() == examples.FILES["sample-big-endian.gguf"]()
