"""Parts of a run over many files: manifests, keys of options, rates by host, and the log of results."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path

import pytest

from i2s_spec.convert.new import new
from i2s_spec.errors import MissingExtra, SettingError
from i2s_spec.linter.cluster.check import check, options_key, portable
from i2s_spec.linter.cluster.lint_manifest import lint_manifest
from i2s_spec.linter.cluster.manifest import Entry, as_lines, entry_of, host_of, manifest
from i2s_spec.linter.cluster.results import ResultsLog, key_of, latest
from i2s_spec.linter.cluster.run import HostRates, Rate
from i2s_spec.linter.options import Options, defaults
from i2s_spec.linter.selection import Suppression
from i2s_spec.testing.sample import Draft


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("a.gguf", "sub/b.gguf"):
        (tmp_path / name).write_bytes(Draft().data)
    return tmp_path


# --- manifests ----------------------------------------------------------------------------------------------------


def test_names_lists_and_manifests_become_entries(place: Path) -> None:
    (place / "names.txt").write_text("sub\nhttps://example.org/m.gguf?x=1\na.gguf\n", encoding="utf-8")
    line = {"url": "s3://bucket/m.gguf", "etag": "e", "size": 5, "sha256": "0" * 64, "requests": 3}
    (place / "more.jsonl").write_text(json.dumps(line) + "\n\n" + json.dumps({"url": "a.gguf"}), encoding="utf-8")
    found = list(manifest(["names.txt", "more.jsonl", "@more.jsonl", "missing.gguf"]))
    local = str(place)
    assert [entry.url for entry in found] == [
        f"{local}/sub/b.gguf", "https://example.org/m.gguf?x=1", f"{local}/a.gguf", "s3://bucket/m.gguf",
        f"{local}/missing.gguf",
    ]  # fmt: skip
    assert found[3] == Entry("s3://bucket/m.gguf", "e", 5, "0" * 64, 3)
    assert found[0].size == len(Draft().data)
    assert (found[1].etag, found[4].etag, found[4].size) == (None, None, None)


def test_a_manifest_is_read_as_it_was_written(place: Path) -> None:
    found = [*manifest(["."]), Entry("hf://org/repo/m.gguf", size=7)]
    (place / "m.jsonl").write_text("".join(as_lines(found)), encoding="utf-8")
    assert list(manifest(["m.jsonl"])) == found


def test_the_etag_of_a_path_tells_that_it_was_written_to(place: Path) -> None:
    before = entry_of("a.gguf")
    times = os.stat("a.gguf")
    Path("a.gguf").write_bytes(b"x" * len(Draft().data))
    os.utime("a.gguf", ns=(times.st_atime_ns, times.st_mtime_ns))  # a change that keeps size and time stamps
    after = entry_of("a.gguf")
    assert (after.url, after.size) == (before.url, before.size)
    assert after.etag != before.etag
    assert entry_of("a.gguf") == after


def test_a_folder_of_safetensors_is_one_entry(place: Path) -> None:
    folder = place / "checkpoint"
    folder.mkdir()
    assert entry_of("checkpoint").checkpoint is False  # the folder is empty
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(bytes(10))
    (folder / "README.md").write_text("more", encoding="utf-8")
    (before,) = manifest(["checkpoint"])
    assert (before.checkpoint, before.size, before.problem) == (True, 12, "")
    assert before == entry_of({"url": str(folder)})
    lines = list(as_lines([before]))
    (place / "m.jsonl").write_text("".join(lines), encoding="utf-8")
    assert list(manifest(["m.jsonl"])) == [before]
    (folder / "README.md").write_text("other", encoding="utf-8")
    assert entry_of("checkpoint") == before
    (folder / "config.json").write_text("[]", encoding="utf-8")
    assert entry_of("checkpoint").etag != before.etag
    (hub,) = (entry_of({"url": "hf://org/repo", "checkpoint": True}),)
    assert (hub.checkpoint, hub.has_no_identity) == (True, True)


def test_entries_come_from_columns_of_tables(place: Path) -> None:
    numpy = pytest.importorskip("numpy")
    row = {"url": "s3://b/m", "etag": float("nan"), "size": numpy.float64(5), "sha256": None, "extra": 1}
    assert entry_of(row) == Entry("s3://b/m", None, 5)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not a JSON object"),
        ("[" * 60000, "not a JSON object"),
        ("1", "an entry is a JSON object"),
        ("{}", "needs a url"),
        ('{"url": "a", "size": -1}', "number of bytes"),
        ('{"url": "a", "size": true}', "number of bytes"),
        ('{"url": "a", "etag": 1}', "must be strings"),
        ('{"url": "a", "sha256": "00"}', "64 hexadecimal"),
        ('{"url": "a", "requests": 0}', "above 0"),
        ('{"url": "a", "checkpoint": 1}', "true or false"),
        ('{"url": "' + "a" * 70000 + '"}', "longer than"),
    ],
)
def test_a_bad_line_of_a_manifest_is_named(place: Path, line: str, reason: str) -> None:
    (place / "bad.jsonl").write_text('{"url": "a.gguf"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(SettingError, match=rf"^bad\.jsonl:2: .*{reason}"):
        list(manifest(["bad.jsonl"]))


def test_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert host_of("hf://org/repo/m.gguf") == "huggingface.co"
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost:8000")
    assert host_of("hf://org/repo/m.gguf") == "localhost"
    assert host_of("http://[broken/m.gguf") == ""


# --- keys of options ----------------------------------------------------------------------------------------------


def test_options_that_give_other_reports_have_another_key() -> None:
    keys = {
        options_key(options)
        for options in (
            defaults(),
            Options(profile="security"),
            Options(ignore=("P1",)),
            Options(severity={"P101": "note"}),
            Options(payload="none"),
            Options(payload="sample"),
            Options(limits={"findings": 5}),
            Options(runtimes=True),
            Options(skip_lfs=True),
            Options(suppressed={"G203": "known"}),
            Options(suppressions=(Suppression("*", ("P1",), "known"),)),
        )
    }
    assert len(keys) == 11
    assert options_key(Options(threads=2)) == options_key(defaults())


def test_another_version_of_the_rules_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = options_key(defaults())
    monkeypatch.setattr("i2s_spec.linter.cluster.check.__version__", "9.9.9")
    assert options_key(defaults()) != before


def test_options_for_another_folder_have_absolute_paths(place: Path) -> None:
    (suppression,) = portable(Options(suppressions=(Suppression("*", ("P1",), "known"),))).suppressions
    assert suppression.base == str(place)


# --- one entry ----------------------------------------------------------------------------------------------------


def test_check_gives_plain_data_with_facts(place: Path) -> None:
    record = check({"url": "a.gguf"}, profile="spec")
    assert record == pickle.loads(pickle.dumps(record))
    assert json.loads(json.dumps(record)) == record
    assert record["url"] == str(place / "a.gguf")
    assert record["rules"] == options_key(Options(profile="spec")) != options_key(defaults())
    assert set(record["facts"]) == {"architecture", "version", "tensors", "producer", "layout"}
    assert record["facts"]["architecture"] == "sample"
    assert record["report"]["ok"]
    assert "details" not in record["report"]


def test_check_answers_for_what_cannot_be_read(place: Path) -> None:
    record = check("missing.gguf")
    assert (record["facts"], record["report"]["summary"]["readable"]) == (None, False)
    Path("text.gguf").write_text("no model", encoding="utf-8")
    assert not check("text.gguf")["report"]["ok"]
    with pytest.raises(ValueError, match="needs a url"):
        check({"etag": "x"})
    with pytest.raises(TypeError, match="exclude each other"):
        check("a.gguf", defaults(), profile="spec")


# --- rates --------------------------------------------------------------------------------------------------------


def test_a_bucket_keeps_the_rate_over_any_time() -> None:
    rates = HostRates({"Hub": Rate(10, 5)})
    now, taken = 0.0, 0
    while now < 100:
        taken += rates.take("hub", 3, now) * 3
        now += 0.01
    assert 10 + 2 * 100 - 6 <= taken <= 10 + 2 * 100
    assert rates.take("hub", 1000, 200.0)  # a full bucket accepts a larger request
    assert rates.wait("hub", 1, 200.0) == pytest.approx((1 + 990) / 2)
    assert rates.wait("other", 1000, 0.0) == 0


# --- results ------------------------------------------------------------------------------------------------------


def record(url: str, etag: str = "e", rules: str = "r", ok: bool = True) -> dict[str, object]:
    summary = {"readable": True, "errors": 0, "warnings": 0, "notes": 0, "elided": {}}
    report = {"path": url, "ok": ok, "findings": [], "bugs": [], "excused": [], "summary": summary}
    return {"schema_version": 1, "url": url, "etag": etag, "size": 1, "sha256": None, "rules": rules, "facts": None,
            "report": report}  # fmt: skip


def test_records_are_found_by_address_etag_and_rules(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultsLog(path) as log:
        log.append([record("a"), record("b\udcff"), record("a", etag="f")])
        assert log[key_of("a", "f", "r")]["etag"] == "f"
    with ResultsLog(path) as log:
        assert len(log) == 3
        assert log[key_of("b\udcff", "e", "r")]["url"] == "b\udcff"
        assert key_of("a", "e", "other") not in log
        assert key_of("a", None, "r") not in log
        log.append([record("a", ok=False)])
        assert not log[key_of("a", "e", "r")]["report"]["ok"]
    assert [(each["url"], each["etag"]) for each in latest(path)] == [("b\udcff", "e"), ("a", "e")]


def test_an_incomplete_last_line_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    whole = [json.dumps(record(name)).encode() + b"\n" for name in ("a", "b")]
    for cut in (1, 5, len(whole[1]) - 1):
        path.write_bytes(whole[0] + whole[1][:cut])
        with ResultsLog(path) as log:
            assert (log.repaired, len(log), log.damaged) == (cut, 1, 0)
            log.append([record("c")])
        first, second = path.read_bytes().splitlines(keepends=True)
        assert first == whole[0]
        assert {**json.loads(second), "seal": ""} == {**record("c"), "seal": ""}
    path.write_bytes(whole[0][:20])
    with ResultsLog(path) as log:
        assert (log.repaired, len(log)) == (20, 0)
    assert path.read_bytes() == b""


def test_damage_in_the_middle_costs_its_line_only(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    whole = [json.dumps(record(name)).encode() + b"\n" for name in ("a", "b")]
    bad = [b"\0\0\0\n", b'{"schema_version": 1}\n', b'{"schema_version": 99, "url": "x"}\n', b"[" * 100000 + b"\n"]
    path.write_bytes(whole[0] + b"".join(bad) + whole[1])
    with ResultsLog(path) as log:
        assert (log.damaged, len(log)) == (len(bad), 2)
        assert log[key_of("b", "e", "r")]["url"] == "b"


def test_nothing_is_appended_to_other_files_than_results(place: Path) -> None:
    for path in (place / "a.gguf", place / "notes.jsonl"):
        if not path.exists():
            path.write_text('{"url": "x"}\n', encoding="utf-8")
        before = path.read_bytes()
        with pytest.raises(SettingError, match="is not a file of results"):
            ResultsLog(path)
        assert path.read_bytes() == before
        with pytest.raises(SettingError, match=r"holds no results.*`i2s lint --engine dask`"):
            list(latest(path))


def test_without_dask_no_empty_file_of_results_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match="dask"):
        list(lint_manifest([], defaults(), tmp_path / "r.jsonl"))
    assert list(tmp_path.iterdir()) == []


def test_one_run_at_a_time_appends(tmp_path: Path) -> None:
    with ResultsLog(tmp_path / "r.jsonl"), pytest.raises(SettingError, match="another run appends"):
        ResultsLog(tmp_path / "r.jsonl")


def test_results_may_be_a_link_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "r.jsonl")
    for known in (0, 1):
        with ResultsLog(tmp_path / "link.jsonl") as log:
            assert len(log) == known
            log.append([record("a")])
    assert (tmp_path / "link.jsonl").is_symlink()


def test_a_producer_is_worked_out_once_for_files_with_the_same_keys(place: Path) -> None:
    new("one.gguf", "bitnet-b1.58", layers=1)
    Path("other.gguf").write_bytes(Path("one.gguf").read_bytes().replace(b"synthetic-", b"something-"))
    names = ["one.gguf", "other.gguf", "one.gguf", "other.gguf"]
    assert [check(name)["facts"]["producer"] == "i2s-spec" for name in names] == [True, False, True, False]
