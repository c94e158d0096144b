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
from i2s_spec.compare.diff import diff, other_dialect
from i2s_spec.convert.new import new
from i2s_spec.convert.rewrite import rewrite
from i2s_spec.errors import SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.inspect.identify import identify
from i2s_spec.model.text.deep_checks import deep_checks
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
    heads = ("What is it?", "Is it sound?  yes, no findings", "Who runs it?", "What next")
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


def converted(source: Path, target: Path, *options: str) -> Path:
    with pytest.raises(SystemExit) as ended:
        main(["convert", str(source), str(target), "--force", "-q", *options])
    assert ended.value.code == 0
    return target


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in I2_S, of which llama.cpp computes copies in other types."""
    path = tmp_path_factory.mktemp("llama") / "llama.gguf"
    new(path, "llama", embd=512, ff=1024, layers=1)
    return path


def test_what_it_is_is_said_first(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = " ".join(called(capsys, "doctor", str(llama))[1].split())
    assert "a model of architecture llama called 'synthetic-llama': 1 layer, 512 wide" in page
    assert "matrices I2_S (7); tables F16 (2)" in page
    assert "tokenizer gpt2, split as llama-bpe; a chat template" in page
    assert page.index("What is it?") < page.index("Is it sound?") < page.index("Who runs it?")


def test_every_runtime_is_called_as_in_the_table_of_lint(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text = called(capsys, "doctor", str(llama))
    titles = [verdict.title for verdict in doctor(llama).verdicts if verdict.loads == "not tried"]
    assert titles
    assert [title for title in titles if title not in " ".join(text.split())] == []


def test_conversions_are_named_by_type_and_device(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = doctor(llama)
    words = {each.type: each.words for each in found.conversions}
    assert "llama.cpp (ggml-org) computes the copy correctly on the CPU" in words["TQ2_0"]
    assert "llama.cpp (ggml-org) computes the copy correctly on the GPU with CUDA" in words["Q2_0"]
    assert "candle computes the copy correctly; llama.cpp, on which Ollama since 0.31.2 is built" in words["F16"]
    assert f"  i2s convert {llama} OUT.gguf --to TQ2_0\n" in called(capsys, "doctor", str(llama))[1]
    assert [each["to"] for each in json.loads(called(capsys, "doctor", str(llama), "--json")[1])["conversions"]] == [
        each.type for each in found.conversions
    ]
    packed = doctor(converted(llama, tmp_path / "other.gguf", "--to", "interleave-64"))
    assert not [each for each in packed.steps if "--from" in each.command], "random weights do not show their layout"


def test_types_that_are_slow_on_a_device(llama: Path, tmp_path: Path) -> None:
    slow = {
        kind: {
            each.type: each.words
            for each in doctor(converted(llama, tmp_path / f"{kind}.gguf", "--to", kind)).conversions
        }
        for kind in ("Q2_0", "TQ2_0")
    }
    assert "llama.cpp (ggml-org) computes the copy faster on the CPU" in slow["Q2_0"]["TQ2_0"]
    assert "llama.cpp (ggml-org) computes the copy faster on the GPU with CUDA" in slow["TQ2_0"]["Q2_0"]


def test_the_head_of_a_bitnet_model_is_moved_to_the_gpu(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    new(path, "bitnet", embd=512, ff=1024, layers=1)
    words = {each.type: each.words for each in doctor(path).conversions}
    assert "on the GPU with CUDA, with -ot token_embd=CUDA0, if the model was trained with SiLU" in words["Q2_0"]


def test_types_with_a_scale_for_each_group_are_not_joined(tmp_path: Path) -> None:
    """Groups of 64 with scales of their own fit in no type with groups of 256."""
    path = tmp_path / "a.gguf"
    new(path, "llama", type="Q2_0", embd=512, ff=1024, layers=1)
    assert not {"TQ1_0", "TQ2_0", "IQ2_BN", "I2_S"} & {each.type for each in doctor(path).conversions}


def test_no_conversion_helps_a_model_with_another_activation(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    new(path, "bitnet-b1.58", embd=512, ff=1024, layers=1)
    found = doctor(path)
    assert not [each for each in found.steps if "llama.cpp (ggml-org)" in each.why]
    obstacle, template = found.remarks
    assert "no conversion makes llama.cpp compute it correctly: it applies SiLU" in obstacle
    assert template.startswith("Ollama takes the chat template of BitNet-2B-4T for chatml")
    plain = tmp_path / "b.gguf"
    rewrite(path, plain, set={"tokenizer.chat_template": "{{ messages }}"})
    assert doctor(plain).remarks == (obstacle,)


def test_a_folder_gets_a_line_for_each_file(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/b.gguf").write_bytes(llama.read_bytes())
    Path("folder/a.txt").write_bytes(b"")
    code, page = called(capsys, "doctor", "folder")
    assert (code, page) == (
        0,
        "folder/b.gguf: yes, with remarks; llama (I2_S, F32, F16); computed by no program that was run; "
        "convert --to TQ2_0\n",
    )
    Path("folder/a.gguf").write_bytes(b"<!DOCTYPE html>")
    code, page = called(capsys, "doctor", "folder")
    assert code == 3
    assert page.splitlines()[0] == "folder/a.gguf: no: it cannot be read as a GGUF file"
    files = json.loads(called(capsys, "doctor", "folder", "--json")[1])["files"]
    assert [Path(each["report"]["path"]).name for each in files] == ["a.gguf", "b.gguf"]
    monkeypatch.setattr("i2s_spec.cli.doctor.MOST_FILES", 1)
    assert called(capsys, "doctor", "folder")[1].splitlines()[1] == "and 1 more file, not examined"


def test_deep_runs_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The trained model is right; with gate and up exchanged the test by a text names the mistake."""
    path, wrong = tmp_path / "a.gguf", tmp_path / "wrong.gguf"
    with pytest.raises(SystemExit):
        main(["new", "--trained", str(path), "--arch", "llama", "-q"])
    code, page = called(capsys, "doctor", "--deep", str(path))
    assert code == 0
    assert "Are the values that it computes finite?  yes\n" in page
    assert "no hypothesis is better: the unchanged model predicts the text best" in page
    assert doctor(path).deep is None
    with open_file(path) as file:
        names = {tensor.name: tensor for tensor in file.tensors.values()}
        exchanged = {
            f"blk.{layer}.ffn_{one}.weight": bytes(names[f"blk.{layer}.ffn_{other}.weight"].payload)
            for layer in range(2)
            for one, other in (("gate", "up"), ("up", "gate"))
        }
    data = bytearray(path.read_bytes())
    with open_file(path) as file:
        for name, payload in exchanged.items():
            start = (file.data_start or 0) + file.tensors[name].offset
            data[start : start + len(payload)] = payload
    wrong.write_bytes(data)
    assert doctor(wrong).report.ok
    code, page = called(capsys, "doctor", "--deep", str(wrong))
    assert code == 1
    assert "ffn_gate and ffn_up exchanged" in page


