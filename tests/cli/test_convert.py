"""convert, decode, encode, hash and diff on the command line."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from transcripts_runner import run

from i2s_spec.convert.new import new
from i2s_spec.convert.rewrite import rewrite
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.testing.sample import Model

VERBS = ("convert", "quantize", "decode", "encode", "hash", "diff")
ATTN = "blk.0.attn_q.weight"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    new(path, embd=256)
    return path


@pytest.fixture
def folder(tmp_path: Path, model: Path) -> Path:
    shutil.copy(model, tmp_path / "tiny.gguf")
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_in_the_help_works_as_typed(verb: str, tmp_path: Path) -> None:
    text = run(f"i2s {verb} --help", tmp_path)
    *before, last = " ".join(text.rsplit("Example:", 1)[1].split()).split(" && ")
    for command in before:
        assert "[exit" not in run(command, tmp_path)
    assert run(last, tmp_path).endswith("[exit 1]\n") == (verb == "diff")  # the two models differ


def warnings_of(command: str, folder: Path) -> list[str]:
    return [line.removeprefix("stderr: ") for line in run(command, folder).splitlines() if "warning: " in line]


def test_convert_warns_of_what_programs_do_wrongly(folder: Path) -> None:
    (short,) = warnings_of("i2s convert tiny.gguf a.gguf --to IQ2_BN", folder)
    assert short.startswith("warning: ik_llama.cpp, August 2026: 'blk.0.")
    assert short.endswith(
        "has 256 columns: its kernels of IQ1_BN and IQ2_BN need 512, and end the process by an assertion"
    )
    (slow,) = warnings_of("i2s convert tiny.gguf c.gguf --to Q2_0 --arch bitnet", folder)
    assert "no vector code for Q2_0: 0.9 tokens per second" in slow
    assert warnings_of("i2s convert tiny.gguf d.gguf --to TQ2_0 --arch bitnet", folder) == []
    assert warnings_of("i2s convert tiny.gguf a.gguf --to IQ2_BN --force -q", folder) == []
    document = json.loads(run("i2s convert tiny.gguf a.gguf --to IQ2_BN --force --json -q", folder))
    assert document["warnings"] == [short.removeprefix("warning: ")]


@pytest.mark.parametrize(
    ("made", "options", "wanted"),
    [
        ("--arch bitnet-b1.58", "--arch bitnet", "relu2"),
        ("--arch bitnet-b1.58", "--arch bitnet --hidden-activation silu", "silu"),
        ("--arch bitnet", "--arch bitnet-b1.58", "silu"),
        ("--arch bitnet-b1.58", "--arch bitnet-25", None),
        ("--arch bitnet", "--arch bitnet", None),
    ],
)
def test_a_renamed_architecture_keeps_its_activation(
    made: str, options: str, wanted: str | None, tmp_path: Path
) -> None:
    """What the former name means is stored where the new one means another: the copy computes the same."""
    run(f"i2s new a.gguf {made} -q", tmp_path)
    said = run(f"i2s convert a.gguf b.gguf --to F16 {options}", tmp_path)
    with open_file(tmp_path / "b.gguf") as file:
        assert file.metadata.get(f"{file.metadata['general.architecture']}.hidden_activation") == wanted
    kept = wanted is not None and "--hidden-activation" not in options
    assert (f"hidden_activation is set to {wanted}, which architecture" in said) == kept
    if kept:
        for name in ("a", "b"):
            run(f"i2s golden record {name}.gguf --tokens 1,2,3 -o {name} -q", tmp_path)
        one, other = (
            json.loads((tmp_path / name / "golden.json").read_text("utf-8"))["activation"]["name"] for name in "ab"
        )
        assert one == other == wanted


def test_convert_warns_of_keys_that_programs_ignore(tmp_path: Path) -> None:
    """A window that llama.cpp's architecture llama has not, and scaled positions that transformers does not read."""
    new(tmp_path / "a.gguf", "llama", embd=512, ff=1024, layers=1)
    keys = {"attention.sliding_window": 64, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}
    rewrite(tmp_path / "a.gguf", tmp_path / "b.gguf", set={f"llama.{key}": value for key, value in keys.items()})
    window, positions = warnings_of("i2s convert b.gguf c.gguf --to F16", tmp_path)
    assert "does not read llama.attention.sliding_window (here 64) in files of architecture llama" in window
    assert "transformers for Python, 5.24.0, gguf_file= computed a file with rotary scaling linear wrongly" in positions


