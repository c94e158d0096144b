"""Rules in words: the text of `i2s explain`, the Markdown of the site, and plain data.

Everything is taken from the rule's declaration; no text about a rule is written here. `find` looks a rule up by its
code or slug.
"""

from __future__ import annotations

import textwrap
from difflib import get_close_matches
from typing import Any

from i2s_spec.errors import plural
from i2s_spec.linter.rule import FAMILIES, Rule
from i2s_spec.linter.rules import REGISTRY, all_rules

SCHEMA_VERSION = 1


class UnknownRule(LookupError):
    """No rule has this code or slug; `close` are similar ones."""

    def __init__(self, name: str, close: list[str]) -> None:
        super().__init__(name)
        self.name = name
        self.close = close


def find(name: str) -> Rule:
    """Return the rule with this code or slug, in any case.

    :raises UnknownRule: if there is none
    """
    rules = list(all_rules())
    for rule in rules:
        if name.upper() == rule.code or name.lower() == rule.slug:
            return rule
    close = [code for code in sorted(REGISTRY) if len(name) > 1 and code.startswith(name.upper())][:3]
    close = close or get_close_matches(name.upper(), list(REGISTRY), 3)
    close += [rule.slug for rule in rules if len(name) > 2 and name.lower() in rule.slug.split("-")][:6]
    if not close:
        close = get_close_matches(name.lower(), [rule.slug for rule in rules], 3)
    raise UnknownRule(name, close)


def as_dict(rule: Rule) -> dict[str, Any]:
    """Return a rule as plain data, in the form of `i2s rules --format json`."""
    return {
        "code": rule.code,
        "slug": rule.slug,
        "severity": rule.severity.value,
        "title": rule.title,
        "message": plural(rule.fault.message),
        "clause": rule.clause,
        "families": [rule.family],
        "why": rule.sections.get("Why", ""),
        "example": rule.sections.get("Example", ""),
        "remedy": rule.sections.get("Fix", ""),
        "fix": rule.fix.value,
        "provenance": list(rule.provenance),
        "cwe": rule.cwe,
        "when": rule.applies_to,
        "payload": rule.payload,
    }


def facts(rule: Rule) -> list[tuple[str, str]]:
    """Return the properties of a rule besides its text: names and values in words."""
    known = [
        ("Severity", rule.severity.value),
        ("Applies to", rule.applies_to + ("; reads the weights" if rule.payload else "")),
        ("Clause", rule.clause),
        ("Family", f"{rule.family}, {FAMILIES[rule.family]}"),
        ("Repair", _repair(rule)),
    ]
    if rule.cwe is not None:
        known.append(("CWE", f"CWE-{rule.cwe}"))
    if rule.provenance:
        known.append(("Seen in", ", ".join(rule.provenance)))
    return known


def _repair(rule: Rule) -> str:
    """Say whether there is a repair, and the options of `i2s fix` that it needs."""
    words = {"safe": "safe", "unsafe": "needs review", "none": "none"}[rule.fix.value]
    return f"{words}, with {rule.fix_with}" if rule.fix_with else words


def as_text(rule: Rule, width: int = 100) -> str:
    """Return a rule for the terminal."""
    lines = [f"{rule.code} {rule.slug}", rule.title, ""]
    rows = [*rule.sections.items(), ("Message", plural(rule.fault.message)), *facts(rule)]
    for name, words in rows:
        lines += textwrap.wrap(
            words, width, initial_indent=f"{name + ':':<12}", subsequent_indent=" " * 12, break_long_words=False
        )
    return "\n".join(lines) + "\n"


def as_markdown(rule: Rule) -> str:
    """Return a rule as a page of the site."""
    parts = [f"# {rule.code} {rule.slug}", "", rule.title, ""]
    parts += ["| | |", "|---|---|", *(f"| {name} | {words} |" for name, words in facts(rule)), ""]
    for name, words in rule.sections.items():
        parts += [f"**{name}:** {_escaped(words)}", ""]
    parts += [f"**Message:** {_escaped(plural(rule.fault.message))}", ""]
    return "\n".join(parts)


def _escaped(words: str) -> str:
    """Escape words for Markdown, with what looks like a tag."""
    return words.replace("<", "&lt;")
