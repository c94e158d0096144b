"""Text from a file, and the name of a file, in every format: it is shown and has no effect."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hostile import NAME, PAYLOADS, hostile

from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import lint_path
from i2s_spec.linter.report import FORMATS, kind, make
from i2s_spec.linter.report_data import FileReport, Totals


@pytest.fixture(scope="module")
def file_report(tmp_path_factory: pytest.TempPathFactory) -> FileReport:
    path = tmp_path_factory.mktemp("hostile") / NAME
    path.write_bytes(hostile())
    return lint_path(path, Options(profile="strict"))


def rendered(name: str, *reports: FileReport) -> str:
    form = make(name)
    totals = Totals()
    text = form.begin()
    for report in reports:
        totals.add(report)
        text += form.file(report)
    return text + form.end(totals)


def test_the_file_is_hostile(file_report: FileReport) -> None:
    assert {"G203", "G206", "G207"} <= {finding["code"] for finding in file_report["findings"]}
    said = " ".join(finding["message"] for finding in file_report["findings"])
    for text in PAYLOADS:
        plain = max(re.findall(r"[\w<>:|()]+", text, re.ASCII), key=len, default="")
        assert plain in said, text


@pytest.mark.requirement("R12.5-2")
@pytest.mark.parametrize("name", FORMATS)
def test_every_character_is_printable(file_report: FileReport, name: str) -> None:
    text = rendered(name, file_report)
    assert {char for char in text if not char.isprintable()} <= {"\n"}
    text.encode("utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_the_same_twice(file_report: FileReport, name: str) -> None:
    assert rendered(name, file_report) == rendered(name, file_report)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_take_a_report_too(name: str) -> None:
    report = lint(hostile())
    if kind(name).details is None:
        assert make(name).file(report) == make(name).file(report.as_dict())


def test_lines_of_text_begin_with_the_path(file_report: FileReport) -> None:
    for line in rendered("concise", file_report).splitlines():
        assert line.startswith("/")
    for line in rendered("text", file_report).splitlines():
        assert line.startswith(("/", "  ", "next: i2s "))


def test_json_holds_nothing_but_ascii(file_report: FileReport) -> None:
    for name in ("json", "jsonl", "sarif", "junit"):
        assert rendered(name, file_report).isascii()
    for line in rendered("jsonl", file_report).splitlines():
        json.loads(line)
    codes = {finding["code"] for finding in json.loads(rendered("json", file_report))["files"][0]["findings"]}
    assert "X000" not in codes


def test_github_reads_each_line_as_our_command(file_report: FileReport) -> None:
    lines = rendered("github", file_report).splitlines()
    for line in lines[:-1]:
        command = re.fullmatch(r"::(error|warning|notice) file=([^:,]*),title=([^:,]*)::(.*)", line)
        assert command, line
        assert "%0A" not in command[2].upper().replace("%250A", "")
    assert lines[-1].startswith("i2s: ")
    assert len(lines) == len(file_report["findings"]) + len(file_report["unchecked"]) + 1


def test_xml_says_what_the_report_says(file_report: FileReport) -> None:
    root = ElementTree.fromstring(rendered("junit", file_report))
    assert {element.tag for element in root.iter()} <= {"testsuites", "testsuite", "testcase", "failure", "system-out"}
    said = [failure.get("message") for failure in root.iter("failure")]
    failing = [finding["message"] for finding in file_report["findings"] if finding["severity"] == "error"]
    assert said == failing


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_text_has_no_effect_in_markdown(file_report: FileReport) -> None:
    markdown_it = pytest.importorskip("markdown_it")  # rich brings it
    source = rendered("markdown", file_report)
    assert "<script" not in source
    assert "<img" not in source
    page = Page()
    page.feed(markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(source))
    assert page.tags <= {
        "h1", "h2", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "p", "ul", "li", "details", "summary",
    }  # fmt: skip
    assert not page.attributes - {"style"}
    for finding in file_report["findings"]:
        assert " ".join(finding["message"].split()) in " ".join(page.text.split())
    rows = [line for line in source.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) in (6, 9) for row in rows)


def test_github_flavoured_markdown_makes_no_links(file_report: FileReport) -> None:
    """What GitHub adds to CommonMark: links of bare addresses, mentions, references."""
    source = rendered("markdown", file_report)
    outside = re.sub(r"(`+).*?\1", "", source)
    assert not re.search(r"(?<!\\)://", outside)
    assert not re.search(r"www\.", outside, re.IGNORECASE)
    assert not re.search(r"@[\w-]", outside)
    assert not re.search(r"#[\w-]", outside)


def test_sarif_says_what_the_report_says(file_report: FileReport) -> None:
    (run,) = json.loads(rendered("sarif", file_report))["runs"]
    assert [result["message"]["text"] for result in run["results"]] == [f["message"] for f in file_report["findings"]]


def test_name_of_the_file_comes_back(file_report: FileReport, tmp_path: Path) -> None:
    from urllib.parse import unquote, urlsplit

    uri = json.loads(rendered("sarif", file_report))["runs"][0]["artifacts"][0]["location"]["uri"]
    assert Path(unquote(urlsplit(uri).path)).name == NAME