def test_import_warns_of_what_programs_do_wrongly(tmp_path: Path) -> None:
    new(tmp_path / "a.gguf", "llama", embd=512, ff=1024, layers=1)
    run("i2s export a.gguf -o folder", tmp_path)
    (slow,) = warnings_of("i2s import folder -o b.gguf --to Q2_0", tmp_path)
    assert "no vector code for Q2_0" in slow
    assert warnings_of("i2s import folder -o c.gguf --to TQ2_0", tmp_path) == []
    document = json.loads(run("i2s import folder -o b.gguf --to Q2_0 --force --json -q", tmp_path))
    assert document["warnings"] == [slow.removeprefix("warning: ")]


def test_convert_says_what_it_did(folder: Path) -> None:
    said = run("i2s convert tiny.gguf out.gguf --to TQ2_0 --arch bitnet --hidden-activation relu2", folder).splitlines()
    size = (folder / "out.gguf").stat().st_size
    assert said[:3] == [
        f"out.gguf: {size:,} bytes, 14 tensors converted, 10 copied",
        "proof: the trits of all 14 tensors are equal, read back from what was written (TQ2_0)",
        "proof: 0 scales are kept, 14 rounded; most: blk.0.attn_q.weight, scale 0.0842019841 -> 0.0842285156 (+3.2e-04)",
    ]
    assert said[3] == ("general.file_type: 40 (I2_S to the BitNet forks, Q1_0 to upstream llama.cpp) -> 37 (TQ2_0)")
    assert "note: llama.cpp computes architecture bitnet with SiLU, whatever" in said[4]
    said = run("i2s convert tiny.gguf dialect.gguf --to interleave-64 -v", folder)
    assert said.count("trits equal, scale") == 14
    assert "proof: all 14 scales are kept, bit for bit" in said
    assert run("i2s convert tiny.gguf quiet.gguf --to F16 -q", folder) == ""


def test_a_file_without_ternary_tensors_is_copied_and_that_is_said(folder: Path) -> None:
    vocabulary = Model("llama")
    vocabulary.tensors = []
    (folder / "vocabulary.gguf").write_bytes(vocabulary.built())
    said = run("i2s convert vocabulary.gguf copy.gguf --to TQ2_0", folder)
    assert "No tensor was converted: none that was asked for is ternary." in said
    (folder / "copy.gguf").unlink()
    assert "No tensor" not in run("i2s convert vocabulary.gguf copy.gguf --endian big", folder)


def test_convert_as_json(folder: Path) -> None:
    about = json.loads(run("i2s convert tiny.gguf out.gguf --to BF16 --json", folder))
    assert (about["schema_version"], about["file_type"], len(about["tensors"])) == (1, [40, 32], 14)
    row = about["tensors"][0]
    assert row["trits_equal"] is True
    assert abs(row["stored_scale"] / row["scale"] - 1) < 2**-8


def test_there_and_back_is_the_same_file(folder: Path) -> None:
    for to in ("rows-1x4", "F32"):
        run(f"i2s convert tiny.gguf there.gguf --to {to} --endian big --force", folder)
        back = "--from rows-1x4" if to == "rows-1x4" else ""
        run(f"i2s convert there.gguf back.gguf --to I2_S {back} --endian little --force", folder)
        assert (folder / "back.gguf").read_bytes() == (folder / "tiny.gguf").read_bytes()
        assert run("i2s diff tiny.gguf back.gguf", folder) == "A and B mean the same: all keys, 24 tensors\n"


