"""The built site: complete, usable as plain files, fetching nothing, with a working search, without barriers known to
axe.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from chromium import Browser, needs_chromium
from click.testing import CliRunner
from small_checkout import small_checkout

from i2s_site import benchmarks, checkout, examples
from i2s_spec.cli.rules import spec_command

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(find_spec("material") is None, reason="no mkdocs-material: pip install -e '.[docs]'"),
]

#: Timeout of a build in seconds.
PATIENCE = 600

PAGES = [
    "index", "02-container", "03-metadata", "05-payload", "07-dialects", "09-inference", "11-conformance", "requirements",
    "playground", "api", "benchmarks", "tutorials/by-hand", "tutorials/garbage", "annexes/reconciliation", "runtimes",
    "rules/index", "rules/I104", "rules/P203",
]  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the verb builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = CliRunner().invoke(spec_command, ["build", "-o", str(folder)], standalone_mode=False)
    assert done.exception is None
    assert done.return_value == 0, done.output
    return folder


def test_every_page_is_there_and_every_fence_was_rendered(site: Path) -> None:
    for page in checkout.pages():
        name = page.relative_to(checkout.chapters()).with_suffix(".html")
        text = (site / name).read_text(encoding="utf-8")
        assert "language-i2s" not in text, name
        assert "```" not in re.sub(r"<pre.*?</pre>", "", text, flags=re.DOTALL), name
    for example in examples.examples():
        assert f'id="example-{example.number}"' in (site / example.page).with_suffix(".html").read_text(
            encoding="utf-8"
        )


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = path.read_text(encoding="utf-8")
        found = re.findall(
            r"""<(?:script|img|iframe|link|source)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^"' >]+""", text
        )
        found += re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", text)
        assert [each for each in found if 'rel="canonical"' not in each] == [], path


def test_every_result_of_a_benchmark_is_shown() -> None:
    text = (checkout.chapters() / "benchmarks.md").read_text(encoding="utf-8")
    assert re.findall(r"^```i2s-bench\n(\w+)", text, re.MULTILINE) == benchmarks.parts()


def test_drift_fails_the_build(tmp_path: Path) -> None:
    """A page that says what is not so ends mkdocs with an error, and no site is left standing as if all were well."""
    small_checkout(tmp_path, "# X\n\n```i2s-example\nprint(1)\n---\n2\n```\n")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build"], cwd=tmp_path,
        capture_output=True, encoding="utf-8", timeout=600, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(checkout.root())},
    )  # fmt: skip
    assert done.returncode != 0
    assert "does not print what the page says" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@needs_chromium
