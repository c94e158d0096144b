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
from i2s_site.before_after import MOST_LINES, Shown, shown
from i2s_site.places import place_of, record_of, weights
from i2s_site.sound import likest
from malformed_cases import CASES, SMALL

from i2s_site import before_after, pages
from i2s_spec.cli.replay import replay
from i2s_spec.cli.specification.explain import command
from i2s_spec.conformance.export import described
from i2s_spec.errors import MissingExtra
from i2s_spec.linter.engine import lint
from i2s_spec.linter.explain import as_markdown, as_text, find
from i2s_spec.linter.rule import Fix, Rule
from i2s_spec.linter.rules import all_rules
from i2s_spec.testing.malformed.reference import compared
from i2s_spec.testing.malformed.situations import SITUATIONS, Situation, Without
from i2s_spec.testing.sample import Draft, Model

RULES = list(all_rules())

#: Rules that a sound file cannot show: they are about paths, files of other formats, and programs.
NO_AFTER = {
    *("S901", "S902", "H101", "H102", "H103", "H104", "H105", *(f"H{number}" for number in range(201, 214))),
    *("P201", "P202", "P203", "P204", "P205"),
}


#: Repairs that need information that no broken copy contains.
DECLINED = {"G319", "M105", "T009", "T010"}


@pytest.mark.parametrize("rule", share(RULES, every=32), ids=lambda rule: rule.code)
def test_every_rule_is_shown_at_work(rule: Rule) -> None:
    example = shown(rule, replay)
    if isinstance(SITUATIONS.get(rule.code), Without):
        assert example.before_says.startswith("nothing can be shown that would be the same everywhere: ")
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


@pytest.mark.parametrize("rule", share(rule for rule in RULES if rule.fix is not Fix.NONE), ids=lambda rule: rule.code)
def test_repairable_examples_are_shown_repaired(rule: Rule) -> None:
    example = shown(rule, replay)
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
    used = {code: shown(find(code), replay).before for code in ("G203", "I104", "S201", "P101")}
    for text in used.values():
        (name,) = set(re.findall(r"\S+\.gguf\b", text.splitlines()[0]))
        assert name in names


def test_a_sound_file_is_like_the_broken_one_and_does_not_break_the_rule() -> None:
    data = Draft().number("header.version", 4)
    assert next(likest(data, "G104")) == Draft().data
    big = Draft("big").data
    assert next(likest(big, "G106")) != big
    model = Model("qwen3").set("qwen3.pooling_type", 1).built()
    other = next(likest(model, "M021"))
    assert other == Model("qwen3").built()
    assert "M021" not in {finding.code for finding in lint(other).findings}


def test_places_are_found_by_name() -> None:
    """The same key stands elsewhere, a key that only another sound file has, a record that none has."""
    draft = Draft()
    file = draft.records()
    file.key_values.insert(0, file.key_values.pop(4))
    moved = place_of(draft.built(file), "key_values[0].value", "G215", "s")
    assert moved is not None
    assert moved.same
    assert moved.path == "key_values[4].value"
    assert moved.lines[0] == "s:0xc8..0xc9: key_values[4].value of 'sample.flag': true"
    template = CASES["tmpl_open"]
    other = place_of(template.data, template.path, "S203", "s")
    assert other is not None
    assert "'tokenizer.chat_template'" in other.lines[0]
    unknown = CASES["nested_arr_5"]
    kind = place_of(unknown.data, unknown.path, "G212", "s")
    assert kind is not None
    assert not kind.same
    assert place_of(Draft().data + b"x" * 32, "trailing", "G407", "s") is None


def test_weights_are_counted_where_there_are_any() -> None:
    data = Draft().data
    assert weights(data, "data[1]") == "codes 0, 1, 2, 3: 171, 177, 164, 0 times"
    assert weights(data, "data[1].tail.scale") == "scales: 0.75, 1.25"
    assert weights(data, "data[0]") == weights(data, "header") == weights(b"", "data[0]") == ""
    assert weights(data[:-400], "data[2]") == ""
    assert record_of("data[3].tail.scale") == "data[3]"
    assert record_of("header.version") == "header.version"