def test_checkpoints(folder: Path) -> None:
    said = run("i2s convert tiny.gguf out.safetensors", folder)
    assert "14 tensors converted, 10 copied" in said
    assert "linear_class autobitlinear" in said
    run("i2s new other.gguf --embd 256 --seed 5", folder)
    refused = run("i2s convert out.safetensors new.gguf --into other.gguf", folder)
    assert "there is no config.json beside the checkpoint" in refused
    assert refused.endswith("[exit 2]\n")
    run("i2s convert out.safetensors new.gguf --into other.gguf --weight-scale multiply", folder)
    ours, theirs = (open_file(folder / name) for name in ("tiny.gguf", "new.gguf"))
    assert ours.tensors[ATTN].read() == theirs.tensors[ATTN].read()
    assert run("i2s convert out.safetensors x.gguf --to F16", folder).endswith("[exit 2]\n")
    assert "--arch is not for --into" in run("i2s convert a b --into c --arch bitnet", folder)


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("convert tiny.gguf out.gguf", 2, "nothing to do"),
        ("convert tiny.gguf out.gguf --to Q4_0", 2, "'Q4_0' is not one of"),
        ("convert tiny.gguf tiny.gguf --to F16", 2, "is an input file"),
        ("convert none.gguf out.gguf --to F16", 3, "S901"),
        ("convert bad.gguf out.gguf --to F16", 3, "G002"),
        ("convert cut.gguf out.gguf --to F16", 3, "cut.gguf: G401"),
        ("convert tiny.gguf none/out.gguf --to F16", 3, "the folder for the file does not exist"),
        ("decode tiny.gguf x out.npy", 2, "the file has no tensor 'x'"),
        ("decode tiny.gguf token_embd.weight out.npy", 2, "not ternary"),
        ("decode tiny.gguf blk.0.attn_q.weight bad.gguf", 2, "use --force to overwrite it"),
        ("encode bad.gguf out.gguf", 3, "H103"),
        ("encode bad.gguf tiny.gguf", 2, "use --force to overwrite it"),
        ("encode bad.gguf out --into tiny.gguf", 2, "belong together"),
        ("encode bad.gguf out --into tiny.gguf --tensor x --endian big", 2, "the byte order is MODEL's"),
        ("hash bad.gguf", 3, "G002"),
        ("hash tiny.gguf --dialect x", 2, "no layout is called 'x'"),
        ("diff tiny.gguf bad.gguf", 3, "G002"),
        ("diff tiny.gguf cut.gguf", 3, "G401"),
        ("diff tiny.gguf tiny.gguf --dialect-a x", 2, "no layout is called 'x'"),
    ],
)
def test_impossible_conversions_are_refused(command: str, status: int, said: str, folder: Path) -> None:
    (folder / "bad.gguf").write_bytes(b"no GGUF file, whatever its name says")
    (folder / "cut.gguf").write_bytes((folder / "tiny.gguf").read_bytes()[:-2000])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run(f"i2s {command}", folder)
    assert said in result
    assert result.endswith(f"[exit {status}]\n")
    assert "internal error" not in result
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_decode_and_encode(folder: Path) -> None:
    said = run(f"i2s decode tiny.gguf {ATTN} q.npy", folder)
    scale = re.fullmatch(r"q\.npy: int8 256 x 256, scale (\S+)\n", said)
    assert scale is not None
    said = run(f"i2s encode q.npy new.gguf --scale {scale[1]} --into tiny.gguf --tensor {ATTN}", folder)
    size = (folder / "tiny.gguf").stat().st_size
    assert said == f"new.gguf: I2_S 256 x 256, {size:,} bytes, in the place of {ATTN}\n"
    assert (folder / "new.gguf").read_bytes() == (folder / "tiny.gguf").read_bytes()
    run(f"i2s encode q.npy q.i2s --scale {scale[1]}", folder)
    assert (folder / "q.i2s").read_bytes() == open_file(folder / "tiny.gguf").tensors[ATTN].read()
    run(f"i2s decode tiny.gguf {ATTN} w.npy --as float32", folder)
    run("i2s encode w.npy w.i2s", folder)
    assert (folder / "w.i2s").read_bytes() == (folder / "q.i2s").read_bytes()
    np.save(folder / "g.npy", np.random.default_rng(0).standard_normal((2, 128)))
    said = run("i2s encode g.npy g.i2s", folder)
    assert "stderr: i2s: the weights are not -s, 0 and +s" in said
    assert "[exit" not in said


