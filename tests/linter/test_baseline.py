"""The baseline: known findings are not reported, new ones are, and entries without a finding must be removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from malformed_cases import broken

from i2s_spec.errors import SettingError
from i2s_spec.linter.baseline import ELIDED, Baseline
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import failed, lint_path
from i2s_spec.linter.report_data import exit_code
from i2s_spec.linter.selection import selected
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, key_value

RULES = selected()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "dup.gguf").write_bytes(broken("dup_key"))
    return tmp_path


def odd_keys(count: int, first: int = 0) -> bytes:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"X%d" % i, ValueType.UINT8, 1) for i in range(first, first + count)]
    return draft.built(file)


def written(*paths: str, name: str = "known.json") -> dict[str, Any]:
    baseline = Baseline(name, RULES)
    for path in paths:
        baseline.apply(path, lint_path(path), write=True)
    baseline.write()
    document: dict[str, Any] = json.loads(Path(name).read_text(encoding="ascii"))
    return document


def applied(path: str, name: str = "known.json", rules: Any = RULES, **options: Any) -> tuple[Any, list[str]]:
    baseline = Baseline.read(name, rules)
    report = baseline.apply(path, lint_path(path, Options(**options)))
    return report, list(baseline.stale())


def test_known_findings_are_not_reported(folder: Path) -> None:
    document = written("m/dup.gguf")
    assert document["schema_version"] == 1
    assert list(document["files"]) == ["m/dup.gguf"]
    report, stale = applied("m/dup.gguf")
    assert (report["findings"], report["ok"], report["summary"]["errors"], stale) == ([], True, 0, [])
    assert report["summary"]["baseline"] == 1
    assert exit_code(report) == 0


def test_new_findings_are_reported(folder: Path) -> None:
    (folder / "new.gguf").write_bytes(broken("dup_key"))
    written("m/dup.gguf")
    report, _ = applied("new.gguf")
    assert [finding["code"] for finding in report["findings"]] == ["G203"]


def test_entries_hold_when_bytes_move(folder: Path) -> None:
    path = folder / "m" / "odd.gguf"
    path.write_bytes(odd_keys(1))
    written("m/odd.gguf")
    draft = Draft()
    file = draft.records()
    file.key_values[0].value = b"x" * 999
    file.key_values += [key_value(b"X0", ValueType.UINT8, 1)]
    path.write_bytes(draft.built(file))
    report, stale = applied("m/odd.gguf")
    assert [f["code"] for f in report["findings"] if f["code"] == "G207"] == []
    assert stale == []


def test_entries_without_a_finding_must_be_removed(folder: Path) -> None:
    written("m/dup.gguf")
    (folder / "m" / "dup.gguf").write_bytes(Draft().data)
    _, stale = applied("m/dup.gguf")
    (sentence,) = stale
    assert sentence.startswith("m/dup.gguf: G203 at key_values[")
    assert sentence.endswith(".key no longer occurs")
    (folder / "m" / "dup.gguf").unlink()
    assert list(Baseline.read("known.json", RULES).stale()) == ["m/dup.gguf: the file no longer exists"]


def test_files_and_rules_that_a_run_leaves_out_stay(folder: Path) -> None:
    written("m/dup.gguf")
    assert list(Baseline.read("known.json", RULES).stale()) == []
    (folder / "m" / "dup.gguf").write_bytes(Draft().data)
    rules = selected(ignore=["G2"])
    assert applied("m/dup.gguf", rules=rules, ignore=("G2",))[1] == []
    baseline = Baseline.read("known.json", rules)
    baseline.apply("m/dup.gguf", lint_path("m/dup.gguf", Options(ignore=("G2",))), write=True)
    baseline.write()
    assert "G203" in json.loads(Path("known.json").read_text(encoding="utf-8"))["files"]["m/dup.gguf"]


def test_a_file_that_was_not_checked_makes_no_entry_stale(folder: Path) -> None:
    written("m/dup.gguf")
    baseline = Baseline.read("known.json", RULES)
    baseline.apply("m/dup.gguf", failed("m/dup.gguf", "MemoryError"))
    assert list(baseline.stale()) == []
    (folder / "m" / "dup.gguf").write_bytes(broken("html"))
    assert applied("m/dup.gguf")[1] == []


def test_findings_about_unreadable_files_are_not_stored(folder: Path) -> None:
    (folder / "page.gguf").write_bytes(broken("html"))
    assert written("page.gguf")["files"] == {}
    Path("known.json").write_text(
        json.dumps({"schema_version": 1, "files": {"page.gguf": {"G004": {"header.magic": 1}}}}), encoding="utf-8"
    )
    report, _ = applied("page.gguf")
    assert exit_code(report) == 3
    assert [finding["code"] for finding in report["findings"]] == ["G004"]


def test_the_same_finding_twice_counts_twice(folder: Path) -> None:
    path = folder / "m" / "odd.gguf"
    path.write_bytes(odd_keys(3))
    document = written("m/odd.gguf")
    entries = document["files"]["m/odd.gguf"]["G207"]
    assert sum(entries.values()) == 3
    field = next(iter(entries))
    document["files"]["m/odd.gguf"]["G207"] = {field: entries[field]}
    Path("known.json").write_text(json.dumps(document), encoding="utf-8")
    assert len(applied("m/odd.gguf")[0]["findings"]) == 2
    document["files"]["m/odd.gguf"]["G207"] = {field: 5}
    Path("known.json").write_text(json.dumps(document), encoding="utf-8")
    assert applied("m/odd.gguf")[1] == [f"m/odd.gguf: G207 at {field} no longer occurs 4 times fewer"]


def test_more_findings_than_a_report_lists(folder: Path) -> None:
    path = folder / "m" / "many.gguf"
    path.write_bytes(odd_keys(150))
    document = written("m/many.gguf")
    assert document["files"]["m/many.gguf"]["G207"][ELIDED] == 50
    report, stale = applied("m/many.gguf")
    assert (report["findings"], report["summary"]["elided"], report["summary"]["notes"], stale) == ([], {}, 0, [])
    assert report["summary"]["baseline"] == 150
    path.write_bytes(odd_keys(153))
    report, stale = applied("m/many.gguf")
    assert (report["summary"]["elided"], report["summary"]["notes"], stale) == ({"G207": 3}, 3, [])
    path.write_bytes(odd_keys(140))
    assert applied("m/many.gguf")[1] == [f"m/many.gguf: G207 at {ELIDED} no longer occurs 10 times fewer"]


def test_paths_are_relative_to_the_baseline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "ci").mkdir()
    document = written("m/dup.gguf", name="ci/known.json")
    assert list(document["files"]) == ["../m/dup.gguf"]
    monkeypatch.chdir("m")
    report, stale = applied("dup.gguf", name="../ci/known.json")
    assert (report["findings"], stale) == ([], [])
    report, stale = applied(str(folder / "m" / "dup.gguf"), name="../ci/known.json")
    assert (report["findings"], stale) == ([], [])


def test_names_that_are_not_text(folder: Path) -> None:
    name = "m/\udcff\x1b\n.gguf"
    (folder / name).write_bytes(broken("dup_key"))
    written(name)
    assert applied(name)[0]["findings"] == []
    (folder / name).unlink()
    (sentence,) = Baseline.read("known.json", RULES).stale()
    assert sentence.isprintable()


def test_writing_again_keeps_what_this_run_did_not_look_at(folder: Path) -> None:
    (folder / "m" / "gap.gguf").write_bytes(broken("gap"))
    written("m/dup.gguf", "m/gap.gguf")
    baseline = Baseline.read("known.json", RULES)
    baseline.apply("m/dup.gguf", lint_path("m/dup.gguf"), write=True)
    assert baseline.write() == 2
    (folder / "m" / "gap.gguf").unlink()
    assert Baseline.read("known.json", RULES).write() == 1


def test_the_file_is_the_same_twice(folder: Path) -> None:
    (folder / "m" / "gap.gguf").write_bytes(broken("gap"))
    assert written("m/dup.gguf", "m/gap.gguf") == written("m/gap.gguf", "m/dup.gguf")


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"schema_version": 2, "files": {}}', '{"schema_version": 1, "files": []}',
        '{"schema_version": 1, "files": {"a": 1}}', '{"schema_version": 1, "files": {"a": {"G001": {"x": 0}}}}',
        '{"schema_version": 1, "files": {"a": {"G001": {"x": true}}}}', "[" * 100_000, "\x1b",
    ],
)  # fmt: skip
def test_invalid_baselines_are_refused(folder: Path, text: str) -> None:
    Path("known.json").write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=r"^known.json: this is not a baseline") as error:
        Baseline.read("known.json", RULES)
    assert str(error.value).isprintable()


def test_a_baseline_that_is_not_there(folder: Path) -> None:
    with pytest.raises(SettingError, match="--write-baseline makes a baseline"):
        Baseline.read("nothing.json", RULES)
