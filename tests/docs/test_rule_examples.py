"""Examples of rules: every rule has one, which shows that rule and is short."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples import share
from malformed_cases import CASES, SMALL

from i2s_spec.cli import rule_pages
from i2s_spec.cli import rule_pages as rule_examples
from i2s_spec.cli.replay import replay
from i2s_spec.cli.rule_pages import MOST_LINES, Shown, shown
from i2s_spec.cli.rules import explain_command
from i2s_spec.conformance.malformed_suite import described
from i2s_spec.errors import MissingExtra
from i2s_spec.linter.engine import lint
from i2s_spec.linter.explain import as_markdown, as_text, find
from i2s_spec.linter.rule import Fix, Rule
from i2s_spec.linter.rules import all_rules
from i2s_spec.testing.malformed.case import Case
from i2s_spec.testing.malformed.situations import SITUATIONS, Situation, Without, compared
from i2s_spec.testing.sample import Draft

RULES = list(all_rules())

#: Rules that a sound file cannot show: they are about paths, files of other formats, and programs.
NO_AFTER = {
    *("S901", "S902", "H101", "H102", "H103", "H104", "H105", *(f"H{number}" for number in range(201, 217))),
    *("P201", "P202", "P203", "P204", "P205"),
}


#: Repairs that need information that no broken copy contains.
DECLINED = {"G319", "M105", "T009", "T010"}


#: Rules of which no example is shown.
NOT_SHOWN = {code for code, situation in SITUATIONS.items() if isinstance(situation, Without)}


@pytest.mark.parametrize("rule", share(RULES, every=32), ids=lambda rule: rule.code)
def test_every_rule_is_shown_at_work(rule: Rule) -> None:
    example = shown(rule)
    if rule.code in NOT_SHOWN:
        assert example.before_says.startswith("nothing is shown: ")
        assert (example.before, example.after) == ("", "")
        return
    assert f"{rule.code} {rule.slug}" in example.before
    assert re.match(r"\$ (?:echo \w+ \| )?i2s ", example.before)
    assert "internal error" not in example.before + example.after
    assert (example.after == "") == (rule.code in NO_AFTER)
    for text in (example.before, example.after):
        assert len(text.splitlines()) <= MOST_LINES
        assert all(line.isprintable() for line in text.splitlines())
        assert "/tmp" not in text
        assert str(Path.cwd()) not in text


@pytest.mark.parametrize(
    "rule",
    share(rule for rule in RULES if rule.fix is not Fix.NONE and rule.code not in NOT_SHOWN),
    ids=lambda rule: rule.code,
)
def test_repairable_examples_are_shown_repaired(rule: Rule) -> None:
    example = shown(rule)
    assert re.match(rf"\$ i2s fix {rule.code}-\S+ --dry-run{' --unsafe' * (rule.fix is Fix.UNSAFE)}\b", example.after)
    assert "dry run, nothing was written: " in example.after
    if rule.code in DECLINED:
        assert example.after_says.startswith("the repair declines here, and says why. Below it ")
        assert f": not repaired: {rule.code}: " in example.after
        assert "sound.gguf" in example.after
        return
    assert f": repaired: {rule.code}: " in example.after
    assert ("judgement" in example.after_says) == (rule.fix is Fix.UNSAFE)


def test_situations_are_those_that_no_broken_copy_makes() -> None:
    made = {case.code for case in CASES.values()} | {pair.code for pair in compared()}
    assert SITUATIONS.keys() == {rule.code for rule in RULES} - made


def test_broken_files_have_the_names_of_those_that_are_exported() -> None:
    names = {
        Path(described(case, "whole", case.data)["file"]).name for case in SMALL.values() if len(case.data) < 1 << 12
    }
    used = {code: shown(find(code)).before for code in ("G203", "I104", "S201", "P101")}
    for text in used.values():
        (name,) = set(re.findall(r"\S+\.gguf\b", text.splitlines()[0]))
        assert name in names


@pytest.mark.parametrize("case", share(SMALL.values()), ids=lambda case: case.name)
def test_the_sound_file_of_a_case_does_not_break_its_rule(case: Case) -> None:
    assert case.base != case.data
    assert case.code not in {finding.code for finding in lint(case.base).findings}


def test_places_are_found_by_name() -> None:
    """The same key stands elsewhere, a record that the sound file has not, what is no place in it."""
    same, such = rule_examples._same_place, rule_examples._such_place
    draft = Draft()
    file = draft.records()
    file.key_values.insert(0, file.key_values.pop(4))
    assert same(draft.built(file), "key_values[0].value", draft.data) == "key_values[4].value"
    line, *_ = rule_examples._lines(draft.data, "key_values[4].value").splitlines()
    assert line == "sound.gguf:0xc8..0xc9: key_values[4].value of 'sample.flag': true"
    unknown = CASES["nested_arr_5"]
    assert same(unknown.data, unknown.path, unknown.base) is None
    assert such(unknown.path, unknown.base) == "key_values[5].value.type"
    assert same(Draft().data + b"x" * 32, "trailing", Draft().data) is None


def test_weights_are_counted_where_there_are_any() -> None:
    data, weights = Draft().data, rule_examples._weights
    assert weights(data, "data[1]") == "codes 0, 1, 2, 3: 171, 177, 164, 0 times"
    assert weights(data, "data[1].tail.scale") == "scales: 0.75, 1.25"
    assert weights(data, "data[0]") == weights(data, "header") == weights(b"", "data[0]") == ""
    assert weights(data[:-400], "data[2]") == ""


def test_pages_have_the_words_of_explain() -> None:
    """The text of a page is that of `i2s explain`; what the page adds are links, marks of code, and the way back."""
    runner = CliRunner()
    for code in ("G109", "G203", "I104", "S903", "P201"):
        said = runner.invoke(explain_command, [code, "--example", "--format", "markdown"]).stdout
        assert said == rule_pages.words(find(code))
        assert said.startswith(as_markdown(find(code)))
        page = rule_pages._page(find(code), {}, rule_pages._beside(RULES, RULES.index(find(code))))
        plain = re.sub(r"\[([^\]]+)\]\(https?:[^)]+\)", r"\1", page)
        plain = re.sub(r"`(--[\w-]+)`", r"\1", plain).replace("after { data-search-exclude }\n", "after\n")
        assert plain.startswith(said)
        beside, empty, mark = plain.removeprefix(said).strip().splitlines()
        assert f"[All rules](index.md#{rule_pages._family_anchor(code[0])})" in beside.split(" · ")
        assert (empty, mark) == ("", rule_pages.MARK.strip())


def test_explain_says_it_as_text_and_data() -> None:
    runner = CliRunner()
    text = runner.invoke(explain_command, ["G215", "--example"]).stdout
    assert text.startswith(
        as_text(find("G215")) + "\nBefore:     a file that breaks this rule and no other.\n    $ i2s lint"
    )
    assert "\nAfter:      what a repair makes of it.\n    $ i2s fix G215-bool_2.gguf --dry-run\n" in text
    (said,) = json.loads(runner.invoke(explain_command, ["G215", "--example", "--format", "json"]).stdout)
    assert said["before_after"] == shown(find("G215"))._asdict()


def test_explain_without_an_example_stays_light() -> None:
    code = (
        "import sys\nsys.argv = ['i2s', 'explain', 'I104']\nfrom i2s_spec.cli import main\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'construct', 'rich', 'i2s_spec.testing', 'i2s_spec.cli.replay'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_examples_need_neither_hypothesis_nor_a_checkout(tmp_path: Path) -> None:
    """An installed package has neither; the example is made all the same."""
    code = (
        "import sys\nsys.modules['hypothesis'] = sys.modules['i2s_site'] = None\n"
        "sys.argv = ['i2s', 'explain', 'I104', '--example']\nfrom i2s_spec.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, cwd=tmp_path)
    assert "After:      the same place in a sound file." in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_command_without_its_extra_gives_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_examples, "find_spec", lambda name: None)
    needing = [code for code, each in SITUATIONS.items() if isinstance(each, Situation) and each.needs]
    assert set(needing) == {"T951"}
    with pytest.raises(MissingExtra, match=r"\[chat\]"):
        shown.__wrapped__(find("T951"))


def test_long_transcripts_keep_their_end() -> None:
    text = "".join(f"{i}\n" for i in range(30))
    lines = rule_examples._short(text).splitlines()
    assert lines == [*map(str, range(MOST_LINES - 2)), f"… {31 - MOST_LINES} more lines", "29"]
    lines = rule_examples._short(text + "[exit 1]\n").splitlines()
    assert lines[-3:] == [f"… {32 - MOST_LINES} more lines", "29", "[exit 1]"]
    assert len(lines) == MOST_LINES


def test_fences_are_longer_than_what_they_hold() -> None:
    text = rule_examples.example_markdown(Shown("x.", "````\n", "y.", "a\n"))
    assert "`````{ .text .i2s-ran }\n````\n`````\n" in text


def test_a_replay_is_of_this_program_only(tmp_path: Path) -> None:
    for command_line in ("rm -r x", "cat x | i2s lint -", "i2s lint x | rm x", "echo x | rm y"):
        with pytest.raises(ValueError, match="a transcript runs i2s"):
            replay(command_line, tmp_path)
    said = replay("i2s lint none.gguf", tmp_path)
    assert said.startswith("$ i2s lint none.gguf\nnone.gguf: error: S901 unreadable: ")
    assert said.endswith("\n[exit 3]\n")