@pytest.mark.parametrize("page", PAGES)
def test_pages_fetch_nothing_and_log_no_error(browser: Browser, site: Path, page: str) -> None:
    browser.send("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    browser.open(site / f"{page}.html")
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:"))] == []


@needs_chromium
@pytest.mark.parametrize("page", PAGES)
def test_a_phone_does_not_scroll_sideways(browser: Browser, site: Path, page: str) -> None:
    browser.open(site / f"{page}.html", width=390)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390


@needs_chromium
def test_on_a_phone_rooflines_fit_and_rows_keep_their_names(browser: Browser, site: Path) -> None:
    browser.open(site / "benchmarks.html", width=390)
    wide = browser.evaluate(
        "[...document.querySelectorAll('svg.i2s-roof')].map((e) => e.getBoundingClientRect().width)"
    )
    assert wide
    assert max(wide) <= 390
    moved = browser.evaluate(
        "(() => { const box = [...document.querySelectorAll('.md-typeset__scrollwrap')].find("
        "(e) => e.scrollWidth > e.clientWidth + 60 && e.querySelectorAll('th').length > 3); box.scrollLeft = 60;"
        " return [box.scrollLeft, box.querySelector('td').getBoundingClientRect().left]; })()"
    )
    assert moved[0] == 60
    assert moved[1] >= 0


@needs_chromium
@pytest.mark.parametrize(
    ("page", "text"),
    [("05-payload", "k // 128 * 32 + k % 32"), ("09-inference", "as in a fused"), ("rules/index", "LFS")],
)
def test_on_a_phone_texts_in_wide_tables_have_room(browser: Browser, site: Path, page: str, text: str) -> None:
    browser.open(site / f"{page}.html", width=390)
    width = browser.evaluate(
        f"[...document.querySelectorAll('td')].find((e) => e.textContent.includes('{text}')).getBoundingClientRect().width"
    )
    assert 240 < width <= 390


@needs_chromium
def test_on_a_phone_empty_cells_leave_no_heading(browser: Browser, site: Path) -> None:
    browser.open(site / "architectures/chatglm.html", width=390)
    heights = browser.evaluate("[...document.querySelectorAll('.i2s-cards td:empty')].map((e) => e.offsetHeight)")
    assert len(heights) > 9
    assert set(heights) == {0}


@needs_chromium
def test_rows_of_a_long_page_are_filtered(browser: Browser, site: Path) -> None:
    browser.open(site / "rules/index.html")
    shown = "[...document.querySelectorAll('tbody tr')].filter((e) => e.offsetHeight > 0).map((e) => e.cells[0].textContent)"
    every = browser.evaluate(shown)
    browser.evaluate(
        "(() => { const box = document.querySelector('.i2s-filter'); box.value = 'tail miss';"
        " box.dispatchEvent(new Event('input')); })()"
    )
    found = browser.evaluate(shown)
    assert "I104" in found
    assert len(found) < len(every) / 10
    browser.open(site / "05-payload.html")
    assert browser.evaluate("document.querySelector('.i2s-filter')") is None


def _found(browser: Browser, site: Path, query: str) -> list[str]:
    browser.open(site / "index.html")
    browser.evaluate(
        f"(() => {{ const box = document.querySelector('.md-search__input'); box.focus(); box.value = '{query}';"
        " for (const kind of ['keyup', 'input']) box.dispatchEvent(new Event(kind, {bubbles: true})); })()"
    )
    deadline = time.monotonic() + 300
    while not browser.evaluate("document.querySelectorAll('.md-search-result__link').length"):
        assert time.monotonic() < deadline, browser.complaints()
        time.sleep(0.1)
    links: list[str] = browser.evaluate("[...document.querySelectorAll('.md-search-result__link')].map(e => e.href)")
    return links


@needs_chromium
def test_the_search_looks_for_whole_words(browser: Browser, site: Path) -> None:
    links = _found(browser, site, "llama.cpp does not load")
    assert "llama.cpp" in (site / links[0].partition(f"{site.name}/")[2].partition("?")[0].partition("#")[0]).read_text(
        encoding="utf-8"
    )
    assert not any(word in link for link in links[:5] for word in ("notebook", "notation"))


@needs_chromium
def test_search_works_from_plain_files(browser: Browser, site: Path) -> None:
    links = _found(browser, site, "leftovers tail")
    assert any("06-tail.html" in link for link in links)
    assert not any("before-and-after" in link or "benchmarks" in link for link in links)
    assert browser.complaints() == []


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core's script: from `AXE_HOME`, or from the npm registry."""
    folder = Path(os.environ["AXE_HOME"]) if "AXE_HOME" in os.environ else tmp_path_factory.mktemp("axe")
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        if shutil.which("npm") is None:
            pytest.skip("no npm on the path")
        (folder / "package.json").write_text("{}")
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "axe-core@4.14.1"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=600, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip("npm takes too long")
        if done.returncode:
            pytest.skip(f"npm gives no axe-core: {done.stderr.strip()[-200:]}")
    return script.read_text(encoding="utf-8")


@needs_chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_pages_are_accessible(browser: Browser, site: Path, axe: str, page: str, dark: bool) -> None:
    browser.open(site / f"{page}.html", dark=dark)
    browser.evaluate(axe + "; 0")  # two rules concern the theme's frame around the text
    text = browser.evaluate(
        "axe.run({include: [['.md-content']]}, {runOnly: ['wcag2a', 'wcag2aa', 'best-practice'],"
        " rules: {region: {enabled: false}, 'landmark-unique': {enabled: false}}})"
        ".then(found => JSON.stringify(found.violations.map(each =>"
        " [each.id, each.nodes.length, each.nodes[0].html.slice(0, 200), each.nodes[0].failureSummary])))"
    )
    assert json.loads(text) == []
