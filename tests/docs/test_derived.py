"""Generated parts of the text: one command writes all of them, and one test checks that they are current."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples import some

from i2s_spec.cli.replay import replay
from i2s_spec.cli.specification.spec import SITE, command
from i2s_spec.docs import before_after, checkout, derived, pages, redirects
from i2s_spec.docs.before_after import Run
from i2s_spec.errors import SettingError
from i2s_spec.linter.explain import as_markdown
from i2s_spec.linter.rule import Rule
from i2s_spec.linter.rules import all_rules

#: Generate the pages of these rules only, because the commands on the pages take long.
SHOWN = {rule.code for rule in some(all_rules(), every=15)}

MARKED = re.compile(r"Written by (?:`i2s rules|i2s_spec\.(?:docs|draw|exports))")


def make_only(shown: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For the pages of other rules, the output of commands is taken from the existing page."""
    words = pages.words

    def some_words(rule: Rule, run: Run) -> str:
        if rule.code in shown:
            return words(rule, run)
        page = (checkout.chapters() / "rules" / f"{rule.code}.md").read_text(encoding="utf-8")
        example = page[page.index("\n## ") :].removesuffix(pages.MARK).rsplit("\n\n", 2)[0]
        return as_markdown(rule) + example.replace(" { data-search-exclude }", "", 1)

    monkeypatch.setattr(pages, "words", some_words)


def test_everything_derived_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick run makes all files, but few of the rules' pages."""
    make_only(SHOWN, monkeypatch)
    assert derived.check(replay) == [], "run: i2s spec write"


def test_marked_pages_are_in_the_list_of_generated_files() -> None:
    """A page that bears the mark of one that is never edited is one that the command writes."""
    folder = checkout.chapters()
    marked = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.*")
        if path.suffix in (".md", ".js", ".mjs", ".css", ".html") and MARKED.search(path.read_text(encoding="utf-8"))
    }
    named = {name for name in marked if not name.startswith("rules/")}
    assert named == {
        "requirements.md",
        "register.md",
        "conformance-vectors.md",
        "runtimes.md",
        "decoders.md",
        "layouts.md",
        "annexes/registry.md",
        "assets/layouts.js",
        "assets/palette.css",
        *(f"{name}.html" for name in redirects.RENAMED),
    }
    assert named <= derived.FILES.keys()
    assert marked - named == {f"rules/{path.name}" for path in (folder / "rules").iterdir()}


def test_former_addresses_lead_to_chapters_and_keep_the_section() -> None:
    folder = checkout.chapters()
    for former, new in redirects.RENAMED.items():
        assert (folder / f"{new}.md").is_file()
        assert not (folder / f"{former}.md").exists()
        text = (folder / f"{former}.html").read_text(encoding="utf-8")
        assert f'location.replace("{new}.html" + location.hash)' in text
        assert f'<a href="{new}.html">' in text


#: Generators of the files. Each runs once: other tests check that a second run gives the same text.
MADE = {name: cache(make) for name, make in derived.FILES.items()}


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a folder as the checkout, without running the commands of the rules' pages."""
    monkeypatch.setattr(derived, "FILES", MADE)
    monkeypatch.setattr(pages, "words", lambda rule, run: as_markdown(rule))
    monkeypatch.setattr(checkout, "__file__", str(folder / "i2s_spec" / "docs" / "checkout.py"))


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of its own, in which everything is current."""
    folder = tmp_path_factory.mktemp("current")
    shutil.copytree(checkout.chapters(), folder / "spec")
    (folder / "tests").symlink_to(checkout.root() / "tests")
    (folder / "mkdocs.yml").write_text("")
    (folder / "i2s_spec/linter/rules").mkdir(parents=True)  # for the index of the rules
    with pytest.MonkeyPatch.context() as monkeypatch:
        use(folder, monkeypatch)
        derived.write(replay)
    return folder


@pytest.fixture
def other(current: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of `current` that the test may change."""
    shutil.copytree(current, tmp_path, symlinks=True, dirs_exist_ok=True)
    use(tmp_path, monkeypatch)
    return tmp_path / "spec"


