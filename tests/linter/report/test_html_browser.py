"""The HTML page in a real browser: it fetches nothing, reports no error, and its controls work."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from chromium import Browser, needs_chromium
from hostile import NAME, hostile

from i2s_spec.convert.new import new
from i2s_spec.gguf.reader import open as opened
from i2s_spec.linter.options import Options, defaults
from i2s_spec.linter.paths import lint_path
from i2s_spec.linter.report import kind, make
from i2s_spec.linter.report_data import Totals
from i2s_spec.testing.sample import Draft

pytestmark = [needs_chromium, pytest.mark.thorough]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


def page_of(page: Path, *paths: Path, options: Options | None = None) -> Path:
    form, totals = make("html"), Totals()
    options = replace((options or defaults()), details=kind("html").details)
    text = form.begin()
    for path in paths:
        file_report = lint_path(path, options)
        totals.add(file_report)
        text += form.file(file_report)
    page.write_text(text + form.end(totals), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a file of 332 tensors, as many as bitnet-b1.58-2B-4T has; some of their scales make findings."""
    folder = tmp_path_factory.mktemp("page")
    path = folder / "model.gguf"
    new(path, "bitnet-b1.58", layers=30, embd=128, ff=256)
    data = bytearray(path.read_bytes())
    with opened(path) as file:
        tensor = file.tensors["blk.7.attn_q.weight"]
        start = tensor.span.stop - 32
    data[start : start + 4] = b"\x00\x00\x80\x7f"
    path.write_bytes(data)
    return page_of(folder / "report.html", path, options=Options(runtimes=True))


def quiet(browser: Browser) -> None:
    browser.evaluate("new Promise((done) => setTimeout(done, 60))")
    assert browser.complaints() == []
    assert browser.requests() == []


def names(browser: Browser) -> list[str]:
    """Names in the rows of the table that are shown."""
    found: list[str] = browser.evaluate(
        "[...document.querySelectorAll('table.tensors tbody tr')].filter((r) => !r.hidden)"
        ".map((r) => r.cells[1].querySelector('summary').textContent)"
    )
    return found


def cells(browser: Browser, column: int) -> list[str]:
    found: list[str] = browser.evaluate(
        f"[...document.querySelectorAll('table.tensors tbody tr')].map((r) => r.cells[{column}].dataset.v)"
    )
    return found


def typed(browser: Browser, selector: str, value: str) -> None:
    browser.evaluate(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
        " e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change')); })()"
    )


def chosen(browser: Browser) -> str:
    return str(browser.evaluate("document.querySelector('.chosen strong').textContent"))


