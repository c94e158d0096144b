"""The interactive page: its arithmetic is the schema's, and all its functions work in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import Browser, needs_chromium

from i2s_spec.codec.reference import pack
from i2s_spec.exports import javascript
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, CodeMap, Layout

SPEC = Path(__file__).resolve().parents[2] / "spec"
ASSETS = SPEC / "assets"

#: Rows and columns; some layouts do not support all of them.
SHAPES = [(4, 128), (8, 64), (1, 256), (12, 20), (2, 64)]


def test_the_arithmetic_is_the_schema_s() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on the path")
    program = (
        f"{javascript.text()}"
        f"console.log(JSON.stringify({json.dumps(SHAPES)}.map(([rows, cols]) => I2S.layouts.map((each) =>"
        " Array.from({length: rows * cols}, (_, k) => [each.byteOf(k, rows, cols), each.shiftOf(k, rows, cols)])))))"
    )
    said = json.loads(subprocess.run([node, "-e", program], capture_output=True, encoding="utf-8", check=True).stdout)
    for (rows, cols), of_shape in zip(SHAPES, said, strict=True):
        for layout, places in zip(LAYOUTS.values(), of_shape, strict=True):
            if rows % layout.row_block == 0:
                assert places == [places_of(layout, k, rows, cols) for k in range(rows * cols)], layout.name


def places_of(layout: Layout, k: int, rows: int, cols: int) -> list[int]:
    return [layout.byte_of(k, rows, cols), layout.shift_of(k, rows, cols)]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page without the theme around it, from plain files."""
    folder = tmp_path_factory.mktemp("playground")
    shutil.copytree(ASSETS, folder / "assets")
    (folder / "assets" / "layouts.js").write_text(javascript.text(), encoding="utf-8")
    text = (SPEC / "playground.md").read_text(encoding="utf-8")
    markup = "\n".join(re.findall(r"^<(?:link|div|script)\b.*$", text, re.MULTILINE))
    page = folder / "playground.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><title>x</title>{markup}", encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    return browser


def choose(browser: Browser, name: str, value: str) -> None:
    browser.evaluate(
        f"(() => {{ const e = document.querySelector({json.dumps(name)}); e.value = {json.dumps(value)};"
        " e.dispatchEvent(new Event(e.tagName === 'SELECT' ? 'change' : 'input')); })()"
    )


def lit(browser: Browser) -> dict[str, Any]:
    found: dict[str, Any] = browser.evaluate(
        "({elements: [...document.querySelectorAll('.pg-elements .pg-lit')].map(e => Number(e.dataset.k)),"
        " bits: [...document.querySelectorAll('.pg-bytes .pg-lit')]"
        ".map(e => [Number(e.dataset.byte), Number(e.dataset.shift)]),"
        " said: document.querySelector('.pg-said').textContent})"
    )
    return found


