"""`i2s lint`: exit codes, formats, escaping, and use in a shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from examples import some
from malformed_cases import CASES, broken

import i2s_spec.cli
from i2s_spec.cli import cli
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, key_value

RULES_SCHEMA = json.loads(files("i2s_spec.linter.report").joinpath("rules.schema.json").read_text(encoding="utf-8"))
SCHEMA = json.loads(files("i2s_spec.linter.report").joinpath("lint.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.gguf").write_bytes(Draft().data)
    for name in ("gap", "pad_not_zero", "dup_key", "html", "ver2", "key_escape", "name_bidi"):
        (tmp_path / f"{name}.gguf").write_bytes(broken(name))
    return tmp_path


def i2s(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args), standalone_mode=False)


def code(*args: str) -> int:
    result = i2s(*args)
    assert result.exception is None, result.exception
    return int(result.return_value)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["good.gguf"], 0),
        (["ver2.gguf"], 0),
        (["pad_not_zero.gguf"], 0),
        (["gap.gguf"], 1),
        (["dup_key.gguf"], 1),
        (["html.gguf"], 3),
        (["missing.gguf"], 3),
        (["."], 3),
        (["good.gguf", "dup_key.gguf"], 1),
        (["dup_key.gguf", "html.gguf", "good.gguf"], 3),
        (["--fail-on", "warning", "pad_not_zero.gguf"], 1),
        (["--fail-on", "warning", "ver2.gguf"], 0),
        (["--fail-on", "note", "ver2.gguf"], 1),
        (["--fail-on", "never", "dup_key.gguf"], 0),
        (["--fail-on", "never", "html.gguf"], 3),
    ],
)
def test_exit_codes(folder: Path, args: list[str], expected: int) -> None:
    assert code("lint", *args) == expected
    assert code("validate", *args) == expected


def test_json_is_what_its_schema_says(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    result = i2s("lint", "--json", *names, "missing.gguf")
    document = json.loads(result.output)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(document, SCHEMA)
    assert [file["path"] for file in document["files"]] == [*names, "missing.gguf"]
    assert document["summary"]["files"] == len(names) + 1
    assert result.output.isascii()


def test_json_of_every_case_fits_the_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = some(name for name, case in CASES.items() if not case.large)
    for name in names:
        (tmp_path / name).write_bytes(broken(name))
    result = i2s("lint", "--json", *names)
    document = json.loads(result.output)
    jsonschema.validate(document, SCHEMA)
    for file in document["files"]:
        assert CASES[file["path"]].code in {finding["code"] for finding in file["findings"]}


def test_json_of_no_finding(folder: Path) -> None:
    assert json.loads(i2s("lint", "--json", "good.gguf").output)["files"][0]["findings"] == []


def test_jsonl_has_a_line_for_each_file(folder: Path) -> None:
    lines = [json.loads(line) for line in i2s("lint", "--format", "jsonl", "good.gguf", "gap.gguf").output.splitlines()]
    assert [line["type"] for line in lines] == ["file", "file", "summary"]
    assert all(line["schema_version"] == 1 for line in lines)
    assert lines[1]["findings"][0]["code"] == "P101"


def test_output_is_the_same_twice(folder: Path) -> None:
    for form in ("text", "json", "jsonl"):
        args = ("lint", "--format", form, "dup_key.gguf", "gap.gguf")
        assert i2s(*args).output == i2s(*args).output


def test_control_characters_of_a_file_are_escaped(folder: Path) -> None:
    for form in ("text", "json", "jsonl"):
        output = i2s("lint", "--format", form, "key_escape.gguf", "name_bidi.gguf").output
        assert "\x1b" not in output
        assert "\u202e" not in output
        assert all(char.isprintable() or char == "\n" for char in output)


def test_file_names_are_escaped(folder: Path) -> None:
    name = "bad\x1b[2J\n.gguf"
    (folder / name).write_bytes(b"")
    for form in ("text", "json", "jsonl"):
        assert "\x1b" not in i2s("lint", "--format", form, name).output


def test_quiet(folder: Path) -> None:
    assert i2s("lint", "-q", "good.gguf").output == ""
    assert "G203" in i2s("lint", "-q", "dup_key.gguf", "good.gguf").output
    assert "good" not in i2s("lint", "-q", "dup_key.gguf", "good.gguf").output


def test_reports_to_files_are_complete_with_quiet(folder: Path) -> None:
    (folder / "sound.gguf").write_bytes(Draft().data)
    assert i2s("lint", "-q", "--report", "html=a.html", "--report", "markdown=a.md", "sound.gguf").output == ""
    assert "sound.gguf" in (folder / "a.html").read_text()
    assert "`sound.gguf`: no error in what was checked" in (folder / "a.md").read_text()
    i2s("lint", "-q", "--format", "html", "-o", "b.html", "sound.gguf")
    assert 'id="f1-' not in (folder / "b.html").read_text()


def test_json_names_the_profile(folder: Path) -> None:
    for words, name in (([], "default"), (["--profile", "security"], "security")):
        assert json.loads(i2s("lint", *words, "--json", "bad.gguf").output)["profile"] == name
        last = i2s("lint", *words, "--format", "jsonl", "bad.gguf").output.splitlines()[-1]
        assert json.loads(last)["profile"] == name


def test_elided_findings_are_counted(folder: Path) -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"X%d" % i, ValueType.UINT8, 1) for i in range(150)]
    (folder / "many.gguf").write_bytes(draft.built(file))
    output = i2s("lint", "many.gguf").output
    assert "many.gguf: 50 more findings of G207" in output
    assert "\nmany.gguf: no error in what was checked (150 notes): sample, 3 tensors" in output
    assert "\n  150 notes: G207 " in output


# --- a real process -----------------------------------------------------------------------------------------------


def run(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "i2s_spec", *args],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', '')}"},
        **options,
    )


def test_process_exit_codes(folder: Path) -> None:
    assert run("lint", "good.gguf").returncode == 0
    assert run("lint", "dup_key.gguf").returncode == 1
    assert run("lint").returncode == 2
    assert run("lint", "--format", "yaml", "good.gguf").returncode == 2
    assert run("nonsense").returncode == 2
    assert run("lint", "html.gguf").returncode == 3
    assert run().returncode == 2


def test_broken_pipe_is_quiet(folder: Path) -> None:
    names = ["dup_key.gguf"] * 3000
    child = subprocess.Popen(
        [sys.executable, "-m", "i2s_spec", "lint", *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    child.wait(60)
    assert errors == b""
    assert child.returncode == 128 + signal.SIGPIPE


def test_interrupt(folder: Path) -> None:
    program = (
        "import os, signal, i2s_spec.linter.engine as engine\n"
        "engine.File = lambda source: os.kill(os.getpid(), signal.SIGINT)\n"
        "from i2s_spec.cli import main\n"
        "main(['lint', 'good.gguf'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr


def test_a_crash_is_reported_as_our_bug(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import i2s_spec.linter.engine

    def broken(*args: object, **options: object) -> None:
        raise RuntimeError("\x1b[2J")

    monkeypatch.setattr(i2s_spec.linter.engine, "File", broken)
    with pytest.raises(SystemExit) as stop:
        i2s_spec.cli.main(["lint", "good.gguf", "missing.gguf"])
    assert stop.value.code == 4
    output = capsys.readouterr().out
    assert "good.gguf: internal error: lint: RuntimeError: \\x1b[2J" in output
    assert "bug in i2s-spec" in output
    assert "missing.gguf: error: S901" in output
    assert "\x1b" not in output


# --- explain, rules, info, demo -----------------------------------------------------------------------------------


def test_explain_every_rule() -> None:
    for code in sorted({case.code for case in CASES.values()}):
        output = i2s("explain", code).output
        assert output.startswith(f"{code} ")
        assert "Why:" in output
        assert max(len(line) for line in output.splitlines()) <= 100


def test_explain_takes_slugs_and_any_case() -> None:
    assert i2s("explain", "i104").output == i2s("explain", "tail-missing").output == i2s("explain", "I104").output


def test_explain_helps_with_typing_errors() -> None:
    failed = run("explain", "I1O4")
    assert failed.returncode == 2
    assert "did you mean " in failed.stderr
    assert "I104?" in failed.stderr


def test_explain_as_data() -> None:
    (rule,) = json.loads(i2s("explain", "I104", "--format", "json").output)
    assert rule["code"] == "I104"
    assert rule["cwe"] == 125
    assert i2s("explain", "I104", "--format", "markdown").output.startswith("# I104 tail-missing")


def test_rules_as_text_and_data() -> None:
    lines = i2s("rules").output.splitlines()
    document = json.loads(i2s("rules", "--format", "json").output)
    assert document["schema_version"] == 1
    assert [line.split()[0] for line in lines] == [rule["code"] for rule in document["rules"]]
    jsonschema.validate(document, RULES_SCHEMA)
    assert all(line.startswith("I") for line in i2s("rules", "i").output.splitlines())
    assert run("rules", "Z").returncode == 2


def test_info() -> None:
    facts = json.loads(i2s("info", "--json").output)
    assert facts["kernels"]["portable"] is True
    assert facts["kernels"][facts["kernel"]] is True
    assert "numpy" in i2s("info").output
    assert f"{facts['kernel']} (in use)" in i2s("info").output


def test_demo(tmp_path: Path) -> None:
    from i2s_spec.testing.common_faults import mishaps

    output = i2s("demo", "--keep", str(tmp_path / "kept")).output
    assert "model.gguf: ok: bitnet-b1.58, 24 tensors (14 I2_S, 9 F32, 1 F16); " in output
    for mishap in mishaps():
        assert mishap.code in output
        assert (tmp_path / "kept" / f"{mishap.name}.gguf").exists()
    assert "\x1b" not in output


def test_every_mishap_gets_its_code() -> None:
    import io

    from i2s_spec.convert.new import new
    from i2s_spec.linter.engine import lint
    from i2s_spec.testing.common_faults import mishaps

    for architecture in ("bitnet-b1.58", "llama"):
        model = io.BytesIO()
        new(model, architecture)
        for mishap in mishaps():
            report = lint(mishap.apply(model.getvalue()))
            errors = {f.code for f in report.findings if f.severity.value == "error"}
            follows = {"M101", "M102"} if mishap.name == "hostile-name" else set()  # the tensor has another name then
            assert errors - follows == {mishap.code}, mishap.name


def test_help_of_every_verb() -> None:
    assert "demo" in i2s("--help").output
    for verb in i2s_spec.cli.VERBS:
        output = i2s(verb, "--help").output
        assert "Example:" in output, verb


@pytest.mark.thorough
def test_epilog_examples_work(tmp_path: Path) -> None:
    """The example at the end of each verb's help works as typed, except that `i2s fuzz` tries fewer inputs.

    What `i2s spec test` does for this checkout is what the tests of `docs/` do.
    """
    import re
    import shlex

    for verb in i2s_spec.cli.VERBS:
        text = " ".join(i2s(verb, "--help").output.split())
        example = re.search(r"Example: (i2s .*)$", text)
        assert example, verb
        if example[1] == "i2s spec test":
            continue
        folder = tmp_path / verb
        folder.mkdir()
        for command in example[1].replace("--runs 200", "--runs 20").split("&&"):
            done = run(*shlex.split(command)[1:], cwd=folder)
            if "needs the extra" in done.stderr:  # which is not installed here
                break
            assert done.returncode in (0, 1), (verb, command, done.stderr)
