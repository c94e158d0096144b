"""Commands without a file use the trained model in the package, and say so."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from one_process import i2s as run

import i2s_spec as i2s
from i2s_spec.convert.trained import MODELS, OPENING, card, gguf_bytes, label

NAME = "stories.gguf, which comes with i2s-spec"


def test_the_label_of_the_default_model() -> None:
    assert label() == NAME


def test_show(tmp_path: Path) -> None:
    done = run(tmp_path, "show")
    assert (done.returncode, done.stderr) == (0, "")
    assert NAME in done.stdout.splitlines()[0]
    assert "bitnet-b1.58" in done.stdout
    about = json.loads(run(tmp_path, "show", "--json").stdout)
    assert (about["path"], about["size"]) == (NAME, card()["file"]["bytes"])


def test_identify(tmp_path: Path) -> None:
    done = run(tmp_path, "identify", "--json", "--sha256")
    about = json.loads(done.stdout)
    assert done.returncode == 0
    assert (about["path"], about["sha256"]) == (NAME, card()["file"]["sha256"])


def test_run_tells_a_story(tmp_path: Path) -> None:
    """Without a file and without a prompt: a story from its beginning to its end."""
    done = run(tmp_path, "run")
    assert done.returncode == 0
    said = done.stderr.splitlines()
    assert said[0] == f"i2s: the model is {NAME}"
    assert "the model ended the text" in said[-1]
    assert done.stdout.startswith("One morning ")
    words = done.stdout.replace('"', " ").split()
    assert len(words) > 60
    assert done.stdout.rstrip()[-1] in '."'


def test_run_without_a_prompt_continues_the_opening(tmp_path: Path) -> None:
    """The opening is also declared as tokens, since encoding needs an extra."""
    begun = run(tmp_path, "run", "--prompt", "One morning", "-n", "379", "-q")
    assert run(tmp_path, "run", "-q").stdout == "One morning" + begun.stdout
    ids = run(tmp_path, "run", "-q", "--ids").stdout
    assert ids.startswith(",".join(map(str, OPENING)) + ",")


def test_perplexity_of_stories_that_it_was_not_trained_on(tmp_path: Path) -> None:
    about = json.loads(run(tmp_path, "perplexity", "--json").stdout)
    assert about["context"] == card()["sizes"]["context"]
    assert about["perplexity"] < 1.6  # the model card's loss is 0.18, and exp(0.18) = 1.2; chance would give 512


def test_run_continues_a_prompt(tmp_path: Path) -> None:
    done = run(tmp_path, "run", "--prompt", "On a rainy day", "-n", "12", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split()) > 3


def test_perplexity(tmp_path: Path) -> None:
    tokens = ",".join(map(str, range(80, 96)))
    done = run(tmp_path, "perplexity", "--tokens", tokens, "--context", "8")
    assert done.returncode == 0
    assert f"the model is {NAME}" in done.stderr


def test_golden_record(tmp_path: Path) -> None:
    done = run(tmp_path, "golden", "record", "--tokens", "1,2,3", "-o", "golden")
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == f"i2s: the model is {NAME}"
    assert "i2s new model.gguf --trained" in done.stderr
    assert run(tmp_path, "new", "model.gguf", "--trained").returncode == 0
    again = run(tmp_path, "golden", "record", "model.gguf", "--tokens", "1,2,3", "-o", "again", "-q")
    assert again.returncode == 0
    compared = run(tmp_path, "golden", "compare", "golden", "again", "--model", "model.gguf")
    assert compared.returncode == 0, compared.stdout


def test_a_missing_file_is_not_replaced_by_the_default_model(tmp_path: Path) -> None:
    for verb in (["show"], ["identify"], ["run", "--tokens", "1"], ["perplexity", "--tokens", "1,2"]):
        verb.insert(1, "none.gguf")
        done = run(tmp_path, *verb)
        assert done.returncode != 0
        assert NAME not in done.stdout + done.stderr


@pytest.mark.parametrize("architecture", [each for architectures in MODELS.values() for each in architectures])
def test_new_writes_the_trained_model(tmp_path: Path, architecture: str) -> None:
    done = run(tmp_path, "new", "m.gguf", "--trained", "--arch", architecture)
    size = (tmp_path / "m.gguf").stat().st_size
    with i2s.open(tmp_path / "m.gguf") as file:
        keys, tensors = len(file.metadata), len(file.tensors)
    said = f"m.gguf: {architecture}, trained, {size:,} bytes, {keys} keys, {tensors} tensors\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def test_new_writes_the_file_of_the_package_byte_for_byte(tmp_path: Path) -> None:
    assert run(tmp_path, "new", "m.gguf", "--trained", "-q").returncode == 0
    written = (tmp_path / "m.gguf").read_bytes()
    assert written == gguf_bytes()
    assert sha256(written).hexdigest() == card()["file"]["sha256"]


def test_new_in_another_form(tmp_path: Path) -> None:
    arguments = ["--dialect", "rows-1x4", "--endian", "big", "--arch", "bitnet-25"]
    assert run(tmp_path, "new", "m.gguf", "--trained", *arguments).returncode == 0
    with i2s.open(tmp_path / "m.gguf") as file, i2s.open(gguf_bytes()) as whole:
        assert file.byte_order == "big"
        name = "blk.1.ffn_down.weight"
        assert (file.tensors[name].trits("rows-1x4") == whole.tensors[name].trits()).all()
        assert (file.tensors[name].trits() != whole.tensors[name].trits()).any()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--trained", "--layers", "3"], "--layers is for other files; that of --trained is always the same"),
        (["--trained", "--arch", "gemma3"], "no trained model of architecture 'gemma3'"),
        (["--trained", "--type", "Q4_0"], "Q4_0"),
        (["--dialect", "interleave-64"], "--dialect is for --trained"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = run(tmp_path, "new", "m.gguf", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "m.gguf").exists()