def test_outdated_files_are_named_and_rewritten(other: Path) -> None:
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    for name in derived.FILES:
        path = other / name
        text = path.read_text(encoding="utf-8")
        starts = {
            ".tsv": ("R",),
            ".json": ('  "',),
            ".ipynb": ("   ",),
            ".css": ("[",),
            ".svg": ("<",),
            ".py": ("    )",),
        }
        first = starts.get(path.suffix, ("| ", "    {", "<p>", "<div"))
        row = next(line for line in reversed(text.splitlines()) if line.startswith(first))
        path.write_text(text.replace(row, f"{row[:2]} {row[2:]}", 1), encoding="utf-8")
    (other / "rules" / "I104.md").write_text("old\n" + pages.MARK, encoding="utf-8")
    (other / "runtimes.md").unlink()

    run = CliRunner().invoke(command, ["write", "--check"], standalone_mode=False)
    said = [f"{name} is not what its declarations say" for name in derived.FILES]
    assert run.stdout.splitlines() == [*said, "rules/I104.md is not what its rule says"]
    assert run.return_value == 1
    assert "`i2s spec write`" in run.stderr

    run = CliRunner().invoke(command, ["write"], standalone_mode=False)
    assert run.return_value == 0
    assert run.stdout.splitlines() == [*derived.FILES, "rules/I104.md", f"{len(derived.FILES) + 1} files changed"]
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == before

    for arguments, printed in ((["write"], "0 files changed\n"), (["write", "--check"], "")):
        run = CliRunner().invoke(command, arguments, standalone_mode=False)
        assert (run.return_value, run.stdout) == (0, printed)


def test_prose_around_tables_stays(other: Path) -> None:
    path = other / "07-dialects.md"
    text = path.read_text(encoding="utf-8").replace("\n## 7.2", "\nA sentence of mine.\n\n## 7.2")
    path.write_text(text, encoding="utf-8")
    assert derived.check(replay) == []
    assert derived.write(replay) == []
    assert path.read_text(encoding="utf-8") == text


def test_a_missing_table_is_reported(other: Path) -> None:
    path = other / "11-conformance.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("| chapter | MUST |", "| chapters | MUST |", 1), encoding="utf-8")
    with pytest.raises(SettingError, match=r"no table with the head '\| chapter"):
        derived.write(replay)
    (said,) = derived.check(replay)
    assert said.startswith("11-conformance.md: the page has no table with the head '| chapter | MUST")


def test_drift_ends_build_and_test_of_the_verb(other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look at what is derived before anything else."""
    (other / "rules" / "I104.md").write_text("old\n" + pages.MARK, encoding="utf-8")
    monkeypatch.setattr("i2s_spec.cli.specification.spec._require_mkdocs", lambda: None)
    monkeypatch.setattr("i2s_spec.cli.specification.spec._mkdocs", lambda *arguments: pytest.fail("the site is built"))
    run = CliRunner().invoke(command, ["build"], standalone_mode=False)
    assert (run.return_value, run.stdout) == (1, "rules/I104.md is not what its rule says\n")


@pytest.mark.thorough
def test_pages_that_need_a_missing_extra_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra of the site alone is enough to build it."""
    before_after.shown.cache_clear()
    make_only({"G001", "T907", "T951"}, monkeypatch)
    monkeypatch.setattr(before_after, "find_spec", lambda name: None)
    monkeypatch.setattr("i2s_spec.cli.specification.spec._require_mkdocs", lambda: None)
    monkeypatch.setattr("i2s_spec.cli.specification.spec._mkdocs", lambda *arguments: 0)
    run = CliRunner().invoke(command, ["build"], standalone_mode=False)
    before_after.shown.cache_clear()
    assert (run.return_value, run.stdout) == (0, "")
    assert re.findall(r"i2s: rules/(\w+)\.md is not checked: .*\[(\w+)\]", run.stderr) == [
        ("T907", "tokenizer"), ("T951", "chat"),
    ]  # fmt: skip


def test_without_a_checkout_the_verb_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checkout, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    monkeypatch.chdir(tmp_path)
    for arguments in (["write"], ["write", "--check"]):
        assert "clone the repository" in str(CliRunner().invoke(command, arguments).exception)


def test_building_deletes_nothing_but_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("i2s_spec.cli.specification.spec._derived", lambda: 0)
    monkeypatch.setattr("i2s_spec.cli.specification.spec._require_mkdocs", lambda: None)
    monkeypatch.setattr("i2s_spec.cli.specification.spec._mkdocs", lambda *arguments: 0)
    folder = checkout.root()
    monkeypatch.setattr(checkout, "root", lambda: folder)  # an installed package searches from the current folder
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.gguf").write_bytes(b"GGUF")
    for name in (".", "", str(tmp_path)):
        answer = CliRunner().invoke(command, ["build", "--output", name])
        assert (answer.exit_code, "would delete them" in answer.output) == (2, True)
    (tmp_path / "new").mkdir()
    assert CliRunner().invoke(command, ["build", "--output", "new"]).exit_code == 0
    (tmp_path / "new" / "search").mkdir()
    for name in SITE:
        (tmp_path / "new" / name).write_text("")
    assert CliRunner().invoke(command, ["build", "--output", "new"]).exit_code == 0