def test_deep_finds_values_that_are_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    new(path, "llama", layers=2)
    data = bytearray(path.read_bytes())
    with open_file(path) as file:
        start = (file.data_start or 0) + file.tensors["blk.1.ffn_norm.weight"].offset
    data[start : start + 4] = b"\x00\x00\xc0\x7f"
    path.write_bytes(data)
    found = doctor(path, deep=True)
    assert found.deep is not None
    assert (found.deep.finite, found.deep.first, found.deep.sound) == (False, "ffn_norm-1", False)


def test_deep_checks_end_in_time(llama: Path) -> None:
    with open_file(llama) as file:
        found = deep_checks(file, identify(file), 1, seconds=-1)
    assert found.finite
    assert found.likelihood.why_not.startswith("it was given up after")
    assert found.sound


def test_the_last_writer_is_named_by_its_marks(llama: Path, tmp_path: Path) -> None:
    marks: dict[str, dict[str, object]] = {
        "llama-quantize": {"quantize.imatrix.file": "x"},
        "llama.cpp": {"general.type": "model", "general.size_label": "1M", "general.quantization_version": 2},
        "tritium": {"tritium.salt.format": 1.0},
    }
    for name, keys in marks.items():
        copy = tmp_path / f"{name}.gguf"
        rewrite(llama, copy, set={"general.name": "a model", **keys})
        found = doctor(copy).identification
        assert found is not None
        answer = found.question("writer").answer
        assert answer is not None
        assert answer.name == name
    plain = tmp_path / "plain.gguf"
    rewrite(llama, plain, set={"general.name": "a model"})
    found = doctor(plain).identification
    assert found is not None
    assert "writer" not in [each.name for each in found.questions]


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
        assert other_dialect(a, b, diff(a, b)) is None
