"""Typical mistakes of new users get a message in the usual terms of the field, with the right command."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from i2s_spec.cli import main
from i2s_spec.convert.new import new
from i2s_spec.draw.terminal import plain
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.inspect.show import describe
from i2s_spec.inspect.show_text import page
from i2s_spec.testing.common_faults import mishaps


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    new("m.gguf", layers=1)
    return "m.gguf"


def called(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    return ended.value.code, *capsys.readouterr()


def test_an_option_of_other_linters_leads_to_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert "`i2s fix FILE --dry-run` shows repairs" in called(capsys, "lint", "--fix", "m.gguf")[2]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("census", "noise"), 3),
        (("hash", "--check", "noise"), 3),
        (("golden", "compare", "noise", "noise"), 3),
        (("golden", "compare", "missing", "noise"), 3),
        (("conform", "run", "--", "./no-such-adapter"), 2),
        (("hash", "--check", "noise", "m.gguf"), 2),
    ],
    ids=["census", "checksums", "records", "a missing record", "a missing program", "both"],
)
def test_input_that_is_none_is_no_wrong_call(
    words: tuple[str, ...], code: int, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("noise").write_bytes(b"noise\n")
    assert called(capsys, *words)[0] == code


def test_verbs_and_codes_that_do_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no verb 'lnt'; did you mean lint?" in called(capsys, "lnt")[2]
    assert "`i2s --help` lists them" in called(capsys, "qqqq")[2]
    assert "did you mean tail-missing or " in called(capsys, "explain", "tail")[2]
    assert "did you mean I101 or I102 or I103?" in called(capsys, "explain", "I10")[2]
    assert "layout-contradicted" in called(capsys, "explain", "layout")[2]


@pytest.mark.parametrize(
    ("word", "verb"), [("check", "lint"), ("inspect", "show"), ("compare", "diff"), ("cat", "show")]
)
def test_verbs_of_other_tools_get_a_suggestion(word: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"there is no verb '{word}'; did you mean {verb}?" in called(capsys, word, "m.gguf")[2]


def test_a_file_in_place_of_a_verb(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = called(capsys, model)
    assert code == 2
    assert "but a file of that name: `i2s doctor FILE` looks at it" in said
    Path("models").mkdir()
    assert "but a file of that name: `i2s lint FILE` looks at it" in called(capsys, "models")[2]


def test_choices_are_listed_without_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    said = called(capsys, "completion")[2]
    assert "x09" not in said
    assert "\n  bash," in said


@pytest.mark.parametrize("verb", [["doctor"], ["show"], ["identify"], ["hash"], ["dump"], ["fix", "--dry-run"]])
def test_a_file_that_may_not_be_read_is_unreadable_input(
    verb: list[str], model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is exit code 3 with every verb, and not a wrong call: also for root, who may read everything."""
    may, opens = os.access, os.open

    def access(path: object, *args: object, **kwargs: object) -> bool:
        return False if path == model else may(path, *args, **kwargs)  # type: ignore[arg-type]

    def refuse(path: object, *args: object, **kwargs: object) -> int:
        if path == model:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), model)
        return opens(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "access", access)
    monkeypatch.setattr(os, "open", refuse)
    code, output, said = called(capsys, *verb, model)
    assert code == 3
    assert "Permission denied" in output + said


def test_the_demo_overwrites_nothing_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("overlap.gguf").write_bytes(b"mine")
    code, _, said = called(capsys, "demo", "--keep", ".")
    assert code == 2
    assert "overlap.gguf already exists; use --force" in said
    assert [path.name for path in Path().iterdir()] == ["overlap.gguf"]
    assert called(capsys, "demo", "--keep", ".", "--force")[0] == 0
    assert Path("overlap.gguf").read_bytes() != b"mine"


def test_a_dash_is_not_a_file_name(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["fix", model, "-o", "-"], ["convert", model, "-", "--to", "interleave-64"]):
        code, _, said = called(capsys, *verb)
        assert code == 2
        assert "./- is a file" in said
    code, output, _ = called(capsys, "lint", "-")
    assert code == 3
    assert "standard input (-)" in output
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


def test_a_record_is_replaced_only_with_overwrite(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = ["golden", "record", model, "--tokens", "1", "-o", "golden"]
    assert called(capsys, *record)[0] == 0
    code, _, said = called(capsys, *record)
    assert code == 2
    assert "already exists; use --overwrite to replace it" in said
    assert called(capsys, *record, "--overwrite")[0] == 0
    said = called(capsys, "golden", "compare", "nothing", "golden")[2]
    assert said == "i2s: nothing: not a record: golden.json cannot be read: No such file or directory\n"


@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_names_of_tensors_are_not_cut_at_80_columns(model: str, columns: int) -> None:
    with open_file(model) as file:
        lines = [plain(line) for line in page(describe(file), columns)]
    assert max(map(len, lines[lines.index(next(x for x in lines if x.startswith("Tensors"))) :])) <= columns
    if columns >= 80:
        assert any("blk.0.ffn_gate.weight" in line for line in lines)
        assert any("blk.0.attn_sub_norm.weight" in line for line in lines)
    assert ("offset" in "".join(lines)) == (columns >= 80)
