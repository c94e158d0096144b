"""What a newcomer gets wrong is answered in the field's words, with what to type instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from i2s_spec.cli import main
from i2s_spec.convert.synthetic.new import new
from i2s_spec.draw.terminal import plain
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.inspect.show import describe
from i2s_spec.inspect.show_text import page
from i2s_spec.testing.mishaps import mishaps


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    new("m.gguf", layers=1)
    return "m.gguf"


def called(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    return ended.value.code, *capsys.readouterr()


def test_verbs_and_codes_that_do_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no verb 'lnt'; did you mean lint?" in called(capsys, "lnt")[2]
    assert "`i2s --help` lists them" in called(capsys, "qqqq")[2]
    assert "did you mean tail-missing or " in called(capsys, "explain", "tail")[2]


def test_a_dash_is_no_file(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["fix", model, "-o", "-"], ["convert", model, "-", "--to", "interleave-64"]):
        code, _, said = called(capsys, *verb)
        assert code == 2
        assert "./- names a file" in said
    code, output, _ = called(capsys, "lint", "-")
    assert code == 3
    assert "- stands for standard input" in output
    assert json.loads(called(capsys, "lint", model, "-q", "--report", "json=-")[1])["summary"]["files"] == 1
    assert json.loads(called(capsys, "lint", model, "--format", "json", "-o", "-")[1])["summary"]["files"] == 1
    assert called(capsys, "schema", "--format", "c", "-o", "-")[1] == called(capsys, "schema", "--format", "c")[1]
    assert "mean the same" in called(capsys, "diff", model, model, "-o", "-")[1]
    assert not Path("-").exists()


def test_a_tensor_that_lint_calls_broken_is_decoded_with_a_remark(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mishap = next(each for each in mishaps() if each.code == "I108")
    Path("broken.gguf").write_bytes(mishap.apply(Path(model).read_bytes()))
    code, _, said = called(capsys, "decode", "broken.gguf", "blk.0.ffn_down.weight", "a.npy")
    assert code == 0
    assert "i2s lint calls 'blk.0.ffn_down.weight' broken (I108)" in said
    assert called(capsys, "decode", "broken.gguf", "output_norm.weight", "b.npy", "--as", "float32")[2] == ""
    assert called(capsys, "decode", model, "blk.0.ffn_down.weight", "c.npy")[2] == ""


def test_a_record_is_replaced_where_that_is_asked_for(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = ["golden", "record", model, "--tokens", "1", "-o", "golden"]
    assert called(capsys, *record)[0] == 0
    code, _, said = called(capsys, *record)
    assert code == 2
    assert "already exists; use --overwrite to replace it" in said
    assert called(capsys, *record, "--overwrite")[0] == 0
    said = called(capsys, "golden", "compare", "nothing", "golden")[2]
    assert said == "i2s: nothing: not a record: golden.json cannot be read: No such file or directory\n"


@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_names_of_tensors_are_whole_on_a_usual_terminal(model: str, columns: int) -> None:
    with open_file(model) as file:
        lines = [plain(line) for line in page(describe(file), columns)]
    assert max(map(len, lines[lines.index(next(x for x in lines if x.startswith("Tensors"))) :])) <= columns
    if columns >= 80:
        assert any("blk.0.ffn_gate.weight" in line for line in lines)
        assert any("blk.0.attn_sub_norm.weight" in line for line in lines)
    assert ("offset" in "".join(lines)) == (columns >= 80)
