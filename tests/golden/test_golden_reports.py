"""Reports of comparisons: the same findings in every format, escaped, and valid by their schema."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec.errors import SettingError
from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.golden.report import FORMATS, report, taps_heat
from i2s_spec.golden.result import Comparison
from i2s_spec.model.forward import Model

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]


@pytest.fixture(params=["right", "wrong", "nan", "free", "empty"])
def result(
    request: pytest.FixtureRequest, model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path
) -> Comparison:
    golden, model = golden_of("bitnet-b1.58"), model_of("bitnet-b1.58")
    if request.param == "right":
        return compare(golden, golden, model=model)
    if request.param == "free":
        return compare(golden, golden_of("bitnet"))
    if request.param == "empty":
        np.savez(tmp_path / "x.npz", a=np.ones(2))
        return compare(golden, tmp_path / "x.npz")
    if request.param == "nan":
        np.savez(tmp_path / "x.npz", result_output=np.full((8, 512), np.nan, dtype=np.float32))
        return compare(golden, tmp_path / "x.npz", model=model)
    wrong = next(each for each in MISTAKES if each.name == "layout-interleave-64").apply(model)
    assert wrong is not None
    record(wrong, TOKENS, tmp_path / "theirs")
    return compare(golden, tmp_path / "theirs", model=model)


@pytest.mark.parametrize("form", FORMATS)
def test_every_report_says_the_verdict(result: Comparison, form: str) -> None:
    text = "".join(report(result, form))
    assert text.endswith("\n")
    if form in ("text", "html"):
        assert ("OK: " if result.ok else "WRONG: ") in text
    words = [word for word in result.verdict.replace("[", " ").replace("]", " ").split() if word.isalpha()]
    assert all(word in text for word in words)
    for each in result.diagnoses:
        assert each.name in text.replace("\\", "")


def test_json_is_as_the_schema_says(result: Comparison) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((files("i2s_spec.golden") / "compare.schema.json").read_text())
    document = json.loads("".join(report(result, "json")), parse_constant=pytest.fail)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    assert document["ok"] == result.ok
    assert sum(document["summary"].values()) == len(document["taps"])


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "line", "circle", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("line", "circle", "polyline") and (not self.open or self.open[-1] != tag):
            return
        assert self.open.pop() == tag or tag == "circle"


def test_the_page_is_self_contained(result: Comparison) -> None:
    page = "".join(report(result, "html"))
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page
    for start in [at for at in range(len(page)) if page.startswith("<svg", at)]:
        ET.fromstring(page[start : page.index("</svg>", start) + 6])
    if result.drift:
        assert "<svg" in page


def test_the_first_wrong_tap_is_named(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path
) -> None:
    model = model_of("bitnet-b1.58")
    wrong = next(each for each in MISTAKES if each.name == "rope-pairs").apply(model)
    assert wrong is not None
    record(wrong, TOKENS, tmp_path / "theirs")
    text = "".join(report(compare(golden_of("bitnet-b1.58"), tmp_path / "theirs", model=model)))
    first, *rest = text.splitlines()
    assert first.startswith("WRONG: the first wrong tensor is Qcur-0#1: the rotation paired other elements")
    assert "[rope-pairs]" in first
    assert any("explained by" in line and "0xBitNet" in line for line in rest)
    assert any(line.split()[:2] == ["Qcur-0#1", "wrong"] for line in rest)


def test_other_forms_are_refused(golden_of: Callable[[str], Path]) -> None:
    golden = golden_of("llama")
    with pytest.raises(SettingError, match="no format"):
        report(compare(golden, golden), "pdf")


def test_the_page_has_drift_by_layer_and_tap(result: Comparison) -> None:
    svg = taps_heat(result)
    known = [tap for tap in result.taps if tap.layer is not None and (tap.drift is not None or tap.status == "wrong")]
    assert bool(svg) == bool(known)
    if not svg:
        return
    root = ET.fromstring(svg)
    cells = [group.findtext("title") or "" for group in root.iter("g")]
    assert len(cells) == len(known)
    assert {cell.partition(":")[0] for cell in cells} == {tap.name for tap in known}
    framed = sum(path.get("class") == "frame" for path in root.iter("path"))
    assert framed == sum(tap.status in ("wrong", "shape") for tap in known)
    names = {text.text for text in root.iter("text")}
    assert {"attn_norm", "ffn_out", "attn_q.act_scale"} & names
    assert not any((name or "").startswith("blk.") for name in names), "a kind stands in one line"


def test_the_page_says_what_made_it(result: Comparison) -> None:
    text = "".join(report(result, "html", "i2s golden compare 'a<b' c"))
    assert "made by i2s-spec" in text
    assert "a&lt;b" in text
    assert "a<b" not in text
