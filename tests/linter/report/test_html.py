"""The HTML page: it agrees with the report, is self-contained, and escapes the text of a file."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from builders import model_bytes
from examples import examples, share
from hostile import NAME, PAYLOADS, hostile
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import CASES, broken
from planted import layouts

from i2s_spec.convert.trained import write_trained
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as read
from i2s_spec.gguf.source import source_of
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.engine import lint
from i2s_spec.linter.explain import find
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import failed, lint_path, skipped
from i2s_spec.linter.report import html as html_report
from i2s_spec.linter.report import kind, make
from i2s_spec.linter.report.html import LISTED, gather
from i2s_spec.linter.report.html_pictures import KINDS, regions
from i2s_spec.linter.report_data import FileReport, Totals
from i2s_spec.testing.sample import Draft, Model

VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """A page taken apart; fails where its tags do not match."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        about = dict(attrs)
        if about.get("id"):
            self.ids.append(str(about["id"]))
        if tag == "a":
            self.links.append(str(about["href"]))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            self.scripts.append(data)
        else:
            self.text += data


def rendered(*reports: FileReport, quiet: bool = False) -> str:
    form, totals = make("html", quiet=quiet), Totals()
    text = form.begin()
    for report in reports:
        totals.add(report)
        text += form.file(report)
    return text + form.end(totals)


def file_report(data: bytes, **options: Any) -> FileReport:
    return replace(lint(data, details=gather, **options), path="a.gguf").as_dict()


def test_the_format_asks_for_details() -> None:
    assert kind("html").details is gather
    json.dumps(file_report(model_bytes(layers=2))["details"], allow_nan=False)


@pytest.mark.parametrize("name", share((name for name, case in CASES.items() if not case.large), every=8))
def test_every_page_says_what_its_report_says(name: str) -> None:
    report = file_report(broken(name))
    assert not report["bugs"]
    page = Page(rendered(report))
    words = " ".join(page.text.split())
    for finding in report["findings"]:
        assert " ".join(finding["message"].split()) in words
        assert f"rule-{finding['code']}" in page.ids
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert link.startswith("https://github.com/") or link[1:] in page.ids, link


@pytest.mark.parametrize("name", share(name for name, case in CASES.items() if not case.large))
def test_every_byte_lies_in_one_region(name: str) -> None:
    file = File(source_of(broken(name)))
    for records in (1000, 1):
        found = list(regions(file, records))
        cursor = 0
        for region in found:
            assert region.start == cursor
            assert region.stop > region.start or region.kind == "fault"
            assert region.kind in KINDS
            cursor = region.stop
        assert cursor == file.size


def test_a_whole_model_is_on_the_page() -> None:
    data = model_bytes(layers=2)
    report = file_report(data)
    page = Page(rendered(report))
    file = read(data)
    words = " ".join(page.text.split())
    for tensor in file.tensors.values():
        assert f"payload of {tensor.name}" in words or f"elements of {tensor.name}" in words
        assert f"tensor info of {tensor.name}" in words
    for key in file.metadata:
        assert f"key-value {key}" in words
    assert page.tags.count("svg") > 2 * 14
    assert "Runtimes" in words
    assert "llama.cpp (ggml-org)" in words
    assert all(f"{part}" in words for part in ("Findings", "Map of the file", "Tensors", "Key-values"))
    seen = next(each for each in report["details"]["tensors"] if each["type"] == "I2_S")
    assert f"−1: {seen['counts'][0]:,}, 0: {seen['counts'][1]:,}, +1: {seen['counts'][2]:,}" in words
    assert f"scale{seen['scale']}" in page.text


