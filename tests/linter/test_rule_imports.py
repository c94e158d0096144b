"""Rules are imported when a file needs them: the index lists all rules, and no rule with a finding is left out."""

from __future__ import annotations

import subprocess
import sys

import pytest
from malformed_cases import CASES, SMALL

from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import REGISTRY, Registry, Rule, facts_of
from i2s_spec.linter.rules import concerns
from i2s_spec.linter.rules.index import INDEX

HOME = "i2s_spec.linter.rules"
#: Modules that apply to some files only, with the families of their findings.
ABOUT_SOME = [home for home, _ in INDEX if home in concerns._CONCERNS]


def test_the_index_is_of_what_the_modules_declare() -> None:
    assert list(REGISTRY.facts()) == [facts_of(REGISTRY[facts.code]) for facts in REGISTRY.facts()]
    assert dict(REGISTRY.homes) == REGISTRY.places


def test_modules_that_are_about_some_files_exist() -> None:
    assert set(ABOUT_SOME) == set(concerns._CONCERNS)


def test_no_module_finds_anything_in_a_file_that_it_is_not_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every rule is run on every file, the broken copies that have other faults get the same findings."""
    homes = {f"{HOME}.{home}" for home in ABOUT_SOME}
    left_out = concerns.concerned
    skipped: list[str] = []

    def asked(module: str, subject: object) -> bool:
        about = left_out(module, subject)  # type: ignore[arg-type]
        if module in homes and not about:
            skipped.append(module)
            return True
        return about

    monkeypatch.setattr(concerns, "concerned", asked)
    ever = set()
    for case in SMALL.values():
        skipped.clear()
        found = {finding.code for finding in lint(case.data).findings}
        assert [(case.name, code) for code in sorted(found) if REGISTRY.places[code] in skipped] == []
        ever.update(skipped)
    assert ever == homes, "every file is one that it is about"


def test_rules_apply_if_their_concern_is_unknown() -> None:
    """Likewise for files with very many keys or tensors, in which nothing is searched for this."""
    assert concerns.concerned("of.no.module", _Subject(1, 1))  # type: ignore[arg-type]
    assert concerns.concerned(f"{HOME}.container.split_files", _Subject(5000, 1))  # type: ignore[arg-type]
    assert concerns.concerned(f"{HOME}.container.split_files", _Subject(1, 5000))  # type: ignore[arg-type]


class _Subject:
    def __init__(self, keys: int, tensors: int) -> None:
        self.file = self
        self.index = self
        self.keys = keys
        self.tensors = tensors


def test_one_rule_is_imported_alone() -> None:
    code = (
        "import sys; from i2s_spec.linter.rules import REGISTRY; REGISTRY['G403']; "
        "assert 'G403' in REGISTRY and 'G999' not in REGISTRY and REGISTRY.get('G999') is None; "
        "print(sorted(name for name in sys.modules if name.count('.') == 4 and name.startswith('i2s_spec.linter.rules')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == f"['{HOME}.container.tensor_placement', '{HOME}.ternary.i2s_extent']\n"


def test_a_registry_without_an_index_has_what_is_put_in() -> None:
    registry, made = Registry(), REGISTRY["G106"]
    registry["G106"] = made
    assert list(registry) == ["G106"]
    assert (len(registry), list(registry.values()), dict(registry.items())) == (1, [made], {"G106": made})
    assert list(registry.facts()) == [facts_of(made)]
    with pytest.raises(KeyError):
        registry["G107"]


def test_a_finding_of_a_rule_is_that_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """With whatever severity a run gives it; with its own severity, it is the same object."""
    (finding,) = lint(CASES["dup_key"].data).findings
    assert isinstance(finding.rule, Rule)
    assert finding.rule is REGISTRY[finding.code]
    (milder,) = lint(CASES["dup_key"].data, severity={finding.code: "note"}).findings
    assert milder.rule == finding.rule._replace(severity=milder.severity)
    assert milder.severity.value == "note"
