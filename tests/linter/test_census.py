"""The census: counts of a run's records, and a page that shows them and escapes all text from files."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from malformed_cases import SMALL

from i2s_spec.cli import main
from i2s_spec.linter.cluster.check import check, died
from i2s_spec.linter.cluster.manifest import Entry
from i2s_spec.linter.cluster.results import MOST_NAMES, OTHERS, UNKNOWN, ResultsLog, census_of, census_page, latest
from i2s_spec.testing.sample import Draft

HOSTILE = "</style><script>alert(1)</script>&amp;\x1b[31m\u202e"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A sound file, broken ones, one that is not there, one at which a worker died, a copy, and what runtimes say."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "sound.gguf").write_bytes(Draft().data)
    for name in ("dup_key", "pad_not_zero", "html"):
        (folder / f"{name}.gguf").write_bytes(SMALL[name].data)
    found = [check(str(folder / f"{name}.gguf")) for name in ("sound", "dup_key", "pad_not_zero", "html", "missing")]
    found.append(died(Entry("s3://b/k.gguf"), found[0]["rules"], "worker died: x"))
    found.append({**found[0], "url": "copy", "same_as": found[0]["url"]})
    found.append({**check(str(folder / "sound.gguf"), runtimes=True), "url": "with runtimes"})
    return found


def hostile_record(record: dict[str, Any]) -> dict[str, Any]:
    """A record in which every text is an attack, as in a results file from elsewhere."""
    facts = {"producer": HOSTILE, "layout": HOSTILE, "architecture": HOSTILE}
    finding = {"code": HOSTILE, "slug": HOSTILE, "severity": HOSTILE}
    runtimes = [{"runtime": HOSTILE, "loads": HOSTILE, "computes": HOSTILE}, 5, {"runtime": 7}]
    report = {**record["report"], "findings": [finding], "runtimes": runtimes, "size": -1}
    return {**record, "rules": HOSTILE, "url": HOSTILE, "facts": facts, "report": report, "seconds": "x"}


def test_counts(records: list[dict[str, Any]]) -> None:
    counts = census_of(records).as_dict()
    assert (counts["files"], counts["copies"]) == (8, 1)
    assert counts["verdicts"] == {"ok": 3, "warnings": 1, "errors": 1, "unreadable": 2, "failed": 1}
    files = {each["code"]: each["files"] for each in counts["codes"]}
    assert (files["G203"], files["G406"], files["G004"], files["S901"]) == (1, 1, 1, 1)
    assert counts["architectures"]["sample"]["ok"] == 3
    assert counts["producers"][UNKNOWN] == {"unreadable": 2, "failed": 1}
    assert sum(sum(each.values()) for each in counts["layouts"].values()) == 8
    assert counts["runtimes"]
    assert all(sum(each["loads"].values()) == 1 for each in counts["runtimes"].values())
    assert len(counts["rules"]) == 2


def test_a_record_without_facts_counts(records: list[dict[str, Any]], tmp_path: Path) -> None:
    bare = {key: value for key, value in records[0].items() if key != "facts"}
    (tmp_path / "r.jsonl").write_text(json.dumps(bare) + "\n", encoding="utf-8")
    assert census_of(latest(tmp_path / "r.jsonl")).as_dict()["files"] == 1


def test_elided_findings_count(records: list[dict[str, Any]]) -> None:
    report = records[1]["report"]
    more = {**report, "summary": {**report["summary"], "elided": {"G203": 41}}}
    counts = census_of([{**records[1], "report": more}]).as_dict()
    (code,) = [each for each in counts["codes"] if each["code"] == "G203"]
    assert (code["files"], code["findings"]) == (1, 42)


def test_names_are_bounded(records: list[dict[str, Any]]) -> None:
    facts = records[0]["facts"]
    many = ({**records[0], "facts": {**facts, "producer": f"p{i}"}} for i in range(MOST_NAMES + 50))
    producers = census_of(many).as_dict()["producers"]
    assert (len(producers), producers[OTHERS]) == (MOST_NAMES + 1, {"ok": 50})


class Page(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))


def test_the_page_is_complete_and_refers_to_nothing(records: list[dict[str, Any]]) -> None:
    page = census_page(census_of(records), "r.jsonl")
    read = Page()
    read.feed(page)
    assert {tag for tag, _ in read.tags} <= {
        "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "p", "h1", "h2", "h3",
        "code", "ul", "li", "span", "dl", "div", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "svg", "desc",
        "path", "text", "g",
    }  # fmt: skip
    assert not any(name in attributes for _, attributes in read.tags for name in ("src", "href", "style", "onload"))
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 7
    for drawing in drawings:
        ET.fromstring(drawing)
    for words in ("G203 duplicate-key", "G406", "Files by producer", "Files by runtime", "several sets of rules"):
        assert words in page, words
    styles = {word for _, attributes in read.tags for word in (attributes.get("class") or "").split()}
    for style in styles - {"strip", "bar-rows", "legend"}:
        assert f".{style}" in page, style


def test_nothing_in_the_records_becomes_markup(records: list[dict[str, Any]]) -> None:
    page = census_page(census_of([hostile_record(records[0])]), HOSTILE)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert page.count("</style>") == 1
    assert "&lt;script&gt;" in page


def test_census_on_the_command_line(
    records: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, page = tmp_path / "r.jsonl", tmp_path / "census.html"
    with ResultsLog(results) as log:
        log.append([*records, hostile_record(records[0])])

    def called(*args: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as stop:
            main(["census", *args])
        streams = capsys.readouterr()
        return stop.value.code, streams.out + streams.err

    code, out = called(str(results))
    assert code == 0
    assert "9 files" in out
    assert re.search(r"^  G203 +\S+ +error +1$", out, re.MULTILINE)
    assert "\x1b" not in out
    assert json.loads(called(str(results), "--format", "json")[1])["files"] == 9
    assert called(str(results), "-o", str(page)) == (0, "")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    (tmp_path / "m.gguf").write_bytes(Draft().data)
    assert called(str(tmp_path / "m.gguf"))[0] == 3
    assert called(str(results), "-o", str(tmp_path / "m.gguf"))[0] == 2
    assert called(str(tmp_path / "missing.jsonl"))[0] == 3