def point(browser: Browser, selector: str) -> None:
    where = browser.evaluate(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
        " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=where[0], y=where[1])


@pytest.mark.thorough
@needs_chromium
def test_the_page_opens_with_the_example_and_fetches_nothing(opened: Browser) -> None:
    assert opened.complaints() == []
    assert [url for url in opened.requests() if not url.startswith("file:")] == []
    text = opened.evaluate("document.querySelector('.pg-elements').textContent")
    k = np.arange(512)
    trits = (k * k + 3 * k + k // 5) % 3 - 1
    assert text == "".join("−0+"[trit + 1] for trit in trits)
    assert "a scale of 0.75" in opened.evaluate("document.querySelector('.pg-scale').textContent")


@pytest.mark.thorough
@needs_chromium
def test_an_element_lights_its_bits(opened: Browser) -> None:
    point(opened, "[data-k='130']")
    found = lit(opened)
    assert (found["elements"], found["bits"]) == ([130], [[34, 6]])
    assert "row 1, column 2" in found["said"]
    assert "bits 7:6 of byte 34" in found["said"]


@pytest.mark.thorough
@needs_chromium
def test_bits_and_bytes_light_their_elements(opened: Browser) -> None:
    point(opened, "[data-byte='1'][data-shift='2']")
    assert lit(opened)["elements"] == [65]
    point(opened, "[data-whole='1'] .pg-value")
    found = lit(opened)
    assert found["elements"] == [1, 33, 65, 97]
    assert found["said"].startswith("byte 1 is 4a")


@pytest.mark.thorough
@needs_chromium
def test_the_keyboard_moves_the_selection(opened: Browser) -> None:
    opened.evaluate("document.querySelector(\"[data-k='0']\").focus()")
    opened.key("ArrowRight")
    opened.key("ArrowRight")
    assert lit(opened)["elements"] == [2]
    opened.key("ArrowDown")
    assert lit(opened)["elements"] == [34]
    opened.key("End")
    assert lit(opened)["elements"] == [511]
    assert opened.evaluate("document.querySelectorAll(\".pg-elements [tabindex='0']\").length") == 1


@pytest.mark.thorough
@needs_chromium
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
@pytest.mark.parametrize("code_map", [CODE_MAPS["offset-1"], CODE_MAPS["zero-first"]], ids=str)
def test_every_dialect_shows_what_was_packed(opened: Browser, layout: Layout, code_map: CodeMap) -> None:
    trits = np.random.default_rng(5).integers(-1, 2, (8, 128)).astype(np.int8)
    choose(opened, "#pg-rows", "8")
    choose(opened, "#pg-layout", layout.name)
    choose(opened, "#pg-map", code_map.name)
    choose(opened, "#pg-hex", pack(trits, 2.5, f"{layout}/{code_map}").hex(" "))
    assert opened.evaluate("document.querySelector('.pg-fault').textContent") == ""
    text = opened.evaluate("document.querySelector('.pg-elements').textContent")
    assert text == "".join("−0+"[trit + 1] for trit in trits.ravel())
    row = opened.evaluate("[...document.querySelectorAll('.pg-chosen td')].map(e => e.textContent)")
    counts = [str(int((trits == trit).sum())) for trit in (-1, 0, 1)]
    assert row == ["".join("−0+"[trit + 1] for trit in trits.ravel()[:32]), *counts, "0"]
    assert opened.evaluate("document.querySelectorAll('.pg-dialects tbody tr').length") == len(LAYOUTS) * len(CODE_MAPS)


@pytest.mark.thorough
@needs_chromium
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("15 4a", "take 128 bytes, but the text has 2"),
        ("15 <b>x</b>", "“<b>x</b>” does not consist of pairs of hex digits"),
        ("", "but the text has 0"),
    ],
)
def test_invalid_input_is_explained(opened: Browser, text: str, said: str) -> None:
    choose(opened, "#pg-hex", text)
    assert said in opened.evaluate("document.querySelector('.pg-fault').textContent")
    assert opened.evaluate("document.querySelectorAll('[data-k]').length") == 0


@pytest.mark.thorough
@needs_chromium
def test_shapes_that_do_not_fit(opened: Browser) -> None:
    choose(opened, "#pg-rows", "2")
    choose(opened, "#pg-layout", "rows-1x4")
    assert "groups of 4" in opened.evaluate("document.querySelector('.pg-fault').textContent")
    choose(opened, "#pg-layout", "interleave-128")
    assert opened.evaluate("document.querySelectorAll('[data-k]').length") == 256
    for rows in ("0", "-3", "1e9", "2.5", "", "100000"):
        choose(opened, "#pg-rows", rows)
    assert opened.complaints() == []


@pytest.mark.thorough
@needs_chromium
def test_hex_dumps_are_understood(opened: Browser) -> None:
    data = bytes(range(128))
    xxd = "\n".join(f"{i:08x}: {data[i : i + 16].hex(' ', 2)}  {'.' * 16}" for i in range(0, 128, 16))
    canonical = "\n".join(
        f"{i:08x}  {data[i : i + 8].hex(' ')}  {data[i + 8 : i + 16].hex(' ')}  |....|" for i in range(0, 128, 16)
    )
    in_c = "{" + ", ".join(f"0x{byte:02x}" for byte in data) + "};"
    in_python = 'b"' + "".join(f"\\x{byte:02x}" for byte in data) + '"'
    listings = (in_c, in_python, data.hex(":"))
    for text in (xxd, canonical, data.hex(), data.hex(" ").upper(), *listings):
        choose(opened, "#pg-hex", text)
        assert opened.evaluate("I2S_PLAYGROUND.state.bytes") == list(data)


@pytest.mark.thorough
@needs_chromium
@pytest.mark.parametrize("width", [1280, 390], ids=["wide", "phone"])
def test_highlighting_is_visible(browser: Browser, page: Path, tmp_path: Path, width: int) -> None:
    """Pictures of the page: pointing at an element changes what is to be seen, and another element makes another picture."""
    browser.open(page, width=width)
    browser.evaluate("document.querySelector('.pg-elements').scrollIntoView({block: 'start'})")
    pictures = []
    for k in (None, 0, 33):
        if k is not None:
            browser.evaluate(f"document.querySelector(\"[data-k='{k}']\").focus({{preventScroll: true}})")
        browser.screenshot(tmp_path / f"{k}.png")
        pictures.append((tmp_path / f"{k}.png").read_bytes())
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert len(set(pictures)) == 3
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
