"""Conditions of rules: the engine asks them, and each is met by some files only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from malformed_cases import CASES, SMALL

from i2s_spec.errors import Fault, FormatError, Span
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.survey import Reading
from i2s_spec.linter import engine
from i2s_spec.linter.analysis import conditions
from i2s_spec.linter.analysis.checkpoint_facts import CheckpointFacts
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Finding, Rule, Severity, When, every_file, rule
from i2s_spec.linter.rules import REGISTRY, all_rules
from i2s_spec.schema import faults
from i2s_spec.testing.sample import Draft

SOUND = Draft().data
#: Conditions of rules on files under the linter, each with one of its rules.
ABOUT_SOME: dict[When, Rule] = {
    each.when: each for each in all_rules() if each.check is not None and each.when is not every_file
}
#: Those that depend on what the caller asks for, or are about something else than a GGUF file.
ON_REQUEST = {conditions.runtimes_requested, conditions.compared_with_reference, conditions.checkpoints,
              conditions.adapters_with_base, conditions.compared_with_record}  # fmt: skip


def subject_of(data: bytes) -> LintContext:
    return LintContext(File(BufferSource(data)), reading=Reading("full"))


def test_conditions_say_what_they_are_about() -> None:
    for made in all_rules():
        assert made.applies_to == (made.when.__doc__ or "").strip(), f"{made.code}: one line, which its page shows"
        assert made.applies_to[-1:] not in ("", "."), made.code


def test_rules_find_something_only_where_they_apply() -> None:
    for case in SMALL.values():
        subject = None
        for finding in lint(case.data).findings:
            if finding.rule.check is not None and finding.rule.when is not every_file:
                subject = subject or subject_of(case.data)
                assert finding.rule.when(subject), (case.name, finding)


@pytest.mark.parametrize(
    "condition", [each for each in ABOUT_SOME if each not in ON_REQUEST], ids=lambda each: ABOUT_SOME[each].code
)
def test_a_condition_is_met_by_some_files_only(condition: Callable[[LintContext], bool]) -> None:
    codes = {each.code for each in all_rules() if each.when is condition}
    assert any(condition(subject_of(case.data)) for case in CASES.values() if case.code in codes)
    assert not all(condition(subject_of(case.data)) for case in SMALL.values())


def test_some_conditions_are_requests() -> None:
    subject = subject_of(SOUND)
    assert not any(condition(subject) for condition in ON_REQUEST)
    subject.runtimes_requested = True
    subject.weights = object()  # type: ignore[assignment]
    assert conditions.runtimes_requested(subject)
    assert conditions.compared_with_reference(subject)
    assert conditions.checkpoints(CheckpointFacts.__new__(CheckpointFacts))
    assert not conditions.elsewhere("a model is run")(subject)


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Callable[[Any], Rule]]]:
    """`rule` for rules that only one test knows."""
    before = dict(REGISTRY)

    def declare(code: str, **facts: Any) -> Callable[[Any], Rule]:
        return rule(code, f"rule-{code}".lower(), "nothing", severity=Severity.NOTE, clause="2.1", **facts)

    yield declare
    REGISTRY.clear()
    REGISTRY.update(before)
    engine._in_order.cache_clear()


def test_a_condition_is_asked_once_for_a_file_before_its_rules(declared: Callable[..., Any]) -> None:
    asked: list[str] = []

    def once(_: LintContext) -> bool:
        """files"""
        asked.append("condition")
        return len(asked) == 1

    for code in ("G998", "G999"):

        @declared(code, when=once)
        def found(_: LintContext, code: str = code) -> list[Finding]:
            asked.append(code)
            return []

    lint(SOUND, select=["G99"])
    assert asked == ["condition", "G998", "G999"]
    lint(SOUND, select=["G99"])
    assert asked[3:] == ["condition"]


def test_a_condition_that_fails_is_reported_once(declared: Callable[..., Any]) -> None:
    def broken(_: LintContext) -> bool:
        """files"""
        raise RuntimeError("a bug")

    for code in ("G998", "G999"):
        declared(code, when=broken)(lambda _: [])
    (bug,) = lint(SOUND, select=["G99"]).bugs
    assert (bug.where, bug.message) == ("G998", "RuntimeError: a bug")


def test_a_condition_that_meets_a_fault_reports_it(declared: Callable[..., Any]) -> None:
    def gone(_: LintContext) -> bool:
        """files"""
        raise FormatError(faults.UNREADABLE, Span(0, 0), reason="it is gone")

    declared("G998", when=gone)(lambda _: [])
    declared("G999")(lambda _: pytest.fail("nothing more is asked of a file that is gone"))
    assert [each.code for each in lint(SOUND, select=["G99"]).findings] == [faults.UNREADABLE.code]


def test_a_code_is_used_once() -> None:
    with pytest.raises(ValueError, match="rule code G106 is used twice"):
        rule(Fault("G106", "again", "again"), clause="2.3")(lambda _: [])


def test_a_finding_of_a_rule_is_that_rule() -> None:
    """With whatever severity a run gives it; with its own severity, it is the same object."""
    (finding,) = lint(CASES["dup_key"].data).findings
    assert isinstance(finding.rule, Rule)
    assert finding.rule is REGISTRY[finding.code]
    (milder,) = lint(CASES["dup_key"].data, severity={finding.code: "note"}).findings
    assert milder.rule == finding.rule._replace(severity=milder.severity)
    assert milder.severity.value == "note"


def test_values_that_are_not_finite_are_found_without_i2s() -> None:
    """The condition is about the float types alone."""
    data = bytearray(Draft("little", "f32").data)
    data[-4:] = b"\x00\x00\xc0\x7f"
    assert [each.code for each in lint(bytes(data)).findings] == ["G413"]
