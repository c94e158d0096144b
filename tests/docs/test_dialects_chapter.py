"""Chapter 7 and the page on runtimes agree with the declarations: producers, releases, runtimes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from i2s_site import runtimes
from i2s_spec.inspect.match_dialect import AGREES, ENOUGH
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.dialect import LAYOUTS
from i2s_spec.schema.releases import CONVERTERS, QUANTIZER
from i2s_spec.schema.runtimes import RUNTIMES

SPEC = Path(__file__).resolve().parents[2] / "spec"
CHAPTER = (SPEC / "07-dialects.md").read_text(encoding="utf-8")


def test_the_page_has_every_runtime_and_every_source() -> None:
    page = runtimes.page()
    for runtime in RUNTIMES:
        assert f"## {runtime.title}" in page
        for _, fact in runtime.facts:
            assert page.count(f"{fact.text} ({runtimes.linked(fact.source)})".replace("<", "&lt;")) >= 1
        part = page.split(f"## {runtime.title}\n")[1].split("\n## ")[0].splitlines()
        assert len(part) == len(set(part)) + part.count("") - 1, runtime.name
    assert "<" not in page, "it would be taken for a tag"


def test_sources_that_can_be_followed_are_links() -> None:
    linked = runtimes.linked
    assert linked("microsoft/BitNet#588") == "[microsoft/BitNet#588](https://github.com/microsoft/BitNet/issues/588)"
    assert linked("a/b@0123abc:src/x.cpp:12").endswith("](https://github.com/a/b/blob/0123abc/src/x.cpp#L12)")
    assert linked("run gguf/llama.i2_s") == "[run gguf/llama.i2_s](#runs)"
    assert linked("tests/oracle/x.json") == "tests/oracle/x.json"


def test_the_matrix_says_what_is_declared() -> None:
    head, _, *rows = runtimes.matrix().splitlines()
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    assert len(rows) == len(RUNTIMES)
    for runtime, row in zip(RUNTIMES, rows, strict=True):
        cells = dict(zip(columns, (cell.strip() for cell in row.strip("|").split("|")), strict=True))
        assert runtime.title in cells["runtime"]
        if runtime.kind == "engine" and not runtime.recorded:
            taken = [name for name in columns if cells[name] in {"✓", "plain"} and name in ARCHITECTURES]
            assert taken == sorted(runtime.architectures)
        if runtime.container.known and not runtime.recorded and runtime.kind != "front":
            assert cells["big-endian"] == {"yes": "✓", "no": "✕", "crash": "†"}[runtime.container.big_endian]


def test_unwritten_bytes_are_as_the_chapter_says() -> None:
    from i2s_spec.inspect.packing import unwritten

    formulas = dict(re.findall(r"^\| `([\w-]+)` \| `(n .*?)` \|$", CHAPTER, re.M))
    assert list(formulas) == list(QUANTIZER["llama-quantize"].layouts)
    for rows in range(1, 40):
        for cols in (4, 64, 96, 128, 192, 288):
            for name, formula in formulas.items():
                n = rows * cols
                if n % 4 == 0:
                    wanted = eval(formula, {}, {"n": n, "rows": rows, "cols": cols})
                    assert unwritten(LAYOUTS[name], (cols, rows)) == wanted


@pytest.mark.requirement("R7.4-1")
def test_the_chapter_states_the_thresholds_of_the_decision() -> None:
    assert f"at least {ENOUGH:,}" in CHAPTER
    assert f"{AGREES:.0%}".replace("%", " %") in CHAPTER


def test_every_converter_has_its_own_order_of_keys() -> None:
    assert len({converter.keys for converter in CONVERTERS}) == len(CONVERTERS)
