"""The fences of all pages are drawn and executed: each of them works, and injected faults are detected."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples import share

from i2s_site import checkout, examples, fences, figures, generated
from i2s_site.examples import Drift
from i2s_spec.cli.rules import spec_command
from i2s_spec.exports.json_form import records
from i2s_spec.linter.rules import all_rules
from i2s_spec.schema.dialect import LAYOUTS
from i2s_spec.schema.i2s import codes_of

ALL = list(examples.fences())

#: Fences of the package's page, from which people copy: every run executes all of these, and a share of the others.
PACKAGE = [fence for fence in ALL if fence.page.name == "api.md"]


@pytest.mark.parametrize(
    "fence",
    [*PACKAGE, *share((fence for fence in ALL if fence not in PACKAGE), every=3)],
    ids=lambda fence: f"{fence.page.name}:{fence.line}",
)
def test_every_fence_holds(fence: examples.Fence) -> None:
    if fence.kind == "i2s-table":
        assert generated.with_tables(f"```i2s-table\n{fence.body}```\n").startswith("| ")
        return
    html = fences.render(fence.kind, fence.body)
    codes = {rule.code for rule in all_rules()}
    assert set(re.findall(r'href="rules/([A-Z]\d+)\.html"', html)) <= codes


def test_every_table_stands_in_a_chapter_between_its_prose() -> None:
    assert {fence.body.partition(" (")[0] for fence in ALL if fence.kind == "i2s-table"} == generated.TABLES.keys()
    page = "a\n\n```i2s-table\nreleases (as `i2s spec write` shows)\n```\n\nb\n"
    assert generated.with_tables(page) == f"a\n\n{generated.table('releases')}\nb\n"
    with pytest.raises(Drift, match="no table is called nothing; there are"):
        generated.with_tables("```i2s-table\nnothing\n```\n")


def test_examples_are_numbered_without_gaps_and_distinct() -> None:
    found = examples.examples()
    assert [example.number for example in found] == list(range(1, len(found) + 1))
    assert len({(example.source, example.output) for example in found}) == len(found)


def test_larger_files_are_made_for_examples_that_name_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "MADE", {"made.gguf": "i2s new made.gguf --layers 1 -q", "bad.gguf": "i2s new"})
    source = "import os\nprint(os.path.exists('made' + '.gguf'))\n"
    examples.run("python", f"{source}---\nFalse\n")
    examples.run("python", f"# made.gguf\n{source}---\nTrue\n")
    with pytest.raises(Drift, match="exit 2"):
        examples.run("python", "print('bad.gguf')\n---\nbad.gguf\n")


BROKEN = [
    ("i2s-example", "print(2)\n---\n3\n", "does not print"),
    ("i2s-example", "print(2)\n", "three dashes"),
    ("i2s-example", "1 / 0\n---\n", "ZeroDivisionError"),
    ("i2s-console", "$ i2s explain I104\nI104\n", "does not print"),
    ("i2s-console", "$ rm -r x\n", "runs i2s"),
    ("i2s-map", "Nothing\n", "no record"),
    ("i2s-fields", "Nothing\n", "no record"),
    ("i2s-rules", "Z9\n", "no rule"),
    ("i2s-rules", "I1 Z9\n", "no rule"),
    ("i2s-hexdump", "sample.gguf 0x0..0xfffff\n", "has"),
    ("i2s-hexdump", "other.gguf 0x0..0x10\n", "other"),
    ("i2s-block", "00 01\n", "32 bytes"),
    ("i2s-bench", "nothing\n", "no results"),
    ("i2s-api", "i2s_spec.nothing\n", "nothing is called"),
    ("i2s-nothing", "\n", "no fence"),
]


@pytest.mark.parametrize(("kind", "body", "said"), BROKEN)
def test_drift_is_noticed(kind: str, body: str, said: str) -> None:
    with pytest.raises(Drift, match=said):
        fences.render(kind, body)


@pytest.mark.parametrize(("kind", "body", "said"), BROKEN)
def test_drift_ends_the_build(kind: str, body: str, said: str) -> None:
    superfences = pytest.importorskip("pymdownx.superfences")
    with pytest.raises(superfences.SuperFencesException, match=said):
        fences.fence(body, kind, kind, {}, None)


def elements(svg: str, name: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(name))


@pytest.mark.parametrize("title", [record.title for record in records()])
def test_a_map_shows_every_field(title: str) -> None:
    svg = figures.byte_map(title)
    record = figures.record_named(title)
    shown = {element.text for element in elements(svg, "text")}
    (description,) = elements(svg, "desc")
    for field in record.fields:
        assert field.name in shown
        assert field.name in (description.text or "")
    boxes = [e for e in elements(svg, "path") if "field" in e.get("class", "")]
    assert all(box.find("title") is not None for box in boxes)


def test_sized_fields_cover_every_byte_once() -> None:
    svg = figures.byte_map("Header")
    covered = []
    for box in elements(svg, "path"):
        met = re.fullmatch(r"M([\d.]+) ([\d.]+)h([\d.]+)v.*", box.get("d", ""))
        assert met
        x, y, width = (float(number) for number in met.groups())
        first = round((x - 1) / figures.CELL) + figures.ACROSS * round((y - 16) / (figures.HIGH + 22))
        covered += range(first, first + round(width / figures.CELL))
    assert sorted(covered) == list(range(24))


@pytest.mark.parametrize("layout", [each for each in LAYOUTS.values() if each.row_block == 1], ids=str)
def test_a_block_shows_every_element_once(layout: object) -> None:
    payload = bytes(range(32))
    svg = figures.block(payload, layout)  # type: ignore[arg-type]
    size = layout.block  # type: ignore[attr-defined]
    numbers = [int(e.text or "") for e in elements(svg, "text") if e.get("class") == "number"]
    assert sorted(numbers) == list(range(size))
    for title in elements(svg, "title")[1:]:
        met = re.fullmatch(r"byte (\d+), bits (\d):\d: code (\d), element (\d+), .*", title.text or "")
        assert met
        byte, high, code, element = (int(each) for each in met.groups())
        assert codes_of(payload[byte])[(7 - high) // 2] == code
        place = layout.byte_of(element, 1, size), layout.shift_of(element, 1, size)  # type: ignore[attr-defined]
        assert place == (byte, high - 1)


def test_examples_for_other_languages(tmp_path: Path) -> None:
    target = tmp_path / "examples.json"
    assert CliRunner().invoke(spec_command, ["test", "--dump", str(target)]).exit_code == 0
    said = json.loads(target.read_text(encoding="utf-8"))
    assert len(said["examples"]) == len(examples.examples())
    assert bytes.fromhex(said["files"]["sample.gguf"])[:4] == b"GGUF"
    assert said["made"] == examples.MADE
    assert {"number", "kind", "page", "line", "section", "source", "output"} == set(said["examples"][0])


@pytest.mark.thorough
def test_a_drift_fails_the_verb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "1-x.md").write_text("# X\n\n```i2s-example\nprint(1)\n---\n2\n```\n\n```i2s-table\nx\n```\n")
    for module in (checkout, examples, fences):
        monkeypatch.setattr(module, "chapters", lambda: tmp_path / "spec")
    monkeypatch.setattr(generated, "everything", dict)
    examples.examples.cache_clear()
    try:
        done = CliRunner().invoke(spec_command, ["test"], standalone_mode=False)
    finally:
        examples.examples.cache_clear()
    assert "1-x.md:3: i2s-example" in done.stdout
    assert "1-x.md:9: i2s-table: no table is called x" in done.stdout
    assert "2 no longer true" in done.stdout
    assert done.return_value == 1