def test_hash_distinguishes_weights_and_metadata(folder: Path) -> None:
    run("i2s convert tiny.gguf other.gguf --to interleave-64", folder)
    ours = run("i2s hash tiny.gguf", folder).split()[1::2]
    theirs = run("i2s hash other.gguf --dialect interleave-64", folder).split()[1::2]
    assert (ours[0] == theirs[0], ours[1:] == theirs[1:]) == (False, True)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in ours)
    about = json.loads(run("i2s hash tiny.gguf --json", folder))
    assert [about[name] for name in ("file", "metadata", "weights")] == ours
    assert len(about["tensors"]) == 24
    assert run("i2s hash tiny.gguf --tensors", folder).count("ternary") == 14


def test_hash_of_several_files(folder: Path) -> None:
    shutil.copy(folder / "tiny.gguf", folder / "copy.gguf")
    run("i2s new other.gguf --embd 256 --seed 1", folder)
    one = run("i2s hash tiny.gguf", folder)
    said = run("i2s hash tiny.gguf other.gguf copy.gguf", folder)
    assert said.startswith("tiny.gguf\n" + "".join(f"  {line}\n" for line in one.splitlines()) + "other.gguf\n")
    assert said.endswith("\nthe same weights: tiny.gguf, copy.gguf\n")
    files = json.loads(run("i2s hash --json tiny.gguf other.gguf", folder))["files"]
    assert [each["path"] for each in files] == ["tiny.gguf", "other.gguf"]
    assert files[0] == json.loads(run("i2s hash --json tiny.gguf", folder))
    assert "no-file: S901" in run("i2s hash tiny.gguf no-file", folder)


@pytest.mark.parametrize(
    "words", ["decode tiny.gguf blk.0.attn_q.weight", "encode q.npy --scale 1", "convert tiny.gguf --to interleave-64"]
)
def test_the_output_is_the_last_argument_or_an_option(folder: Path, words: str) -> None:
    np.save(folder / "q.npy", np.ones((2, 128), np.int8))
    for name in ("a.out", "-o b.out", "--output c.out"):
        assert "[exit" not in run(f"i2s {words} {name}", folder)
    assert len({(folder / f"{name}.out").read_bytes() for name in "abc"}) == 1
    missing, twice = (run(f"i2s {words} {more}", folder) for more in ("", "d.out -o e.out"))
    assert "the file to write is missing: OUT as the last argument, or -o OUT" in missing
    assert "the file to write is given twice" in twice
    assert missing.endswith("[exit 2]\n")
    assert not list(folder.glob("[de].out"))


def test_diff_by_exit_code_and_as_json(folder: Path) -> None:
    run("i2s new other.gguf --embd 256 --seed 1", folder)
    assert run("i2s diff -q tiny.gguf other.gguf", folder) == "[exit 1]\n"
    assert run("i2s diff -q tiny.gguf tiny.gguf", folder) == ""
    said = run("i2s diff --json tiny.gguf other.gguf", folder)
    about = json.loads(said.removesuffix("[exit 1]\n"))
    assert (about["schema_version"], about["same"], about["compared"]) == (1, False, 24)


def test_text_of_a_file_is_escaped(folder: Path) -> None:
    from i2s_spec.testing.sample import Draft

    draft = Draft()
    file = draft.records()
    file.tensor_infos[1].name = b"\x1b[31mred.weight"
    (folder / "odd.gguf").write_bytes(draft.built(file))
    for command in ("hash odd.gguf --tensors", "diff odd.gguf tiny.gguf", "diff tiny.gguf odd.gguf"):
        assert "\x1b" not in run(f"i2s {command}", folder)


START = """
import sys
import i2s_spec.cli as cli
cli.main()
"""


def test_a_progress_bar_is_shown_on_a_terminal_only(folder: Path) -> None:
    arguments = shlex.split("convert tiny.gguf out.gguf --to F16 --force")
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    shown = subprocess.run(
        [sys.executable, "-c", START, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=follower,
        env=environment, check=True,
    )  # fmt: skip
    os.close(follower)
    drawn = os.read(leader, 1 << 16)
    os.close(leader)
    assert b"converting" in drawn
    assert b"converting" not in shown.stdout
    silent = subprocess.run([sys.executable, "-c", START, *arguments], cwd=folder, capture_output=True, check=True)
    assert silent.stderr == b""