def brightness(path: Path) -> float:
    """The mean of all samples of a picture (PNG, 8 bits, not interlaced), from 0 to 255."""
    data, at, packed = path.read_bytes(), 8, b""
    wide, tall, depth, colour = struct.unpack_from(">IIBB", data, 16)
    assert depth == 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += length + 12
    rows, step = zlib.decompress(packed), {2: 3, 6: 4}[colour]
    before, total = bytearray(wide * step), 0
    for y in range(tall):
        start = y * (wide * step + 1)
        kind_of, row = rows[start], bytearray(rows[start + 1 : start + 1 + wide * step])
        for i in range(len(row)):
            left, above = row[i - step] if i >= step else 0, before[i]
            corner = before[i - step] if i >= step else 0
            near = min((left, above, corner), key=lambda v: abs(left + above - corner - v))
            row[i] = (row[i] + (0, left, above, (left + above) // 2, near)[kind_of]) & 255
        before, total = row, total + sum(row)
    return total / (wide * step * tall)


def test_nothing_is_fetched_and_no_error_is_logged(browser: Browser, report: Path) -> None:
    browser.open(report)
    quiet(browser)
    assert browser.evaluate("document.title") == f"{report.parent}/model.gguf – i2s lint"
    assert browser.evaluate("document.querySelectorAll('table.tensors tbody tr').length") == 332


def test_the_content_security_policy_stops_foreign_scripts(browser: Browser, report: Path) -> None:
    browser.open(report)
    ran = browser.evaluate(
        "(() => { const s = document.createElement('script'); try { s.text = 'window.ran = 1'; document.body.append(s); }"
        " catch { return 'refused'; } return window.ran; })()"
    )
    assert ran in (None, "refused")
    fetched = browser.evaluate("fetch('http://127.0.0.1:9/').then(() => 'yes', () => 'no')")
    assert fetched == "no"


def test_sorting(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.click("table.tensors th:nth-child(6) button")
    sizes = [int(size) for size in cells(browser, 5)]
    assert sizes == sorted(sizes)
    browser.click("table.tensors th:nth-child(6) button")
    sizes = [int(size) for size in cells(browser, 5)]
    assert sizes == sorted(sizes, reverse=True)
    assert browser.evaluate("document.querySelector('th:nth-child(6)').getAttribute('aria-sort')") == "descending"
    browser.click("table.tensors th:nth-child(2) button")
    first = names(browser)
    assert first.index("blk.2.attn_k.weight") < first.index("blk.10.attn_k.weight")
    assert browser.evaluate("document.querySelectorAll('[aria-sort]').length") == 1
    for _ in range(2):  # tensors without a scale come last, in both directions
        browser.click("table.tensors th:nth-child(8) button")
        scales = cells(browser, 7)
        known = [scale for scale in scales if scale != "none"]
        assert len(known) == 210
        assert scales[:210] == known
        values = [float(scale) for scale in known]
        assert values in (sorted(values), sorted(values, reverse=True))
    browser.click("table.tensors th:nth-child(1) button")
    assert [int(row) for row in cells(browser, 0)] == list(range(332))
    quiet(browser)


def test_on_a_phone_names_stay_in_sight_and_what_they_open_fits(browser: Browser, report: Path) -> None:
    browser.open(report, width=390)
    row = "document.querySelector('table.tensors tbody tr:nth-child(3)')"
    browser.evaluate(f"{row}.closest('.scroll').scrollLeft = 150")
    assert browser.evaluate(f"{row}.closest('.scroll').scrollLeft") == 150
    assert browser.evaluate(f"{row}.cells[1].getBoundingClientRect().left >= {row}.closest('.scroll').offsetLeft")
    browser.evaluate(f"{row}.querySelector('details').open = true")
    assert browser.evaluate(f"{row}.querySelector('.more').getBoundingClientRect().right") <= 390
    quiet(browser)


def test_filtering(browser: Browser, report: Path) -> None:
    browser.open(report)
    typed(browser, ".filters [data-do=name]", "blk.7 attn")
    assert names(browser) == [f"blk.7.attn_{part}.weight" for part in ("norm", "sub_norm", "k", "output", "q", "v")]
    assert browser.evaluate("document.querySelector('.filters output').textContent") == "6 of 332 tensors"
    typed(browser, ".filters [data-do=type]", "I2_S")
    assert len(names(browser)) == 4
    browser.click(".filters [data-do=found]")
    assert names(browser) == ["blk.7.attn_q.weight"]
    typed(browser, ".filters [data-do=name]", "")
    assert "blk.7.attn_q.weight" in names(browser)
    browser.click(".filters [data-do=found]")
    typed(browser, ".filters [data-do=type]", "")
    assert len(names(browser)) == 332
    quiet(browser)


def test_every_region_can_be_reached_by_the_keyboard(browser: Browser, report: Path) -> None:
    browser.open(report)
    count = browser.evaluate("document.querySelectorAll('.regions tbody tr').length")
    assert count > 24 + 332 + 332 + 210
    browser.evaluate("document.querySelector('.window').focus()")
    browser.key("Home")
    assert chosen(browser) == "header"
    browser.key("ArrowRight")
    assert chosen(browser) == "key-value general.architecture"
    browser.key("ArrowLeft")
    browser.key("ArrowLeft")
    assert chosen(browser) == "header"
    browser.key("End")
    assert browser.evaluate("document.querySelector('.window').ariaValueNow") == str(count)
    # visit all segments in turn: each must be wide enough for the pointer
    narrow = browser.evaluate(
        "(() => { const box = document.querySelector('.window'), bad = [];"
        " const press = (key) => box.dispatchEvent(new KeyboardEvent('keydown', {key}));"
        f" press('Home'); for (let i = 0; i < {count}; i++) {{"
        "   const r = box.querySelector('rect.here').getBoundingClientRect();"
        "   if (r.width < 6 || box.ariaValueNow !== String(i + 1)) bad.push([i, r.width]);"
        "   press('ArrowRight'); } return bad; })()"
    )
    assert narrow == []
    quiet(browser)


def test_the_map_and_the_list_lead_to_the_magnifier(browser: Browser, report: Path) -> None:
    browser.open(report)
    for place in (0, 30, 700):
        browser.evaluate(f"document.querySelectorAll('.regions tbody tr')[{place}].click()")
        wanted = browser.evaluate(f"document.querySelectorAll('.regions tbody tr')[{place}].cells[2].textContent")
        assert chosen(browser) == wanted
    wide = browser.evaluate(
        "[...document.querySelectorAll('svg.map path.payload')].sort((a, b) =>"
        " b.getBBox().width - a.getBBox().width)[0].dataset.i"
    )
    browser.click(f"svg.map path[data-i='{wide}']")
    assert chosen(browser).startswith("payload of ")
    typed(browser, "[data-do=find]", "tail of blk.7.attn_q")
    assert chosen(browser) == "tail of blk.7.attn_q.weight"
    assert browser.evaluate("document.querySelectorAll('.chosen a').length") >= 1
    typed(browser, "[data-do=find]", "0x0")
    assert chosen(browser) == "header"
    assert browser.evaluate("document.querySelectorAll('.window rect').length") > 1
    browser.click("[data-do=whole]")
    assert browser.evaluate("document.querySelector('.ends span').textContent") == "0x0"
    quiet(browser)


def test_findings_lead_to_the_map_and_to_their_explanations(browser: Browser, report: Path) -> None:
    browser.open(report)
    broken = browser.evaluate(
        "[...document.querySelectorAll('.finding.error')].find((f) => f.textContent.includes('attn_q')).id"
    )
    browser.click(f"#{broken} button")
    assert "blk.7.attn_q.weight" in chosen(browser)
    browser.click(f"#{broken} h4 a")
    browser.evaluate("new Promise((done) => setTimeout(done, 100))")
    rule = browser.evaluate("location.hash")
    assert browser.evaluate(f"document.querySelector('{rule}').parentElement.open") is True
    browser.click(".severities [data-do=note]")
    shown = browser.evaluate(
        "[...document.querySelectorAll('.finding')].filter((f) => f.offsetParent).map((f) => f.classList[1])"
    )
    assert "error" in shown
    assert "note" not in shown
    quiet(browser)


def test_plots_lead_to_the_table(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.evaluate(
        "document.querySelector('figure circle[data-i]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.evaluate("document.querySelector('tr:target td.name details').open") is True
    quiet(browser)


def test_without_a_script_everything_can_be_read(browser: Browser, report: Path, tmp_path: Path) -> None:
    browser.open(report, script=False)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.evaluate("document.documentElement.className") == ""
    assert browser.evaluate("[...document.querySelectorAll('.js')].some((e) => e.offsetParent)") is False
    said = browser.evaluate("document.body.innerText")
    for words in (
        "Findings",
        "Map of the file",
        "blk.29.ffn_up.weight",
        "llama.cpp (ggml-org)",
        "general.architecture",
    ):
        assert words in said
    quiet(browser)


def test_dark_and_light(browser: Browser, report: Path, tmp_path: Path) -> None:
    seen = {}
    for dark in (False, True):
        browser.open(report, dark=dark)
        browser.screenshot(tmp_path / "page.png", clip=(0, 0, 200, 150))
        seen[dark] = brightness(tmp_path / "page.png")
        contrast = browser.evaluate(CONTRAST)
        assert contrast == [], (dark, contrast)
    assert seen[True] < 70
    assert seen[False] > 190
    quiet(browser)


#: Elements whose text has too little contrast with its background (WCAG 2.2, 1.4.3).
CONTRAST = """(() => {
  const rgb = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => rgb(c).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const after = (e) => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor; if ((rgb(c)[3] ?? 1) > 0) return c; } return 'rgb(255, 255, 255)'; };
  const bad = new Set(), seen = new Map();
  for (const e of document.querySelectorAll('h1,h2,h3,h4,p,a,dt,dd,th,td,small,label,button,summary,pre b,.badge,.bad,li')) {
    const sort = e.tagName + e.className + (e.parentElement.className || e.parentElement.tagName);
    seen.set(sort, (seen.get(sort) || 0) + 1);
    if (seen.get(sort) > 9 || !e.textContent.trim() || !e.offsetParent) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(after(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.add(e.tagName + '.' + e.className);
  }
  return [...bad];
})()"""


def test_a_narrow_window_does_not_scroll_sideways(browser: Browser, report: Path) -> None:
    browser.open(report, width=390)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    browser.open(report, width=1280)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 1280
    quiet(browser)


def test_hostile_files(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(hostile())
    page = page_of(tmp_path / "hostile.html", path, options=Options(profile="strict", runtimes=True))
    browser.open(page)
    assert browser.evaluate("document.scripts.length") == 1
    assert browser.evaluate("document.images.length") == 0
    assert "<script>alert(1)</script>" in browser.evaluate("document.querySelector('table.tensors').textContent")
    browser.evaluate("document.querySelector('[data-do=find]').focus()")
    count = browser.evaluate("document.querySelectorAll('.regions tbody tr').length")
    browser.evaluate(
        "(() => { const box = document.querySelector('.window');"
        f" for (let i = 0; i < {count}; i++) box.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowRight'}})); }})()"
    )
    typed(browser, "[data-do=find]", "<script>")
    assert "<script>" in chosen(browser)
    quiet(browser)


def test_faults_and_many_files(browser: Browser, report: Path, tmp_path: Path) -> None:
    paths = []
    for name, data in (
        ("empty", b""), ("html", b"<html>404</html>"), ("short", b"GGUF\x03\0\0\0"), ("cut", hostile()[:200]),
        ("whole", Draft().data),
    ):  # fmt: skip
        paths.append(tmp_path / f"{name}.gguf")
        paths[-1].write_bytes(data)
    page = page_of(tmp_path / "many.html", *paths, tmp_path / "missing.gguf", report.parent / "model.gguf")
    browser.open(page)
    assert browser.evaluate("document.querySelectorAll('details.file').length") == 7
    assert browser.evaluate("[...document.querySelectorAll('details.file')].filter((d) => d.open).length") == 0
    browser.evaluate("document.querySelectorAll('details.file').forEach((d) => { d.open = true; })")
    browser.evaluate("new Promise((done) => setTimeout(done, 200))")
    drawn = browser.evaluate("[...document.querySelectorAll('.window')].map((w) => w.querySelectorAll('rect').length)")
    assert len(drawn) >= 5
    assert all(drawn)
    for place in range(len(drawn)):
        browser.evaluate(f"document.querySelectorAll('[data-do=next]')[{place}].click()")
    quiet(browser)
    for path in paths:
        browser.open(page_of(tmp_path / "one.html", path))
        quiet(browser)
