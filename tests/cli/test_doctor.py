"""`i2s doctor`: a summary of one file on one screen; and `i2s diff`, which names the dialect that explains a difference."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

import i2s_spec
from i2s_spec.checkup import doctor
from i2s_spec.cli import main
from i2s_spec.compare.diff import difference, other_dialect
from i2s_spec.convert.new import new
from i2s_spec.convert.rewrite import rewrite
from i2s_spec.errors import SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, Model, key_value


def called(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    return ended.value.code, capsys.readouterr().out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model in two layouts, and another model."""
    folder = tmp_path_factory.mktemp("doctor")
    new(folder / "a.gguf", layers=1)
    with pytest.raises(SystemExit):
        main(["convert", str(folder / "a.gguf"), str(folder / "b.gguf"), "--to", "interleave-64", "-q"])
    new(folder / "c.gguf", layers=1, seed=7)
    return folder


def test_the_summary_fits_one_screen(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, page = called(capsys, "doctor", "a.gguf")
    assert code == 0
    heads = ("Is it sound?  yes, no findings", "What is it?", "Who runs it?", "What next")
    assert [head for head in heads if f"\n{head}" in page] == list(heads)
    assert "layout: cannot tell" in page
    assert "  i2s lint a.gguf --reference OTHER\n" in page
    assert "refuse it: " in page
    assert max(map(len, page.splitlines())) <= 100
    assert len(page.splitlines()) < 50


def test_findings_come_with_their_repair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(Draft().number("key_values[4].value", 2))
    code, page = called(capsys, "doctor", str(path))
    assert code == 0
    assert "Is it sound?  no errors in what was checked\n  1 warning: G215 odd-bool: " in page
    assert f"  i2s fix {path} --dry-run\n" in page
    path.write_bytes(Draft().data[:200])
    code, page = called(capsys, "doctor", str(path))
    assert code == 1
    assert "Is it sound?  no\n" in page


def test_a_file_without_evidence_of_its_writer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tensor of floats: nothing identifies its writer, and no forward pass is possible."""
    path = tmp_path / "little.gguf"
    with Writer(path) as writer:
        writer.add_tensor("x", (4, 4), "F32", np.zeros((4, 4), dtype=np.float32))
    _, page = called(capsys, "doctor", str(path))
    assert "What is it?\n  cannot tell: nothing in it shows which program wrote it\n" in page
    assert "i2s run" not in page


def test_the_reason_that_run_refuses_a_file_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file without errors whose positions are scaled in a way that the forward pass does not know."""
    path, odd = tmp_path / "a.gguf", tmp_path / "odd.gguf"
    new(path, "bitnet-b1.58", layers=1)
    scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 64}
    rewrite(path, odd, set={f"bitnet-b1.58.rope.scaling.{name}": value for name, value in scaling.items()})
    code, page = called(capsys, "doctor", str(odd))
    assert code == 0
    reason = "positions are scaled by 'yarn'; only linear scaling can be run here"
    assert "Is it sound?  no findings, but it cannot be run here\n  the reference forward pass refuses it: " in page
    assert reason in " ".join(page.split())
    assert f"i2s run {odd}" not in page
    assert json.loads(called(capsys, "doctor", str(odd), "--json")[1])["refusal"] == reason
    with pytest.raises(SettingError, match="positions are scaled by 'yarn'"):
        i2s_spec.load_model(odd)
    assert doctor(path).refusal is None


def test_embed_is_recommended_for_an_embedding_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.gguf"
    new(path, "gemma3", layers=1)
    assert f"  i2s embed {path} --text TEXT\n" in (page := called(capsys, "doctor", str(path))[1])
    assert "i2s run" not in page


def test_several_findings_of_a_code_show_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"X%d" % i, ValueType.UINT8, 1) for i in range(3)]
    path = tmp_path / "odd.gguf"
    path.write_bytes(draft.built(file))
    _, page = called(capsys, "doctor", str(path))
    words = " ".join(page.split())
    assert "3 notes: G207 " in words
    assert "'X0'" in words
    assert "; and 2 more" in words


def test_files_that_are_not_models_get_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.gguf").write_bytes(b"<!DOCTYPE html>")
    for name, rule in (("page.gguf", "G004"), ("missing.gguf", "S901")):
        code, page = called(capsys, "doctor", str(tmp_path / name))
        assert code == 3
        assert f"  i2s explain {rule}\n" in page
        assert "Who runs it?" not in page


