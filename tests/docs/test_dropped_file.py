"""The interactive page reads a file like the reader and the linter; for broken files it gives an answer."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from chromium import Browser, needs_chromium
from examples import some
from malformed_cases import CASES, broken

from i2s_spec.exports import javascript
from i2s_spec.gguf.reader import open as read
from i2s_spec.linter.engine import lint
from i2s_spec.testing.sample import Draft

ASSETS = Path(__file__).resolve().parents[2] / "spec" / "assets"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node on the path")


def read_by_page(*files: bytes) -> list[dict[str, Any]]:
    """What the page's script makes of files, read in Node."""
    program = (
        f"{javascript.text()} require({json.dumps(str(ASSETS / 'file.js'))});"
        "const files = JSON.parse(require('node:fs').readFileSync(0));"
        "(async () => { const said = [];"
        " for (const each of files) said.push(await I2S_FILE.read(new Blob([Buffer.from(each, 'base64')])));"
        " console.log(JSON.stringify(said)); })().catch((error) => { console.error(error); process.exit(1); })"
    )
    given = json.dumps([base64.b64encode(data).decode() for data in files])
    done = subprocess.run(
        ["node", "-e", program], input=given, capture_output=True, encoding="utf-8", check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@needs_node
def test_sound_files_are_read_as_the_reader_reads_them() -> None:
    files = [model_bytes(layers=2), Draft().data, Draft("big").data]
    for data, said in zip(files, read_by_page(*files), strict=True):
        file = read(data)
        assert said["fault"] is None
        assert said["findings"] == []
        assert said["little"] == (file.index.byte_order == "little")
        assert [key["key"] for key in said["keys"]] == list(file.metadata)
        for key in said["keys"]:
            if key["type"] == "f32":  # in the fewest digits that identify the float32
                assert len(key["value"]) <= len(np.format_float_positional(np.float32(file.metadata[key["key"]])))
                assert np.float32(key["value"]) == np.float32(file.metadata[key["key"]])
        assert [tensor["name"] for tensor in said["tensors"]] == list(file.tensors)
        for tensor, ours in zip(said["tensors"], file.tensors.values(), strict=True):
            assert tensor["bytes"] == ours.nbytes
            assert tensor["ne"] == list(ours.ne)
            if "scale" in tensor:
                assert tensor["scale"] == float(ours.scale())
                trits = ours.trits()
                assert tensor["counts"] == [int((trits == trit).sum()) for trit in (-1, 0, 1)] + [0]


@needs_node
def test_broken_files_get_an_answer_and_no_finding_contradicts_the_linter() -> None:
    """The page names the nearest rule of a few; the linter names the cause, which may be another one."""
    small = [name for name, case in CASES.items() if not case.large]
    others = set(some(small))
    names = [name for name in small if name in others or CASES[name].code in javascript.PAGE_RULES]
    files = [broken(name) for name in names]
    same: set[str] = set()
    for name, data, said in zip(names, files, read_by_page(*files), strict=True):
        codes = {finding["code"] for finding in said["findings"]}
        ours = {finding.code for finding in lint(data).findings}
        assert ours or not codes, name
        same |= codes & ours
    assert same == set(javascript.PAGE_RULES)


@needs_node
def test_a_long_header_is_read_in_pieces_and_a_lying_count_is_refused() -> None:
    data = bytearray(model_bytes(layers=1, vocab=40_000))
    assert read(bytes(data)).index.data_start > 1 << 20, "the first piece does not hold the header"
    lying = bytearray(Draft().data)
    lying[8:16] = (1 << 40).to_bytes(8, "little")
    whole, wrong = read_by_page(bytes(data), bytes(lying))
    assert whole["fault"] is None
    assert whole["count"] == len(whole["tensors"]) == len(read(bytes(data)).tensors)
    assert "more than the file can hold" in wrong["fault"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.mark.thorough
@needs_chromium
@pytest.mark.parametrize("width", [1280, 390], ids=["wide", "phone"])
def test_a_file_can_be_dropped(browser: Browser, tmp_path: Path, width: int) -> None:
    shutil.copytree(ASSETS, tmp_path / "assets")
    (tmp_path / "assets" / "layouts.js").write_text(javascript.text(), encoding="utf-8")
    scripts = "".join(f'<script src="assets/{name}.js"></script>' for name in ("layouts", "file", "playground"))
    page = tmp_path / "x.html"
    page.write_text(
        '<!doctype html><meta charset=utf-8><title>x</title><link rel="stylesheet" href="assets/playground.css">'
        f'<div id="playground"></div>{scripts}',
        encoding="utf-8",
    )
    data = bytearray(model_bytes(layers=1))
    tensor = next(each for each in read(bytes(data)).tensors.values() if str(each.type) == "I2_S")
    data[tensor.tail_span.start : tensor.tail_span.start + 4] = b"\x00\x00\xc0\x7f"
    browser.open(page, width=width)
    carried = base64.b64encode(bytes(data)).decode()
    browser.evaluate(
        f"(() => {{ const bytes = Uint8Array.from(atob('{carried}'), (c) => c.charCodeAt(0));"
        " const held = new DataTransfer(); held.items.add(new File([bytes], '<b>x</b>.gguf'));"
        " document.querySelector('.pg-drop').dispatchEvent("
        "new DragEvent('drop', {dataTransfer: held, bubbles: true, cancelable: true})); })()"
    )
    found = browser.evaluate(
        "new Promise((done) => { const look = () => document.querySelector('.pg-file details')"
        " ? done(document.querySelector('.pg-file').innerText) : setTimeout(look, 20); look(); })"
    )
    assert "<b>x</b>.gguf" in found
    assert "I302 scale-nan" in found
    assert f"{len(read(bytes(data)).tensors)} tensors" in found
    browser.evaluate("document.querySelector('.pg-file td button').click()")
    shown = browser.evaluate("new Promise((done) => setTimeout(() => done(I2S_PLAYGROUND.state.bytes.length), 300))")
    assert shown == min(tensor.nbytes, 4096 // 4 + 32), "its first rows"
    values = browser.evaluate(  # values of keys stand beside their names, also on a phone
        "document.querySelectorAll('.pg-file details').forEach((part) => { part.open = true; });"
        " [...document.querySelector('.pg-file table').rows].map((row) => row.cells[2].getBoundingClientRect().left)"
    )
    assert max(values) < width - 60
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith("file:")] == []


@pytest.mark.thorough
@needs_chromium
@pytest.mark.parametrize("width", [1280, 390], ids=["wide", "phone"])
def test_an_element_and_its_byte_are_in_sight_together(browser: Browser, tmp_path: Path, width: int) -> None:
    shutil.copytree(ASSETS, tmp_path / "assets")
    (tmp_path / "assets" / "layouts.js").write_text(javascript.text(), encoding="utf-8")
    page = tmp_path / "x.html"
    page.write_text(
        '<!doctype html><meta charset=utf-8><title>x</title><link rel="stylesheet" href="assets/playground.css">'
        '<div id="playground"></div><script src="assets/layouts.js"></script><script src="assets/file.js"></script>'
        '<script src="assets/playground.js"></script>',
        encoding="utf-8",
    )
    browser.open(page, width=width, height=900)
    browser.evaluate("document.querySelector('.pg-panes').scrollIntoView({block: 'center'})")
    for k in (0, 130, 511):
        browser.evaluate(f"document.querySelector(\"[data-k='{k}']\").focus({{preventScroll: true}})")
        places = browser.evaluate(
            "['.pg-elements .pg-lit', '.pg-bytes .pg-lit'].map((each) => document.querySelector(each))"
            ".map((cell) => cell.getBoundingClientRect()).map((box) => [box.top, box.bottom])"
        )
        assert all(0 <= top < bottom <= 900 for top, bottom in places), (k, places)
