"""The corpus as a folder: complete, described, the same each time, and never in the way of other files."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import i2s_spec.conformance
from i2s_spec.cli.specification.vectors import command
from i2s_spec.conformance import export as module
from i2s_spec.conformance.export import export
from i2s_spec.conformance.phases import Phase, phase_of
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import REGISTRY
from i2s_spec.testing.malformed import malformed

SCHEMA = json.loads((Path(i2s_spec.conformance.__file__).parent / "malformed.schema.json").read_text())


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus") / "out"
    done = export(folder)
    assert done.written + done.described == len(read(folder)["malformed"])
    return folder


def test_manifest_fits_its_schema(corpus: Path) -> None:
    jsonschema.validate(read(corpus), SCHEMA)


def test_files_are_those_of_the_manifest(corpus: Path) -> None:
    held = contents(corpus)
    del held["manifest.json"]
    manifest = read(corpus)
    said = {entry["file"]: entry for entry in (*manifest["malformed"], *manifest["sound"]) if entry["file"] is not None}
    assert {name: entry["sha256"] for name, entry in said.items()} == held
    assert all((corpus / name).stat().st_size == entry["size"] for name, entry in said.items())


def test_every_case_has_its_entry(corpus: Path) -> None:
    entries = {entry["name"]: entry for entry in read(corpus)["malformed"]}
    assert len(entries) >= 150
    assert entries.keys() == {case.name for case in malformed()}


def test_what_is_written_gets_its_code(corpus: Path) -> None:
    for entry in read(corpus)["malformed"][::9]:
        if entry["file"] is not None:
            findings = lint(corpus / entry["file"]).findings
            span = entry["span"]
            assert (entry["code"], (span["start"], span["stop"], span["path"])) in {
                (f.code, tuple(f.span)) for f in findings
            }


def test_sound_files_are_sound(corpus: Path) -> None:
    for entry in read(corpus)["sound"]:
        assert lint(corpus / entry["file"]).ok


def test_large_files_are_hollow_or_described(corpus: Path) -> None:
    entries = {entry["name"]: entry for entry in read(corpus)["malformed"]}
    assert entries["many_kv_200k"]["written"] == "described"
    assert entries["many_kv_200k"]["file"] is None
    ceiling = entries["kv_ceiling"]
    assert ceiling["written"] == "sparse"
    status = (corpus / ceiling["file"]).stat()
    assert status.st_size > 13_000_000
    assert status.st_blocks * 512 < 2_000_000


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("bad_magic", "header"), ("nk_huge", "header"), ("key_len_huge", "metadata"), ("align0", "metadata"),
        ("key_type_i32", "metadata"), ("type_neg", "table"), ("off_wrap", "table"), ("align_ignored", "table"),
        ("trunc_data", "data"), ("tail-missing", "data"), ("scale_be", "payload"), ("trailing", "never"),
        ("ver2", "never"), ("many_kv_200k", "never"),
    ],
)  # fmt: skip
def test_phases(corpus: Path, name: str, phase: str) -> None:
    assert next(entry for entry in read(corpus)["malformed"] if entry["name"] == name)["phase"] == phase


def test_every_phase_occurs_and_every_case_has_one(corpus: Path) -> None:
    assert {entry["phase"] for entry in read(corpus)["malformed"]} == {phase.value for phase in Phase}
    assert all(phase_of(REGISTRY[case.code], case.path) for case in malformed())


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first cases, so that folders are written in a moment."""
    cases = [case for case in malformed() if not case.large and len(case.data) < 2000][:12]
    monkeypatch.setattr(module, "malformed", lambda: iter(cases))


@pytest.mark.thorough
def test_two_exports_are_equal(corpus: Path, tmp_path: Path) -> None:
    export(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(corpus)


@pytest.mark.usefixtures("few")
def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        export(target)
    assert contents(target).keys() == {"mine.txt"}
    export(target, force=True)
    assert (target / "mine.txt").read_text() == "mine"
    assert len(contents(target)) == 12 + len(read(target)["sound"]) + 2
    with pytest.raises(FileExistsError, match="this is a file"):
        export(target / "mine.txt", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.usefixtures("few")
def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "no room")

    monkeypatch.setattr(module, "manifest", full)
    with pytest.raises(OSError, match="no room"):
        export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("few")
def test_the_command(tmp_path: Path) -> None:
    run = CliRunner().invoke(command, ["export", "--malformed", str(tmp_path / "a" / "out")])
    assert run.exit_code == 0, run.output
    assert "12 malformed files" in run.stdout
    again = CliRunner().invoke(command, ["export", "--malformed", str(tmp_path / "a" / "out")])
    assert again.exit_code == 2
    assert "--force" in again.output
    quiet = CliRunner().invoke(command, ["export", "-q", "--force", "--malformed", str(tmp_path / "a" / "out")])
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert CliRunner().invoke(command, ["export"]).exit_code == 2
