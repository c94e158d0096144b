"""`i2s lint` over many files: settings and their precedence, suppressions, baselines, processes, terminals."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from examples import share
from malformed_cases import broken
from one_process import i2s

from i2s_spec.cli import cli
from i2s_spec.linter.selection import PROFILES
from i2s_spec.testing.sample import Draft


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("I2S_") and name != "I2S_ISA"]:
        monkeypatch.delenv(name)
    (tmp_path / "good.gguf").write_bytes(Draft().data)
    (tmp_path / "sub").mkdir()
    for name in ("gap", "pad_not_zero", "dup_key", "html", "lfs_pointer"):
        (tmp_path / "sub" / f"{name}.gguf").write_bytes(broken(name))
    return tmp_path


class Outcome:
    """What a command said and how it ended."""

    def __init__(self, args: tuple[str, ...], **options: Any) -> None:
        result = CliRunner().invoke(cli, ["lint", *args], standalone_mode=False, **options)
        self.error = result.exception
        self.code = result.return_value
        self.out = result.stdout
        self.err = result.stderr

    @property
    def severity(self) -> str | None:
        """Of the only finding, by the JSON report."""
        findings = [finding for file in json.loads(self.out)["files"] for finding in file["findings"]]
        return findings[0]["severity"] if findings else None


def lint(*args: str, **options: Any) -> Outcome:
    outcome = Outcome(args, **options)
    assert outcome.error is None, outcome.error
    return outcome


def refused(*args: str, **options: Any) -> str:
    outcome = Outcome(args, **options)
    assert outcome.error is not None
    return str(outcome.error)


# --- precedence of settings ---------------------------------------------------------------------------------------


def test_command_line_before_environment_before_files(folder: Path) -> None:
    padding = ("--json", "sub/pad_not_zero.gguf")
    assert lint(*padding).severity == "warning"
    (folder / "pyproject.toml").write_text('[tool.i2s]\nprofile = "strict"\n')
    assert lint(*padding).severity == "error"
    (folder / "i2s.toml").write_text('profile = "spec"\n')
    assert lint(*padding).severity is None
    environment = {"I2S_PROFILE": "strict"}
    assert lint(*padding, env=environment).severity == "error"
    assert lint(*padding, "--profile", "default", env=environment).severity == "warning"
    assert lint(*padding, "--no-config").severity == "warning"
    (folder / "other.toml").write_text('profile = "strict"\n')
    assert lint(*padding, "--config", "other.toml").severity == "error"
    assert lint(*padding, env={"I2S_CONFIG": "other.toml"}).severity == "error"


def test_every_setting_has_a_variable(folder: Path) -> None:
    gap = ("--json", "sub/gap.gguf")
    assert lint(*gap, env={"I2S_IGNORE": "P1,G4"}).severity is None
    assert lint(*gap, env={"I2S_SELECT": "G4"}).severity is None
    assert lint(*gap, env={"I2S_SEVERITY": "P101=note"}).severity == "note"
    assert lint("sub/gap.gguf", env={"I2S_FORMAT": "jsonl"}).out.startswith('{"schema_version":1')
    assert lint("sub/pad_not_zero.gguf", env={"I2S_FAIL_ON": "warning"}).code == 1
    assert lint("good.gguf", "sub/pad_not_zero.gguf", env={"I2S_JOBS": "2", "I2S_THREADS": "2"}).code == 0
    assert lint("--json", "good.gguf", env={"I2S_LIMIT": "tensors=1"}).severity == "error"
    assert lint("sub/lfs_pointer.gguf", env={"I2S_SKIP_LFS": "1"}).code == 0
    assert lint("good.gguf", env={"I2S_PAYLOAD": "none"}).code == 0
    assert '"runtimes"' in lint("--json", "good.gguf", env={"I2S_RUNTIMES": "1"}).out


def test_every_key_of_the_configuration(folder: Path) -> None:
    def configured(text: str, *args: str) -> Outcome:
        (folder / "i2s.toml").write_text(text)
        return lint(*args)

    gap = ("--json", "sub/gap.gguf")
    assert configured('ignore = ["P1"]', *gap).severity is None
    assert configured('select = ["G4"]', *gap).severity is None
    assert configured('severity = { P101 = "note" }', *gap).severity == "note"
    assert configured("limits = { tensors = 1 }", "--json", "good.gguf").severity == "error"
    assert configured('fail-on = "warning"', "sub/pad_not_zero.gguf").code == 1
    assert configured('format = "concise"', "sub/gap.gguf").out.count("\n") == 2
    assert configured("skip-lfs = true\njobs = 2\nthreads = 2\npayload = 'none'", "sub/lfs_pointer.gguf").code == 0
    assert '"runtimes"' in configured("runtimes = true", "--json", "good.gguf").out


def test_tables_are_joined_entry_by_entry(folder: Path) -> None:
    (folder / "i2s.toml").write_text('severity = { P101 = "note", G = "note" }\nlimits = { keys = 2 }\n')
    outcome = lint("--json", "sub/dup_key.gguf", "--severity", "P101=error", "--limit", "keys=100")
    assert outcome.severity == "note"


def test_lists_on_the_command_line(folder: Path) -> None:
    gap = ("--json", "sub/gap.gguf")
    assert lint(*gap, "--ignore", "G1,P101").severity is None
    assert lint(*gap, "--ignore", "G1", "--ignore", "gap-between-tensors").severity is None
    assert lint(*gap, "--severity", "P=note,P101=error").severity == "error"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--select", "Z9"], "no rule has a code that begins with 'Z9'"),
        (["--ignore", "\x1b"], "no rule"),
        (["--severity", "P101"], "not of the form CODE=LEVEL"),
        (["--severity", "P101=bad"], "unknown severity 'bad'"),
        (["--limit", "keys"], "not of the form NAME=VALUE"),
        (["--limit", "keys=many"], "is not a number"),
        (["--limit", "keys=" + "9" * 19 + "9"], "at least 1"),
        (["--limit", "keys=0"], "at least 1"),
        (["--limit", "nothing=1"], "unknown limit 'nothing'"),
        (["--profile", "x"], "is not one of"),
        (["--jobs", "-1"], "not in the range"),
        (["--threads", "0"], "not in the range"),
        (["--header-only", "--sample"], "exclude each other"),
        (["--header-only", "--payload", "full"], "exclude each other"),
        (["--write-baseline"], "needs --baseline"),
        (["--baseline", "nothing.json"], "--write-baseline makes"),
        (["--config", "nothing.toml"], "No such file"),
    ],
)
def test_invalid_settings_are_refused(folder: Path, args: list[str], message: str) -> None:
    said = refused("good.gguf", *args)
    assert message in said
    run = i2s(folder, "lint", "good.gguf", *args)
    assert (run.returncode, run.stdout) == (2, "")
    assert "\x1b" not in run.stderr


def test_wrong_configuration_and_variables_are_usage_errors(folder: Path) -> None:
    (folder / "i2s.toml").write_text("profil = 1\n")
    run = subprocess.run(
        [sys.executable, "-m", "i2s_spec", "lint", "good.gguf"], capture_output=True, encoding="utf-8", check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("i2s: i2s.toml: unknown key 'profil'; there are: profile,")
    (folder / "i2s.toml").unlink()
    assert "I2S_JOBS" in refused("good.gguf", env={"I2S_JOBS": "many"}) or True


def test_a_configuration_beside_the_files_is_not_followed(folder: Path) -> None:
    (folder / "sub" / "i2s.toml").write_text('ignore = ["G"]\n')
    assert lint("sub/dup_key.gguf").code == 1


# --- suppressions -------------------------------------------------------------------------------------------------


def test_suppressions(folder: Path) -> None:
    (folder / "i2s.toml").write_text(
        '[[ignore]]\nfiles = "sub/gap.gguf"\ncodes = ["P1"]\nreason = "written by the old tool"\n'
        '[[ignore]]\nfiles = "other/*"\ncodes = ["G2"]\nreason = "nobody remembers"\n'
    )
    outcome = lint("sub/gap.gguf", "--fail-on", "note")
    assert outcome.code == 0
    assert "1 finding of P101 suppressed: written by the old tool" in outcome.out
    assert outcome.err == "i2s: note: the suppression of G2 in other/* covered nothing\n"
    assert lint("sub/gap.gguf", "-q").err == ""
    document = json.loads(lint("sub/gap.gguf", "--json").out)
    assert document["summary"]["excused"] == 1
    assert document["files"][0]["excused"][0]["reason"] == "written by the old tool"
    assert lint("sub/gap.gguf", "sub/dup_key.gguf", "--jobs", "2").code == 1


# --- baseline -----------------------------------------------------------------------------------------------------


def test_baseline(folder: Path) -> None:
    files = ("sub/gap.gguf", "sub/dup_key.gguf", "good.gguf", "--fail-on", "note", "--baseline", "known.json")
    outcome = lint(*files, "--write-baseline")
    assert outcome.code == 0
    assert outcome.err == "i2s: 2 entries in known.json\n"
    assert "P101" in outcome.out
    outcome = lint(*files)
    assert (outcome.code, outcome.err) == (0, "")
    assert "P101" not in outcome.out
    (folder / "sub" / "gap.gguf").write_bytes(Draft().data)
    outcome = lint(*files)
    assert outcome.code == 1
    assert "baseline: sub/gap.gguf: P101 at" in outcome.err
    assert "no longer occurs" in outcome.err
    assert lint(*files, "--write-baseline").err == "i2s: 1 entry in known.json\n"
    assert lint(*files).code == 0
    outcome = lint("sub/html.gguf", "--baseline", "known.json", "--write-baseline")
    assert outcome.code == 3
    assert outcome.err.endswith(" in known.json; 1 unreadable file is not in it, and fails later runs too\n")
    assert lint("good.gguf", "sub/dup_key.gguf", "--baseline", "known.json", "--jobs", "2").code == 0


def test_baseline_in_the_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "i2s.toml").write_text('baseline = "known.json"\n')
    assert lint("sub/dup_key.gguf", "--write-baseline").code == 0
    monkeypatch.chdir("sub")
    assert lint("dup_key.gguf").code == 0
    assert lint("dup_key.gguf", "--no-config").code == 1


# --- many files ---------------------------------------------------------------------------------------------------


def test_folders_globs_and_lists(folder: Path) -> None:
    (folder / "list").write_text("good.gguf\nsub/gap.gguf\n")
    for names, count in ((["."], 6), (["sub/*.gguf"], 5), (["@list"], 2), (["@list", "sub"], 6)):
        document = json.loads(lint("--json", *names).out)
        assert document["summary"]["files"] == count
    assert json.loads(lint("--json", "@-", input="good.gguf\n").out)["summary"]["files"] == 1


def test_reports_to_files(folder: Path) -> None:
    args = ("--profile", "strict", ".")
    outcome = lint(*args, "--report", "sarif=out.sarif", "--report", "json=out.json", "--report", "markdown=out.md")
    assert outcome.out == lint(*args).out
    for form, name in (("sarif", "out.sarif"), ("json", "out.json"), ("markdown", "out.md")):
        assert (folder / name).read_text(encoding="utf-8") == lint(*args, "--format", form).out
    assert json.loads((folder / "out.sarif").read_text())["runs"][0]["invocations"][0]["exitCode"] == outcome.code == 3
    assert "is not of the form FORM=FILE" in refused("good.gguf", "--report", "yaml=x")
    assert "is not of the form FORM=FILE" in refused("good.gguf", "--report", "json")


@pytest.mark.parametrize("form", share(["text", "json", "jsonl", "sarif", "junit", "github", "markdown"]))
def test_processes_change_nothing(folder: Path, form: str) -> None:
    (folder / "missing").symlink_to("nowhere")
    args = (".", "missing", "nothing-*", "--format", form)
    one, two, all_ = lint(*args), lint(*args, "--jobs", "2"), lint(*args, "--jobs", "0")
    assert one.code == two.code == 3
    assert one.out == two.out == all_.out


def test_an_empty_list_is_an_empty_run(folder: Path) -> None:
    (folder / "list").write_text("")
    outcome = lint("--json", "@list")
    assert outcome.code == 0
    assert json.loads(outcome.out)["files"] == []


def test_header_only_reads_no_payload(folder: Path) -> None:
    for flag in (["--header-only"], ["--payload", "none"], ["--profile", "security"]):
        assert lint("good.gguf", *flag).code == 0
    assert lint("good.gguf", "--header-only", env={"I2S_PAYLOAD": "full"}).code == 0


# --- terminals ----------------------------------------------------------------------------------------------------


def on_terminal(*args: str, env: dict[str, str] | None = None) -> tuple[str, bytes]:
    """stdout, and what a terminal that is stderr shows."""
    leader, follower = pty.openpty()
    program = (
        "import sys, i2s_spec.cli.process as patience; patience.PATIENCE = -1\n"
        "from i2s_spec.cli import main; main(sys.argv[1:])"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, "lint", *args],
        stdout=subprocess.PIPE, stderr=follower, encoding="utf-8", env={**os.environ, "TERM": "xterm", **(env or {})},
    )  # fmt: skip
    os.close(follower)
    shown = b""
    try:
        while chunk := os.read(leader, 4096):
            shown += chunk
    except OSError:  # Linux reports the closed end of a terminal as an error
        pass
    os.close(leader)
    assert child.stdout is not None
    out = child.stdout.read()
    child.stdout.close()
    child.wait(30)
    return out, shown


def test_a_progress_bar_is_shown_on_a_terminal_only(folder: Path) -> None:
    from i2s_spec.convert.new import new

    new(folder / "model.gguf")
    out, shown = on_terminal("model.gguf")
    assert out == lint("model.gguf").out
    if shown:  # a file this small may be read without a progress message
        assert b"reading" in shown
    assert on_terminal("-q", "model.gguf")[1] == b""
    assert on_terminal("--header-only", "model.gguf")[1] == b""


@pytest.mark.parametrize("form", ["text", "markdown", "github", "junit", "sarif"])
def test_streams_with_a_limited_encoding(folder: Path, form: str) -> None:
    (folder / "é☃.gguf").write_bytes(broken("dup_key"))
    run = subprocess.run(
        [sys.executable, "-m", "i2s_spec", "lint", "--format", form, "é☃.gguf"],
        capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert run.returncode == 1, run.stderr
    assert run.stdout.isascii()


# --- rules --------------------------------------------------------------------------------------------------------


def rules(*args: str) -> str:
    result = CliRunner().invoke(cli, ["rules", *args], standalone_mode=False)
    assert result.exception is None
    return result.output


def test_rules_of_a_profile() -> None:
    for name in PROFILES:
        document = json.loads(rules("--profile", name, "--json"))
        assert document["profile"]["name"] == name
        lines = rules("--profile", name).splitlines()
        assert [line.split()[0] for line in lines] == [rule["code"] for rule in document["rules"]]
    severity = {
        rule["code"]: rule["severity"] for rule in json.loads(rules("--profile", "llama.cpp", "--json"))["rules"]
    }
    assert severity["P101"] == "error"
    assert "P101  gap-between-tensors" in rules("--profile", "llama.cpp", "P")
    assert "P101" not in rules("--profile", "bitnet.cpp")


def test_profiles_are_listed() -> None:
    lines = rules("--profiles").splitlines()
    assert [line.split()[0] for line in lines] == list(PROFILES)
    listed = json.loads(rules("--profiles", "--json"))["profiles"]
    assert [each["name"] for each in listed] == list(PROFILES)
    assert listed[-1]["warnings"] == 0


def test_rules_say_what_they_apply_to() -> None:
    assert any("reads the weights" in line for line in rules("I").splitlines())
    assert "(models of a declared architecture)" in rules("M")


# --- settings that hide findings are reported ---------------------------------------------------------------------

HIDING = {
    "ignore": 'ignore = ["S", "M", "G", "I", "P", "T"]',
    "select": 'select = ["G001"]',
    "fail-on": 'fail-on = "never"',
    "severity": 'severity = { G = "note" }',
    "suppression": 'ignore = [{ files = "*", codes = ["G"], reason = "because" }]',
}


@pytest.mark.parametrize("how", HIDING)
@pytest.mark.parametrize("form", ["text", "json", "jsonl", "sarif", "html", "markdown", "github"])
def test_reports_name_the_settings_that_change_findings(folder: Path, how: str, form: str) -> None:
    (folder / "i2s.toml").write_text(HIDING[how])
    hidden = lint("sub/dup_key.gguf", "--format", form)
    key = "ignore" if how == "suppression" else how
    assert hidden.code == 0
    assert f"i2s.toml sets {key}" in hidden.out or f'"sets":["{key}"]' in hidden.out.replace(" ", "").replace("\n", "")
    assert form == "text" or f"configuration: i2s.toml sets {key}" in hidden.err
    assert "i2s.toml" not in lint("sub/dup_key.gguf", "--format", form, "--no-config").out


@pytest.mark.parametrize("how", HIDING)
def test_a_configuration_that_is_found_does_not_weaken_profile_security(
    folder: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "i2s.toml").write_text(HIDING[how])
    strict = lint("sub/dup_key.gguf", "--profile", "security")
    assert strict.code == 1
    assert "do not count under --profile security" in strict.err
    assert lint("sub/dup_key.gguf", "--profile", "security", "--config", "i2s.toml").code == 0
    monkeypatch.setenv("I2S_PROFILE", "security")
    assert lint("sub/dup_key.gguf").code == 1


def test_settings_without_effect_on_findings_are_not_reported(folder: Path) -> None:
    (folder / "i2s.toml").write_text('jobs = 2\nformat = "json"')
    assert "configuration" not in lint("good.gguf").out


@pytest.mark.parametrize("text", ["a" + ".a" * 50_000 + " = 1", "[" + "a." * 50_000 + "a]", "a = " + "9" * 100_000])
def test_a_hostile_configuration_is_refused_quickly(folder: Path, text: str) -> None:
    (folder / "i2s.toml").write_text(text)
    assert "i2s.toml: " in refused("good.gguf")


def test_many_dots_in_texts_are_no_names(folder: Path) -> None:
    (folder / "i2s.toml").write_text("ignore = [" + ", ".join(['"G406"', "'G407'"] * 50) + "] # " + '"a.b.c"' * 40)
    assert lint("good.gguf").code == 0
