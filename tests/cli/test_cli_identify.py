"""`i2s identify`: golden transcripts, JSON that matches its schema, combinations of options, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from examples import share
from transcripts_runner import real_files, run, workshop
from wrong_files import Copy

from i2s_spec.cli import cli
from i2s_spec.convert.trained import unseen_text

SCHEMA = Path(__file__).resolve().parents[2] / "i2s_spec" / "inspect" / "identify.schema.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workshop(tmp_path_factory.mktemp("transcripts"))


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("path", share(real_files(), every=3), ids=lambda path: path.name)
def test_every_real_file_gets_an_answer(path: Path) -> None:
    expected = 3 if path.suffix == ".gz" else 1 if "mini" in path.name else 0
    text, as_json = (run(f"i2s identify {option} '{path}'", Path()) for option in ("-v", "--json"))
    for output in (text, as_json):
        assert output.endswith(f"[exit {expected}]\n" if expected else "\n")
        assert "internal error" not in output
    if expected == 3:
        return
    document = json.loads(as_json.partition("stderr:")[0].removesuffix(f"[exit {expected}]\n"))
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert (document["fault"] is None) == (expected == 0)


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(cli, ["identify", "--help"])
    assert result.exit_code == 0
    assert "&& i2s identify tiny.gguf" in result.output


@pytest.mark.parametrize(
    "options",
    ["--reference x.npy", "--tensor x", "--reference-tensor x", "--header-only --full", "--format yaml",
     "--reference x.npy --tensor nothing",
     "--header-only --likelihood", "--likelihood own.gguf", "--likelihood x.npy"],
)  # fmt: skip
def test_options_that_do_not_fit(folder: Path, options: str) -> None:
    np.save(folder / "x.npy", np.ones((4, 128), dtype=np.int8))
    (folder / "own.gguf").write_bytes(b"GGUF")
    assert run(f"i2s identify sample.gguf {options}", folder).endswith("[exit 2]\n")


def test_a_reference_of_every_kind(folder: Path) -> None:
    """.npy trits, another GGUF file, and safetensors: floats and what transformers packed."""
    from safetensors.numpy import save_file

    assert run("i2s new own.gguf -q --force", folder) == ""
    name = "blk.0.attn_q.weight"
    run(f"i2s decode own.gguf {name} q.npy --force", folder)
    trits = np.load(folder / "q.npy")
    packed = sum((trits[i * 32 : (i + 1) * 32] + 1).astype(np.uint8) << np.uint8(2 * i) for i in range(4))
    save_file({"q": trits.astype(np.float32) * 0.5, "q.packed": packed}, folder / "q.safetensors")
    for reference in (
        "q.npy",
        "own.gguf",
        "q.safetensors --reference-tensor q",
        "q.safetensors --reference-tensor q.packed",
    ):
        output = run(f"i2s identify own.gguf --tensor {name} --reference {reference}", folder)
        assert "interleave-128 (certain)" in output, reference
    wrong = run(f"i2s identify own.gguf --tensor {name} --reference q.safetensors", folder)
    assert wrong.endswith("[exit 2]\n")
    assert "--reference-tensor names it" in wrong


def test_header_only_leaves_payloads_alone(folder: Path) -> None:
    document = json.loads(run("i2s identify sample.gguf --header-only --json", folder))
    assert document["payloads"] == "none"
    assert document["codes"] == [0, 0, 0, 0]


def told(command: str, folder: Path) -> dict[str, Any]:
    output = run(command, folder)
    document: dict[str, Any] = json.loads(output.partition("stderr:")[0])
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    likelihood: dict[str, Any] = document["likelihood"]
    return likelihood


def test_likelihood(folder: Path) -> None:
    """The mistake is named in text and in JSON; without a tokenizer, a sentence says what is missing."""
    (folder / "turned.gguf").write_bytes(Copy("llama").each(lambda trits: -trits).written())
    (folder / "text.txt").write_text(unseen_text()[:1000], encoding="utf-8")
    found = told("i2s identify turned.gguf --likelihood text.txt --json", folder)
    assert (found["verdict"], found["why_not"]) == ("wrong", None)
    assert found["hypotheses"][0]["name"] == "signs turned"
    text = run("i2s identify turned.gguf --likelihood", folder)
    assert "signs turned: the signs of all weights, or of ffn_gate alone, are inverted" in text
    everything = run("i2s identify turned.gguf --likelihood -v", folder)
    assert len(everything.splitlines()) > len(text.splitlines()) + 10
    bare = Copy("llama")
    for key in [key for key in bare.keys if key.startswith("tokenizer.")]:
        del bare.keys[key]
    (folder / "bare.gguf").write_bytes(bare.written())
    found = told("i2s identify bare.gguf --likelihood --json", folder)
    assert found["why_not"] == "the file has no tokenizer, so no text can be tokenized"
    assert f"cannot tell: {found['why_not']}" in run("i2s identify bare.gguf --likelihood", folder)
