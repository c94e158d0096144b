"""Profiles: which rules apply, the severity of each finding, and how callers change both."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import broken

from i2s_spec.linter import selection
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.rules import REGISTRY, all_rules
from i2s_spec.linter.selection import INDISPENSABLE, PROFILES, reading_of, selected, suppressed_codes
from i2s_spec.testing.sample import Draft

#: Rules that the linter applies; family H is about inputs of conversions.
LINTED = {rule.code: rule for rule in all_rules() if rule.family != "H"}
STOPS = {code for code, rule in LINTED.items() if rule.check is None}

PREFIXES = st.lists(st.sampled_from(["G", "G1", "G2", "G203", "I", "M", "P1", "P101", "S", "S9", "T"]), max_size=4)


def test_default_is_every_rule_as_it_is_declared() -> None:
    levels = selected(runtimes=True, reference=True, record=True)
    assert levels == {code: rule.severity for code, rule in LINTED.items()}


def test_each_profile_has_a_purpose_of_one_line() -> None:
    assert list(PROFILES) == ["default", "spec", "bitnet.cpp", "llama.cpp", "security", "strict"]
    for profile in PROFILES.values():
        assert 20 < len(profile.purpose) < 110
        assert "\n" not in profile.purpose


def test_strict_has_no_warnings() -> None:
    levels = selected("strict", runtimes=True, reference=True, record=True)
    assert levels.keys() == LINTED.keys()
    assert Severity.WARNING not in levels.values()
    assert all(levels[code] is Severity.NOTE for code, rule in LINTED.items() if rule.severity is Severity.NOTE)


def test_spec_is_errors_of_the_format() -> None:
    levels = selected("spec", runtimes=True, reference=True)
    assert set(levels.values()) == {Severity.ERROR}
    assert {code[0] for code in levels.keys() - STOPS - INDISPENSABLE} <= set("GIMT")


def test_llama_cpp_takes_what_upstream_refuses_for_errors() -> None:
    levels = selected("llama.cpp")
    for code, severity in (("P101", Severity.ERROR), ("P205", Severity.WARNING), ("P301", Severity.WARNING)):
        assert (REGISTRY[code].severity, selected("llama.cpp", runtimes=True)[code]) == (severity, Severity.ERROR)
    assert levels["G406"] is Severity.WARNING


def test_bitnet_cpp_leaves_out_rules_on_upstream() -> None:
    levels = selected("bitnet.cpp", reference=True, record=True)
    assert not any(code.startswith("P1") for code in levels)
    assert levels.keys() >= {code for code in LINTED if code[0] in "GIMTS"}


def test_security_has_every_weakness_of_headers() -> None:
    levels = selected("security", payload=False, record=True)
    weak = {code for code, rule in LINTED.items() if rule.cwe is not None and not rule.payload}
    assert weak - {code for code in weak if code.startswith("P2")} <= levels.keys()
    assert {code for code in LINTED if code[0] in "GS" and not LINTED[code].payload} <= levels.keys()
    assert reading_of("security") == "none"
    assert reading_of("default") == "full"


def test_gap_under_each_profile() -> None:
    gap = broken("gap")
    verdicts = {name: lint(gap, profile=name) for name in PROFILES}
    found = {name: {f.code: f.severity.value for f in report.findings}.get("P101") for name, report in verdicts.items()}
    assert found == {
        "default": "error", "spec": None, "bitnet.cpp": None, "llama.cpp": "error", "security": None, "strict": "error",
    }  # fmt: skip
    assert {name for name, report in verdicts.items() if report.ok} == {"spec", "bitnet.cpp", "security"}


@pytest.mark.parametrize("name", PROFILES)
def test_sound_file_is_sound_under_every_profile(name: str) -> None:
    assert lint(Draft().data, profile=name).findings == ()


def test_select_replaces_the_choice_of_the_profile() -> None:
    assert {code for code in selected(select=["P1"]) if LINTED[code].check is not None} - INDISPENSABLE == {
        code for code in LINTED if code.startswith("P1")
    }
    assert "P101" in selected("spec", select=["P101"])


def test_the_longer_prefix_wins() -> None:
    levels = selected(select=["G", "P101"], ignore=["P", "G4"])
    assert "P101" in levels
    assert "P102" not in levels
    assert "G406" not in levels
    assert "G203" in levels


def test_stops_of_the_reader_are_selected_with_anything() -> None:
    assert selected(select=["I104"]).keys() >= STOPS
    assert not lint(b"GGUF\3\0\0\0", select=["I104"]).ok
    assert "G101" not in selected(select=["I104"], ignore=["G101"])


def test_slugs_and_any_case() -> None:
    expected = selected(ignore=["P101"], severity={"G106": "error"})
    assert selected(ignore=["gap-between-tensors"], severity={"BIG-ENDIAN": "error"}) == expected
    assert selected(ignore=[" p101"], severity={"g106": Severity.ERROR}) == expected


def test_severity_by_the_longest_prefix() -> None:
    levels = selected("strict", severity={"P": "note", "P101": "error", "G": "warning"})
    assert levels["P101"] is Severity.ERROR
    assert levels["P102"] is Severity.NOTE
    assert levels["G203"] is Severity.WARNING


@given(PREFIXES, PREFIXES)
@examples(60)
def test_rules_about_unreadable_files_always_apply(select: list[str], ignore: list[str]) -> None:
    levels = selected(select=select, ignore=ignore)
    assert levels.keys() >= INDISPENSABLE
    assert levels.keys() <= LINTED.keys()
    for code in levels.keys() - INDISPENSABLE:
        assert select or not any(code.startswith(prefix) for prefix in ignore)


def test_rules_on_payloads_and_runtimes_need_them() -> None:
    assert not any(LINTED[code].payload for code in selected(payload=False))
    assert not any(code.startswith("P2") for code in selected(select=["P"]))


def test_suppressions_by_prefix() -> None:
    reasons = suppressed_codes({"P": "old files", "P101": "this one above all", "G": "so be it"})
    assert reasons["P101"] == "this one above all"
    assert reasons["P102"] == "old files"
    assert not reasons.keys() & INDISPENSABLE


@pytest.mark.parametrize("wrong", ["", " ", "Z", "G2033", "no-such-slug", "\x1b[2J"])
def test_prefixes_that_fit_nothing(wrong: str) -> None:
    for options in ({"select": [wrong]}, {"ignore": [wrong]}, {"severity": {wrong: "note"}}):
        with pytest.raises(ValueError, match="no rule has a code") as error:
            selected(**options)  # type: ignore[arg-type]
        assert str(error.value).isprintable()


def test_a_new_rule_is_in_force_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    selected()
    fault = REGISTRY["G106"].fault._replace(code="G998")
    monkeypatch.setitem(REGISTRY, "G998", REGISTRY["G106"]._replace(fault=fault))
    assert "G998" in selected()


def test_rules_that_need_a_reference_need_one() -> None:
    """These rules need more than the file or its header."""
    assert not any(code.startswith("I4") for code in selected(select=["I"]))
    assert {code for code in selected(select=["I4"], reference=True) if code.startswith("I")} == {
        code for code in LINTED if code.startswith("I4")
    }
    assert not any(code.startswith("I4") for code in selected(payload=False, reference=True))


def test_a_prefix_that_is_repeated_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration of a megabyte with 150,000 times "S" took 13 s: each of them was compared with each rule."""
    seen: list[str] = []
    prefix = selection._prefix
    monkeypatch.setattr(selection, "_prefix", lambda name: (seen.append(name), prefix(name))[1])
    assert selected("default", ignore=["S"] * 1000 + ["s"] * 1000) == selected("default", ignore=["S"])
    assert seen == ["S", "s", "S"]
    assert selection._prefixes(["S", "s", "G4"] * 100) == ("S", "G4")