def test_pages_have_the_words_of_explain() -> None:
    """The text of a page is that of `i2s explain`; what the page adds are links, marks of code, and the way back."""
    runner = CliRunner()
    for code in ("G109", "G203", "I104", "S903", "P201"):
        said = runner.invoke(command, [code, "--example", "--format", "markdown"]).stdout
        assert said == pages.words(find(code), replay)
        assert said.startswith(as_markdown(find(code)))
        page = pages._page(find(code), {}, replay, pages._beside(RULES, RULES.index(find(code))))
        plain = re.sub(r"\[([^\]]+)\]\(https?:[^)]+\)", r"\1", page)
        plain = re.sub(r"`(--[\w-]+)`", r"\1", plain).replace("after { data-search-exclude }\n", "after\n")
        assert plain.startswith(said)
        beside, empty, mark = plain.removeprefix(said).strip().splitlines()
        assert f"[All rules](index.md#{pages._family_anchor(code[0])})" in beside.split(" · ")
        assert (empty, mark) == ("", pages.MARK.strip())


def test_explain_says_it_as_text_and_data() -> None:
    runner = CliRunner()
    text = runner.invoke(command, ["G215", "--example"]).stdout
    assert text.startswith(
        as_text(find("G215")) + "\nBefore:     a file that breaks this rule and no other.\n    $ i2s lint"
    )
    assert "\nAfter:      what a repair makes of it.\n    $ i2s fix G215-bool_2.gguf --dry-run\n" in text
    (said,) = json.loads(runner.invoke(command, ["G215", "--example", "--format", "json"]).stdout)
    assert said["before_after"] == shown(find("G215"), replay)._asdict()


def test_explain_without_an_example_stays_light() -> None:
    code = (
        "import sys\nsys.argv = ['i2s', 'explain', 'I104']\nfrom i2s_spec.cli import main\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'construct', 'rich', 'i2s_spec.testing', 'i2s_spec.docs'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_examples_need_neither_hypothesis_nor_a_checkout(tmp_path: Path) -> None:
    """An installed package has neither; the example is made all the same."""
    code = (
        "import sys\nsys.modules['hypothesis'] = None\n"
        "from i2s_site import checkout\ncheckout.__file__ = '/nowhere/a/b/c.py'\n"
        "sys.argv = ['i2s', 'explain', 'I104', '--example']\nfrom i2s_spec.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "After:      the same place in a sound file." in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_command_without_its_extra_gives_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before_after, "find_spec", lambda name: None)
    needing = [code for code, each in SITUATIONS.items() if isinstance(each, Situation) and each.needs]
    assert set(needing) == {"T907", "T951"}
    with pytest.raises(MissingExtra, match=r"\[chat\]"):
        shown.__wrapped__(find("T951"), replay)


def test_long_transcripts_keep_their_end() -> None:
    text = "".join(f"{i}\n" for i in range(30))
    lines = before_after._short(text).splitlines()
    assert lines == [*map(str, range(MOST_LINES - 2)), f"… {31 - MOST_LINES} more lines", "29"]
    lines = before_after._short(text + "[exit 1]\n").splitlines()
    assert lines[-3:] == [f"… {32 - MOST_LINES} more lines", "29", "[exit 1]"]
    assert len(lines) == MOST_LINES


def test_fences_are_longer_than_what_they_hold() -> None:
    text = before_after.as_markdown(Shown("x.", "````\n", "y.", "a\n"))
    assert "`````{ .text .i2s-ran }\n````\n`````\n" in text


def test_a_replay_is_of_this_program_only(tmp_path: Path) -> None:
    for command_line in ("rm -r x", "cat x | i2s lint -", "i2s lint x | rm x", "echo x | rm y"):
        with pytest.raises(ValueError, match="a transcript runs i2s"):
            replay(command_line, tmp_path)
    said = replay("i2s lint none.gguf", tmp_path)
    assert said.startswith("$ i2s lint none.gguf\nnone.gguf: error: S901 unreadable: ")
    assert said.endswith("\n[exit 3]\n")
