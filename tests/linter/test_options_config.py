"""Configuration: where it is looked for, precedence, and messages about a wrong one."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import broken

from i2s_spec.errors import SettingError
from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import KEYS, Options, _config, found
from i2s_spec.linter.selection import Suppression, suppressed_in, used


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_is_configured(folder: Path) -> None:
    config = found("a/b")
    assert (dict(config.values), config.suppressions) == ({}, ())


def test_nearest_file_counts(folder: Path) -> None:
    write(folder / "i2s.toml", 'profile = "strict"\n')
    assert found("a/b").values == {"profile": "strict"}
    write(folder / "a" / "i2s.toml", 'profile = "spec"\n')
    assert found("a/b").values == {"profile": "spec"}
    assert found(".").values == {"profile": "strict"}


def test_i2s_toml_counts_before_pyproject_key_by_key(folder: Path) -> None:
    write(folder / "a" / "pyproject.toml", '[tool.i2s]\nprofile = "spec"\njobs = 2\n')
    write(folder / "i2s.toml", 'profile = "strict"\n')
    config = found("a")
    assert config.values == {"profile": "strict", "jobs": 2}
    assert config.places["profile"].endswith("i2s.toml")
    assert config.places["jobs"].endswith("pyproject.toml")


def test_a_pyproject_without_the_table_is_passed_by(folder: Path) -> None:
    write(folder / "pyproject.toml", "[tool.i2s]\njobs = 3\n")
    write(folder / "a" / "pyproject.toml", '[project]\nname = "i2s-something"\n')
    assert found("a/b").values == {"jobs": 3}


def test_a_folder_named_like_a_configuration_is_ignored(folder: Path) -> None:
    (folder / "i2s.toml").mkdir()
    assert found(".").values == {}


def test_every_key(folder: Path) -> None:
    write(
        folder / "i2s.toml",
        """
        profile = "llama.cpp"
        select = ["G", "I", "P101"]
        ignore = ["G106", { files = "old/*.gguf", codes = ["P1", "big-endian"], reason = "kept  as a\\n bad example" }]
        severity = { M = "warning", "gap-between-tensors" = "error" }
        limits = { tensors = 4096, findings = 10 }
        payload = "sample"
        runtimes = true
        threads = 2
        jobs = 4
        format = "sarif"
        fail-on = "never"
        baseline = "known.json"
        skip-lfs = true
        """,
    )
    config = found("a")
    assert config.values.keys() <= KEYS.keys()
    assert config.values["ignore"] == ["G106"]
    assert config.suppressions == (
        Suppression("old/*.gguf", ("P1", "big-endian"), "kept as a bad example", str(folder)),
    )


def test_tables_of_suppressions(folder: Path) -> None:
    write(folder / "i2s.toml", '[[ignore]]\nfiles = "*.gguf"\ncodes = ["P1"]\nreason = "so"\n')
    (suppression,) = found().suppressions
    assert suppression[:3] == ("*.gguf", ("P1",), "so")
    assert found().values["ignore"] == []


def test_a_suppression_may_be_bound_to_the_bytes_of_a_file(folder: Path) -> None:
    data = broken("gap")
    (folder / "old.gguf").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    write(
        folder / "i2s.toml",
        f'ignore = [{{ files = "*.gguf", codes = ["P101"], reason = "known", sha256 = "{digest.upper()}" }}]\n',
    )
    options = Options(suppressions=found().suppressions)
    report = lint("old.gguf", options)
    assert [(each.code, each.reason) for each in report.suppressed] == [("P101", "known")]
    assert lint(data, options).suppressed == ()  # it has no name
    (folder / "old.gguf").write_bytes(data + bytes(32))
    report = lint("old.gguf", options)
    assert report.suppressed == ()
    assert "P101" in {each.code for each in report.findings}
    assert lint("missing.gguf", options).findings[0].code == "S901"


def test_a_file_is_digested_only_for_a_suppression_that_covers_it(folder: Path) -> None:
    def digest() -> str:
        raise AssertionError

    bound = Suppression("old/*.gguf", ("P1",), "r", str(folder), "0" * 64)
    assert suppressed_in("new/x.gguf", [bound], digest) == {}
    with pytest.raises(AssertionError):
        suppressed_in("old/x.gguf", [bound], digest)


def test_baseline_lies_beside_the_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "i2s.toml", 'baseline = "known.json"\n')
    monkeypatch.chdir("a/b")
    assert found().values["baseline"] == os.path.join("..", "..", "known.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("profil = 1", "unknown key 'profil'; there are: profile"),
        ("profile = 1", "profile must be one of default"),
        ('profile = "none"', "profile must be one of default"),
        ('select = "G"', "select must be a list of strings"),
        ('select = ["Z"]', "select: no rule has a code"),
        ("select = [1]", "select must be a list of strings"),
        ('ignore = ["Z"]', "ignore: no rule has a code"),
        ("ignore = [1]", "ignore must be a list of codes and of tables"),
        ('ignore = "G"', "ignore must be a list"),
        ('severity = { G = "fatal" }', "severity: unknown severity 'fatal'"),
        ('severity = ["G"]', "severity must be a table"),
        ("severity = { G = 1 }", "severity must be a table of severities"),
        ("limits = { nothing = 1 }", "limits: unknown limit 'nothing'"),
        ("limits = { keys = 0 }", "limits: the limit 'keys' must be a number of at least 1"),
        ("limits = { keys = true }", "limits must be a table of numbers"),
        ('payload = "half"', "payload must be one of full, sample, none"),
        ("runtimes = 1", "runtimes must be true or false"),
        ("threads = 0", "threads must be a number of at least 1"),
        ("jobs = true", "jobs must be a number"),
        ('format = "yaml"', "format must be one of text"),
        ('fail-on = "bad"', "fail-on must be one of error"),
        ("baseline = 1", "baseline must be a string"),
        ("[[ignore]]\nfiles = 'x'\ncodes = ['P1']", "ignore: reason is missing"),
        ("[[ignore]]\nfiles = 'x'\ncodes = ['P1']\nreason = 'r'\nsha256 = 'ab'", "ignore: sha256 must be a SHA-256"),
        ("[[ignore]]\nfiles = 'x'\ncodes = ['P1']\nreason = 'r'\nsha256 = 1", "ignore: sha256 must be a string"),
        ("[[ignore]]\nfiles = 'x'\ncodes = ['P1']\nreason = ''", "ignore: reason must be a string"),
        ("[[ignore]]\nfiles = 'x'\ncodes = ['P1']\nreason = ' '", "ignore: reason must not be empty"),
        ("[[ignore]]\ncodes = ['P1']\nreason = 'r'", "ignore: files is missing"),
        ("[[ignore]]\nfiles = 'x'\nreason = 'r'", "ignore: codes is missing"),
        ("[[ignore]]\nfiles = 'x'\ncodes = ['P9']\nreason = 'r'", "ignore: no rule has a code"),
        ("[[ignore]]\nfiles = 'x'\ncodes = []\nreason = 'r'", "ignore: codes is empty"),
        ("[[ignore]]\nfiles = 'x'\ncodes = ['P1']\nreason = 'r'\nwhy = 1", "ignore: unknown key 'why'"),
        ("profile = ", "this is not TOML"),
        ("a = " + "[" * 5000, "this is not TOML"),
        ('"\\u001b[2J" = 1', r"unknown key '\\x1b"),
    ],
)
def test_wrong_configuration_names_file_and_key(folder: Path, text: str, message: str) -> None:
    write(folder / "i2s.toml", text)
    with pytest.raises(SettingError) as error:
        found()
    assert str(error.value).startswith("i2s.toml: ")
    assert message.replace("\\\\", "\\") in str(error.value)
    assert "\x1b" not in str(error.value)
    write(folder / "i2s.toml", "")
    if not text.startswith(("[[", "a =", "profile = \n")) and not text.endswith("= "):
        write(folder / "pyproject.toml", f"[tool.i2s]\n{text}")
        with pytest.raises(SettingError, match=r"^pyproject\.toml: "):
            found()


@pytest.mark.parametrize("text", ["tool = 1 # i2s", "[tool]\ni2s = 1", "[tool.i2s", "[tool]\nx = 'i2s'"])
def test_odd_pyproject(folder: Path, text: str) -> None:
    write(folder / "pyproject.toml", text)
    if text.endswith(("i2s = 1", "[tool.i2s")):
        with pytest.raises(SettingError, match=r"^pyproject\.toml: "):
            found()
    else:
        assert found().values == {}


def test_explicit_file(folder: Path) -> None:
    write(folder / "i2s.toml", "broken")
    assert found(explicit=str(write(folder / "mine.toml", "jobs = 2"))).values == {"jobs": 2}
    explicit = write(folder / "a" / "pyproject.toml", "[tool.i2s]\njobs = 5\n")
    assert found(explicit=str(explicit)).values == {"jobs": 5}
    write(explicit, "[tool.other]\n")
    with pytest.raises(SettingError, match=r"no table \[tool.i2s\]"):
        found(explicit=str(explicit))
    with pytest.raises(SettingError, match=r"^nothing.toml: No such file"):
        found(explicit="nothing.toml")


def test_a_huge_file_and_bytes_that_are_not_text(folder: Path) -> None:
    (folder / "i2s.toml").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(SettingError, match="at most are read"):
        found()
    (folder / "i2s.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingError, match="not TOML"):
        found()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["G", "error", "keys", "full"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*KEYS, "nothing"]), VALUES, max_size=3))
@examples(60)
def test_any_table_is_accepted_or_refused_with_a_message(table: dict[str, Any]) -> None:
    refused = None
    try:
        _config([("i2s.toml", table)])
    except SettingError as error:
        refused = str(error)
    assert refused is None or (refused.startswith("i2s.toml: ") and refused.isprintable())


# --- suppressions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("*.gguf", ["a.gguf", "x/y/a.gguf"], ["a.gguf.bak", "a"]),
        ("old/*.gguf", ["old/a.gguf"], ["a.gguf", "old/x/a.gguf", "new/old/a.gguf"]),
        ("**/old/*.gguf", ["old/a.gguf", "x/y/old/a.gguf"], ["old/x/a.gguf", "gold/a.gguf"]),
        ("old/**", ["old/a", "old/x/y"], ["older/a", "old"]),
        ("/top.gguf", ["top.gguf"], ["x/top.gguf"]),
        ("a?.gguf", ["ab.gguf"], ["a.gguf", "a/.gguf"]),
        ("a[1].gguf", ["a[1].gguf"], ["a1.gguf"]),
        ("a.gguf", ["a.gguf"], ["aXgguf"]),
        ("**", ["a", "x/y"], []),
        ("new\nline", ["new\nline"], ["newline"]),
    ],
)
def test_patterns(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    suppression = Suppression(pattern, ("P1",), "r")
    assert all(suppression.covers(path) for path in fits)
    assert not any(suppression.covers(path) for path in fits_not)


def test_patterns_are_relative_to_the_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suppression = Suppression("a/*.gguf", ("P1",), "r", str(folder))
    monkeypatch.chdir("a/b")
    assert suppression.covers("../x.gguf")
    assert suppression.covers(str(folder / "a" / "x.gguf"))
    assert not suppression.covers("x.gguf")


def test_the_later_suppression_counts() -> None:
    suppressions = (Suppression("*", ("P1",), "first"), Suppression("*.gguf", ("P1", "G1"), "second"))
    assert suppressed_in("a.gguf", suppressions) == {"P1": "second", "G1": "second"}
    assert suppressed_in("a.bin", suppressions) == {"P1": "first"}


def test_used_suppressions() -> None:
    one, two = Suppression("a/*", ("P1",), "one"), Suppression("b/*", ("P1",), "two")
    report = {"excused": [{"code": "P101", "findings": 1, "reason": "one"}]}
    assert used({one, two}, "a/x", report) == {one}
    assert used({one, two}, "b/x", report) == set()


def test_a_file_without_a_name_is_under_no_folder() -> None:
    """No file has an empty name, and Python refuses to compute a relative path to it."""
    assert suppressed_in("", [Suppression("/more/**", ("G",), "r", "some/folder")]) == {}