def test_weights_are_drawn_under_each_layout_and_by_layer() -> None:
    out = io.BytesIO()
    write_trained(out, dialect="interleave-64")
    report = file_report(out.getvalue())
    text = rendered(report)
    assert "The weights are laid out as interleave-64." in text
    assert text.count('class="dots right"') == 1
    assert text.count('class="dots other"') == len(layouts()) - 1
    assert "<b>interleave-64</b> ✓" in text
    assert text.count('class="facet wide"') == 7
    assert text.count('<div class="facet-row wide">') == 1
    assert text.count('class="value"') == len(report["details"]["tensors"]) - 18 == 28
    undecided = rendered(file_report(model_bytes(layers=2)))
    assert "The weights do not show their layout." in undecided
    assert 'class="dots right"' not in undecided
    assert 'id="f1-weights"' not in rendered(file_report(model_bytes(layers=1), payload="none"))


def test_explanations_are_those_of_explain() -> None:
    words = " ".join(Page(rendered(file_report(broken("dup_key")))).text.split())
    rule = find("G203")
    for part in (rule.title, *rule.sections.values()):
        assert " ".join(part.split()) in words


def test_nothing_from_outside_is_asked_for() -> None:
    page = Page(rendered(file_report(model_bytes(layers=2))))
    policy = next(value for _, name, value in page.attributes if name == "content" and value and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    hashes = re.findall(r"'sha256-([^']*)'", policy)
    assert [b64encode(sha256(code.encode()).digest()).decode() for code in page.scripts] == hashes
    for tag, name, value in page.attributes:
        assert name not in ("src", "srcset", "style", "action", "background", "xlink:href", "data"), (tag, name)
        assert not name.startswith("on"), (tag, name)
        if name == "href" and tag != "a":
            assert value is not None
            assert value.startswith("data:image/svg+xml,")


def test_the_text_of_a_file_is_only_text(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(hostile())
    report = lint_path(path, Options(profile="strict", runtimes=True, details=gather))
    source = rendered(report, lint_path(path, Options(details=gather)))
    assert {char for char in source if not char.isprintable()} <= {"\n"}
    page = Page(source)
    plain = Page(rendered(file_report(model_bytes(layers=2)), file_report(broken("dup_key"))))
    assert set(page.tags) <= set(plain.tags)
    assert {(tag, name) for tag, name, _ in page.attributes} <= {
        *((tag, name) for tag, name, _ in plain.attributes),
        ("input", "checked"),  # if findings have several severities
    }
    assert page.tags.count("script") == 1
    assert len(page.scripts) == 2
    for text in PAYLOADS:
        shown = max(re.findall(r"[\w<>:|()]+", text, re.ASCII), key=len, default="")
        assert shown in page.text


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=200))
@examples(40)
def test_no_name_changes_the_page(key: str, name: str, value: str) -> None:
    draft = Draft()
    file = draft.records()
    encoded = [text.encode("utf-8", "surrogatepass") for text in (key, name, value)]
    file.key_values[-1].key = encoded[0]
    file.tensor_infos[0].name = encoded[1]
    source = rendered(file_report(draft.built(file)))
    assert {char for char in source if not char.isprintable()} <= {"\n"}
    assert Page(source).tags.count("script") == 1