def test_files_that_hold_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report says what was found: no such file, a folder, another format, half a header, no tensors."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("page.gguf").write_bytes(b"<!DOCTYPE html>")
    vocabulary = Model("llama")
    vocabulary.tensors = []
    Path("vocabulary.gguf").write_bytes(vocabulary.built())
    Path("cut.gguf").write_bytes(Draft().data[:200])
    records = Draft().records()
    records.key_values.append(key_value(b"general.alignment", ValueType.STRING, b"32"))
    Path("alignment.gguf").write_bytes(Draft().built(records))
    assert "S901 unreadable: the file cannot be read: No such file" in called(capsys, "doctor", "missing.gguf")[1]
    code, page = called(capsys, "doctor", "folder")
    assert code == 3
    assert "Is it sound?  no: it cannot be read as a GGUF file\n" in page
    assert "this is a directory, not a regular file" in page
    assert "  i2s lint folder\n" in page
    page = called(capsys, "doctor", "page.gguf")[1]
    assert "i2s lint page.gguf" not in page
    Path("line.gguf").write_bytes(b"vm\n")
    assert r"starts with 'vm\x0a', not with" in called(capsys, "doctor", "line.gguf")[1], "escaped once"
    code, page = called(capsys, "doctor", "vocabulary.gguf")
    assert code == 0
    assert "vocabulary for llama" in page.splitlines()[0]
    assert "Who runs it?\n  none of the runtimes that were tried\n" in page
    assert "  load its vocabulary only: " in page
    assert "packed as most" not in page
    assert "says why no runtime runs it, with sources" in page
    page = called(capsys, "doctor", "cut.gguf")[1]
    assert "What is it?\n  not read to its end, because of G2" in page
    page = called(capsys, "doctor", "alignment.gguf")[1]
    assert "  crash on it: bitnet.cpp, " in page


def test_doctor_as_a_python_function(folder: Path) -> None:
    found = i2s_spec.doctor(folder / "a.gguf")
    assert found.report.ok
    assert [step.command.split()[1] for step in found.steps][-1] == "run"
    assert repr(found).startswith("<Checkup '")
    assert len(repr(found)) < 2000
    assert not i2s_spec.doctor(folder / "cut.gguf").report.ok


def test_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = called(capsys, "doctor", "--json", str(folder / "a.gguf"))
    found = json.loads(text)
    assert code == 0
    assert found["report"]["ok"] is True
    assert "details" not in found["report"]
    assert found["dialect"] == {"name": "canonical", "certain": False}
    assert {"runtime", "loads", "computes"} <= set(found["runtimes"][0])
    assert found["next"][-1]["command"].startswith("i2s run ")


def test_the_layout_is_found_from_the_weights(tmp_path: Path) -> None:
    """Runtimes are judged in the layout that was found, and the command that repacks it is named."""
    target = tmp_path / "trained.gguf"
    with pytest.raises(SystemExit):
        main(["new", "--trained", str(target), "--dialect", "interleave-64", "-q"])
    found = doctor(target)
    assert (found.dialect, found.certain) == ("interleave-64", True)
    assert found.steps[0].command == f"i2s convert {target} OUT.gguf --from interleave-64 --to canonical"


def test_diff_says_which_dialect_explains_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, text = called(capsys, "diff", "a.gguf", "b.gguf")
    assert code == 1
    assert "i2s diff a.gguf b.gguf --dialect-b interleave-64\n" in text
    assert text.endswith("next: i2s convert b.gguf OUT.gguf --from interleave-64 --to canonical\n")
    assert called(capsys, "diff", "a.gguf", "b.gguf", "--dialect-b", "interleave-64")[0] == 0
    assert "--dialect-a interleave-64\n" in called(capsys, "diff", "b.gguf", "a.gguf")[1]
    assert "next:" not in called(capsys, "diff", "a.gguf", "c.gguf")[1]


def test_no_dialect_explains_other_weights() -> None:
    one, other = io.BytesIO(), io.BytesIO()
    new(one, layers=1)
    new(other, layers=1, seed=7)
    with open_file(one) as a, open_file(other) as b:
        assert other_dialect(a, b, difference(a, b)) is None