@pytest.mark.parametrize("size", [10_000_000])
def test_long_values_stay_short_on_the_page(size: int) -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("general.architecture", "x")
        writer.add("general.name", "<b>" * (size // 3))
        writer.add("general.tags", ["</script>" * 1000] * 50, "arr[str]")
        writer.add_tensor("a.weight", (4,), "F32", bytes(16))
    source = rendered(file_report(out.getvalue()))
    assert len(source) < 120_000
    assert "<b><b>" not in source


def test_a_reason_without_a_source_has_no_empty_brackets() -> None:
    model = Model("llama")
    model.tensors = []
    source = rendered(file_report(model.built(), runtimes=True))
    assert "not tried: a file without tensors</p>" in source
    assert "()</p>" not in source


def test_a_page_of_332_tensors_is_small() -> None:
    source = rendered(file_report(model_bytes(layers=30), runtimes=True))
    page = Page(source)
    assert sum(name == "id" and "-t" in str(value) and tag == "tr" for tag, name, value in page.attributes) == 332
    assert len(source.encode()) < 1_500_000


@pytest.mark.thorough
def test_long_tables_are_bounded() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        for i in range(3000):
            writer.add(f"a.k{i}", i)
        for i in range(20_000):
            writer.add_tensor(f"t{i}", (8,), "F32", bytes(32))
    data = out.getvalue()
    tracemalloc.start()
    source = rendered(file_report(data))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    page = Page(source)
    assert len(source) < 2_500_000
    assert peak < 100 << 20
    assert "19,000 more tensors after these" in page.text
    assert "2,000 more key-values after these" in page.text
    assert "19,000 more, not shown one by one" in page.text


def test_findings_of_a_rule_stand_together() -> None:
    data = bytearray(model_bytes(layers=3))
    tails = [tensor.tail_span.start for tensor in read(bytes(data)).tensors.values() if str(tensor.type) == "I2_S"]
    for place, at in enumerate(tails):
        data[at : at + 4] = b"\x00\x00\xc0\x7f" if place % 2 else b"\x00\x00\x80\xbf"
    report = file_report(bytes(data))
    counts = Counter(finding["code"] for finding in report["findings"])
    text = rendered(report)
    part = text[text.index("Findings</h3>") : text.index('<section id="f1-map"')]
    cards = re.findall(r'<h4>.*?<a href="#rule-([A-Z]\d+)', part)
    assert Counter(cards) == counts
    assert [code for code, _ in groupby(cards)] == list(dict.fromkeys(cards)), "the findings of a rule are not parted"
    for code, number in counts.items():
        assert f'{number} ×</span> <a href="#rule-{code}">' in part
        assert number == 1 or f"{number - 1} more finding" in part


def test_scales_have_a_line_for_each_projection_by_layer() -> None:
    text = rendered(file_report(model_bytes(layers=11)))
    plot = text[text.index("<title>Scales by layer</title>") :].partition("</svg>")[0]
    lines = re.findall(r'<path class="line (g\d)" d="([^"]+)"', plot)
    assert len(lines) == 7
    for _, path in lines:
        across = [float(point.split()[0]) for point in path.removeprefix("M").split("L")]
        assert len(across) == 11
        assert across == sorted(across), "blk.10 comes after blk.9, wherever it lies in the file"


def test_many_findings_are_folded_and_bounded() -> None:
    report = dict(file_report(broken("dup_key")))
    (finding,) = [each for each in report["findings"] if each["code"] == "G203"]
    report["findings"] = [finding] * (LISTED + 50)
    page = Page(rendered(report))
    assert page.tags.count("article") == LISTED
    assert f"{LISTED - 1:,} more findings of G203" in page.text
    assert "50 more findings; this page lists the first 1,000" in page.text


def test_the_most_severe_findings_come_first() -> None:
    report = file_report(hostile(), profile="strict")
    page = rendered(report)
    shown = re.findall(r'<article class="finding (\w+)"', page)
    first = [severity for i, severity in enumerate(shown) if severity not in shown[:i]]
    assert first == [level for level in ("error", "warning", "note") if level in first]
    assert len(first) > 1


def test_omitted_findings_are_counted() -> None:
    report = dict(file_report(broken("dup_key"), suppressed={"G203": "it is <known>"}))
    report["summary"] = {**report["summary"], "baseline": 3, "elided": {"G206": 7}}
    page = Page(rendered(report))
    assert "1 finding of G203 suppressed: it is <known>" in page.text
    assert "3 findings left out: the baseline holds them" in page.text
    assert "7 more findings of G206, counted and not listed" in page.text
    assert {"rule-G203", "rule-G206"} <= set(page.ids)


def test_reports_without_details_are_pages_too(tmp_path: Path) -> None:
    missing = lint_path(tmp_path / "missing.gguf", Options(details=gather))
    page = Page(rendered(missing))
    assert missing["findings"][0]["message"] in page.text
    page = Page(rendered(failed("b.gguf", "MemoryError: <oops>")))
    assert "not checked to the end" in page.text
    assert "MemoryError: <oops>" in page.text
    page = Page(rendered(skipped(file_report(broken("dup_key")), "a pointer")))
    assert "Not checked: a pointer" in page.text
    assert Page(rendered()).text.count("0 files") == 1


def test_one_file_is_open_and_several_are_folded() -> None:
    sound, faulty = file_report(model_bytes(layers=2)), file_report(broken("dup_key"))
    one = Page(rendered(sound))
    assert ("section", "class", "file") in one.attributes
    assert "totals" not in one.ids
    several = Page(rendered(sound, faulty, sound))
    assert several.attributes.count(("details", "class", "file")) == 3
    assert {"f1-map", "f2-map", "f3-map", "totals"} <= set(several.ids)
    assert len(several.ids) == len(set(several.ids))
    quiet = Page(rendered(dict(sound, findings=[]), faulty, dict(sound, findings=[]), quiet=True))
    assert "f1-findings" in quiet.ids
    assert "f2-findings" not in quiet.ids


def test_a_long_page_shows_findings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "PAGE_BYTES", 1000)
    page = Page(rendered(file_report(model_bytes(layers=2)), file_report(broken("dup_key"))))
    assert "f1-map" in page.ids
    assert "f2-map" not in page.ids
    assert "f2-findings" in page.ids
    assert "The page is long:" in page.text


def test_payloads_that_were_not_read_have_no_histogram() -> None:
    page = Page(rendered(file_report(model_bytes(layers=2), payload="none")))
    assert "The payloads were not read" in page.text
    page = Page(rendered(file_report(model_bytes(layers=2), payload="sample")))
    assert "of a sample of each" in page.text


def test_real_files(shared: Path) -> None:
    for path in sorted((shared / "vectors" / "gguf").glob("*.gguf")):
        report = lint_path(path, Options(runtimes=True, details=gather))
        assert not report["bugs"]
        page = Page(rendered(report))
        assert not [link for link in page.links if link[0] == "#" and link[1:] not in page.ids]
        assert sum(row[2] in ("payload", "tail") for row in report["details"]["regions"]) == 2 * 14


SMALL = (Draft().data, Draft("big").data, model_bytes(layers=1)[:9000], model_bytes(layers=1))


@given(
    st.sampled_from(SMALL),
    st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=8)), max_size=4),
    st.integers(0, 200_000),
)
@examples(60)
def test_any_bytes_give_a_page(data: bytes, patches: list[tuple[int, bytes]], cut: int) -> None:
    changed = bytearray(data)
    for at, new_bytes in patches:
        place = at % len(changed)
        changed[place : place + len(new_bytes)] = new_bytes
    report = file_report(bytes(changed[: max(1, cut)]), runtimes=True)
    assert not report["bugs"]
    cursor = 0
    for start, stop, _, _ in report["details"]["regions"]:
        assert start == cursor
        cursor = stop
    assert cursor == report["size"]
    page = Page(rendered(report))
    assert not [link for link in page.links if link[0] == "#" and link[1:] not in page.ids]


def test_other_formats_of_the_run_are_as_they_are_alone() -> None:
    with_details, alone = file_report(broken("dup_key")), dict(file_report(broken("dup_key")))
    del alone["details"]
    for name in ("json", "jsonl", "text", "markdown", "sarif"):
        assert make(name).file(with_details) == make(name).file(alone)


def test_a_report_goes_to_a_file_and_never_over_a_model(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from i2s_spec.cli.lint import lint_command

    path, page = tmp_path / "model.gguf", tmp_path / "report.html"
    path.write_bytes(model_bytes(layers=1))
    for _ in range(2):  # an existing report is replaced
        assert CliRunner().invoke(lint_command, [str(path), "--format", "html", "-o", str(page)]).exit_code == 0
    assert "blk.0.attn_q.weight" in Page(page.read_text(encoding="utf-8")).text
    for target in (["-o", str(path)], ["--report", f"html={path}"]):
        run = CliRunner().invoke(lint_command, [str(path), *target])
        assert run.exit_code == 2
        assert "is an input file" in run.output
    assert path.read_bytes() == model_bytes(layers=1)
